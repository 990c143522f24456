//! A server of another kind than Redis: PostgreSQL, MariaDB or ZooKeeper; or an ensemble of ZooKeeper. The servers keep
//! their data when they are killed.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, SocketAddrV4, TcpStream},
    thread,
    time::{Duration, Instant},
};

use bandog_testkit::{MariaDbServer, PostgresServer, Wire, ZooKeeperEnsemble, ZooKeeperServer};

use crate::{
    plan::{LONG_TTL, SESSION, SLACK},
    test_store::SMALL_PACKETS,
};

/// The database of the locks.
const DATABASE: &str = "storm";
/// A statement that selects the schema of the tables in PostgreSQL.
const SCHEMA: &str = "set search_path to bandog";
/// The words with which PostgreSQL and MariaDB say that there is no such table.
const IS_MISSING: [&str; 2] = ["does not exist", "doesn't exist"];
/// The folder of the locks in ZooKeeper.
const FOLDER: &str = "storm";
/// An SQL query for the rows that the clients should have removed.
const LEFT: &str = include_str!("../sql/left_rows.sql");
/// The first message of a client of PostgreSQL: the question whether the server has TLS. The server answers with a letter.
const HAS_TLS: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
/// The default limit of packets of MariaDB, in bytes.
const USUAL_PACKETS: usize = 16 << 20;
/// Number of servers of an ensemble.
const SERVERS: usize = 3;
/// A command of ZooKeeper. The server answers `imok`.
const ARE_YOU_OK: &[u8] = b"ruok";
/// Timeout of a question to the server.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// Interval of the checks whether data are left.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The server that has the locks.
#[derive(Debug)]
pub(crate) enum Server {
    Postgres(PostgresServer),
    MariaDb(MariaDbServer),
    ZooKeeper(ZooKeeperServer),
    Ensemble(ZooKeeperEnsemble),
}

impl Server {
    pub(crate) fn postgres() -> Self {
        let server = PostgresServer::start();
        server.create_database(DATABASE);
        Self::Postgres(server)
    }

    pub(crate) fn mariadb() -> Self {
        let server = MariaDbServer::start();
        server.create_database(DATABASE);
        Self::MariaDb(server)
    }

    pub(crate) fn zookeeper() -> Self {
        Self::ZooKeeper(ZooKeeperServer::start())
    }

    pub(crate) fn zookeeper_ensemble() -> Self {
        Self::Ensemble(ZooKeeperEnsemble::start(SERVERS))
    }

    pub(crate) fn url(&self) -> String {
        self.url_at(&self.addrs())
    }

    /// The URL of a client, and a wire of its own to each server.
    pub(crate) fn connection(&self) -> (String, Vec<Wire>) {
        let wires = self.wires();
        (self.url_at(&wires.iter().map(Wire::addr).collect::<Vec<_>>()), wires)
    }

    /// A new wire to each server.
    pub(crate) fn wires(&self) -> Vec<Wire> {
        self.addrs().into_iter().map(Wire::to).collect()
    }

    fn url_at(&self, addrs: &[SocketAddrV4]) -> String {
        let addrs = addrs.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        match self {
            Self::Postgres(_) => format!("postgres://{}@{addrs}/{DATABASE}", PostgresServer::LOCKS),
            Self::MariaDb(_) => format!("mysql://{}@{addrs}/{DATABASE}", MariaDbServer::LOCKS),
            Self::ZooKeeper(_) | Self::Ensemble(_) => {
                format!("zookeeper://{addrs}/{FOLDER}?session={}ms", self.session().as_millis())
            }
        }
    }

    fn addrs(&self) -> Vec<SocketAddrV4> {
        match self {
            Self::Postgres(server) => vec![server.addr()],
            Self::MariaDb(server) => vec![server.addr()],
            Self::ZooKeeper(server) => vec![server.addr()],
            Self::Ensemble(ensemble) => ensemble.iter().map(ZooKeeperServer::addr).collect(),
        }
    }

    /// Time after which the data of a killed client are gone.
    fn session(&self) -> Duration {
        match self {
            Self::Postgres(_) | Self::MariaDb(_) | Self::ZooKeeper(_) => SESSION,
            // Most elections of a leader take less time. Then holders still believe that they have their locks.
            Self::Ensemble(_) => LONG_TTL,
        }
    }

    /// The reason why not all servers of an ensemble serve clients. `None` if a further fault may follow.
    pub(crate) fn problem(&self) -> Option<String> {
        let Self::Ensemble(ensemble) = self else { return None };
        let silent = ensemble.iter().find(|server| server.mode().is_none())?;
        Some(format!("the server {} does not serve clients", silent.addr()))
    }

    /// A function that asks the server at this address a question, and returns when the question was answered or refused.
    pub(crate) fn question(&self, addr: SocketAddrV4) -> impl FnMut() + Send + 'static {
        let question: &[u8] = match self {
            Self::Postgres(_) => &HAS_TLS,
            // The server speaks first.
            Self::MariaDb(_) => &[],
            Self::ZooKeeper(_) | Self::Ensemble(_) => ARE_YOU_OK,
        };
        // A server that is killed refuses the question. This is a fault that the run knows.
        move || drop(ask(addr.into(), question))
    }

    /// Kills the server, and starts it again with its data. Of an ensemble, kills the leader, and starts it again when the
    /// others have elected another one.
    pub(crate) fn kill_and_restart(&self) {
        match self {
            Self::Postgres(server) => {
                server.kill();
                server.restart();
            }
            Self::MariaDb(server) => {
                server.kill();
                server.restart();
            }
            Self::ZooKeeper(server) => server.restart(),
            Self::Ensemble(ensemble) => {
                let dead = ensemble.wait_for_leader();
                ensemble[dead].kill();
                ensemble.wait_for_leader();
                ensemble.restart(&[dead]);
            }
        }
    }

    /// Stops the server, or the leader of an ensemble, until [`Server::resume`].
    pub(crate) fn pause(&self) {
        match self {
            Self::ZooKeeper(server) => server.pause(),
            Self::Ensemble(ensemble) => ensemble[ensemble.wait_for_leader()].pause(),
            Self::Postgres(_) | Self::MariaDb(_) => unreachable!("the store does not have this fault"),
        }
    }

    pub(crate) fn resume(&self) {
        match self {
            Self::ZooKeeper(server) => server.resume(),
            // A server that runs ignores it.
            Self::Ensemble(ensemble) => ensemble.iter().for_each(ZooKeeperServer::resume),
            Self::Postgres(_) | Self::MariaDb(_) => unreachable!("the store does not have this fault"),
        }
    }

    /// Ends all sessions of the database.
    pub(crate) fn end_sessions(&self) {
        match self {
            Self::Postgres(server) => server.end_sessions(DATABASE),
            Self::MariaDb(server) => server.end_sessions(DATABASE),
            Self::ZooKeeper(_) | Self::Ensemble(_) => unreachable!("the store does not have this fault"),
        }
    }

    /// From now on, new sessions send packets of at most 1 MiB, or again of as many bytes as before.
    pub(crate) fn limit_packets(&self, is_limited: bool) {
        let bytes = if is_limited { SMALL_PACKETS } else { USUAL_PACKETS };
        match self {
            Self::MariaDb(server) => drop(server.sql("mysql", &format!("set global max_allowed_packet = {bytes}"))),
            Self::Postgres(_) | Self::ZooKeeper(_) | Self::Ensemble(_) => {
                unreachable!("the store does not have this fault")
            }
        }
    }

    /// Another session locks the table for this time. Returns false if there is no table yet.
    pub(crate) fn lock_table(&self, table: &str, length: Duration) -> bool {
        let seconds = length.as_secs_f64();
        let locked = match self {
            Self::Postgres(server) => {
                let lock = format!("{SCHEMA}; lock table {table} in exclusive mode; select pg_sleep({seconds:.3})");
                server.try_sql(DATABASE, &lock)
            }
            Self::MariaDb(server) => {
                let lock = format!("lock tables {table} write; do sleep({seconds:.3}); unlock tables");
                server.try_sql(DATABASE, &lock)
            }
            Self::ZooKeeper(_) | Self::Ensemble(_) => unreachable!("the store does not have this fault"),
        };
        match locked {
            Ok(_) => true,
            Err(error) if IS_MISSING.iter().any(|words| error.to_string().contains(words)) => false,
            Err(error) => panic!("the table {table} cannot be locked: {error}"),
        }
    }

    /// The remaining data after all clients have ended, as text. The rows of killed clients and their sessions must expire
    /// before, so this waits.
    pub(crate) fn left(&self) -> Vec<String> {
        let until = Instant::now() + self.session() + SLACK;
        loop {
            let left = self.left_now();
            if left.is_empty() || Instant::now() > until {
                return left;
            }
            thread::sleep(CHECK_INTERVAL);
        }
    }

    fn left_now(&self) -> Vec<String> {
        let nodes = match self {
            Self::Postgres(_) | Self::MariaDb(_) => return self.rows(LEFT),
            // The nodes that end with their session, and the sessions.
            Self::ZooKeeper(server) => nodes(server),
            Self::Ensemble(ensemble) => nodes(&ensemble[ensemble.wait_for_leader()]),
        };
        nodes.lines().map(str::to_owned).collect()
    }

    /// The texts that a query finds in a database. Empty for all other servers.
    pub(crate) fn rows(&self, query: &str) -> Vec<String> {
        let lines = match self {
            Self::Postgres(server) => server.sql(DATABASE, &format!("{SCHEMA}; {query}")),
            Self::MariaDb(server) => server.sql(DATABASE, query),
            Self::ZooKeeper(_) | Self::Ensemble(_) => String::new(),
        };
        lines.lines().map(str::to_owned).collect()
    }
}

/// The nodes that end with their session, one in each line.
fn nodes(server: &ZooKeeperServer) -> String {
    server.ask("dump").lines().filter(|line| is_node(line)).collect::<Vec<_>>().join("\n")
}

/// Whether this line of the command `dump` names a node.
fn is_node(line: &str) -> bool {
    line.trim_start().starts_with('/')
}

/// Sends this question on a new connection, and waits for the first byte of the answer.
fn ask(addr: SocketAddr, question: &[u8]) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&addr, ANSWERS_WITHIN)?;
    stream.set_read_timeout(Some(ANSWERS_WITHIN))?;
    stream.write_all(question)?;
    stream.read_exact(&mut [0])
}
