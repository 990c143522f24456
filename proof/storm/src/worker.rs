//! A worker process. The process has clients, and each client has tasks. The tasks make calls until the process is
//! ordered to stop.

mod barriers;
mod client_context;
mod elections;
mod handle;
mod latches;
pub(crate) mod memory;
pub(crate) mod out;
mod outcome;
mod run_delay;
mod section;
mod task;
mod together;
mod traffic;

use std::{
    io::{self, BufRead},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use bandog::{Client, ConnectOptions, Result, backend::Clock};
use tokio::runtime::{Builder, Runtime};

use self::{
    client_context::ClientContext, memory::Shared, out::print_line, run_delay::RunDelays, task::Task, traffic::Traffic,
};
use crate::{
    history::{Event, Files, Log, nanos},
    plan::{Kind, STALL, TASKS_OF_KIND},
    settings::WorkerArgs,
};

/// Prefix of the last line that a worker prints. The final number of its calls follows.
pub(crate) const ENDED: &str = "ended";
/// Prefix of a progress line. The number of calls follows.
pub(crate) const DONE: &str = "done";
/// Interval of progress lines.
const PROGRESS: Duration = Duration::from_millis(500);

/// Interval of the heartbeats of a process.
const BEAT: Duration = Duration::from_millis(50);

/// Runs a worker until it reads `stop` from standard input.
pub(crate) fn run(args: &WorkerArgs) -> Result<()> {
    let runtime = runtime(args.first);
    let (ops, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    // Some clients run their engines on this runtime, so they must be made in its context.
    let _inside = runtime.enter();
    let shared = Shared::new(args.clients);
    let clients = (0..args.clients).map(|number| client(args, &shared, number)).collect::<Result<Vec<_>>>()?;
    let store = (args.url == "memory:").then(|| shared.store());
    read_orders(Arc::clone(&stop), shared);
    report_progress(Arc::clone(&ops));
    beat(args);
    runtime.block_on(async {
        work(args, &clients, &ops, &stop).await;
        if let Some(store) = store {
            memory::left(store, &args.kinds).await?.iter().for_each(|left| print_line(&format!("left {left}")));
        }
        Result::Ok(())
    })?;
    print_line(&format!("{ENDED} {}", ops.load(Relaxed)));
    Ok(())
}

/// Runs the tasks of all clients to their end, and closes the clients.
async fn work(args: &WorkerArgs, clients: &[Client], ops: &Arc<AtomicU64>, stop: &Arc<AtomicBool>) {
    let mut tasks = Vec::new();
    for (client, number) in clients.iter().zip(args.first..) {
        let context = Arc::new(ClientContext::open(client.clone(), number, args));
        // Calls for several locks also need locks.
        let locks = args.kinds.iter().any(|kind| kind.is_lock() || *kind == Kind::All);
        for task in (0..args.tasks).filter(|_| locks) {
            let traffic = Traffic::new(Arc::clone(&context), task, args, Arc::clone(ops), Arc::clone(stop));
            tasks.push(tokio::spawn(traffic.run()));
        }
        let mut numbers = args.tasks..;
        let mut task = || {
            let number = numbers.next().unwrap_or(u32::MAX);
            Task::new(Arc::clone(&context), number, args, Arc::clone(ops), Arc::clone(stop))
        };
        for index in 0..TASKS_OF_KIND {
            for kind in &args.kinds {
                match kind {
                    Kind::Latch => tasks.push(tokio::spawn(latches::run(task()))),
                    Kind::Barrier => tasks.push(tokio::spawn(barriers::run(task(), index))),
                    Kind::Election => tasks.push(tokio::spawn(elections::run(task()))),
                    Kind::Mutex | Kind::Fair | Kind::ReadWrite | Kind::Semaphore | Kind::All => {}
                }
            }
        }
        if args.kinds.contains(&Kind::Election) {
            tasks.push(tokio::spawn(elections::observe(task())));
        }
    }
    for task in tasks {
        task.await.expect("a task does not panic");
    }
    for client in clients {
        client.idle().await;
        // An error means that the client has ended already.
        let _ = client.close().await;
    }
}

/// The runtime of the process with this number. Half of the processes get a current-thread runtime, and the other half
/// a multi-thread runtime, so that both kinds are tested.
pub(crate) fn runtime(number: u32) -> Runtime {
    let mut builder =
        if number.is_multiple_of(2) { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    builder.worker_threads(2).enable_all().build().expect("a runtime")
}

/// Makes the client with this number, without a connection yet. The engine of every fourth client runs on the runtime
/// of the process.
pub(crate) fn client(args: &WorkerArgs, shared: &Shared, number: u32) -> Result<Client> {
    let on_current = (args.first + number) % 4 == 3;
    if args.url == "memory:" {
        let options = Client::options().watchdog(args.ttl());
        let options = if on_current { options.on_current_runtime() } else { options };
        return options.over(shared.backend(number));
    }
    let options = ConnectOptions::parse(&args.url)?.watchdog(args.ttl()).timeout(args.timeout());
    if on_current { options.on_current_runtime().connect_lazy() } else { options.connect_lazy() }
}

/// Reads orders on a separate thread, which ends with the process.
fn read_orders(stop: Arc<AtomicBool>, shared: Shared) {
    thread::spawn(move || {
        for order in io::stdin().lock().lines().map_while(std::result::Result::ok) {
            match order.split_whitespace().collect::<Vec<_>>()[..] {
                ["stop"] => stop.store(true, Relaxed),
                ref order => shared.obey(order),
            }
        }
    });
}

/// Reports the progress on a separate thread, which ends with the process.
pub(crate) fn report_progress(ops: Arc<AtomicU64>) {
    thread::spawn(move || {
        loop {
            thread::sleep(PROGRESS);
            print_line(&format!("{DONE} {}", ops.load(Relaxed)));
        }
    });
}

/// Starts a thread that writes heartbeats, and records the times in which the process could not run or could not write,
/// or in which one of its threads was ready and the machine did not run it. The thread ends with the process.
pub(crate) fn beat(args: &WorkerArgs) {
    let files = Files::in_dir(&args.dir);
    let open = |path: std::path::PathBuf| Log::open(&path).expect("the history's directory can be written to");
    let (pulse, log) = (open(files.pulse(args.first)), open(files.client(args.first)));
    let ahead = args.ahead * 1_000_000_000;
    let now = move || Clock::system().now().as_nanos().saturating_sub(ahead);
    thread::spawn(move || {
        let mut delays = RunDelays::default();
        loop {
            let from = now();
            thread::sleep(BEAT);
            pulse.write(&now());
            let to = now();
            let stalled = (to - from).max(delays.longest_since_last());
            if stalled > nanos(STALL) {
                log.write(&Event::Stalled { from: to.saturating_sub(stalled), to });
            }
        }
    });
}
