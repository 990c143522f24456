//! Counts what failovers of a master with sentinels do to locks: grants that are lost, losses that were reported before
//! another client got the lock, fences that repeat, and the time until locks work again.
//!
//! Each failover has servers of its own. Three clients take locks on new names all the time, and keep them. As soon as a
//! sentinel names the new master, another client tries to take each of these locks there, and a second later those that
//! were taken since. A grant that it gets was lost.

use std::{
    process::ExitCode,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use bandog::{Client, ConnectOptions, Fence, Guard};
use bandog_judge::{Breach, Grant, Ledger, Part};
use bandog_testkit::{RedisServer, Replica, Sentinels};
use clap::{Parser, ValueEnum};
use serde_json::json;
use tokio::{
    task::{JoinHandle, JoinSet},
    time::sleep,
};

/// Number of clients that take locks.
const CLIENTS: usize = 3;
/// Time between two locks of a client.
const PAUSE: Duration = Duration::from_millis(4);
/// Time between the start of the clients and the fault.
const BEFORE: Duration = Duration::from_secs(1);
/// Maximum time from the fault to the promotion.
const PROMOTED_WITHIN: Duration = Duration::from_secs(20);
/// Time for which the clients continue after the promotion.
const AFTER: Duration = Duration::from_secs(1);
/// Maximum time until a loss is reported, beyond the time that the other client needs.
const REPORTED_WITHIN: Duration = Duration::from_secs(5);

/// Counts what failovers do to locks. The program starts its own servers on free ports, and stops them at the end.
#[derive(Parser)]
struct Args {
    /// The rows [default: all].
    rows: Vec<Row>,
    /// Number of failovers of each row.
    #[arg(long, default_value_t = 3)]
    failovers: usize,
    /// Number of failovers at the same time. Each one has servers of its own.
    #[arg(long, default_value_t = 1)]
    at_once: usize,
    /// Options of the clients' URLs, for example `replicas=1`.
    #[arg(long, default_value = "")]
    options: String,
}

/// The cause of a failover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Row {
    /// `SENTINEL FAILOVER`.
    Orderly,
    /// The master is killed with SIGKILL. Its kernel delivers what it has written.
    Kill,
    /// The machine of the master fails, and the replica is 5 ms behind.
    Death5,
    /// The machine of the master fails, and the replica is 50 ms behind.
    Death50,
    /// The master and the clients are cut off from the replica and the sentinels.
    Partition,
    /// The master is stopped, and continues after the promotion.
    Paused,
    /// Of two replicas, the sentinels promote the one that gets no data.
    Stale,
}

/// The servers of one failover.
///
/// The sentinels are dropped first. Otherwise, the next failover could get the port of the master while they still watch
/// it.
struct Servers {
    sentinels: Sentinels,
    replicas: Vec<Replica>,
    master: RedisServer,
}

/// A lock that a client has taken.
struct Held {
    name: String,
    guard: Guard,
}

/// The results of one failover, or the sums of a row.
#[derive(Default)]
struct Figures {
    granted: usize,
    lost: usize,
    /// The lost grants whose holders knew of the loss before the other client claimed.
    reported_before: usize,
    /// The lost grants whose holders did not know of the loss in the end.
    never_reported: usize,
    repeated_fences: usize,
    /// The failovers that failed for another reason than the fault of the row, and were made again.
    repeated: usize,
    /// The times from the fault, and from the promotion, to the first grant of the new master.
    works_after_fault: Vec<Duration>,
    works_after_promotion: Vec<Duration>,
    /// The times for which the old master granted locks after it had continued.
    stale_for: Vec<Duration>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let rows = if args.rows.is_empty() { Row::value_variants().to_vec() } else { args.rows.clone() };
    for row in rows {
        let mut sum = Figures::default();
        let (mut left, mut running) = (args.failovers, JoinSet::new());
        loop {
            while left > 0 && running.len() < args.at_once.max(1) {
                let options = args.options.clone();
                running.spawn(async move { failover(row, &options).await });
                left -= 1;
            }
            let Some(ended) = running.join_next().await else { break };
            let error = match ended {
                Ok(Ok(figures)) => {
                    sum.add(figures);
                    continue;
                }
                Ok(Err(error)) => error.to_string(),
                Err(panic) => panic.to_string(),
            };
            // For example: the machine was so busy that the sentinels made a failover before the fault.
            eprintln!("{row:?}: a failover is repeated: {error}");
            sum.repeated += 1;
            left += 1;
            if sum.repeated > args.failovers {
                eprintln!("{row:?}: too many failovers had to be repeated");
                return ExitCode::FAILURE;
            }
        }
        println!("{}", sum.line(row, &args));
    }
    ExitCode::SUCCESS
}

/// Makes one failover.
async fn failover(row: Row, options: &str) -> bandog::Result<Figures> {
    let servers = tokio::task::block_in_place(|| Servers::start(row));
    let url = servers.url(row, options);
    let (held, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let client = ConnectOptions::parse(&url)?.connect().await?;
        clients.push((client.clone(), take_locks(client, number, held.clone(), stop.clone())));
    }
    // Without the option `replicas`: until the old master returns, the new one may have no replica.
    let thief = ConnectOptions::parse(servers.sentinel_url(""))?.connect().await?;
    sleep(BEFORE).await;
    let fault = Instant::now();
    servers.fail(row);
    let mut figures = Figures::default();
    servers.promoted(row).await;
    let promoted = Instant::now();
    // The first grant of the new master.
    thief.mutex("first").lock().await?.release().await?;
    figures.works_after_fault.push(fault.elapsed());
    figures.works_after_promotion.push(promoted.elapsed());
    let mut lost = figures.steal(&thief, taken(&held)).await;
    if row == Row::Paused {
        servers.master.resume();
        figures.stale_for.push(servers.stale_for().await?);
    }
    sleep(AFTER).await;
    stop.store(true, Ordering::Relaxed);
    let mut open = Vec::new();
    for (client, task) in clients {
        task.abort();
        // The task may be in a call that waits for the store. All that it was given is in `held`.
        let _ = task.await;
        open.push(client);
    }
    lost.extend(figures.steal(&thief, taken(&held)).await);
    sleep(REPORTED_WITHIN).await;
    figures.never_reported += lost.iter().filter(|held| !held.guard.is_lost()).count();
    Ok(figures)
}

/// The locks that were taken since the last call.
fn taken(held: &Mutex<Vec<Held>>) -> Vec<Held> {
    std::mem::take(&mut *held.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Takes locks on new names and keeps them, until `stop` is set.
fn take_locks(client: Client, number: usize, held: Arc<Mutex<Vec<Held>>>, stop: Arc<AtomicBool>) -> JoinHandle<()> {
    tokio::spawn(async move {
        for count in 0_u64.. {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let name = format!("{number}:{count}");
            if let Ok(Some(guard)) = client.mutex(&name).try_lock().await {
                held.lock().unwrap_or_else(PoisonError::into_inner).push(Held { name, guard });
            }
            sleep(PAUSE).await;
        }
    })
}

impl Servers {
    fn start(row: Row) -> Self {
        let master = RedisServer::start_on_machine(&[]);
        let mut replicas = vec![RedisServer::replica_of(&master)];
        if row == Row::Stale {
            replicas.push(RedisServer::replica_with(&master, &["--replica-priority", "1"]));
        }
        let sentinels = Sentinels::start(3, &master, "orders");
        // For this time, the sentinels leave the proxies in the replication streams alone.
        sentinels.set("failover-timeout", "10000");
        match row {
            Row::Death5 => replicas[0].stream().delay_replies(Duration::from_millis(5)),
            Row::Death50 => replicas[0].stream().delay_replies(Duration::from_millis(50)),
            Row::Stale => replicas[1].stream().stall(true),
            Row::Orderly | Row::Kill | Row::Partition | Row::Paused => {}
        }
        Self { master, replicas, sentinels }
    }

    /// The URL of the clients that take locks. In a partition, they reach no sentinel.
    fn url(&self, row: Row, options: &str) -> String {
        match row {
            Row::Partition => format!("redis://{}?watchdog=60s&{options}", self.master.addr()),
            _ => self.sentinel_url(options),
        }
    }

    fn sentinel_url(&self, options: &str) -> String {
        format!("{}?watchdog=60s&{options}", self.sentinels.url())
    }

    fn fail(&self, row: Row) {
        match row {
            Row::Orderly => self.sentinels.order_failover(),
            Row::Kill => self.master.kill(),
            Row::Death5 | Row::Death50 => {
                self.replicas[0].stream().lose_everything();
                self.master.lose_machine();
            }
            Row::Partition => self.master.network().lose_everything(),
            Row::Paused => self.master.pause(),
            Row::Stale => self.master.kill(),
        }
    }

    /// Waits until a sentinel names another master.
    ///
    /// # Panics
    /// If this takes too long. On a busy machine, sentinels can find that time has jumped, and then do nothing for 30 s.
    async fn promoted(&self, row: Row) {
        let since = Instant::now();
        let (old, expected) = (self.master.outer_addr(), self.replicas[usize::from(row == Row::Stale)].outer_addr());
        let master = loop {
            let now = tokio::task::block_in_place(|| self.sentinels.master());
            if now != old {
                break now;
            }
            assert!(since.elapsed() < PROMOTED_WITHIN, "no replica was promoted within {PROMOTED_WITHIN:?}");
            sleep(Duration::from_millis(5)).await;
        };
        assert_eq!(master, expected, "another replica was promoted");
    }

    /// The time for which the old master grants locks to a client that does not ask the sentinels.
    async fn stale_for(&self) -> bandog::Result<Duration> {
        let (since, mut last) = (Instant::now(), Duration::ZERO);
        let client = ConnectOptions::parse(self.master.url())?.connect().await?;
        for count in 0_u64.. {
            let granted = client.mutex(format!("stale:{count}")).try_lock().await;
            match granted {
                Ok(Some(_)) => last = since.elapsed(),
                Ok(None) | Err(_) if since.elapsed() > last + Duration::from_secs(2) => break,
                Ok(None) | Err(_) => {}
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok(last)
    }
}

impl Figures {
    /// Tries to take all these locks at once as another client. Returns those that it gets: their grants were lost.
    async fn steal(&mut self, thief: &Client, held: Vec<Held>) -> Vec<Held> {
        self.granted += held.len();
        let mut attempts = JoinSet::new();
        for held in held {
            let mutex = thief.mutex(&held.name);
            attempts.spawn(async move {
                let was_reported = held.guard.is_lost();
                let stolen = loop {
                    if let Ok(stolen) = mutex.try_lock().await {
                        break stolen;
                    }
                    // The servers have not answered in time.
                    sleep(PAUSE).await;
                };
                stolen.map(|stolen| (held, stolen.fence(), was_reported))
            });
        }
        let mut lost = Vec::new();
        for (held, fence, was_reported) in attempts.join_all().await.into_iter().flatten() {
            // The holder, and then the thief.
            let mut ledger = Ledger::new(0);
            let grant = |fence: Fence, was_reported| Grant { part: Part::Alone, fence: fence.get(), of: was_reported };
            ledger.enter(grant(held.guard.fence(), was_reported), |_| true, |_| 0);
            let breaches = ledger.enter(grant(fence, false), |was_reported| !was_reported, |_| 0);
            let is_overlap = |breach: &Breach<bool>| matches!(breach, Breach::Overlap { .. });
            self.reported_before += usize::from(!breaches.iter().any(is_overlap));
            self.repeated_fences += breaches.iter().filter(|breach| !is_overlap(breach)).count();
            lost.push(held);
        }
        self.lost += lost.len();
        lost
    }

    fn add(&mut self, other: Self) {
        self.granted += other.granted;
        self.lost += other.lost;
        self.reported_before += other.reported_before;
        self.never_reported += other.never_reported;
        self.repeated_fences += other.repeated_fences;
        self.works_after_fault.extend(other.works_after_fault);
        self.works_after_promotion.extend(other.works_after_promotion);
        self.stale_for.extend(other.stale_for);
    }

    fn line(&self, row: Row, args: &Args) -> serde_json::Value {
        let ends = |times: &[Duration]| {
            let mut sorted = times.to_vec();
            sorted.sort_unstable();
            let seconds = |at: usize| sorted.get(at).map(|time| (time.as_secs_f64() * 1000.0).round() / 1000.0);
            json!({ "median": seconds(sorted.len() / 2), "max": seconds(sorted.len().saturating_sub(1)) })
        };
        json!({
            "row": format!("{row:?}"),
            "options": args.options,
            "failovers": args.failovers,
            "granted": self.granted,
            "lost": self.lost,
            "announced_before": self.reported_before,
            "never_announced": self.never_reported,
            "repeated_fences": self.repeated_fences,
            "failovers_made_again": self.repeated,
            "works_after_fault_s": ends(&self.works_after_fault),
            "works_after_promotion_s": ends(&self.works_after_promotion),
            "stale_for_s": ends(&self.stale_for),
        })
    }
}
