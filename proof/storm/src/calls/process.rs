//! A worker process: its clients make calls until the process is ordered to stop.

use std::{
    future::Future,
    io::{self, BufRead, Write},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use bandog::{Client, ConnectOptions, Result};
use tokio::{
    runtime::{Builder, Runtime},
    sync::Notify,
};

use super::{
    call::Words,
    event::Event,
    item,
    memory::{Shared, Store},
    recorder::Recorder,
    run_delay::RunDelays,
    task::{Context, Task},
};
use crate::{
    history::{Files, Log, nanos, now, set_ahead},
    plan::{STALL, TIMEOUT},
    settings::{Profile, WorkerArgs},
};

/// Prefix of the last line that a worker prints. The final number of its calls follows.
pub(crate) const ENDED: &str = "ended";
/// Prefix of a progress line. The number of calls follows.
pub(crate) const DONE: &str = "done";
/// Interval of progress lines.
const PROGRESS: Duration = Duration::from_millis(500);
/// Interval of the heartbeats of a process.
const BEAT: Duration = Duration::from_millis(50);
/// Time within which the tasks of an ended runtime must stop.
const STOPS_WITHIN: Duration = Duration::from_secs(10);
/// The URL of the store in the process.
const MEMORY: &str = "memory:";

/// What the clients of a process do.
pub(crate) trait Traffic {
    type Words: Words;
    /// The number of bytes of the largest value that the calls may send.
    const LARGEST: usize = 0;

    /// Makes calls until the process must stop, and closes the client.
    fn work(process: &Process, client: Client, number: u32) -> impl Future<Output = ()>;

    /// Reads all objects of a memory store, which ends with the process.
    fn drain(process: &Process) -> impl Future<Output = Result<()>>;
}

/// What the clients of a process share.
pub(crate) struct Process {
    pub(crate) args: WorkerArgs,
    shared: Shared,
    /// For each client, the order to end its runtime.
    ends: Vec<Notify>,
    /// The number of the next client that replaces one.
    next: AtomicU32,
    calls: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

/// Runs a worker until it reads `stop` from standard input.
pub(crate) fn run<T: Traffic>(args: &WorkerArgs) -> Result<()> {
    set_ahead(args.ahead);
    item::set_largest(if args.profile.has(Profile::Sizes) { T::LARGEST } else { 0 });
    let process = Arc::new(Process {
        args: args.clone(),
        shared: Shared::new(args.clients),
        ends: (0..args.clients).map(|_| Notify::new()).collect(),
        next: AtomicU32::new(args.first + args.clients),
        calls: Arc::default(),
        stop: Arc::default(),
    });
    // These threads end with the process.
    let start = |run: fn(&Process)| {
        let process = Arc::clone(&process);
        thread::spawn(move || run(&process))
    };
    start(Process::report_progress);
    start(Process::beat::<T::Words>);
    start(Process::read_orders);
    let clients: Vec<_> = (0..args.clients)
        .map(|slot| {
            let process = Arc::clone(&process);
            thread::spawn(move || process.run_clients::<T>(slot))
        })
        .collect();
    for client in clients {
        client.join().expect("no call panics")?;
    }
    if args.url == MEMORY {
        runtime(0).block_on(T::drain(&process))?;
    }
    print_line(&format!("{ENDED} {}", process.calls.load(Relaxed)));
    Ok(())
}

/// Prints a line for the process that has started this one.
pub(crate) fn print_line(line: &str) {
    // The parent process might have ended.
    let _ = writeln!(io::stdout().lock(), "{line}");
}

impl Process {
    /// The path of the history of a client.
    pub(crate) fn path(&self, client: u32) -> PathBuf {
        self.files().client(client)
    }

    pub(crate) fn files(&self) -> Files {
        Files::in_dir(&self.args.dir)
    }

    /// Whether the calls have the weather of this profile.
    pub(crate) fn has(&self, profile: Profile) -> bool {
        self.args.profile.has(profile)
    }

    /// The memory store.
    pub(crate) fn store(&self) -> Store {
        self.shared.store()
    }

    pub(crate) fn must_stop(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// The number of calls that have ended.
    pub(crate) fn counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.calls)
    }

    /// A task of a client.
    pub(crate) fn task<C: Context>(&self, context: &Arc<C>, number: u32) -> Task<C> {
        let (calls, stop) = (Arc::clone(&self.calls), Arc::clone(&self.stop));
        Task::new(Arc::clone(context), number, self.args.seed, calls, stop)
    }

    /// Runs a client on a runtime of its own, and a further one whenever its runtime was ended.
    fn run_clients<T: Traffic>(&self, slot: u32) -> Result<()> {
        let mut number = self.args.first + slot;
        loop {
            let runtime = runtime(number);
            let is_ended = runtime.block_on(async {
                let client = self.client(slot)?;
                tokio::select! {
                    () = T::work(self, client, number) => Result::Ok(false),
                    () = self.ends[slot as usize].notified() => Ok(true),
                }
            })?;
            if !is_ended {
                return Ok(());
            }
            let at = now();
            runtime.shutdown_timeout(STOPS_WITHIN);
            Recorder::<T::Words>::open(&self.path(number)).write(Event::Killed { at });
            number = self.next.fetch_add(1, Relaxed);
        }
    }

    /// Makes the client with this number, without a connection yet. The engine of every fourth client runs on the runtime
    /// of the client.
    fn client(&self, slot: u32) -> Result<Client> {
        let Self { args, shared, .. } = self;
        let on_current = (args.first + slot) % 4 == 3;
        if args.url == MEMORY {
            let options = Client::options().watchdog(args.ttl());
            let options = if on_current { options.on_current_runtime() } else { options };
            return options.over(shared.backend(slot));
        }
        let options = ConnectOptions::parse(&args.url)?.watchdog(args.ttl()).timeout(TIMEOUT);
        if on_current { options.on_current_runtime().connect_lazy() } else { options.connect_lazy() }
    }

    /// Reads orders.
    fn read_orders(&self) {
        for order in io::stdin().lock().lines().map_while(std::result::Result::ok) {
            match order.split_whitespace().collect::<Vec<_>>()[..] {
                ["stop"] => self.stop.store(true, Relaxed),
                ["end", client] => {
                    self.ends[client.parse::<usize>().expect("a client's number")].notify_one();
                    print_line("obeyed");
                }
                ref order => self.shared.obey(order),
            }
        }
    }

    /// Reports the number of calls at an interval.
    fn report_progress(&self) {
        loop {
            thread::sleep(PROGRESS);
            print_line(&format!("{DONE} {}", self.calls.load(Relaxed)));
        }
    }

    /// Writes heartbeats, and records the times in which the process could not run or could not write, or in which one of
    /// its threads was ready and the machine did not run it.
    fn beat<W: Words>(&self) {
        let (pulse, recorder) =
            (Log::open(&self.files().pulse(self.args.first)), Recorder::<W>::open(&self.path(self.args.first)));
        let mut delays = RunDelays::default();
        loop {
            let from = now();
            thread::sleep(BEAT);
            pulse.write(&now());
            let to = now();
            let stalled = (to - from).max(delays.longest_since_last());
            if stalled > nanos(STALL) {
                recorder.write(Event::Stalled { from: to.saturating_sub(stalled), to });
            }
        }
    }
}

/// The runtime of the client with this number. Half of the clients get a current-thread runtime, and the other half a
/// multi-thread runtime, so that both kinds are tested.
fn runtime(number: u32) -> Runtime {
    let mut builder =
        if number.is_multiple_of(2) { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    builder.worker_threads(2).enable_all().build().expect("a runtime")
}
