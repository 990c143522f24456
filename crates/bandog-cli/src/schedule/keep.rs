//! The hidden process between `bandog schedule` and one run's command: the keeper.
//!
//! All that the command starts becomes the keeper's own when it is orphaned, so what belongs to which run is never in
//! doubt. The keeper's standard input is its line to bandog: when that ends, however it does, it kills everybody.

use std::{
    ffi::OsString,
    io,
    os::{fd::AsFd, unix::net},
    process::Stdio,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    time::{Instant, interval, sleep_until},
};

use crate::{
    exit_code::ExitCode,
    family::{Child, Family},
    fault::Fault,
    runtime,
    signals::Signals,
};

/// The hidden subcommand's name.
pub(crate) const NAME: &str = "__keep";

/// On the line: end the command in order.
pub(super) const END: u8 = b'e';
/// On the line: kill it. So does the line's end.
pub(super) const KILL: u8 = b'k';

/// The keeper looks at its command at least this often: whoever started bandog may have blocked the signal that tells.
const LOOK: Duration = Duration::from_millis(250);

/// How long the command has between TERM and KILL, and what it is.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    grace_ms: u64,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// What the keeper tells at the end, as one line of JSON. Everybody is dead by then, but for the survivors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) ended: Ended,
    /// Who cannot be killed.
    pub(super) survivors: Vec<i32>,
}

/// How the command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Ended {
    Exit(u8),
    Signal(i32),
    /// It could not be started, or its end was not seen.
    Failed(String),
}

/// Runs one command until it and all that it has started are dead.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    runtime::block_on_with_io(async {
        let mut line = line().map_err(|error| Fault::system("cannot hear bandog", error))?;
        let report = match Keeper::start(args) {
            Ok(keeper) => keeper.watch(&mut line).await,
            Err(fault) => Report { ended: Ended::Failed(fault.to_string()), survivors: Vec::new() },
        };
        let text = serde_json::to_vec(&report).unwrap_or_default();
        // Who has closed the line does not want to know.
        let _ = line.write_all(&text).await;
        Ok(ExitCode::Done)
    })
}

fn line() -> io::Result<UnixStream> {
    let line = net::UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    line.set_nonblocking(true)?;
    UnixStream::from_std(line)
}

struct Keeper {
    family: Family,
    signals: Signals,
    grace: Duration,
}

impl Keeper {
    fn start(args: &Args) -> Result<Self, Fault> {
        // A signal to all of bandog's processes is bandog's to answer; what it then wants is told on the line.
        let signals = Signals::catch(false).map_err(|error| Fault::system("cannot catch signals", error))?;
        let child = Child { command: &args.command, variables: Vec::new(), stdin: Stdio::null(), own_group: true };
        Ok(Self { family: Family::start(child, None)?, signals, grace: Duration::from_millis(args.grace_ms) })
    }

    /// A run ends with its command: what that leaves behind is ended too, since the next run may begin now.
    async fn watch(mut self, line: &mut UnixStream) -> Report {
        let mut look = interval(LOOK);
        let mut kill_at = None;
        let mut word = [0];
        loop {
            let patience = sleep_until(kill_at.unwrap_or_else(Instant::now));
            tokio::select! { biased;
                () = patience, if kill_at.is_some() => break,
                read = line.read(&mut word) => match read {
                    Ok(1) if word == [END] => self.end(&mut kill_at),
                    Ok(_) | Err(_) => break,
                },
                _ = self.signals.next() => {}
                _ = look.tick() => {}
            }
            if self.family.reap().is_some() {
                if self.family.is_gone() {
                    return self.report(Vec::new());
                }
                self.end(&mut kill_at);
            }
        }
        let survivors = self.family.kill().await;
        self.report(survivors.into_iter().map(|process| process.number().0).collect())
    }

    /// TERM once, and KILL when the grace is over.
    fn end(&self, kill_at: &mut Option<Instant>) {
        kill_at.get_or_insert_with(|| {
            self.family.end();
            Instant::now() + self.grace
        });
    }

    fn report(mut self, survivors: Vec<i32>) -> Report {
        let ended = match self.family.reap() {
            Some(ExitCode::Signal(number)) => Ended::Signal(number),
            Some(code) => Ended::Exit(code.number()),
            None => Ended::Failed("it cannot be killed".into()),
        };
        Report { ended, survivors }
    }
}
