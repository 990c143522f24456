//! The real Curator 5.9.0 and bandog on one ZooKeeper server.

use std::{
    thread,
    time::{Duration, Instant},
};

use bandog_testkit::{ZooKeeperServer, eventually_async};
use zookeeper_client::{Acls, Client, CreateMode};

use crate::neighbour::{Neighbour, Program};

mod contended;
mod expired;
mod foreign;
mod leaders;
mod numbers;
mod read_write;
mod semaphores;

/// The duration of sessions.
const SESSION: Duration = Duration::from_secs(20);
/// The duration of sessions in tests that wait until a session expires. It is long enough that no session expires because
/// the machine is busy.
const SHORT: Duration = Duration::from_secs(3);
/// Timeout that is reached only if the test fails.
const LONG: Duration = Duration::from_secs(60);
/// A node that exists for this time is not that of a refused claim.
const LASTING: Duration = Duration::from_millis(500);
/// The path of the lock's folder.
const ORDERS: &str = "/locks/orders";

/// One program of each side, in both orders of holder and waiter.
const BOTH_WAYS: [[usize; 2]; 2] = [[0, 1], [1, 0]];

/// A ZooKeeper server, and neighbours that use it.
struct Place {
    server: ZooKeeperServer,
    neighbours: Vec<Neighbour>,
}

impl Place {
    /// Starts neighbours of these programs, with sessions of this duration.
    fn start(session: Duration, programs: &[Program]) -> Self {
        let server = ZooKeeperServer::start();
        let url = &url(&server);
        let neighbours = thread::scope(|scope| {
            let starts = programs.iter().map(|program| scope.spawn(move || Neighbour::start(*program, url, session)));
            let starts: Vec<_> = starts.collect();
            starts.into_iter().map(|start| start.join().expect("the neighbour started")).collect()
        });
        Self { server, neighbours }
    }

    /// Starts Curator and bandog.
    fn of_both(session: Duration) -> Self {
        Self::start(session, &[Program::Curator, Program::BandogZooKeeper])
    }

    /// A client of neither side.
    async fn client(&self) -> Client {
        Client::connect(&self.server.addr().to_string()).await.expect("the server answers")
    }
}

fn url(server: &ZooKeeperServer) -> String {
    format!("zookeeper://{}/locks", server.addr())
}

/// The nodes of the lock. Empty if the folder does not exist.
async fn nodes(client: &Client) -> Vec<String> {
    client.list_children(ORDERS).await.unwrap_or_default()
}

/// Waits until the lock has this number of nodes that hold or wait for long. The node of a refused claim of bandog does
/// not count, because it exists for a moment only.
async fn wait_for_nodes(client: &Client, count: usize) {
    eventually_async(LONG, async || {
        let mut lasting = 0;
        for (at, node) in sorted(nodes(client).await).into_iter().enumerate() {
            let read = client.get_data(&format!("{ORDERS}/{node}")).await;
            let is_refused = |data: &[u8]| data.ends_with(b" mutex") && at > 0;
            lasting += usize::from(read.is_ok_and(|(data, _)| !is_refused(&data)));
        }
        lasting == count
    })
    .await;
}

/// Waits until the election has this number of candidates that lead or wait for long. The data of their nodes do not say
/// that they wait, so the nodes must have been the same for [`LASTING`].
async fn wait_for_candidates(client: &Client, count: usize) {
    let (mut before, mut since) = (Vec::new(), Instant::now());
    eventually_async(LONG, async || {
        let now = nodes(client).await;
        if now != before {
            (before, since) = (now, Instant::now());
        }
        before.len() == count && since.elapsed() > LASTING
    })
    .await;
}

/// The nodes in the order of their numbers.
fn sorted(mut nodes: Vec<String>) -> Vec<String> {
    nodes.sort_by_key(|node| node.rsplit('-').next().map(str::to_owned));
    nodes
}

/// Creates the folder of the lock.
async fn make_folder(client: &Client) {
    client.mkdir(ORDERS, &CreateMode::Container.with_acls(Acls::anyone_all())).await.expect("a folder");
}
