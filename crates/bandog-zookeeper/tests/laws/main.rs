//! The conformance suite with ZooKeeper. Most laws share one server, each with its own folder and behind its own proxy.
//! A law that restarts its server has a server of its own.

#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

use std::{
    sync::{
        Arc, LazyLock, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use async_trait::async_trait;
use bandog_conformance::{Can, Unkept, World, conformance};
use bandog_testkit::{Wire, ZooKeeperServer};
use bandog_zookeeper::{ZooKeeper, ZooKeeperOptions};
use zookeeper_client::{Acls, Client, CreateMode, Error};

conformance!(OnZooKeeper);

/// The duration of sessions.
const SESSION: &str = "10s";
/// The duration of sessions in laws that wait until a session expires.
const SHORT_SESSION: &str = "1s";
/// The duration of sessions in laws that also have clients whose sessions must not expire on a loaded machine.
const MEDIUM_SESSION: &str = "3s";
const TIMEOUT: Duration = Duration::from_secs(2);

struct OnZooKeeper {
    wire: Wire,
    server: Arc<ZooKeeperServer>,
    is_shared: bool,
    session: &'static str,
    folder: String,
}

/// The server that laws share. The last law that uses it stops it.
static SHARED: LazyLock<Mutex<Weak<ZooKeeperServer>>> = LazyLock::new(Mutex::default);

fn shared_server() -> Arc<ZooKeeperServer> {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(server) = shared.upgrade() {
        return server;
    }
    let server = Arc::new(ZooKeeperServer::start());
    *shared = Arc::downgrade(&server);
    server
}

/// Whether the name of the present test, which is the name of its law, contains one of these words.
fn is_law(words: &[&str]) -> bool {
    std::thread::current().name().is_some_and(|law| words.iter().any(|word| law.contains(word)))
}

#[async_trait]
impl World for OnZooKeeper {
    const NAME: &'static str = "zookeeper";
    type Backend = ZooKeeper;

    async fn start() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let is_shared = !is_law(&["restart"]);
        let session = if is_law(&["kill_holder", "holder_exits", "paused_process"]) {
            SHORT_SESSION
        } else if is_law(&["killed_", "stopped_head"]) {
            MEDIUM_SESSION
        } else {
            SESSION
        };
        let server = if is_shared { shared_server() } else { Arc::new(ZooKeeperServer::start()) };
        let folder = format!("/law{}", NUMBER.fetch_add(1, Relaxed));
        let world = Self { wire: server.wire(), server, is_shared, session, folder };
        // The first session of a new server takes long, because the JVM loads the classes for it.
        let url = world.url(world.server.addr());
        let patient = ZooKeeperOptions::from_url(&url).unwrap().timeout(Duration::from_secs(60));
        bandog_core::Leases::ping(&ZooKeeper::new(patient)).await.unwrap();
        world
    }

    fn backend(&self) -> ZooKeeper {
        at(&self.url(self.wire.addr()))
    }

    /// A claim belongs to the session that sent it, so only a clone can repeat it.
    fn peer(&self, ours: &ZooKeeper) -> ZooKeeper {
        ours.clone()
    }

    fn many(&self) -> usize {
        200
    }

    fn offers(&self) -> Can {
        Err(Unkept::Cannot("every lock is granted in the order of its queue, so no client starves"))
    }

    fn barges(&self) -> Can {
        Err(Unkept::Cannot("every lock is granted in the order of its queue, so no claim passes a place"))
    }

    async fn plant_records(&self) -> Can<Vec<String>> {
        let client = self.client().await;
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        let folder = format!("{}/%bandog/records", self.folder);
        client.mkdir(&folder, &options).await.unwrap();
        for (name, data) in [("empty", &b""[..]), ("text", b"not a record"), ("short", b"bandog-record-1 7 9\nshort")] {
            client.create(&format!("{folder}/{name}"), data, &options).await.unwrap();
        }
        Ok(["empty", "text", "short"].map(String::from).to_vec())
    }

    async fn left(&self) -> Vec<String> {
        let client = self.client().await;
        let mut left = Vec::new();
        for lock in children(&client, &self.folder).await.into_iter().filter(|name| !name.starts_with("%bandog")) {
            left.extend(nodes(&client, &format!("{}/{lock}", self.folder)).await);
        }
        left
    }

    async fn forget(&self, key: &str) -> Can {
        let client = self.client().await;
        let folder = format!("{}/{key}", self.folder);
        let mut nodes = nodes(&client, &folder).await;
        nodes.sort_by_key(|node| node.rsplit('-').next().unwrap().to_owned());
        client.delete(&nodes[0], None).await.unwrap();
        Ok(())
    }

    async fn plant(&self) -> Can<Vec<String>> {
        let client = self.client().await;
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        // Nodes that sort before the nodes of any client, and the node of a Java client that never ends.
        for (lock, node) in [("zero", "0"), ("bare", "lock-0000000000"), ("java", "_c_x-lock-0000000000")] {
            client.mkdir(&format!("{}/{lock}", self.folder), &options).await.unwrap();
            client.create(&format!("{}/{lock}/{node}", self.folder), b"127.0.0.1", &options).await.unwrap();
        }
        Ok(["zero", "bare", "java"].map(String::from).to_vec())
    }

    async fn raw(&self, key: &str) -> Can<String> {
        let client = self.client().await;
        let folder = format!("{}/{key}", self.folder);
        let mut raw = String::new();
        for node in nodes(&client, &folder).await {
            let (data, stat) = client.get_data(&node).await.unwrap();
            raw += &format!("{node} {data:?} {}\n", stat.mzxid);
        }
        Ok(raw)
    }

    async fn restart(&self) -> Can {
        assert!(!self.is_shared);
        self.server.restart();
        Ok(())
    }

    async fn restart_empty(&self) -> Can {
        Err(Unkept::Cannot("in an empty ensemble, the numbers of transactions begin again, and with them the fences"))
    }

    async fn cut(&self) -> Can {
        self.wire.cut();
        Ok(())
    }

    async fn lose_answers(&self, on: bool) -> Can {
        // The first claim of a name needs an answer: that its folder is missing. Then it creates the folder.
        let options = CreateMode::Container.with_acls(Acls::anyone_all());
        self.client().await.mkdir(&format!("{}/dropped", self.folder), &options).await.unwrap();
        self.wire.drop_replies(on);
        Ok(())
    }

    async fn stand_still(&self, on: bool) -> Can {
        self.wire.stall(on);
        Ok(())
    }

    async fn connections(&self) -> Can<usize> {
        Ok(self.wire.open())
    }

    async fn jump(&self) -> Can {
        Err(Unkept::Cannot("a test cannot move the machine's clock; ZooKeeper counts sessions with a monotonic clock"))
    }

    fn address(&self) -> Can<String> {
        Ok(self.url(self.server.addr()))
    }

    fn backend_at(address: &str) -> Can<ZooKeeper> {
        Ok(at(address))
    }

    async fn layout(&self, key: &str, owner: &str, fence: u64, ttl: Duration) -> Can {
        let client = self.client().await;
        let folder = format!("{}/{key}", self.folder);
        let [node] = <[String; 1]>::try_from(children(&client, &folder).await).unwrap();
        // `_c_`, a UUID of version 4, `-lock-` and ten digits.
        assert_eq!((node.len(), &node[..3], &node[39..45], &node[17..18]), (55, "_c_", "-lock-", "4"));
        assert!(node[45..].chars().all(|digit| digit.is_ascii_digit()), "{node}");
        let (data, stat) = client.get_data(&format!("{folder}/{node}")).await.unwrap();
        assert_eq!(String::from_utf8(data).unwrap(), format!("{owner} {} mutex", ttl.as_millis()));
        assert_eq!(stat.czxid.cast_unsigned() * 64 + 63, fence);
        assert_ne!(stat.ephemeral_owner, 0);
        Ok(())
    }
}

impl OnZooKeeper {
    fn url(&self, addr: impl std::fmt::Display) -> String {
        format!("zookeeper://{addr}{}?session={}", self.folder, self.session)
    }

    /// A client that bypasses the proxy.
    async fn client(&self) -> Client {
        Client::connect(&self.server.addr().to_string()).await.unwrap()
    }
}

/// The paths of the nodes of a lock: those in its folder, and for a semaphore those in the two folders in it.
async fn nodes(client: &Client, folder: &str) -> Vec<String> {
    let mut nodes = Vec::new();
    for child in children(client, folder).await {
        let path = format!("{folder}/{child}");
        if ["leases", "locks"].contains(&&*child) {
            nodes.extend(children(client, &path).await.into_iter().map(|node| format!("{path}/{node}")));
        } else {
            nodes.push(path);
        }
    }
    nodes
}

/// The children of a node. Empty if the node does not exist.
async fn children(client: &Client, path: &str) -> Vec<String> {
    match client.list_children(path).await {
        Ok(children) => children,
        Err(Error::NoNode) => Vec::new(),
        Err(error) => panic!("{path}: {error}"),
    }
}

fn at(url: &str) -> ZooKeeper {
    ZooKeeper::new(ZooKeeperOptions::from_url(url).unwrap().timeout(TIMEOUT))
}
