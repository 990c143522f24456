//! `bandog lock`: runs a program while a lock is held.

pub(crate) mod acquire;
pub(crate) mod grace;
pub(crate) mod held;
pub(crate) mod kind;
pub(crate) mod waiting;
pub(crate) mod watch;

use std::{
    convert::Infallible,
    ffi::OsString,
    fs::File,
    process::Stdio,
    time::{Duration, Instant},
};

use bandog::{
    All, AllGuard, AnyLock, Client, ConnectOptions, ErrorKind, Fence, Key, SharedHold, admin::Holder, backend::Kind,
};
use tokio::time::{sleep, timeout};

pub(crate) use self::kind::Handle;
use self::{
    acquire::{Acquired, acquire, lock},
    grace::Grace,
    watch::{ChildEnd, LockDanger, watch},
};

use crate::{
    console::report,
    durations,
    exit_code::ExitCode,
    fault::Fault,
    holder_text,
    process_tree::{Child, ProcessTree, heir::Heir, process::Process},
    runtime,
    signals::Signals,
    store::{self, Store},
};

/// Runs a program while a lock is held, and exits with its exit code.
///
/// Waits for the lock, runs CMD, and releases the lock when CMD has exited. A watchdog renews the lock while bandog
/// runs. If the store cannot be reached any more, CMD and all its descendants are terminated before the store can grant
/// the lock to another client: TERM first, KILL after --kill-after.
///
/// CMD gets the lock's name in BANDOG_NAME, the fencing token of the grant in BANDOG_FENCE (it is greater for each
/// later grant, so a resource that keeps the greatest can refuse a delayed writer), the fences of all locks in
/// BANDOG_FENCES, a JSON object of names and fences, and the URL without its password in BANDOG_URL. BANDOG_HELD lists the locks that CMD runs under, so that a `bandog lock` inside CMD does not wait for
/// one of them.
///
/// Without --fair, --shared, --exclusive and --permits, the lock is a mutex: one holder at a time, in no guaranteed
/// order. All commands and programs should use a name as the same kind of lock.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The lock's name: 1 to 1024 bytes of text; here it cannot begin with `-`.
    name: String,
    #[command(flatten)]
    choice: kind::Choice,
    #[command(flatten)]
    limit: kind::Limit,
    /// Another lock, which is held together with NAME: all or none. Repeat the option for more. The kind, the lease and
    /// the wait are those of all locks; commands that take the same locks in different orders cannot deadlock.
    #[arg(long, value_name = "NAME")]
    also: Vec<String>,
    #[command(flatten)]
    store: store::Args,
    /// How long to wait for the lock, and for the store while it does not answer; 0s tries once. Without this option the
    /// wait for the lock has no limit, but if the store has granted or refused nothing within 5s, the command ends with 69.
    #[arg(long, value_name = "DUR", value_parser = durations::wait, allow_hyphen_values = true)]
    wait: Option<Duration>,
    /// A fixed lease: nothing is renewed, and CMD is terminated before the lease expires.
    #[arg(long, value_name = "DUR", value_parser = durations::lease, allow_hyphen_values = true)]
    lease: Option<Duration>,
    /// The time between TERM and KILL when the lock is about to be lost [default: a sixth of the lease or of the
    /// watchdog's ttl, 5s at most].
    #[arg(long, value_name = "DUR", value_parser = durations::wait, allow_hyphen_values = true)]
    kill_after: Option<Duration>,
    /// The exit code if other clients held the lock for the whole --wait, or the wait was part of a deadlock.
    #[arg(short = 'E', long, visible_alias = "conflict-exit-code", value_name = "CODE", default_value_t = ExitCode::Busy.number(), allow_negative_numbers = true)]
    busy_exit: u8,
    /// The exit code if the lock was lost while CMD ran, or CMD was terminated before that could happen.
    #[arg(long, value_name = "CODE", default_value_t = ExitCode::Lost.number(), allow_negative_numbers = true)]
    lost_exit: u8,
    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

const HELP: &str = "\
Exit codes:
       CMD's own; 128 + N if signal N ended it
  126  CMD cannot be run
  127  CMD is not found
   64  the command line, a name, a duration or the URL is wrong, or the store has another
       number of permits than --of
   69  the store has not answered or could not serve for the whole --wait (5s without it),
       too few replicas have acknowledged the lock (?replicas=), or --wait is shorter than a
       round trip
   70  bandog itself failed
   71  the operating system refused a process, a thread or a file
   75  other clients held the lock for the whole --wait, or the wait was part of a deadlock
       (-E sets another code)
   76  the lock was lost while CMD ran, or CMD was terminated before that could happen
       (--lost-exit sets another code)
   77  the store refuses: password, missing right, key of another type, damaged file,
       or the name is in use as another kind of lock

Signals:
  While bandog waits, TERM, INT, HUP and QUIT leave the queue (exit code 128 + N).
  While CMD runs, these and USR1, USR2, WINCH and CONT are forwarded to CMD, which
  decides what to do.
  Without a terminal CMD gets its own process group, and signals go to all of it.

End of the lock:
  The lock ends with CMD itself. Background processes of CMD continue without it.
  If bandog is killed, the kernel kills CMD, unless CMD is setuid, setgid or has
  file capabilities; and bandog's helper process kills all processes that have BANDOG_NAME
  and BANDOG_FENCE in their environment. Unset these for processes that must survive.
  If bandog is stopped (STOP) or hangs, the helper does the same before the lock expires.

Examples:
  bandog lock deploy -- ./deploy.sh --prod
  bandog lock nightly --wait 0s -- ./report.sh    skip it if another process holds the lock
  bandog lock import --lease 1h -- ./import.sh    for one hour at most
  bandog lock deploy --fair -- ./deploy.sh        first come, first served
  bandog lock catalogue --shared -- ./export.sh   beside other readers
  bandog lock catalogue --exclusive -- ./load.sh  without readers
  bandog lock gpu --permits 2 --of 8 -- ./train   2 of 8 permits
  bandog lock stock --also orders -- ./book       both or none
  bandog lock nightly --wait 0s -E 0 -- ./report  a skipped run counts as success
  bandog lock migrate --wait 10m -- sh -c './migrate --fence \"$BANDOG_FENCE\"'
  BANDOG_URL=redis://app:secret@cache.example bandog lock orders -- ./sweep";

/// Runs the command under the lock. Wrong arguments are reported before any I/O.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let store = Store::of(&args.store)?;
    let names = args.names(&store)?;
    let kind = args.choice.kind(&args.limit)?;
    let options = store.options()?;
    let ttl = args.lease.unwrap_or(options.get_watchdog());
    let grace = Grace::new(ttl, args.lease.is_none(), args.kill_after)?;
    let exit_timeout = exit_timeout(&options);
    // Everything runs on the main thread, because the kernel kills the child when the thread that started the child
    // exits.
    runtime::block_on(async {
        let on_terminal = File::open("/dev/tty").is_ok();
        let signals = Signals::catch(on_terminal).map_err(|error| Fault::system("cannot catch signals", error))?;
        let client = store.client(options.program(args.program()).lends())?;
        store.report_use(&format!("locking {} in", waiting::title(&names)));
        if args.wait.is_none() {
            check_ancestors(&names, kind, &store, &client).await?;
        }
        let owner = client.owner_under(held::lasting_claims());
        let locks = bandog::all(
            names.iter().map(|name| Handle::new(&client, name, kind, args.lease, &owner)).map(AnyLock::from),
        );
        let mut run = Run { args, names, kind, store: &store, ttl, grace, on_terminal, signals, exit_timeout };
        let code = run.under(&client, &locks).await;
        run.leave(&client).await;
        code.map_err(|fault| fault.with_code(|code| args.chosen(code)))
    })
}

impl Args {
    /// The names of all locks. An error if one of them is not allowed, or given twice.
    fn names(&self, store: &Store) -> Result<Vec<&str>, Fault> {
        let mut names: Vec<&str> = Vec::new();
        for name in [&self.name].into_iter().chain(&self.also) {
            Key::new(name).map_err(|error| store.fault(&error))?;
            if names.contains(&name.as_str()) {
                return Err(Fault::usage(format!("the lock {name:?} is given twice")));
            }
            names.push(name);
        }
        Ok(names)
    }

    /// The exit code that the user has set for this end of the command.
    fn chosen(&self, code: ExitCode) -> ExitCode {
        match code {
            ExitCode::Busy => ExitCode::Chosen(self.busy_exit),
            ExitCode::Lost => ExitCode::Chosen(self.lost_exit),
            other => other,
        }
    }

    /// The program name that the client registers in the store. The name contains no arguments of the command, because
    /// an argument might be a secret.
    fn program(&self) -> String {
        let program = self.command.first().map(|program| program.to_string_lossy()).unwrap_or_default();
        format!("{}{program}", holder_text::UNDER_BANDOG).chars().take(PROGRAM).collect()
    }
}

/// Maximum length of the registered program name, in characters.
const PROGRAM: usize = 200;

/// An error if an ancestor of this process holds one of the locks, so that this process would wait for itself.
pub(crate) async fn check_ancestors(names: &[&str], kind: Kind, store: &Store, client: &Client) -> Result<(), Fault> {
    for name in names {
        if let Some(pid) = held_above(name, kind, store, client).await {
            return Err(waits_for_itself(name, store, pid));
        }
    }
    Ok(())
}

/// The pid of an ancestor that holds the lock, if this process would wait for this ancestor. The function first searches
/// the variable BANDOG_HELD, because not every user has the right to query the store. If the variable does not contain
/// the lock, the function queries the store for the holders.
async fn held_above(name: &str, kind: Kind, store: &Store, client: &Client) -> Option<i32> {
    let mut held = held::by_ancestors(name, &store.identity(client.store()));
    if held.is_empty() && held::is_under_any() {
        let row = timeout(HOLDER_TIMEOUT, client.show(name)).await.ok()?.ok()?;
        held = held::by_owners(row.holders.iter().filter_map(|Holder { owner, .. }| owner.as_deref()));
    }
    let kinds: Vec<_> = held.iter().map(held::Held::kind).collect();
    held.first().filter(|_| kind::waits_for(kind, &kinds)).map(held::Held::pid)
}

/// The error if an ancestor of this process holds the lock. `pid` is the pid of the ancestor.
fn waits_for_itself(name: &str, store: &Store, pid: i32) -> Fault {
    Fault::usage(format!(
        "{name:?} in {} is held by an ancestor of this command (process {pid}), so this command would wait for \
         itself\n  take the lock once, in the outer command, or use another name; with --wait the lock is tried \
         nevertheless",
        store.redacted()
    ))
}

/// Timeout of the query in [`held_above`]. Only a command that runs under another lock makes this query.
const HOLDER_TIMEOUT: Duration = Duration::from_secs(2);

/// Timeout of the last requests before the exit. If the store does not answer these requests, the lock is free when its
/// ttl is over.
pub(crate) const EXIT_TIMEOUT: Duration = Duration::from_millis(500);

/// Timeout of the last requests of a client with these options. With `?replicas=`, the answer to a claim can come late,
/// because the server waits for its replicas. After this answer, the client releases a lock that the replicas have not
/// acknowledged, and releases it again after the timeout of a request.
fn exit_timeout(options: &ConnectOptions) -> Duration {
    match options.get_replicas() {
        0 => EXIT_TIMEOUT,
        _ => EXIT_TIMEOUT + options.get_timeout(),
    }
}

/// If --wait is at least this long, the error about a busy lock names the holder. A script with a shorter --wait might
/// retry often, and the query for the holder is expensive.
const NAMES_HOLDER_AFTER: Duration = Duration::from_secs(1);

/// If bandog tries for at least this time to take the lock, and the store never answers, bandog exits without waiting
/// for the store.
const OUT_OF_REACH: Duration = Duration::from_secs(5);

/// One run of the command.
struct Run<'a> {
    args: &'a Args,
    /// The names of all locks.
    names: Vec<&'a str>,
    kind: Kind,
    store: &'a Store,
    /// The lease, or the watchdog's ttl.
    ttl: Duration,
    /// The times at which the command gets TERM and KILL when the lock is in danger.
    grace: Grace,
    /// Whether bandog has a terminal. If not, the command gets its own process group.
    on_terminal: bool,
    signals: Signals,
    /// Timeout of [`Self::leave`].
    exit_timeout: Duration,
}

impl Run<'_> {
    /// Takes the locks, runs the command, and releases the locks.
    async fn under(&mut self, client: &Client, locks: &All<SharedHold>) -> Result<ExitCode, Fault> {
        let started = Instant::now();
        let guard = match acquire(
            lock(locks, self.args.wait),
            &mut self.signals,
            waiting::progress(client, &self.names, self.args.wait.is_some()),
        )
        .await
        {
            Ok(Acquired::Guard(guard)) => guard,
            Ok(Acquired::Busy) => return Err(self.busy(client).await),
            Ok(Acquired::Interrupted(signal)) => return Ok(ExitCode::Signal(signal.as_raw())),
            Err(error) => {
                if error.kind() == ErrorKind::Unavailable && !error.maybe_applied() && started.elapsed() >= OUT_OF_REACH
                {
                    self.exit_timeout = Duration::ZERO; // No request was applied, so there is nothing to release.
                }
                return Err(self.store.fault(&error));
            }
        };
        for (name, fence) in self.names.iter().zip(guard.fences()) {
            tracing::info!("got {name:?} with the fence {}", fence.get());
        }
        let valid_for = guard.remaining();
        let mut processes = self.start(client, &guard)?;
        let grace = self.grace.within(valid_for, self.ttl, self.args.kill_after);
        let ended = watch(&guard, &mut processes, &mut self.signals, grace, |_| None::<Infallible>).await;
        processes.release();
        match ended {
            ChildEnd::ByItself(code) => self.release(guard, code).await,
            ChildEnd::Stopped { by, .. } => match by {},
            ChildEnd::ForTheLock { danger, survivors } => {
                // The lock is lost or about to expire. If bandog still holds the lock and the store answers, dropping
                // the guard releases the lock for the next client.
                drop(guard);
                Err(self.lost(danger, &survivors))
            }
        }
    }

    /// Starts the command, and its heir: a helper process that kills the descendants of the command if bandog is
    /// killed.
    fn start(&self, client: &Client, guard: &AllGuard<SharedHold>) -> Result<ProcessTree, Fault> {
        let fences = guard.fences();
        let fence = fences.first().map(|fence| fence.get().to_string()).unwrap_or_default();
        // The heir recognizes the descendants of the command by these variables.
        let marks = [("BANDOG_NAME", self.args.name.clone()), ("BANDOG_FENCE", fence)];
        let heir = Heir::appoint(&marks)?;
        let claims = self.names.iter().copied().zip(guard.guards().iter().map(|guard| guard.holding().id));
        let held = held::with(claims, &self.store.identity(client.store()), self.kind, self.args.lease.is_some());
        let all = [(held::VARIABLE, held), ("BANDOG_FENCES", self.fences(&fences))];
        let url = self.store.for_child().map(|url| (store::VARIABLE, url));
        let variables = marks.into_iter().chain(all).chain(url).collect();
        let own_group = !self.on_terminal;
        ProcessTree::start(
            Child {
                command: &self.args.command,
                variables,
                stdin: Stdio::inherit(),
                stdout: Stdio::inherit(),
                own_group,
            },
            Some(heir),
        )
    }

    /// The value of BANDOG_FENCES: an object with the fence of each lock.
    fn fences(&self, fences: &[Fence]) -> String {
        let pairs = self.names.iter().zip(fences).map(|(name, fence)| (name.to_string(), fence.get().into()));
        serde_json::Value::Object(pairs.collect()).to_string()
    }

    /// Releases the locks after the command has ended. `code` is the exit code of the command.
    async fn release(&mut self, guard: AllGuard<SharedHold>, code: ExitCode) -> Result<ExitCode, Fault> {
        let released = tokio::select! { biased;
            released = guard.release() => released,
            _ = self.signals.ending() => Ok(()), // The release continues until `leave` ends.
        };
        match released {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Lost => {
                let (name, store) = (waiting::title(&self.names), self.store);
                return Err(Fault::new(
                    ExitCode::Lost,
                    format!(
                        "the lock {name} in {} was lost while the command ran, so another client may have held it too; \
                         the command itself exited with {}",
                        store.redacted(),
                        code.number()
                    ),
                ));
            }
            Err(error) => report(&format!("{error}\n  the lock is free after its ttl at the latest")),
        }
        Ok(code)
    }

    /// The error if other clients held the lock for the whole --wait.
    async fn busy(&self, client: &Client) -> Fault {
        let Self { args: Args { wait, .. }, names, kind, store, .. } = self;
        let has_waited = wait.is_some_and(|wait| wait >= NAMES_HOLDER_AFTER);
        let mut rows = match has_waited || waiting::is_reported() {
            // If the holder has released the lock by now, or if the store is slow, the error names no holder.
            true => timeout(EXIT_TIMEOUT, client.holders(names)).await.ok().and_then(Result::ok).unwrap_or_default(),
            false => Vec::new(),
        };
        // Of several locks, this command may have some, whose release is in flight.
        rows.iter_mut().for_each(|row| row.holders.retain(|holder| !waiting::is_own(client, holder)));
        let holder = rows.iter().find_map(|row| {
            let holder = holder_text::holders(row)?;
            Some(match names.len() {
                1 => format!("\n  held by {holder}"),
                _ => format!("\n  {:?} is held by {holder}", row.name),
            })
        });
        let holder =
            holder.unwrap_or_else(|| "\n  `bandog show` prints the holder, with the same name and store".into());
        let one = if names.len() > 1 { "one of " } else { "" };
        let busy = kind::busy_text(*kind, &format!("{one}{} in {}", waiting::title(names), store.redacted()));
        Fault::new(ExitCode::Busy, format!("{busy}{holder}\n  a longer --wait may help"))
    }

    /// The error if the lock was lost, or about to be lost, while the command ran.
    fn lost(&self, danger: LockDanger, survivors: &[Process]) -> Fault {
        let (lease, name, store) = (self.args.lease, waiting::title(&self.names), self.store.redacted());
        let mut message = match danger {
            LockDanger::Expiring if lease.is_some() => {
                format!("the lease of {name} in {store} was about to expire, so the command was terminated")
            }
            LockDanger::Expiring => format!(
                "the lock {name} could not be renewed in {store}, so the command was terminated before another client could \
                 hold it"
            ),
            LockDanger::Expired => format!(
                "the lock {name} in {store} had expired while bandog was stopped, so the command was killed; another \
                 client may have held the lock meanwhile"
            ),
            LockDanger::Gone => format!(
                "the lock {name} was taken away in {store} (by force, or because the store lost it), so the command was \
                 terminated; another client may have held the lock meanwhile"
            ),
        };
        for survivor in survivors {
            message += &format!("\n  process {} cannot be killed and still runs", survivor.pid);
        }
        Fault::new(ExitCode::Lost, message)
    }

    /// Closes the client. This removes the rows of the client from the store. If this lasts longer than usual, a signal
    /// that asks bandog to exit ends it.
    async fn leave(mut self, client: &Client) {
        let signal = async {
            sleep(EXIT_TIMEOUT).await;
            self.signals.ending().await
        };
        // If the store does not answer, the client's rows stay in the store until their ttl is over.
        tokio::select! {
            _ = timeout(self.exit_timeout, client.close()) => {}
            _ = signal => {}
        }
    }
}
