//! `bandog cached`: prints the output of a command from a cache that programs share.

mod command;

use std::{
    env,
    ffi::OsString,
    io,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use bandog::{
    Error, ErrorKind, Key,
    grid::{Cache, ClientGrid, LoadError, codec::Bytes},
};
use rustix::process::setsid;
use tokio::{
    pin, select,
    sync::{mpsc, oneshot},
    time::timeout,
};

use self::command::{Answer, Loaded, Ran, Runner};
use crate::{
    console::report,
    durations,
    exit_code::ExitCode,
    fault::Fault,
    print, runtime,
    store::{self, Store},
};

/// Prints the output of a command. It is kept in a cache that all machines share, on Redis.
///
/// CMD runs if the cache has no output for KEY, and once in the whole cluster: other callers wait for it. If it exits with
/// 0, its standard output is stored. Its standard error is not, and its standard input is empty.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The name of the output: 1 to 1024 bytes of text; here it cannot begin with `-`. It must contain all that the output
    /// depends on.
    key: String,
    #[command(flatten)]
    store: store::Args,
    /// The time for which an output is fresh: it is printed, and CMD does not run.
    #[arg(long, value_name = "DUR", value_parser = durations::lease, required_unless_present = "remove")]
    fresh: Option<Duration>,
    /// The time for which an output is stale after that: it is printed at once, and one CMD in the background replaces it.
    #[arg(long, value_name = "DUR", value_parser = durations::wait, default_value = "0s")]
    stale: Duration,
    /// The exit code with which CMD reports that there is nothing. This is cached too: callers print nothing, and exit with
    /// this code.
    #[arg(long, value_name = "CODE", value_parser = clap::value_parser!(u8).range(1..))]
    none_on: Option<u8>,
    /// The time for which it is known that there is nothing.
    #[arg(long, value_name = "DUR", value_parser = durations::lease, default_value = "10s", requires = "none_on")]
    none: Duration,
    /// How long to wait for the CMD of another caller; then CMD runs here too, and its output is not stored.
    #[arg(long, value_name = "DUR", value_parser = durations::wait, default_value = "15s")]
    wait: Duration,
    /// The name of the cache. A program reads it as `grid.cache::<String, Vec<u8>>(NAME)?.codec(Bytes)`.
    #[arg(long, value_name = "NAME", default_value = "command")]
    cache: String,
    /// Remove the output. A CMD that runs is not stored any more.
    #[arg(long, conflicts_with_all = ["fresh", "stale", "none_on", "none", "wait", "command"])]
    remove: bool,
    /// The program and its arguments.
    #[arg(last = true, required_unless_present = "remove", value_name = "CMD")]
    command: Vec<OsString>,
}

const HELP: &str = "\
Exit codes:
    0  the output was printed, or with --remove removed
       CMD's own, if it fails: nothing is stored, and its output is printed; 128 + N if
       signal N ended CMD, or bandog while it waited
 CODE  of --none-on: there is nothing
  126  CMD cannot be run
  127  CMD is not found
   64  the command line, a name, a duration or the URL is wrong, or the store has no caches
   69  --remove: the store does not answer
   71  the operating system refused a process, a thread or a file
   77  the store refuses: password, missing right

If the store does not answer within 2 s, CMD runs without the cache, with a warning.
If it is stopped or killed, another caller runs CMD after 10 s, or after its --wait.
An output of more than 512 KiB is printed as it comes, and not stored; an older one is removed.
A CMD that a signal to bandog has reached is not stored. If bandog is killed, CMD is killed
as that of `bandog lock`.

Examples:
  rates=$(bandog cached rates --fresh 5m --stale 1h -- curl -sf https://rates.example)
  bandog cached \"user-$id\" --fresh 1m --none-on 3 -- ./find-user \"$id\"
  bandog cached \"user-$id\" --remove               after a change";

/// The name, `argv[0]`, of the process that refreshes a stale output. Its arguments are those of the caller.
const REFRESHER: &str = "bandog-refresh";

/// Maximum time for which a read waits for the store. It includes the time to connect.
const READ_TIMEOUT: Duration = Duration::from_secs(2);

type Outputs = Cache<String, Vec<u8>, Bytes>;

/// What a caller needs.
#[derive(Debug, Clone, Copy)]
enum Need {
    Output,
    /// That a stale output is replaced.
    Refresh,
}

/// The error of a load whose output is not stored.
const NOT_STORED: &str = "the output is not stored";

/// Prints or removes the output. Wrong arguments are reported before any I/O.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let store = Store::of(&args.store)?;
    Key::new(&args.key).map_err(|error| store.fault(&error))?;
    let client = store.client(store.options()?.must_exist())?;
    let cache = client.grid().cache(&args.cache).map_err(|error| store.fault(&error))?.codec(Bytes);
    let cache = cache
        .fresh(args.fresh.unwrap_or_default())
        .stale(args.stale)
        .none(args.none)
        .wait(args.wait)
        .timeout(READ_TIMEOUT);
    let call = Call { args, store: &store, cache };
    // Everything runs on the main thread, because the kernel kills the child when the thread that started it exits.
    runtime::block_on_with_io(async {
        if args.remove {
            return call.remove().await;
        }
        if env::args_os().next().is_some_and(|name| name == REFRESHER) {
            setsid().map_err(|error| Fault::system("cannot leave the session", error))?;
            return call.load(Need::Refresh).await;
        }
        call.print().await
    })
}

struct Call<'a> {
    args: &'a Args,
    store: &'a Store,
    cache: Outputs,
}

impl Call<'_> {
    async fn remove(&self) -> Result<ExitCode, Fault> {
        let removed = self.cache.remove(self.args.key.as_str()).await;
        removed.map_err(|error| self.store.fault(&error).with_line("the output may still be in the cache"))?;
        Ok(ExitCode::Done)
    }

    /// Prints the output of the cache, or that of CMD.
    async fn print(&self) -> Result<ExitCode, Fault> {
        let strict = self.cache.clone().strict();
        let late = |_| Err(Error::unavailable("the store did not answer in time"));
        let read = timeout(READ_TIMEOUT, strict.entry(self.args.key.as_str())).await.unwrap_or_else(late);
        match read {
            Ok(Some(found)) if found.value.is_some() || self.args.none_on.is_some() => {
                if !found.is_fresh
                    && let Err(error) = refresh_in_background()
                {
                    report(&format!("cannot start a refresh: {error}"));
                }
                found.value.map_or(Ok(self.nothing()), |output| print::bytes(&output))
            }
            Ok(_) => self.load(Need::Output).await,
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                report(&format!("{}; running without the cache", self.store.fault(&error).in_short()));
                let mut runner = Runner::new(&self.args.command, self.store.for_child())?;
                let ran = runner.run(&mut None).await?;
                self.end(runner, ran).await
            }
            Err(error) => Err(self.store.fault(&error)),
        }
    }

    /// Prints the output that the cache finds. If the cache needs a new one, it is that of CMD.
    async fn load(&self, need: Need) -> Result<ExitCode, Fault> {
        let mut runner = Runner::new(&self.args.command, self.store.for_child())?;
        // CMD runs in this task, and the load of the cache waits for its answer.
        let (order, mut orders) = mpsc::channel(1);
        let finding = self.find(need, order);
        pin!(finding);
        let mut ran = None;
        let found = loop {
            select! { biased;
                Some(answer) = orders.recv() => {
                    let mut answer = Some(answer);
                    let end = runner.run(&mut answer).await;
                    match (&end, answer) {
                        // The cache may have dropped the load, because its runtime ends.
                        (Ok(end), Some(answer)) => _ = answer.send(self.loaded(end)),
                        (Ok(end), None) if end.is_large && end.code == ExitCode::Child(0) => self.forget_older().await,
                        _ => {}
                    }
                    ran = Some(end);
                }
                found = &mut finding => break found,
                signal = runner.signals.ending() => return Ok(ExitCode::Signal(signal.as_raw())),
            }
        };
        match (ran, found) {
            (Some(ran), _) => self.end(runner, ran?).await,
            (None, Ok(Some(output))) => runner.print(&output, ExitCode::Done).await,
            (None, Ok(None)) => Ok(self.nothing()),
            (None, Err(LoadError::Store(error))) => Err(self.store.fault(&error)),
            (None, Err(error)) => Err(Fault::new(ExitCode::Internal, error.to_string())),
        }
    }

    /// Removes the output that the cache has: a newer one was too large to be stored.
    async fn forget_older(&self) {
        let late = |_| Err(Error::unavailable("the store did not answer in time"));
        let removed = timeout(READ_TIMEOUT, self.cache.remove(self.args.key.as_str())).await.unwrap_or_else(late);
        if let Err(error) = removed {
            report(&format!("{}; an older output may still be in the cache", self.store.fault(&error).in_short()));
        }
    }

    /// Finds the output in the cache. A load sends where the answer of CMD goes.
    async fn find(
        &self,
        need: Need,
        order: mpsc::Sender<Answer>,
    ) -> Result<Option<Arc<Vec<u8>>>, LoadError<&'static str>> {
        let load = async move |_| {
            let (answer, answered) = oneshot::channel();
            order.send(answer).await.map_err(|_| NOT_STORED)?;
            answered.await.unwrap_or(Err(NOT_STORED))
        };
        let (cache, key) = (&self.cache, &self.args.key);
        match need {
            Need::Refresh => cache.refresh_if_stale(key, load).await,
            Need::Output if self.args.none_on.is_some() => cache.get_or_find(key, load).await,
            Need::Output => {
                let load = async move |key| load(key).await.map(Option::unwrap_or_default);
                cache.get_or_load(key, load).await.map(Some)
            }
        }
    }

    /// What a run gives to the cache.
    fn loaded(&self, ran: &Ran) -> Loaded {
        match ran.code {
            ExitCode::Child(_) if !ran.is_whole => Err(NOT_STORED),
            ExitCode::Child(0) => Ok(Some(ran.output.clone())),
            ExitCode::Child(code) if Some(code) == self.args.none_on => Ok(None),
            _ => Err(NOT_STORED),
        }
    }

    /// Prints what CMD has written. The exit code is that of CMD.
    async fn end(&self, mut runner: Runner<'_>, ran: Ran) -> Result<ExitCode, Fault> {
        if ran.code.number() != 0 && ran.code == self.nothing() {
            return Ok(ran.code);
        }
        runner.print(&ran.output, ran.code).await
    }

    /// The exit code if there is no output.
    fn nothing(&self) -> ExitCode {
        ExitCode::Child(self.args.none_on.unwrap_or_default())
    }
}

/// Starts this command again, as a process that outlives this one and the caller, and has none of their streams.
fn refresh_in_background() -> io::Result<()> {
    let mut refresher = Command::new("/proc/self/exe");
    refresher.arg0(REFRESHER).args(env::args_os().skip(1));
    refresher.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    refresher.spawn().map(drop)
}
