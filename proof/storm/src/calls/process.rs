//! A worker process: its clients make calls until the process is ordered to stop.

use std::{
    future::Future,
    io::{self, BufRead},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use bandog::{Client, Result};
use tokio::sync::Notify;

use super::{
    call::Words,
    recorder::Recorder,
    task::{Context, Task},
};
use crate::{
    history::{Files, now},
    settings::WorkerArgs,
    worker::{ENDED, beat, client, memory::Shared, out::print_line, report_progress, runtime},
};

/// Time within which the tasks of an ended runtime must stop.
const STOPS_WITHIN: Duration = Duration::from_secs(10);

/// What the clients of a process do.
pub(crate) trait Traffic {
    type Words: Words;

    /// Makes calls until the process must stop, and closes the client.
    fn work(process: &Process, client: Client, number: u32) -> impl Future<Output = ()>;

    /// Reads all objects of a memory store, which ends with the process.
    fn drain(client: &Client, files: &Files) -> impl Future<Output = ()>;
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
    let process = Arc::new(Process {
        args: args.clone(),
        shared: Shared::new(args.clients),
        ends: (0..args.clients).map(|_| Notify::new()).collect(),
        next: AtomicU32::new(args.first + args.clients),
        calls: Arc::default(),
        stop: Arc::default(),
    });
    report_progress(Arc::clone(&process.calls));
    beat(args);
    let clients: Vec<_> = (0..args.clients)
        .map(|slot| {
            let process = Arc::clone(&process);
            thread::spawn(move || process.run_clients::<T>(slot))
        })
        .collect();
    {
        let process = Arc::clone(&process);
        thread::spawn(move || process.read_orders());
    }
    for client in clients {
        client.join().expect("no call panics")?;
    }
    if args.url == "memory:" {
        runtime(0).block_on(async {
            T::drain(&Client::over(process.shared.store())?, &process.files()).await;
            Result::Ok(())
        })?;
    }
    print_line(&format!("{ENDED} {}", process.calls.load(Relaxed)));
    Ok(())
}

impl Process {
    /// The path of the history of a client.
    pub(crate) fn path(&self, client: u32) -> PathBuf {
        self.files().client(client)
    }

    fn files(&self) -> Files {
        Files::in_dir(&self.args.dir)
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
                let client = client(&self.args, &self.shared, slot)?;
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
            Recorder::<T::Words>::open(&self.path(number)).killed(at);
            number = self.next.fetch_add(1, Relaxed);
        }
    }

    /// Reads orders until the process ends.
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
}
