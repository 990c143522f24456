//! Locks on PostgreSQL and MariaDB against the floor, which is one row for each lock and two statements by hand: an insert
//! or update that takes the lock if it is free, and an update that frees it.

mod bloat;
mod mariadb;
mod postgres;

use std::{
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use bandog::Client;
use bandog_testkit::{MariaDbServer, PostgresServer};
use serde_json::json;

use crate::{
    cycles::{self, Engine},
    held::cpu_seconds,
    kinds::Kind,
    measure::{Workers, count},
    report::{Report, Wanted, median, quantile},
};

/// The database of the locks.
const DATABASE: &str = "bench";
/// Number of connections of the floor if many tasks use it. With fewer or more connections it is slower on two cores.
const POOL: usize = 8;

pub(crate) use self::bloat::bloat;

/// The servers, which all parts share. They are stopped when this process ends. Each commit waits for the disk, as it does
/// with the default settings of both servers.
pub(crate) static SERVERS: LazyLock<[Server; 2]> = LazyLock::new(|| Server::start_both(Commits::Durable));
/// The same servers, but no commit waits for the disk. So their figures show the work of the processors.
static FAST: LazyLock<[Server; 2]> = LazyLock::new(|| Server::start_both(Commits::InMemory));

/// When a commit is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Commits {
    /// When it is on the disk.
    Durable,
    /// When it is written to the cache of the operating system.
    InMemory,
}

/// A server.
pub(crate) struct Server {
    database: Database,
    commits: Commits,
}

enum Database {
    Postgres(PostgresServer),
    MariaDb(MariaDbServer),
}

impl Server {
    fn start_both(commits: Commits) -> [Self; 2] {
        let (postgres, mariadb) = match commits {
            Commits::Durable => (
                PostgresServer::start_with(&["fsync=on", "shared_buffers=128MB"]),
                MariaDbServer::start_with(&["innodb-flush-method=O_DIRECT", "innodb-buffer-pool-size=128M"]),
            ),
            Commits::InMemory => (PostgresServer::start(), MariaDbServer::start()),
        };
        postgres.create_database(DATABASE);
        mariadb.create_database(DATABASE);
        [Database::Postgres(postgres), Database::MariaDb(mariadb)].map(|database| Self { database, commits })
    }

    pub(crate) fn name(&self) -> &'static str {
        match (&self.database, self.commits) {
            (Database::Postgres(_), Commits::Durable) => "PostgreSQL",
            (Database::MariaDb(_), Commits::Durable) => "MariaDB",
            (Database::Postgres(_), Commits::InMemory) => "PostgreSQL without fsync",
            (Database::MariaDb(_), Commits::InMemory) => "MariaDB without fsync",
        }
    }

    /// Compares a ratio with the goal, which is for durable commits.
    fn judge(&self, report: &mut Report, figure: &str, wanted: Wanted, ratio: f64) {
        if self.commits == Commits::Durable {
            report.judge(figure, wanted, Some(ratio));
        }
    }

    fn url(&self) -> String {
        match &self.database {
            Database::Postgres(server) => format!("postgres://{}@{}/{DATABASE}", PostgresServer::LOCKS, server.addr()),
            Database::MariaDb(server) => format!("mysql://{}@{}/{DATABASE}", MariaDbServer::LOCKS, server.addr()),
        }
    }

    /// The server, if it is PostgreSQL.
    pub(crate) fn postgres(&self) -> Option<&PostgresServer> {
        match &self.database {
            Database::Postgres(server) => Some(server),
            Database::MariaDb(_) => None,
        }
    }

    /// The URL of the database, after a removal of all its data.
    pub(crate) fn empty_url(&self) -> String {
        match &self.database {
            Database::Postgres(server) => server.create_database(DATABASE),
            Database::MariaDb(server) => server.create_database(DATABASE),
        }
        self.url()
    }

    /// Lets the user of the locks create the tables of other programs. Their indexes need more rights than bandog does.
    pub(crate) fn allow_tables_of_others(&self) {
        if let Database::MariaDb(server) = &self.database {
            server.sql("mysql", &format!("grant all on {DATABASE}.* to locks@'%'"));
        }
    }

    /// Creates ShedLock's table, with the statement of its documentation.
    pub(crate) fn create_table_of_shedlock(&self) {
        match &self.database {
            Database::Postgres(server) => server.sql(
                DATABASE,
                "create table shedlock (name varchar(64) primary key, lock_until timestamp not null,
                    locked_at timestamp not null, locked_by varchar(255) not null);
                grant select, insert, update on shedlock to locks",
            ),
            Database::MariaDb(server) => server.sql(
                DATABASE,
                "create table shedlock (name varchar(64) not null, lock_until timestamp(3) not null,
                    locked_at timestamp(3) not null default current_timestamp(3), locked_by varchar(255) not null,
                    primary key (name))",
            ),
        };
    }

    /// The number of statements, or on PostgreSQL of transactions, that this database has executed.
    pub(crate) fn statements(&self) -> u64 {
        let count = match &self.database {
            Database::Postgres(server) => {
                let columns = "xact_commit + xact_rollback";
                server.sql("postgres", &format!("select {columns} from pg_stat_database where datname = '{DATABASE}'"))
            }
            Database::MariaDb(server) => {
                let table = "information_schema.global_status";
                server.sql("mysql", &format!("select variable_value from {table} where variable_name = 'QUESTIONS'"))
            }
        };
        count.trim().parse().expect("a number")
    }
}

/// The floor: rows that are locked by hand.
enum Floor {
    Postgres(postgres::Floor),
    MariaDb(mariadb::Floor),
}

impl Floor {
    async fn dial(server: &Server, connections: usize) -> Arc<Self> {
        Arc::new(match server.database {
            Database::Postgres(_) => Self::Postgres(postgres::Floor::dial(&server.url(), connections).await),
            Database::MariaDb(_) => Self::MariaDb(mariadb::Floor::dial(&server.url(), connections).await),
        })
    }

    /// Takes and frees a lock. `task` selects the connection.
    async fn cycle(&self, task: usize, name: &str) {
        match self {
            Self::Postgres(floor) => floor.cycle(task, name).await,
            Self::MariaDb(floor) => floor.cycle(task, name).await,
        }
    }
}

/// Cycles of a lock and its release: one task, and 64 tasks with a name each.
pub(crate) fn cycles(report: &mut Report) {
    for server in SERVERS.iter().chain(&*FAST) {
        for (tasks, connections, wanted) in [(1, 1, 0.85), (64, POOL, 3.0)] {
            let engines = [Engine::OwnThread, Engine::CurrentRuntime];
            let (mut floors, mut ratios) = (Vec::new(), engines.map(|_| Vec::new()));
            for round in 0..report.rounds {
                let floor = floor(report, server, tasks, connections);
                for (engine, ratios) in engines.into_iter().zip(&mut ratios) {
                    let ours = cycles::ours(report, &server.url(), Workers::Two, tasks, engine);
                    report.raw(json!({"what": "sql-cycles", "server": server.name(), "round": round, "tasks": tasks,
                        "engine": engine.name(), "connections_of_floor": connections, "ours": ours, "floor": floor,
                        "ratio": ours / floor}));
                    ratios.push(ours / floor);
                }
                floors.push(floor);
            }
            for (engine, ratios) in engines.into_iter().zip(ratios) {
                let figure = format!("{}, {tasks} tasks on own names, {}", server.name(), engine.name());
                let against = format!("floor {:.0}/s, connections: {connections}", median(floors.clone()));
                report.row(&figure, format!("×{:.2}", median(ratios.clone())), against, "");
                server.judge(report, &figure, Wanted::AtLeast(wanted), median(ratios));
            }
        }
    }
}

fn floor(report: &Report, server: &Server, tasks: usize, connections: usize) -> f64 {
    Workers::Two.runtime().block_on(async {
        let floor = Floor::dial(server, connections).await;
        let cycle = |task| {
            let (floor, name) = (Arc::clone(&floor), format!("floor-{task}"));
            move || {
                let (floor, name) = (Arc::clone(&floor), name.clone());
                async move { floor.cycle(task, &name).await }
            }
        };
        count(tasks, report.span, cycle).await.per_second
    })
}

/// 64 tasks of one client on one name, against the floor of one task: a lock by hand that several tasks want is not faster.
pub(crate) fn one_name(report: &mut Report) {
    for server in SERVERS.iter().chain(&*FAST) {
        let mut ratios = Vec::new();
        for round in 0..report.rounds {
            let floor = floor(report, server, 1, 1);
            let ours = Workers::Two.runtime().block_on(async {
                let client = Engine::OwnThread.connect(&server.url()).await;
                crate::contend::together(&client, 64, report.span).await
            });
            report.raw(json!({"what": "sql-one-name", "server": server.name(), "round": round,
                "ours": ours.per_second, "floor": floor, "each": ours.each}));
            ratios.push(ours.per_second / floor);
        }
        let figure = format!("{}, 64 tasks on one name", server.name());
        report.row(&figure, format!("×{:.2}", median(ratios.clone())), "floor of 1 task".into(), "");
        server.judge(report, &figure, Wanted::AtLeast(5.0), median(ratios));
    }
}

/// The time from one client's release until the waiting client has the lock.
pub(crate) fn hand_off(report: &mut Report) {
    let long = report.size.pick(Duration::from_secs(10), Duration::from_millis(50));
    for server in &*SERVERS {
        for (held, turns) in
            [(Duration::from_millis(20), report.size.pick(200, 3)), (Duration::from_millis(700), 20), (long, 6)]
        {
            let turns = report.size.pick(turns, 2);
            let mut took = Workers::Two.runtime().block_on(passes(&server.url(), held, turns));
            let (median, worst) = (quantile(&mut took, 0.5), quantile(&mut took, 1.0));
            report.raw(json!({"what": "sql-handoff", "server": server.name(), "held_ms": held.as_millis(),
                "p50_ms": median, "most_ms": worst, "turns": turns}));
            let figure = format!("{}, hand-off of a lock that was held for {held:?}, p50 in ms", server.name());
            report.row(&figure, format!("p50 {median:.1} ms, at most {worst:.1} ms"), String::new(), "");
            let wanted = match server.database {
                Database::Postgres(_) => 10.0,
                Database::MariaDb(_) if held < Duration::from_secs(1) => 60.0,
                Database::MariaDb(_) => 300.0,
            };
            report.judge(&figure, Wanted::AtMost(wanted), Some(median));
        }
    }
}

/// The durations of hand-offs between two clients, in milliseconds.
async fn passes(url: &str, held: Duration, turns: usize) -> Vec<f64> {
    let (one, other) = (Engine::OwnThread.connect(url).await, Engine::OwnThread.connect(url).await);
    let mut took = Vec::with_capacity(turns);
    let mut guard = one.mutex("baton").lock().await.expect("granted");
    for turn in 0..turns {
        let next: &Client = if turn % 2 == 0 { &other } else { &one };
        let mutex = next.mutex("baton");
        let waiting = tokio::spawn(async move {
            let guard = mutex.lock().await.expect("granted");
            (guard, Instant::now())
        });
        tokio::time::sleep(held).await;
        let released = Instant::now();
        guard.release().await.expect("released");
        let (taken, at) = waiting.await.expect("no panic");
        took.push(1e3 * at.duration_since(released).as_secs_f64());
        guard = taken;
    }
    guard.release().await.expect("released");
    one.close().await.expect("closed");
    other.close().await.expect("closed");
    took
}

/// The cost of waiters while nothing happens: CPU time of this process, and statements.
pub(crate) fn idle(report: &mut Report) {
    let span = report.size.pick(Duration::from_secs(20), Duration::from_millis(200));
    for server in &*SERVERS {
        for names in [1, 100] {
            let (share, rate) = Workers::Two.runtime().block_on(waiters(server, names, span));
            report.raw(json!({"what": "sql-idle", "server": server.name(), "names": names,
                "core_percent": share, "statements_per_second": rate}));
            let figure = format!("{}, waiters for {names} names", server.name());
            report.row(&figure, format!("{share:.2} % of a core, {rate:.1} statements/s"), String::new(), "");
            report.judge(&format!("{figure}, percent of a core"), Wanted::AtMost(1.0), Some(share));
            report.judge(&format!("{figure}, statements/s"), Wanted::AtMost(3.0), Some(rate));
        }
    }
}

/// The CPU time of this process in percent of a core, and statements per second, while a client waits for these names. The
/// locks are held by a client whose holds are renewed after this measurement.
async fn waiters(server: &Server, names: usize, span: Duration) -> (f64, f64) {
    let holder = Engine::OwnThread.connect(&format!("{}?watchdog=10m", server.url())).await;
    let client = Engine::OwnThread.connect(&server.url()).await;
    let mut guards = Vec::new();
    let mut waiting = Vec::new();
    for number in 0..names {
        let name = format!("idle-{number}");
        guards.push(holder.mutex(&name).lock().await.expect("granted"));
        let mutex = client.mutex(&name);
        waiting
            .push(tokio::spawn(async move { mutex.lock().await.expect("granted").release().await.expect("released") }));
    }
    // After some time of waiting, the waiters ask seldom.
    tokio::time::sleep(span / 2).await;
    let (before, cpu, clock) = (server.statements(), cpu_seconds(), Instant::now());
    tokio::time::sleep(span).await;
    let (seconds, share) = (clock.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let statements = server.statements() - before;
    drop(guards);
    for waiting in waiting {
        waiting.await.expect("no panic");
    }
    client.close().await.expect("closed");
    holder.close().await.expect("closed");
    (100.0 * share / seconds, statements as f64 / seconds)
}

/// Many locks that are held: no lock must be lost, and the watchdog must use little CPU time.
pub(crate) fn held(report: &mut Report, hold: Duration) {
    let locks = report.size.pick(10_000, 100);
    for server in &*SERVERS {
        let (share, lost, seconds) = Workers::Two.runtime().block_on(async {
            let client = Engine::OwnThread.connect(&format!("{}?watchdog=30s", server.url())).await;
            let start = Instant::now();
            let guards = crate::held::take(&client, Kind::Mutex, locks).await;
            let taken = start.elapsed().as_secs_f64();
            let (cpu, clock) = (cpu_seconds(), Instant::now());
            tokio::time::sleep(hold).await;
            let share = 100.0 * (cpu_seconds() - cpu) / clock.elapsed().as_secs_f64();
            let lost = guards.iter().filter(|guard| guard.is_lost()).count();
            drop(guards);
            client.close().await.expect("closed");
            (share, lost, taken)
        });
        report.raw(json!({"what": "sql-held", "server": server.name(), "locks": locks, "seconds": hold.as_secs_f64(),
            "lost": lost, "core_percent": share, "taken_s": seconds}));
        let figure = format!("{}, {locks} locks held for {} s, percent of a core", server.name(), hold.as_secs());
        report.row(&figure, format!("{lost} lost, {share:.2} % of a core"), format!("taken in {seconds:.1} s"), "");
        report.judge(&figure, Wanted::AtMost(2.0), Some(share));
        let figure = format!("{}, {locks} locks held: lost", server.name());
        report.judge(&figure, Wanted::AtMost(0.0), Some(lost as f64));
    }
}

/// Changes of one latch: by one task, and by the tasks of one or several clients, all of which wait for their answers.
pub(crate) fn latches(report: &mut Report) {
    for server in &*SERVERS {
        let mut alone = Vec::new();
        for (clients, tasks) in [(1, 1), (1, 28), (4, 7), (28, 1)] {
            let (mut rates, mut delays) = (Vec::new(), Vec::new());
            for round in 0..report.rounds {
                let counted = Workers::Two.runtime().block_on(count_downs(&server.url(), clients, tasks, report.span));
                let rate = counted.len() as f64 / report.span.as_secs_f64();
                let [p50, p99, most] = [0.5, 0.99, 1.0].map(|share| quantile(&mut counted.clone(), share));
                report.raw(json!({"what": "sql-latches", "server": server.name(), "round": round, "clients": clients,
                    "tasks": tasks, "per_second": rate, "p50_ms": p50, "p99_ms": p99, "most_ms": most}));
                rates.push(rate);
                delays.extend(counted);
            }
            let rate = median(rates.clone());
            let figure = format!("{}, count-downs of one latch, {clients} clients with {tasks} tasks", server.name());
            let [p50, p99, most] = [0.5, 0.99, 1.0].map(|share| quantile(&mut delays, share));
            let ours = format!("{rate:.0}/s, p50 {p50:.1} ms, p99 {p99:.0} ms, at most {most:.0} ms");
            if alone.is_empty() {
                alone = rates;
            }
            report.row(&figure, ours, format!("×{:.2} of 1 task", rate / median(alone.clone())), "");
        }
    }
}

/// The durations of all calls that count down, in milliseconds. Each task makes one call after the other.
async fn count_downs(url: &str, clients: usize, tasks: usize, span: Duration) -> Vec<f64> {
    let mut all = Vec::new();
    for _ in 0..clients {
        all.push(Engine::OwnThread.connect(url).await);
    }
    let latch = all[0].latch("parts");
    latch.delete().await.expect("deleted");
    latch.set(1 << 50).await.expect("set");
    let until = Instant::now() + span;
    let run = |client: &Client| {
        let latch = client.latch("parts");
        tokio::spawn(async move {
            let mut delays = Vec::new();
            while Instant::now() < until {
                let start = Instant::now();
                latch.count_down().await.expect("counted");
                delays.push(1e3 * start.elapsed().as_secs_f64());
            }
            delays
        })
    };
    let running: Vec<_> = all.iter().flat_map(|client| (0..tasks).map(|_| run(client))).collect();
    let mut delays = Vec::new();
    for task in running {
        delays.extend(task.await.expect("no panic"));
    }
    for client in all {
        client.close().await.expect("closed");
    }
    delays
}
