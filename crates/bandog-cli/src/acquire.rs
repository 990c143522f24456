//! `bandog acquire`: takes a lock that another command releases.

use std::{
    fs::File,
    time::{Duration, Instant},
};

use bandog::{Client, Key, Token};
use serde::Serialize;
use tokio::time::timeout;

use crate::{
    durations,
    exit_code::ExitCode,
    fault::Fault,
    lock::{
        EXIT_TIMEOUT, Handle,
        acquire::{Acquired, acquire},
        check_ancestors, kind, waiting,
    },
    print::{self, Format},
    runtime,
    signals::Signals,
    store::{self, Store, until_answered},
};

/// Takes a lock for a limited time and ends; another command releases the lock.
///
/// This is for steps that are no children of one command, such as the steps of a CI job. The command prints a token, with
/// which `bandog release NAME --token TOKEN` frees the lock and `bandog extend` extends the lease. The token ends in `@`
/// and the fence: `${TOKEN##*@}` in a shell. If nothing releases the lock, it is free when the lease is over.
///
/// Nothing watches such a lock. No watchdog renews it, and no step is terminated when the lease expires: from then on, another
/// client can hold the lock beside a step that still runs. Only the fence distinguishes the two. Use `bandog lock` where
/// one command can run all of the work.
///
/// The store must keep a lock without its client. ZooKeeper, a quorum (`redis+quorum://`) and the modes `rowlock` and
/// `advisory` of the databases do not, and are refused.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json: name, token, fence, kind, lease_ms, store.

Exit codes:
    0  the lock is held
   64  the command line, a name, a duration or the URL is wrong, or the store does not keep such a lock
   69  the store does not answer, or has not answered one of the requests: run the command again
   75  other clients held the lock for the whole --wait
   77  the store refuses: password, missing right, or the name is in use as another kind of lock
  128 + N  signal N ended the wait

Examples:
  TOKEN=$(bandog acquire deploy --lease 1h --wait 10m)
  ./deploy.sh --fence \"${TOKEN##*@}\"
  bandog release deploy --token \"$TOKEN\"")]
pub(crate) struct Args {
    /// The lock's name: 1 to 1024 bytes of text; here it cannot begin with `-`.
    name: String,
    /// The time for which the lock is held, unless it is released or extended before: 100ms to 365d.
    #[arg(long, value_name = "DUR", value_parser = durations::lease, allow_hyphen_values = true)]
    lease: Duration,
    /// How long to wait for the lock, and for a store that does not answer yet; 0s tries once. Without this option, the
    /// wait for the lock has no limit, and a store that does not answer is waited for 5 s.
    #[arg(long, value_name = "DUR", value_parser = durations::wait, allow_hyphen_values = true)]
    wait: Option<Duration>,
    #[command(flatten)]
    choice: kind::Choice,
    #[command(flatten)]
    limit: kind::Limit,
    #[command(flatten)]
    store: store::Args,
    #[command(flatten)]
    format: Format,
}

/// The program name of the holder in the registry of the store.
const PROGRAM: &str = "bandog acquire";

/// The output of `--json`.
#[derive(Debug, Serialize)]
struct AcquiredJson<'a> {
    name: &'a str,
    token: String,
    fence: u64,
    kind: &'static str,
    lease_ms: u128,
    store: String,
}

/// Takes the lock, leaves it in the store, and prints its token. Wrong arguments are reported before any I/O.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let store = Store::of(&args.store)?;
    Key::new(&args.name).map_err(|error| store.fault(&error))?;
    let kind = args.choice.kind(&args.limit)?;
    let options = store.options()?;
    if print::is_closed() {
        return Err(Fault::usage(
            "standard output is closed, so the token would be lost; redirect it to a file or a pipe",
        ));
    }
    runtime::block_on(async {
        let on_terminal = File::open("/dev/tty").is_ok();
        let mut signals = Signals::catch(on_terminal).map_err(|error| Fault::system("cannot catch signals", error))?;
        let client = store.client(options.program(PROGRAM))?;
        if !client.profile().detachable.contains(kind) {
            return Err(Fault::usage(format!(
                "{} keeps a lock of the kind {} only while its client is connected, so no other command could release it; \
                 use `bandog lock`",
                store.redacted(),
                kind.name()
            )));
        }
        store.report_use(&format!("locking {:?} in", args.name));
        if args.wait.is_none() {
            check_ancestors(&[&args.name], kind, &store, &client).await?;
        }
        let handle = Handle::new(&client, &args.name, kind, Some(args.lease), &client.owner());
        let names = [args.name.as_str()];
        let progress = waiting::progress(&client, &names, args.wait.is_some());
        let locking = async {
            match args.wait {
                Some(wait) => {
                    until_answered(Instant::now() + wait, async |rest| handle.acquire(Some(rest)).await).await
                }
                None => handle.acquire(None).await,
            }
        };
        let ended = match acquire(locking, &mut signals, progress).await {
            Ok(Acquired::Guard(guard)) => match guard.detach().await {
                Ok(token) => print_or_release(args, &token, &store, &client).await,
                Err(error) => Err(store.fault(&error)),
            },
            Ok(Acquired::Busy) => Err(Fault::new(
                ExitCode::Busy,
                format!(
                    "{}\n  `bandog show` prints the holder, with the same name and store\n  a longer --wait may help",
                    kind::busy_text(kind, &format!("{:?} in {}", args.name, store.redacted()))
                ),
            )),
            Ok(Acquired::Interrupted(signal)) => Ok(ExitCode::Signal(signal.as_raw())),
            Err(error) => Err(store.fault(&error)),
        };
        // If the store does not answer, the client's row stays until its ttl is over.
        let _ = timeout(EXIT_TIMEOUT, client.close()).await;
        ended
    })
}

/// Prints the token. If that fails, the lock is released, because no other command could release it.
async fn print_or_release(args: &Args, token: &Token, store: &Store, client: &Client) -> Result<ExitCode, Fault> {
    let Args { name, lease, format, .. } = args;
    let printed = match format.json {
        true => print::json(&AcquiredJson {
            name,
            token: token.to_string(),
            fence: token.fence().get(),
            kind: token.kind().name(),
            lease_ms: lease.as_millis(),
            store: store.redacted(),
        }),
        false => print::line(&token.to_string()),
    };
    let Err(error) = printed else { return Ok(ExitCode::Done) };
    let released = client.release_detached(name, token).await;
    let state = if released.is_ok() { "the lock is released" } else { "the lock is free when its lease is over" };
    Err(Fault::system("cannot print the token", format!("{error}; {state}")))
}
