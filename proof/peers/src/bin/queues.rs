//! Other libraries of work queues, measured together with bandog: a program pushes elements of 100 bytes in batches of
//! 100, and then a worker with 100 slots handles all of them with an empty handler.

use std::{
    error::Error,
    fs,
    path::PathBuf,
    process::{Command, ExitCode},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bandog::{
    Client,
    work::{ClientWork, Delivery, WorkQueue},
};
use bandog_testkit::{PostgresServer, RedisServer};
use clap::Parser;
use graphile_worker::{IntoTaskHandlerResult, JobSpec, LocalQueueConfig, TaskHandler, WorkerContext, WorkerOptions};
use pgmq::PGMQueueExt;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use tokio::{
    runtime::{Builder, Runtime},
    sync::Notify,
};

const BATCH: usize = 100;
const SLOTS: u32 = 100;
const DATABASE: &str = "queues";
/// A read that finds nothing waits at most this long.
const LEASE_SECONDS: i32 = 60;

type Failure = Box<dyn Error + Send + Sync>;

/// Measures bandog and other libraries of work queues in one run. The benchmark starts its own servers on free ports.
#[derive(Parser)]
struct Args {
    /// The servers to measure on: redis, postgres, postgres-pinned [default: redis and postgres]. With `postgres-pinned`, an
    /// open transaction keeps all dead rows, for --minutes.
    servers: Vec<String>,
    /// Number of elements of each measurement.
    #[arg(long, default_value_t = 20_000)]
    elements: usize,
    /// Number of measurements of each figure. The middle one is reported.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Duration of `postgres-pinned`, in minutes.
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// The folder in which `npm ci` has installed BullMQ.
    #[arg(long, default_value = "proof/peers/node")]
    node: PathBuf,
    /// Keeps the raw figures in this file.
    #[arg(long)]
    keep: Option<PathBuf>,
}

/// A library that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    Bandog,
    BullMq,
    GraphileWorker,
    Pgmq,
}

impl Which {
    fn name(self) -> &'static str {
        match self {
            Self::Bandog => "bandog",
            Self::BullMq => "BullMQ 6.7.0",
            Self::GraphileWorker => "graphile_worker 0.14.1",
            Self::Pgmq => "pgmq 0.33.7",
        }
    }
}

/// The durations of one measurement, in seconds.
#[derive(Debug, Clone, Copy)]
struct Run {
    push: f64,
    work: f64,
}

impl Run {
    fn of(push: Duration, work: Duration) -> Self {
        Self { push: push.as_secs_f64(), work: work.as_secs_f64() }
    }
}

fn main() -> Result<ExitCode, Failure> {
    let mut args = Args::parse();
    if args.servers.is_empty() {
        args.servers = ["redis", "postgres"].map(str::to_owned).into();
    }
    if let Some(unknown) = args.servers.iter().find(|name| !SERVERS.contains(&name.as_str())) {
        eprintln!("queues: {unknown:?} is not known; known are {}", SERVERS.join(", "));
        return Ok(ExitCode::from(64));
    }
    let mut lines = vec![about(&args)];
    let mut table = Vec::new();
    for server in &args.servers {
        match server.as_str() {
            "redis" => on_redis(&args, &mut lines, &mut table)?,
            "postgres" => on_postgres(&args, &mut lines, &mut table)?,
            _ => pinned(&args, &mut lines, &mut table)?,
        }
    }
    println!("\n| queue | push/s | handled/s | both/s | bandog's, of this |\n|---|---|---|---|---|");
    table.iter().for_each(|row| println!("{row}"));
    if let Some(path) = &args.keep {
        fs::write(path, lines.join("\n") + "\n")?;
    }
    Ok(ExitCode::SUCCESS)
}

const SERVERS: [&str; 3] = ["redis", "postgres", "postgres-pinned"];

fn about(args: &Args) -> String {
    let date = Command::new("date").arg("-uIminutes").output();
    let date = date.map(|date| String::from_utf8_lossy(&date.stdout).trim().to_owned()).unwrap_or_default();
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name\t: ")).unwrap_or("unknown").to_owned();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    json!({"date": date, "cpu": cpu, "cores": cores, "rounds": args.rounds, "elements": args.elements}).to_string()
}

fn runtime() -> Result<Runtime, Failure> {
    Ok(Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

fn on_redis(args: &Args, lines: &mut Vec<String>, table: &mut Vec<String>) -> Result<(), Failure> {
    let server = RedisServer::start();
    let measure = |which| {
        server.cmd(&["FLUSHALL"]);
        match which {
            Which::BullMq => bull_mq(args, server.port()),
            _ => runtime()?.block_on(bandog_queue(&server.url(), args.elements)),
        }
    };
    let runs = rounds(args, "Redis", &[Which::Bandog, Which::BullMq], lines, measure)?;
    tell("Redis", &runs, args.elements, table);
    Ok(())
}

fn on_postgres(args: &Args, lines: &mut Vec<String>, table: &mut Vec<String>) -> Result<(), Failure> {
    let server = PostgresServer::start_with(&["fsync=on", "shared_buffers=128MB"]);
    let measure = |which| {
        server.create_database(DATABASE);
        runtime()?.block_on(postgres_queue(which, &url(&server), args.elements))
    };
    let runs = rounds(args, "PostgreSQL", &[Which::Bandog, Which::GraphileWorker, Which::Pgmq], lines, measure)?;
    tell("PostgreSQL", &runs, args.elements, table);
    Ok(())
}

/// Each library in a database of its own, one after the other until the time is over. The first round is without the
/// open transaction.
fn pinned(args: &Args, lines: &mut Vec<String>, table: &mut Vec<String>) -> Result<(), Failure> {
    let server = PostgresServer::start_with(&["fsync=on", "shared_buffers=128MB"]);
    let runtime = runtime()?;
    let time = Duration::from_secs(60 * args.minutes) / 3;
    for which in [Which::Bandog, Which::GraphileWorker, Which::Pgmq] {
        server.create_database(DATABASE);
        let url = url(&server);
        let (first, last, rounds) = runtime.block_on(async {
            // The client lives all the time, as in a service.
            let client = match which {
                Which::Bandog => Some(bandog::connect(&url).await?),
                _ => None,
            };
            let run = async || match &client {
                Some(client) => bandog_client(client, args.elements).await,
                None => postgres_queue(which, &url, args.elements).await,
            };
            run().await?;
            let first = run().await?;
            keep(lines, pinned_run(which, 0.0, first));
            let mut holder = PgConnection::connect(&url).await?;
            sqlx::query("begin isolation level repeatable read").execute(&mut holder).await?;
            sqlx::query("select 1 from pg_class limit 1").execute(&mut holder).await?;
            let (begun, mut rounds) = (Instant::now(), 0);
            loop {
                let last = run().await?;
                rounds += 1;
                let minutes = begun.elapsed().as_secs_f64() / 60.0;
                keep(lines, pinned_run(which, minutes, last));
                if begun.elapsed() > time {
                    break Ok::<_, Failure>((first, last, rounds));
                }
            }
        })?;
        let rate = |run: Run| args.elements as f64 / (run.push + run.work);
        table.push(format!(
            "| {}, {} elements after an open transaction | | | {:.0} of {:.0} before | |",
            which.name(),
            rounds * args.elements,
            rate(last),
            rate(first)
        ));
    }
    Ok(())
}

/// A measurement after the transaction was open for this time. 0: before it.
fn pinned_run(which: Which, minutes: f64, run: Run) -> Value {
    json!({"what": "pinned", "who": which.name(), "minutes": minutes, "push_s": run.push, "work_s": run.work})
}

fn url(server: &PostgresServer) -> String {
    format!("postgres://{}@{}/{DATABASE}", PostgresServer::LOCKS, server.addr())
}

/// Measures each library once in each round. Each round begins with another one.
fn rounds(
    args: &Args,
    server: &str,
    all: &[Which],
    lines: &mut Vec<String>,
    measure: impl Fn(Which) -> Result<Run, Failure>,
) -> Result<Vec<(Which, Vec<Run>)>, Failure> {
    let mut runs: Vec<_> = all.iter().map(|which| (*which, Vec::new())).collect();
    for round in 0..args.rounds {
        for turn in 0..all.len() {
            let (which, of) = &mut runs[(round + turn) % all.len()];
            let run = measure(*which)?;
            keep(
                lines,
                json!({"what": "queues", "server": server, "round": round, "who": which.name(),
                "push_s": run.push, "work_s": run.work}),
            );
            of.push(run);
        }
    }
    Ok(runs)
}

fn keep(lines: &mut Vec<String>, line: Value) {
    println!("{line}");
    lines.push(line.to_string());
}

fn tell(server: &str, runs: &[(Which, Vec<Run>)], elements: usize, table: &mut Vec<String>) {
    let rate = |runs: &[Run], seconds: fn(&Run) -> f64| {
        let mut seconds: Vec<_> = runs.iter().map(seconds).collect();
        seconds.sort_by(f64::total_cmp);
        elements as f64 / seconds[seconds.len() / 2]
    };
    let both = |runs: &[Run]| rate(runs, |run| run.push + run.work);
    let ours = runs.iter().find(|(which, _)| *which == Which::Bandog).map(|(_, runs)| both(runs));
    for (which, runs) in runs {
        let (push, work, both) = (rate(runs, |run| run.push), rate(runs, |run| run.work), both(runs));
        let ratio = ours.map_or(0.0, |ours| ours / both);
        table.push(format!("| {} on {server} | {push:.0} | {work:.0} | {both:.0} | ×{ratio:.2} |", which.name()));
    }
}

/// Counts what is handled.
#[derive(Debug, Clone, Default)]
struct Counter(Arc<(AtomicUsize, Notify)>);

impl Counter {
    fn one_of(&self, all: usize) {
        if self.0.0.fetch_add(1, Relaxed) + 1 >= all {
            self.0.1.notify_one();
        }
    }

    async fn all(&self) {
        self.0.1.notified().await;
    }
}

fn payload() -> String {
    "x".repeat(100)
}

async fn postgres_queue(which: Which, url: &str, elements: usize) -> Result<Run, Failure> {
    match which {
        Which::GraphileWorker => graphile_worker(url, elements).await,
        Which::Pgmq => pgmq_queue(url, elements).await,
        Which::Bandog | Which::BullMq => bandog_queue(url, elements).await,
    }
}

async fn bandog_queue(url: &str, elements: usize) -> Result<Run, Failure> {
    let client = bandog::connect(url).await?;
    let run = bandog_client(&client, elements).await?;
    client.close().await?;
    Ok(run)
}

async fn bandog_client(client: &Client, elements: usize) -> Result<Run, Failure> {
    let queue: WorkQueue<String> = client.work_queue("bench")?;
    let batch = vec![payload(); BATCH];
    queue.status().await?; // The tables exist.
    let start = Instant::now();
    for _ in 0..elements / BATCH {
        queue.push_all(&batch).await?;
    }
    let (push, start, counter) = (start.elapsed(), Instant::now(), Counter::default());
    let count = counter.clone();
    let workers = queue.workers(SLOTS).run(move |_: Delivery<String>| {
        count.one_of(elements);
        async { Ok::<_, Failure>(()) }
    });
    counter.all().await;
    workers.stop().await?;
    let run = Run::of(push, start.elapsed());
    assert_eq!(queue.status().await?.counts.values().sum::<u64>(), 0, "all elements are settled");
    Ok(run)
}

fn bull_mq(args: &Args, port: u16) -> Result<Run, Failure> {
    #[derive(Deserialize)]
    struct Seconds {
        push: f64,
        work: f64,
    }
    let mut node = Command::new("node");
    node.current_dir(&args.node).args(["bullmq.mjs", &port.to_string(), &args.elements.to_string()]);
    let ended = node.output()?;
    if !ended.status.success() {
        return Err(format!("BullMQ: {}: {}", ended.status, String::from_utf8_lossy(&ended.stderr)).into());
    }
    let Seconds { push, work } = serde_json::from_slice(&ended.stdout)?;
    Ok(Run { push, work })
}

/// A job of graphile_worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Job {
    payload: String,
}

/// What a job counts, and the number of jobs.
#[derive(Debug, Clone)]
struct Counted(Counter, usize);

impl TaskHandler for Job {
    const IDENTIFIER: &'static str = "job";

    async fn run(self, context: WorkerContext) -> impl IntoTaskHandlerResult {
        if let Some(Counted(counter, all)) = context.get_ext::<Counted>() {
            counter.one_of(*all);
        }
        Ok::<(), String>(())
    }
}

async fn graphile_worker(url: &str, elements: usize) -> Result<Run, Failure> {
    let counter = Counter::default();
    let worker = WorkerOptions::default()
        .database_url(url)
        .concurrency(SLOTS as usize)
        .define_job::<Job>()
        .local_queue(LocalQueueConfig::default().with_size(BATCH))
        .complete_job_batch_delay(Duration::from_millis(5))
        .add_extension(Counted(counter.clone(), elements))
        .listen_os_shutdown_signals(false)
        .init()
        .await?;
    let (utils, spec) = (worker.create_utils(), JobSpec::default());
    let batch: Vec<_> = (0..BATCH).map(|_| (Job { payload: payload() }, &spec)).collect();
    let start = Instant::now();
    for _ in 0..elements / BATCH {
        utils.add_jobs::<Job>(&batch).await?;
    }
    let (push, start) = (start.elapsed(), Instant::now());
    let (ran, ()) = tokio::join!(worker.run(), async {
        counter.all().await;
        worker.request_shutdown();
    });
    ran?;
    Ok(Run::of(push, start.elapsed()))
}

/// A loop over batches: read with a lease, handle, delete.
async fn pgmq_queue(url: &str, elements: usize) -> Result<Run, Failure> {
    let queue = PGMQueueExt::new(url.to_owned(), 5).await?;
    queue.install_sql_from_embedded().await?;
    queue.create("bench").await?;
    let batch = vec![Job { payload: payload() }; BATCH];
    let start = Instant::now();
    for _ in 0..elements / BATCH {
        queue.send_batch("bench", &batch).await?;
    }
    let (push, start, mut handled) = (start.elapsed(), Instant::now(), 0);
    while handled < elements {
        let read = queue.read_batch::<Job>("bench", LEASE_SECONDS, i32::try_from(BATCH)?).await?;
        let ids: Vec<_> = read.iter().map(|message| message.msg_id).collect();
        queue.delete_batch("bench", &ids).await?;
        handled += ids.len();
    }
    Ok(Run::of(push, start.elapsed()))
}
