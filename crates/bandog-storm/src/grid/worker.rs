//! A worker process: its clients make calls on objects until the process is ordered to stop.

mod elements;
mod task;
mod topics;
mod values;

use std::{
    io::{self, BufRead},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use bandog::{Client, Result};
use tokio::sync::Notify;

use self::task::Task;
use super::{
    context::Context,
    drain::drain,
    history::{Event, History, Kind, Object},
};
use crate::{
    history::{Files, now},
    settings::WorkerArgs,
    worker::{ENDED, beat, client, memory::Shared, out::print_line, report_progress, runtime},
};

/// Time within which the tasks of an ended runtime must stop.
const STOPS_WITHIN: Duration = Duration::from_secs(10);

/// Number of attempts to close a grid.
const CLOSES: usize = 10;

/// What the clients of a process share.
struct Process {
    args: WorkerArgs,
    shared: Shared,
    /// For each client, the order to end its runtime.
    ends: Vec<Notify>,
    /// The number of the next client that replaces one.
    next: AtomicU32,
    calls: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

/// Runs a worker until it reads `stop` from standard input.
pub(crate) fn run(args: &WorkerArgs) -> Result<()> {
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
            thread::spawn(move || process.run_clients(slot))
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
        process.drain()?;
    }
    print_line(&format!("{ENDED} {}", process.calls.load(Relaxed)));
    Ok(())
}

impl Process {
    /// Runs a client on a runtime of its own, and a further one whenever its runtime was ended.
    fn run_clients(&self, slot: u32) -> Result<()> {
        let mut number = self.args.first + slot;
        loop {
            let runtime = runtime(number);
            let path = Files::in_dir(&self.args.dir).client(number);
            let is_ended = runtime.block_on(async {
                let client = client(&self.args, &self.shared, slot)?;
                let context = Arc::new(Context::open(&client, number, &path));
                tokio::select! {
                    () = self.work(&client, context) => Result::Ok(false),
                    () = self.ends[slot as usize].notified() => Ok(true),
                }
            })?;
            if !is_ended {
                return Ok(());
            }
            let at = now();
            runtime.shutdown_timeout(STOPS_WITHIN);
            let log = crate::history::Log::open(&path).expect("the history's directory can be written to");
            log.write(&Event::Killed { at });
            number = self.next.fetch_add(1, Relaxed);
        }
    }

    /// Runs the tasks of a client to their end, and closes the client.
    async fn work(&self, client: &Client, context: Arc<Context>) {
        let task = |number| {
            let (context, calls, stop) = (Arc::clone(&context), Arc::clone(&self.calls), Arc::clone(&self.stop));
            Task::new(context, number, self.args.seed, calls, stop)
        };
        let mut tasks = Vec::new();
        for number in 0..self.args.tasks {
            tasks.push(tokio::spawn(task(number).run()));
        }
        for (kind, number) in [Kind::Topic, Kind::Sharded].into_iter().zip(self.args.tasks..) {
            tasks.push(tokio::spawn(topics::subscribe(task(number), Object(kind, 0))));
        }
        for task in tasks {
            task.await.expect("no call panics");
        }
        // On a busy machine, the store may answer late.
        let mut closed = context.grid.close().await;
        for _ in 1..CLOSES {
            if closed.is_err() {
                closed = context.grid.close().await;
            }
        }
        if let Err(error) = closed {
            print_line(&format!("left pops that are not confirmed: {error}"));
        }
        client.idle().await;
        // An error means that the client has ended already.
        let _ = client.close().await;
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

    /// Reads all objects of the memory store, which ends with this process.
    fn drain(&self) -> Result<()> {
        let files = Files::in_dir(&self.args.dir);
        let before = History::read(&files, &[], &[], true).expect("the history can be read");
        let has_killed = !before.killed.is_empty();
        runtime(0).block_on(async {
            let client = Client::over(self.shared.store())?;
            drain(&client, &files, &before, || has_killed).await;
            Ok(())
        })
    }
}
