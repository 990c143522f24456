//! The program that plays one cell (one kind of exit). It prepares its exit, reports that it is ready, waits for the
//! order to end, and ends in the way of its cell.

use std::{
    future::pending,
    io::{BufRead, Write, stdin, stdout},
    process::{self, ExitCode},
    sync::{Arc, OnceLock},
    thread,
    time::Duration,
};

use bandog::{
    Client, ConnectOptions, Guard,
    schedule::{Job, Scheduler},
};
use rustix::{
    process::{Signal, getppid, set_parent_process_death_signal},
    time::{ClockId, clock_gettime},
};
use tokio::{
    runtime::{Builder, Runtime},
    sync::{Notify, oneshot},
    task::spawn_blocking,
    time::timeout,
};

use super::{
    args::PlayArgs,
    cell::{DRAIN, Ends, Engine, GRACE, SHUTDOWN, TIMEOUT, Way},
};

/// The exit code of a program in which a thread still uses much CPU time after the cell was played.
pub(crate) const BUSY: u8 = 98;
/// If a call of `lock` has not returned after this time, the call counts as waiting for the lock.
const WAITS: Duration = Duration::from_millis(30);

/// The client of the cells with the way `Static`. A static variable is never dropped.
static CLIENT: OnceLock<Client> = OnceLock::new();

/// Plays one cell. Returns the exit code. Some cells end the program before this function returns.
pub(crate) fn run(args: &PlayArgs) -> ExitCode {
    set_parent_process_death_signal(Some(Signal::KILL)).expect("Linux supports a signal at the death of the parent");
    if getppid().is_none_or(|parent| parent.as_raw_nonzero().get().unsigned_abs() != args.parent) {
        return ExitCode::FAILURE; // The parent died before the death signal was requested.
    }
    let handles = match args.cell.runtime {
        Ends::None => {
            blocking(args);
            None
        }
        runtime => {
            let runtime = Ending::start(runtime);
            runtime.block_on(play_async(args))
        }
    };
    drop(handles);
    // A program with several runtimes continues after the end of one runtime. Every second program of this test also
    // continues for a moment, and checks that its threads become idle.
    if args.number.is_multiple_of(2) && !becomes_idle() {
        return ExitCode::from(BUSY);
    }
    ExitCode::from(args.cell.code())
}

/// A runtime. When this value is dropped, the runtime ends in the way that the cell requires. A panic of `main` also
/// drops this value.
struct Ending(Option<Runtime>, Ends);

impl Ending {
    fn start(ends: Ends) -> Self {
        let mut builder = match ends {
            Ends::CurrentThread | Ends::None => Builder::new_current_thread(),
            Ends::MultiThread | Ends::ShutdownBackground | Ends::ShutdownTimeout => Builder::new_multi_thread(),
        };
        Self(Some(builder.worker_threads(2).enable_all().build().expect("a runtime")), ends)
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.0.as_ref().expect("the runtime has not ended").block_on(future)
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let Some(runtime) = self.0.take() else { return };
        match self.1 {
            Ends::MultiThread | Ends::CurrentThread | Ends::None => drop(runtime),
            Ends::ShutdownBackground => runtime.shutdown_background(),
            Ends::ShutdownTimeout => runtime.shutdown_timeout(SHUTDOWN),
        }
    }
}

/// Plays the part of a cell that runs in the runtime. Returns the guard and the client if they must be dropped after
/// the runtime has ended.
async fn play_async(args: &PlayArgs) -> Option<(Guard, Client)> {
    let client = options(args).connect().await.expect("the store accepts a connection");
    match args.cell.way {
        Way::Job | Way::Stop => {
            schedule(args, &client).await;
            return None;
        }
        Way::Blocking => {
            blocking_in_runtime(client).await;
            return None;
        }
        _ => {}
    }
    let guard = client.mutex("exit").lock().await.expect("the store grants the lock");
    if args.cell.way == Way::Waiting {
        let second_client = options(args).connect().await.expect("the store accepts a connection");
        let mut call = Box::pin(async move { second_client.mutex("exit").lock().await });
        assert!(
            timeout(WAITS, &mut call).await.is_err(),
            "the waiting call got the lock, although another client held the lock"
        );
        tokio::spawn(call);
    }
    ready().await;
    match args.cell.way {
        Way::Dropped | Way::Waiting | Way::Job | Way::Stop | Way::Blocking => drop(guard),
        Way::Released => {
            // An error means that the store does not answer.
            let _ = guard.release().await;
            client.close().await.expect("a client can be closed");
        }
        Way::NoClose => _ = guard.release().await,
        #[expect(clippy::mem_forget, reason = "programs leak guards, too")]
        Way::Forgotten => std::mem::forget(guard),
        Way::Task => {
            tokio::spawn(async move {
                let _guard = guard;
                pending::<()>().await;
            });
        }
        Way::Panic => panic!("this cell ends with a panic"),
        Way::Return => return Some((guard, client)),
        Way::Exit => process::exit(args.cell.code().into()),
        Way::Static => _ = CLIENT.set(client),
    }
    None
}

/// Plays a cell in which a scheduler is dropped or stopped while a run is in progress.
async fn schedule(args: &PlayArgs, client: &Client) {
    let run_began = Arc::new(Notify::new());
    let notify_began = Arc::clone(&run_began);
    let job = Job::once("exit").grace(GRACE).run(move |_| {
        notify_began.notify_one();
        pending::<()>()
    });
    let running = Scheduler::over(client).drain(DRAIN).job(job).start().await.expect("the scheduler starts");
    run_began.notified().await;
    ready().await;
    if args.cell.way == Way::Stop {
        // An error means that the store does not answer.
        let _ = running.stop().await;
    }
}

/// Plays a cell with the blocking interface, in a program without a runtime.
fn blocking(args: &PlayArgs) {
    let client = options(args).connect_blocking().expect("the store accepts a connection");
    let mutex = client.mutex("exit");
    let _guard = mutex.lock().expect("the store grants the lock");
    wait_for_order();
}

/// Ends the program while a blocking task holds the lock. A runtime that shuts down waits for this task. At its
/// end, the task drops the guard.
async fn blocking_in_runtime(client: Client) {
    let client = client.blocking().expect("the engine runs on its own thread");
    let (order_sender, order_receiver) = oneshot::channel();
    spawn_blocking(move || {
        let mutex = client.mutex("exit");
        let _guard = mutex.lock().expect("the store grants the lock");
        wait_for_order();
        let _ = order_sender.send(());
    });
    order_receiver.await.expect("the blocking task received the order");
}

/// The options of each client of this program.
fn options(args: &PlayArgs) -> ConnectOptions {
    let options = ConnectOptions::parse(&args.url).expect("a URL").timeout(TIMEOUT);
    let options = options.prefix(format!("{}:", args.number));
    match args.cell.engine {
        Engine::OwnThread => options,
        Engine::CurrentRuntime => options.on_current_runtime(),
    }
}

/// Reports that the program is ready, and waits for the order to end. The runtime runs other tasks during this wait.
async fn ready() {
    spawn_blocking(wait_for_order).await.expect("the blocking task does not panic");
}

/// Reports that the program is ready, and blocks this thread until the order to end arrives.
fn wait_for_order() {
    let mut out = stdout().lock();
    writeln!(out, "ready").and_then(|()| out.flush()).expect("the parent process reads the output");
    stdin().lock().read_line(&mut String::new()).expect("the parent process sends an order");
}

/// Whether all threads of this process become idle. The function measures up to 200 intervals. The threads are idle if
/// in one of these intervals the whole process uses little CPU time.
fn becomes_idle() -> bool {
    const INTERVAL: Duration = Duration::from_millis(10);
    (0..200).any(|_| {
        let before = cpu_time();
        thread::sleep(INTERVAL);
        cpu_time() - before < INTERVAL / 4
    })
}

/// CPU time that this process has used so far.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}
