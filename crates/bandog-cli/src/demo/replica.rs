//! One replica of the order service: a process of its own, which ends when the demo does.

use std::{
    fmt::Display,
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines, Stdin},
    runtime::Builder,
    sync::watch,
    time::sleep,
};

use super::{
    fault::Fault,
    locks,
    plan::TICK,
    shop::{Shop, now_ms},
    sweep::{Sweeper, Tick},
};
use crate::exit_code::ExitCode;

/// What the demo tells a replica: one line of JSON on its standard input, where passwords are out of sight.
///
/// A second line asks it to end after the sweep at hand. The end of the input says that the demo has died.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Brief {
    pub(super) number: u16,
    pub(super) place: PathBuf,
    pub(super) shop: PathBuf,
    /// Where the lock lives; none for the half without.
    pub(super) url: Option<String>,
    pub(super) payment: Duration,
}

/// Runs a replica. What it does stands in the shop's database.
pub(crate) fn run() -> Result<ExitCode, crate::fault::Fault> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Fault::System("cannot start a runtime", error))?;
    let lived = runtime.block_on(live());
    runtime.shutdown_background(); // A read of standard input may wait for ever.
    Ok(lived.map(|()| ExitCode::Done)?)
}

async fn live() -> Result<(), Fault> {
    let mut input = BufReader::new(tokio::io::stdin()).lines();
    let line = input.next_line().await.map_err(|error| Fault::System("cannot read the brief", error))?;
    let brief = line.and_then(|line| serde_json::from_str(&line).ok());
    let brief: Brief = brief.ok_or_else(|| Fault::Usage("only bandog demo starts this".into()))?;
    let (stop, stopped) = watch::channel(false);
    tokio::select! { biased;
        () = orphaned(input, stop) => {
            tidy(&brief.place);
            Ok(())
        }
        done = serve(&brief, stopped) => done,
    }
}

/// Resolves when the demo has died without a word.
async fn orphaned(mut input: Lines<BufReader<Stdin>>, stop: watch::Sender<bool>) {
    while let Ok(Some(_)) = input.next_line().await {
        stop.send_replace(true);
    }
}

async fn serve(brief: &Brief, stopped: watch::Receiver<bool>) -> Result<(), Fault> {
    let shop = Shop::open(&brief.shop)?;
    let client = match &brief.url {
        Some(url) => Some(locks::connect(url).await.inspect_err(|fault| note(&shop, brief.number, fault))?),
        None => None,
    };
    let name = client.as_ref().map(|client| client.id().to_string()).unwrap_or_default();
    shop.join(brief.number, &name)?;
    let lock = client.as_ref().map(locks::mutex);
    let sweeper = Sweeper { replica: brief.number, shop, lock, payment: brief.payment };
    sweep_until(stopped, &sweeper).await.inspect_err(|fault| note(&sweeper.shop, brief.number, fault))?;
    if let Some(client) = client {
        // Nothing is held any more.
        let _ = client.close().await;
    }
    Ok(())
}

async fn sweep_until(mut stopped: watch::Receiver<bool>, sweeper: &Sweeper) -> Result<(), Fault> {
    while !*stopped.borrow() {
        tokio::select! { biased;
            _ = stopped.changed() => break,
            () = next_tick() => {}
        }
        match sweeper.tick().await {
            Ok(Tick::Swept | Tick::Skipped) => {}
            Ok(Tick::Interrupted) => note(&sweeper.shop, sweeper.replica, "the lock was lost in the middle of a sweep"),
            // A store that is away for a while ends no service: the next tick tries again.
            Err(Fault::Lock(error, _)) => note(&sweeper.shop, sweeper.replica, error),
            Err(fault) => return Err(fault),
        }
    }
    Ok(())
}

/// The wall clock's next half second, as a cron line has it: every replica of the service wakes at the same moment.
async fn next_tick() {
    let tick = i64::try_from(TICK.as_millis()).unwrap_or(i64::MAX);
    let left = tick - now_ms().rem_euclid(tick);
    sleep(Duration::from_millis(left.unsigned_abs())).await;
}

/// The shop's database is the only place where the demo looks; if it fails, there is nobody to tell.
fn note(shop: &Shop, replica: u16, trouble: impl Display) {
    let _ = shop.note_trouble(replica, &trouble.to_string());
}

/// Removes the demo's directory in its place. All replicas do so at once, and some may not have closed their files.
fn tidy(place: &Path) {
    let ours = place.file_name().is_some_and(|name| name.to_string_lossy().starts_with(locks::PLACE));
    for _ in 0..50 {
        match fs::remove_dir_all(place) {
            _ if !ours => return,
            Err(error) if error.kind() != io::ErrorKind::NotFound => thread::sleep(Duration::from_millis(20)),
            Ok(()) | Err(_) => return,
        }
    }
}
