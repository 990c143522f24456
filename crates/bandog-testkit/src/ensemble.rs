//! Several ZooKeeper servers that form one ensemble.

use std::ops::Deref;
use std::time::Duration;

use crate::eventually;
use crate::port::Port;
use crate::zookeeper::ZooKeeperServer;

/// Timeout for the election of a leader. The servers pause before each further round of an election, and on a loaded
/// machine an election has many rounds.
const ELECTED_WITHIN: Duration = Duration::from_secs(90);

/// ZooKeeper servers that elect a leader. While a majority of them runs, they serve clients.
///
/// A server counts as lost after 2 s without an answer. This dereferences to a slice of the servers, so a test can `kill`,
/// `pause` and `restart` each of them.
///
/// ```no_run
/// use bandog_testkit::ZooKeeperEnsemble;
/// let ensemble = ZooKeeperEnsemble::start(3);
/// ensemble[ensemble.leader()].kill();
/// ensemble.wait_for_leader();
/// ```
#[derive(Debug)]
pub struct ZooKeeperEnsemble {
    servers: Vec<ZooKeeperServer>,
    /// For each server, the port for its followers and the port for elections.
    _ports: Vec<(Port, Port)>,
}

impl ZooKeeperEnsemble {
    /// Starts `count` servers, and waits until all of them serve clients. This takes a few seconds.
    #[must_use]
    #[track_caller]
    pub fn start(count: usize) -> Self {
        let ports: Vec<_> = (0..count).map(|_| (Port::reserve(), Port::reserve())).collect();
        let members = ports.iter().enumerate().map(|(number, (followers, election))| {
            format!("server.{number}=127.0.0.1:{}:{}", followers.number(), election.number())
        });
        let lines: Vec<_> = ["initLimit=50".to_owned(), "syncLimit=10".to_owned()].into_iter().chain(members).collect();
        let servers: Vec<_> = (0..count).map(|number| ZooKeeperServer::in_ensemble(lines.clone(), number)).collect();
        servers.iter().for_each(ZooKeeperServer::begin);
        servers.iter().for_each(ZooKeeperServer::wait_until_ready);
        Self { servers, _ports: ports }
    }

    /// The addresses of all servers, as a URL names them: `127.0.0.1:PORT,127.0.0.1:PORT,…`.
    #[must_use]
    pub fn hosts(&self) -> String {
        self.servers.iter().map(|server| server.addr().to_string()).collect::<Vec<_>>().join(",")
    }

    /// The index of the present leader. None if there is none.
    #[must_use]
    pub fn find_leader(&self) -> Option<usize> {
        self.servers.iter().position(|server| server.mode().as_deref() == Some("leader"))
    }

    /// The index of the leader. Panics if there is none.
    #[must_use]
    #[track_caller]
    pub fn leader(&self) -> usize {
        self.find_leader().expect("the ensemble has no leader")
    }

    /// Waits until there is a leader, and returns its index.
    #[track_caller]
    pub fn wait_for_leader(&self) -> usize {
        eventually(ELECTED_WITHIN, || self.find_leader())
    }

    /// Starts these servers again, and waits until they serve clients. They are started together, because one server alone
    /// has no majority.
    #[track_caller]
    pub fn restart(&self, servers: &[usize]) {
        for server in servers {
            self.servers[*server].kill();
            self.servers[*server].begin();
        }
        servers.iter().for_each(|server| self.servers[*server].wait_until_ready());
    }
}

impl Deref for ZooKeeperEnsemble {
    type Target = [ZooKeeperServer];

    fn deref(&self) -> &[ZooKeeperServer] {
        &self.servers
    }
}
