//! One server of another kind than Redis: PostgreSQL, MariaDB or ZooKeeper. It keeps its data when it is killed.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, SocketAddrV4, TcpStream},
    thread,
    time::{Duration, Instant},
};

use bandog_testkit::{MariaDbServer, PostgresServer, Wire, ZooKeeperServer};

use crate::plan::{SESSION, SLACK};

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

    pub(crate) fn url(&self) -> String {
        self.url_at(self.addr())
    }

    /// The URL of a client, and a wire of its own to the server.
    pub(crate) fn connection(&self) -> (String, Wire) {
        let wire = self.wire();
        (self.url_at(wire.addr()), wire)
    }

    pub(crate) fn wire(&self) -> Wire {
        Wire::to(self.addr())
    }

    fn url_at(&self, addr: SocketAddrV4) -> String {
        match self {
            Self::Postgres(_) => format!("postgres://{}@{addr}/{DATABASE}", PostgresServer::LOCKS),
            Self::MariaDb(_) => format!("mysql://{}@{addr}/{DATABASE}", MariaDbServer::LOCKS),
            Self::ZooKeeper(_) => format!("zookeeper://{addr}/{FOLDER}?session={}ms", SESSION.as_millis()),
        }
    }

    fn addr(&self) -> SocketAddrV4 {
        match self {
            Self::Postgres(server) => server.addr(),
            Self::MariaDb(server) => server.addr(),
            Self::ZooKeeper(server) => server.addr(),
        }
    }

    /// A function that asks the server at this address a question, and returns when the question was answered or refused.
    pub(crate) fn question(&self, addr: SocketAddrV4) -> impl FnMut() + Send + 'static {
        let question: &[u8] = match self {
            Self::Postgres(_) => &HAS_TLS,
            // The server speaks first.
            Self::MariaDb(_) => &[],
            Self::ZooKeeper(_) => ARE_YOU_OK,
        };
        // A server that is killed refuses the question. This is a fault that the run knows.
        move || drop(ask(addr.into(), question))
    }

    /// Kills the server, and starts it again with its data.
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
        }
    }

    /// Stops the server, until [`Server::resume`].
    pub(crate) fn pause(&self) {
        match self {
            Self::ZooKeeper(server) => server.pause(),
            Self::Postgres(_) | Self::MariaDb(_) => unreachable!("the store does not have this fault"),
        }
    }

    pub(crate) fn resume(&self) {
        match self {
            Self::ZooKeeper(server) => server.resume(),
            Self::Postgres(_) | Self::MariaDb(_) => unreachable!("the store does not have this fault"),
        }
    }

    /// Ends all sessions of the database.
    pub(crate) fn end_sessions(&self) {
        match self {
            Self::Postgres(server) => server.end_sessions(DATABASE),
            Self::MariaDb(server) => server.end_sessions(DATABASE),
            Self::ZooKeeper(_) => unreachable!("the store does not have this fault"),
        }
    }

    /// Another session locks the table of the leases for this time. Returns false if there is no table yet.
    pub(crate) fn lock_table(&self, length: Duration) -> bool {
        let seconds = length.as_secs_f64();
        let locked = match self {
            Self::Postgres(server) => {
                let lock =
                    format!("{SCHEMA}; lock table bandog_lease in exclusive mode; select pg_sleep({seconds:.3})");
                server.try_sql(DATABASE, &lock)
            }
            Self::MariaDb(server) => {
                let lock = format!("lock tables bandog_lease write; do sleep({seconds:.3}); unlock tables");
                server.try_sql(DATABASE, &lock)
            }
            Self::ZooKeeper(_) => unreachable!("the store does not have this fault"),
        };
        match locked {
            Ok(_) => true,
            Err(error) if IS_MISSING.iter().any(|words| error.to_string().contains(words)) => false,
            Err(error) => panic!("the table of the leases cannot be locked: {error}"),
        }
    }

    /// The remaining data after all clients have ended, as text. The rows of killed clients and their sessions must expire
    /// before, so this waits.
    pub(crate) fn left(&self) -> Vec<String> {
        let until = Instant::now() + SESSION + SLACK;
        loop {
            let left = self.left_now();
            if left.is_empty() || Instant::now() > until {
                return left;
            }
            thread::sleep(CHECK_INTERVAL);
        }
    }

    fn left_now(&self) -> Vec<String> {
        let lines = match self {
            Self::Postgres(server) => server.sql(DATABASE, &format!("{SCHEMA}; {LEFT}")),
            Self::MariaDb(server) => server.sql(DATABASE, LEFT),
            // The nodes that end with their session, and the sessions.
            Self::ZooKeeper(server) => {
                server.ask("dump").lines().filter(|line| is_node(line)).collect::<Vec<_>>().join("\n")
            }
        };
        lines.lines().map(str::to_owned).collect()
    }
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
