//! Locks on PostgreSQL and MariaDB against the floor, which is one row for each lock and two statements by hand: an insert
//! or update that takes the lock if it is free, and an update that frees it.

mod bloat;
mod mariadb;
mod postgres;

use std::{
    sync::LazyLock,
    time::{Duration, Instant},
};

use bandog::Client;
use bandog_testkit::{MariaDbServer, PostgresServer};
use serde_json::{Value, json};

use crate::{
    cycles::{Engine, Load, ours},
    driver::{Row, with},
    floor::by_hand,
    handoff,
    held::{self, core_percent},
    kinds::Kind,
    measure::Workers,
    report::{Report, Wanted, times},
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
pub(crate) static FAST: LazyLock<[Server; 2]> = LazyLock::new(|| Server::start_both(Commits::InMemory));

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

    /// The goal of a ratio, which is for durable commits.
    fn wanted(&self, ratio: f64) -> Option<Wanted> {
        (self.commits == Commits::Durable).then_some(Wanted::AtLeast(ratio))
    }

    /// The cycles of rows that are locked by hand.
    fn floor(&self, tasks: usize, connections: usize, span: Duration) -> Value {
        let url = &*self.url();
        match self.database {
            Database::Postgres(_) => by_hand(postgres::Floor::dial(url, connections), Workers::Two, tasks, span),
            Database::MariaDb(_) => by_hand(mariadb::Floor::dial(url, connections), Workers::Two, tasks, span),
        }
    }

    pub(crate) fn url(&self) -> String {
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

/// Cycles of a lock and its release: one task, and 64 tasks with a name each.
pub(crate) fn cycles(report: &mut Report) {
    let span = report.span;
    for server in SERVERS.iter().chain(&*FAST) {
        let url = &*server.url();
        for (tasks, connections, wanted) in [(1, 1, 0.85), (64, POOL, 3.0)] {
            Row::new(json!({"what": "sql-cycles", "server": server.name(), "tasks": tasks}), &["per_second"])
                .engines(|engine| ours(url, (Workers::Two, engine), Kind::Mutex, Load::own_names(tasks), span))
                .wanted("per_second_ratio", [server.wanted(wanted); 2])
                .beside(format!("floor, {connections} connections"), || server.floor(tasks, connections, span))
                .measure(report);
        }
    }
}

/// 64 tasks of one client on one name, against the floor of one task: a lock by hand that several tasks want is not faster.
pub(crate) fn one_name(report: &mut Report) {
    let span = report.span;
    for server in SERVERS.iter().chain(&*FAST) {
        let url = &*server.url();
        Row::new(json!({"what": "sql-one-name", "server": server.name()}), &["per_second", "least", "most"])
            .side("own thread", || ours(url, (Workers::Two, Engine::OwnThread), Kind::Mutex, Load::ONE_NAME, span))
            .wanted("per_second_ratio", [server.wanted(5.0)])
            .beside("floor of 1 task", || server.floor(1, 1, span))
            .measure(report);
    }
}

/// The time from one client's release until the waiting client has the lock.
pub(crate) fn hand_off(report: &mut Report) {
    let long = report.size.pick(10_000, 50);
    for server in &*SERVERS {
        let url = &*server.url();
        for (held, turns) in [(20, 200), (700, 20), (long, 6)] {
            let (turns, pause) = (report.size.pick(turns, 2), Duration::from_millis(held));
            let wanted = match server.database {
                Database::Postgres(_) => 10.0,
                Database::MariaDb(_) if held < 1_000 => 60.0,
                Database::MariaDb(_) => 300.0,
            };
            Row::new(json!({"what": "sql-handoff", "server": server.name(), "held_ms": held}), &["p50_ms", "most_ms"])
                .rounds(1)
                .side("own thread", || handoff::hand_offs(url, Kind::Mutex, Engine::OwnThread, turns, pause))
                .wanted("p50_ms", [Some(Wanted::AtMost(wanted))])
                .measure(report);
        }
    }
}

/// The cost of waiters while nothing happens: CPU time of this process, and statements.
pub(crate) fn idle(report: &mut Report) {
    let span = report.size.pick(Duration::from_secs(20), Duration::from_millis(200));
    for server in &*SERVERS {
        for names in [1, 100] {
            let name = json!({"what": "sql-idle", "server": server.name(), "names": names});
            Row::new(name, &["core_percent", "statements_per_second"])
                .rounds(1)
                .side("waiters", || Workers::Two.runtime().block_on(waiters(server, names, span)))
                .wanted("core_percent", [Some(Wanted::AtMost(1.0))])
                .wanted("statements_per_second", [Some(Wanted::AtMost(3.0))])
                .measure(report);
        }
    }
}

/// The cost of a client that waits for these names, whose locks are held by a client that renews them after this
/// measurement.
async fn waiters(server: &Server, names: usize, span: Duration) -> Value {
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
    let (before, clock) = (server.statements(), Instant::now());
    let share = core_percent(span).await;
    let statements = (server.statements() - before) as f64 / clock.elapsed().as_secs_f64();
    drop(guards);
    for waiting in waiting {
        waiting.await.expect("no panic");
    }
    client.close().await.expect("closed");
    holder.close().await.expect("closed");
    json!({"core_percent": share, "statements_per_second": statements})
}

/// Many locks that are held: no lock must be lost, and the watchdog must use little CPU time.
pub(crate) fn held(report: &mut Report, hold: Duration) {
    let locks = report.size.pick(10_000, 100);
    for server in &*SERVERS {
        let name = json!({"what": "sql-held", "server": server.name(), "locks": locks, "seconds": hold.as_secs()});
        Row::new(name, &["lost", "core_percent", "taken_s"])
            .rounds(1)
            .side("held", || held::hold(&server.url(), locks, hold, || None))
            .wanted("core_percent", [Some(Wanted::AtMost(2.0))])
            .wanted("lost", [Some(Wanted::AtMost(0.0))])
            .measure(report);
    }
}

/// Changes of one latch: by one task, and by the tasks of one or several clients, all of which wait for their answers.
pub(crate) fn latches(report: &mut Report) {
    let span = report.span;
    for server in &*SERVERS {
        let url = &*server.url();
        for (clients, tasks) in [(1, 1), (1, 28), (4, 7), (28, 1)] {
            let name = json!({"what": "sql-latches", "server": server.name(), "clients": clients, "tasks": tasks});
            Row::new(name, &["per_second", "p50_ms", "p99_ms", "most_ms"])
                .side("count-downs", || Workers::Two.runtime().block_on(count_downs(url, clients, tasks, span)))
                .measure(report);
        }
    }
}

/// The rate and the durations of calls that count down. Each task makes one call after the other.
async fn count_downs(url: &str, clients: usize, tasks: usize, span: Duration) -> Value {
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
                delays.push(start.elapsed().as_secs_f64());
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
    let rate = delays.len() as f64 / span.as_secs_f64();
    with(times(delays), &json!({"per_second": rate}))
}
