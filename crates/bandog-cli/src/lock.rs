//! `bandog lock`: run a program while a lock is held.

mod acquire;
mod grace;
pub(crate) mod held;
mod waiting;
mod watch;

use std::{
    ffi::OsString,
    fs::File,
    process::Stdio,
    time::{Duration, Instant},
};

use bandog::{Client, ErrorKind, Guard, Key, Mutex};
use tokio::time::timeout;

use self::{
    acquire::{Acquired, acquire},
    grace::Grace,
    watch::{Danger, Ended, watch},
};
use crate::{
    args,
    exit_code::ExitCode,
    family::{Child, Family, heir::Heir, tree::Process},
    fault::Fault,
    person, runtime,
    signals::Signals,
    store::{self, Store},
    voice::say,
};

/// Runs a program while a lock is held, and ends with its exit code.
///
/// Waits until nobody else holds the lock, runs CMD, and gives the lock back when CMD has ended. A watchdog renews the
/// lock as long as bandog runs. If the store cannot be reached any more, CMD and all that it started are ended before
/// anybody else can be granted the lock: TERM at first, KILL after --kill-after.
///
/// CMD finds the lock's name in BANDOG_NAME, the grant's fencing token in BANDOG_FENCE (it rises with every grant, so a
/// store that keeps the highest can refuse a writer that was held up), and the URL without its password in BANDOG_URL.
/// BANDOG_HELD lists the locks that CMD runs under, so that a `bandog lock` in it does not wait for one of them.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The lock's name: 1 to 1024 bytes of text; here it cannot begin with `-`.
    name: String,
    #[command(flatten)]
    store: store::Args,
    /// How long to wait for the lock: 0s tries once. Without it bandog waits for as long as it takes.
    #[arg(long, value_name = "DUR", value_parser = args::wait, allow_hyphen_values = true)]
    wait: Option<Duration>,
    /// A fixed lease: nothing is renewed, and CMD is ended when the lease is about to.
    #[arg(long, value_name = "DUR", value_parser = args::lease, allow_hyphen_values = true)]
    lease: Option<Duration>,
    /// How long CMD has between TERM and KILL when the lock is about to be lost [default: a sixth of the lease or of
    /// the watchdog's ttl, 5s at most].
    #[arg(long, value_name = "DUR", value_parser = args::wait, allow_hyphen_values = true)]
    kill_after: Option<Duration>,
    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

const HELP: &str = "\
Exit codes:
       CMD's own; 128 + N when signal N ended it
  126  CMD cannot be run
  127  CMD is not found
   64  the command line, a name, a duration or the URL is wrong
   69  the store does not answer, or not within a --wait shorter than a round trip to it
   70  bandog itself failed
   71  the machine refused a process, a thread or a file
   75  somebody else has held the lock for all of --wait
   76  the lock was lost while CMD ran, or CMD was ended because it was about to be
   77  the store refuses: password, missing right, key of another type, damaged file

Signals:
  While bandog waits, TERM, INT, HUP and QUIT leave the queue (exit code 128 + N).
  Later these and USR1, USR2, WINCH and CONT are handed on to CMD, which decides.
  Without a terminal CMD gets a process group of its own, which is signalled whole.

What ends with what:
  The lock ends with CMD itself, not with what CMD leaves running in the background.
  If bandog is killed outright, the kernel kills CMD, unless CMD is setuid, setgid or has
  file capabilities; and bandog's heir kills all that still has BANDOG_NAME and BANDOG_FENCE
  in its environment. So leave BANDOG_* alone in what CMD starts, unless it shall live on.

Examples:
  bandog lock deploy -- ./deploy.sh --prod
  bandog lock nightly --wait 0s -- ./report.sh    or not at all, if another does it
  bandog lock import --lease 1h -- ./import.sh    for one hour at most
  bandog lock migrate --wait 10m -- sh -c './migrate --fence \"$BANDOG_FENCE\"'
  BANDOG_URL=redis://app:secret@cache.example bandog lock orders -- ./sweep";

/// Runs the command under the lock. What is wrong with the arguments is told before any I/O.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let store = Store::of(&args.store)?;
    Key::new(&args.name).map_err(|error| store.fault(&error))?;
    let options = store.options()?;
    let ttl = args.lease.unwrap_or(options.ttl());
    let grace = Grace::new(ttl, args.lease.is_none(), args.kill_after)?;
    // Everything runs on the main thread: the child's life is tied to the thread that starts it.
    runtime::block_on(async {
        let on_terminal = File::open("/dev/tty").is_ok();
        let signals = Signals::catch(on_terminal).map_err(|error| Fault::system("cannot catch signals", error))?;
        let client = store.client(options.program(args.program()))?;
        store.announce(&format!("locking {:?} in", args.name));
        if args.wait.is_none()
            && let Some(pid) = held_above(&args.name, &store, &client).await
        {
            return Err(waits_for_itself(&args.name, &store, pid));
        }
        let mut mutex = client.mutex(&args.name);
        if let Some(lease) = args.lease {
            mutex = mutex.lease(lease);
        }
        let mut run = Run { args, store: &store, grace, on_terminal, signals, farewell: FAREWELL };
        let code = run.under(&client, &mutex).await;
        run.leave(&client).await;
        code
    })
}

impl Args {
    /// What the registry calls this client. CMD's arguments are left out: one of them may be a secret.
    fn program(&self) -> String {
        let program = self.command.first().map(|program| program.to_string_lossy()).unwrap_or_default();
        format!("{}{program}", person::UNDER_BANDOG).chars().take(PROGRAM).collect()
    }
}

/// The most characters that the registry is given to name a program.
const PROGRAM: usize = 200;

/// The process of ours above that runs under this lock. What the command line says is compared first, for not every
/// user may look into the store; then who holds it.
async fn held_above(name: &str, store: &Store, client: &Client) -> Option<i32> {
    if let Some(pid) = held::by_ancestor(name, &store.identity(client.store())) {
        return Some(pid);
    }
    if !held::is_under_any() {
        return None;
    }
    let row = timeout(LOOK, client.show(name)).await.ok()?.ok()?;
    held::by_owner(&row.owner?)
}

fn waits_for_itself(name: &str, store: &Store, pid: i32) -> Fault {
    Fault::usage(format!(
        "{name:?} in {} is held by a command that this one runs under (process {pid}), so it would wait for itself\n  \
         take it once, outside, or another name inside; with --wait it is tried all the same",
        store.shown()
    ))
}

/// How long a command under another lock looks who holds its own.
const LOOK: Duration = Duration::from_secs(2);

/// How long the end waits for what the store still owes us an answer to; later its ttl does the rest.
const FAREWELL: Duration = Duration::from_millis(500);

/// Whoever has waited for so long is told who held the lock; a script may try again and again without a wait.
const WORTH_A_LOOK: Duration = Duration::from_secs(1);

/// A store that was not reached in this time will not be reached in the farewell's.
const OUT_OF_REACH: Duration = Duration::from_secs(5);

/// One run of the command.
struct Run<'a> {
    args: &'a Args,
    store: &'a Store,
    grace: Grace,
    on_terminal: bool,
    signals: Signals,
    farewell: Duration,
}

impl Run<'_> {
    async fn under(&mut self, client: &Client, mutex: &Mutex) -> Result<ExitCode, Fault> {
        let asked = Instant::now();
        let guard = match acquire(mutex, self.args.wait, &mut self.signals, waiting::tell(client, &self.args.name))
            .await
        {
            Ok(Acquired::Guard(guard)) => guard,
            Ok(Acquired::Busy) => return Err(self.busy(client).await),
            Ok(Acquired::Interrupted(signal)) => return Ok(ExitCode::Signal(signal.as_raw())),
            Err(error) => {
                if error.kind() == ErrorKind::Unavailable && !error.maybe_applied() && asked.elapsed() >= OUT_OF_REACH {
                    self.farewell = Duration::ZERO; // It was asked nothing, so it owes nothing.
                }
                return Err(self.store.fault(&error));
            }
        };
        tracing::info!("got {:?} with the fence {}", self.args.name, guard.fence().get());
        let mut family = self.start(client, &guard)?;
        let ended = watch(&guard, &mut family, &mut self.signals, self.grace).await;
        family.disband();
        match ended {
            Ended::ByItself(code) => self.give_back(guard, code).await,
            Ended::ForTheLock { danger, survivors } => {
                // It is lost or will be at once; a store that does answer may give it to the next.
                drop(guard);
                Err(self.lost(danger, &survivors))
            }
        }
    }

    fn start(&self, client: &Client, guard: &Guard) -> Result<Family, Fault> {
        let fence = guard.fence().get().to_string();
        let marks = [("BANDOG_NAME", self.args.name.clone()), ("BANDOG_FENCE", fence)];
        let heir = Heir::appoint(&marks)?;
        let held = held::with(&self.args.name, &self.store.identity(client.store()), &client.id().to_string());
        let url = self.store.for_child().map(|url| (store::VARIABLE, url));
        let variables = marks.into_iter().chain([(held::VARIABLE, held)]).chain(url).collect();
        let own_group = !self.on_terminal;
        Family::start(Child { command: &self.args.command, variables, stdin: Stdio::inherit(), own_group }, Some(heir))
    }

    async fn give_back(&mut self, guard: Guard, code: ExitCode) -> Result<ExitCode, Fault> {
        let released = tokio::select! { biased;
            released = guard.release() => released,
            _ = self.signals.ending() => Ok(()), // It goes on until the farewell is over.
        };
        match released {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Lost => {
                let Self { args: Args { name, .. }, store, .. } = self;
                return Err(Fault::new(
                    ExitCode::Lost,
                    format!(
                        "the lock {name:?} in {} was lost while the command ran, so somebody else may have held it too; \
                         the command itself ended with {}",
                        store.shown(),
                        code.number()
                    ),
                ));
            }
            Err(error) => say(&format!("{error}\n  {:?} is free after its ttl at the latest", self.args.name)),
        }
        Ok(code)
    }

    async fn busy(&self, client: &Client) -> Fault {
        let Self { args: Args { name, wait, .. }, store, .. } = self;
        let has_waited = wait.is_some_and(|wait| wait >= WORTH_A_LOOK);
        let looked = match has_waited || waiting::somebody_reads() {
            // It may have changed hands meanwhile, and the store may be slow to tell.
            true => timeout(FAREWELL, client.show(name)).await.ok().and_then(Result::ok),
            false => None,
        };
        let holder = looked.as_ref().and_then(person::holder).map(|holder| format!("\n  held by {holder}"));
        let holder = holder.unwrap_or_else(|| "\n  `bandog show` tells who, with the same name and store".into());
        Fault::new(
            ExitCode::Busy,
            format!("somebody else holds {name:?} in {}{holder}\n  a longer --wait may help", store.shown()),
        )
    }

    fn lost(&self, danger: Danger, survivors: &[Process]) -> Fault {
        let Self { args: Args { name, lease, .. }, store, .. } = self;
        let store = store.shown();
        let mut message = match danger {
            Danger::Expiring if lease.is_some() => {
                format!("the lease of {name:?} in {store} was about to end, so the command was ended")
            }
            Danger::Expiring => format!(
                "the lock {name:?} could not be renewed in {store}, so the command was ended before somebody else could \
                 hold it"
            ),
            Danger::Expired => format!(
                "the lock {name:?} in {store} had run out while bandog stood still, so the command was killed; somebody \
                 else may have held it meanwhile"
            ),
            Danger::Gone => format!(
                "the lock {name:?} was taken away in {store} (forced, or forgotten by the store), so the command was \
                 ended; somebody else may have held it meanwhile"
            ),
        };
        for survivor in survivors {
            message += &format!("\n  process {} cannot be killed and still runs", survivor.pid);
        }
        Fault::new(ExitCode::Lost, message)
    }

    /// Leaves nothing behind in the store, if it answers.
    async fn leave(self, client: &Client) {
        // Who gives no answer in this time keeps its rows until their ttl.
        let _ = timeout(self.farewell, client.close()).await;
    }
}
