//! Failovers: a replica takes the place of the server, with and without its last commits.

use bandog_core::{ErrorKind, Leases, Notifier, Records, Renewal, Swap, Swapped};
use bandog_sync::Client;
use bandog_testkit::{PostgresServer, Wire, eventually_async};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::suite::{SOON, claim, failover, open, renew, try_take};

/// A server with a replica, and the address that clients use.
pub(crate) struct Pair {
    primary: PostgresServer,
    replica: PostgresServer,
    wire: Wire,
    database: String,
}

impl failover::Pair for Pair {
    fn start() -> Self {
        let primary = PostgresServer::start();
        let database = primary.new_database();
        Self { replica: primary.start_replica(), wire: primary.wire(), database, primary }
    }

    fn client(&self) -> Client {
        Client::options().over(open(&PostgresServer::url_at(self.wire.port(), &self.database))).unwrap()
    }

    async fn catch_up(&self) {
        let end = self.primary.sql("postgres", "select pg_current_wal_lsn()");
        let reached = format!("select pg_last_wal_replay_lsn() >= '{end}'");
        eventually_async(SOON, async || self.replica.sql("postgres", &reached) == "t").await;
    }

    async fn stop_replication(&self) {
        set(&self.replica, "primary_conninfo = ''");
        eventually_async(SOON, async || self.replicas("true") == "0").await;
    }

    async fn make_synchronous(&self) {
        set(&self.primary, "synchronous_standby_names = '*'");
        eventually_async(SOON, async || self.replicas("sync_state = 'sync'") == "1").await;
    }

    fn fail_over(&self) {
        self.primary.kill();
        self.wire.lead_to(self.replica.addr());
        self.wire.cut();
        self.replica.promote();
    }
}

impl Pair {
    /// The number of replicas with this property.
    fn replicas(&self, property: &str) -> String {
        self.primary.sql("postgres", &format!("select count(*) from pg_stat_replication where {property}"))
    }
}

/// Changes a setting of a server that runs.
fn set(server: &PostgresServer, setting: &str) {
    server.sql("postgres", &format!("alter system set {setting}"));
    server.sql("postgres", "select pg_reload_conf()");
}

/// A client has the address of a replica.
// Promise: PG31
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_is_refused_until_it_is_promoted() {
    let primary = PostgresServer::start();
    let database = primary.new_database();
    let replica = primary.start_replica();
    let store = open(&replica.url(&database));
    let (ours, schemas) = (claim("k"), "select count(*) from pg_namespace where nspname = 'bandog'");
    let record = [Swap::new(ours.key.clone(), None, "text")];
    for error in [
        store.ping().await.unwrap_err(),
        try_take(&store, &ours).await.unwrap_err(),
        renew(&store, &ours).await.unwrap_err(),
        store.swap(&record).await.unwrap_err(),
        store.subscribe(&ours, Notifier::new(|| {})).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("is a replica"), "{error}");
        assert!(!error.maybe_applied(), "{error}");
    }
    for server in [&primary, &replica] {
        assert_eq!(server.sql(&database, schemas), "0", "a refused client has created tables");
    }
    replica.promote();
    let granted = eventually_async(SOON, async || try_take(&store, &ours).await).await;
    assert!(granted.is_some());
    assert!(matches!(renew(&store, &ours).await.unwrap(), Renewal::Extended { .. }));
    let swapped = eventually_async(SOON, async || store.swap(&record).await).await.each.remove(0);
    assert!(matches!(swapped, Ok(Swapped::Done(_))), "{swapped:?}");
}

// Promise: PG35
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_with_several_hosts_leads_to_the_one_that_accepts_writes() {
    let primary = PostgresServer::start();
    let (database, replica) = (primary.new_database(), primary.start_replica());
    let ports = [replica.port(), 1, primary.port()].map(|port| format!("127.0.0.1:{port}")).join(",");
    let url = format!("postgres://{}@{ports}/{database}", PostgresServer::LOCKS);
    let client = Client::options().over(open(&url)).unwrap();
    let guard = client.mutex("k").lock().await.unwrap();
    let end = primary.sql("postgres", "select pg_current_wal_lsn()");
    let reached = format!("select pg_last_wal_replay_lsn() >= '{end}'");
    eventually_async(SOON, async || replica.sql("postgres", &reached) == "t").await;
    primary.kill();
    replica.promote();
    let next = eventually_async(SOON, async || client.mutex("other").try_lock().await).await.unwrap();
    assert!(!guard.is_lost());
    next.release().await.unwrap();
    guard.release().await.unwrap();
    replica.stop();
    let error = Client::options().over(open(&url)).unwrap().mutex("k").lock().await.unwrap_err();
    assert!(error.to_string().contains("no host of the URL can keep locks"), "{error}");
}

/// Without it, a hold of this client and one of another client would be on two servers.
// Promise: PG35
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_primary_in_the_url_of_a_client_is_refused() {
    let [first, second, empty] = [(); 3].map(|()| PostgresServer::start());
    let database = first.new_database();
    for other in [&second, &empty] {
        other.create_database(&database);
    }
    let theirs = Client::options().over(open(&second.url(&database))).unwrap();
    let held = theirs.mutex("k").lock().await.unwrap();
    for other in [&second, &empty] {
        let ports = [first.port(), other.port()].map(|port| format!("127.0.0.1:{port}")).join(",");
        let url = format!("postgres://{}@{ports}/{database}", PostgresServer::LOCKS);
        let store = open(&url);
        let ours = claim(&format!("before-{}", other.port()));
        assert!(eventually_async(SOON, async || try_take(&store, &ours).await).await.is_some());
        first.stop();
        let refused = async || {
            let error = try_take(&store, &claim("k")).await.expect_err("a claim at another primary").to_string();
            if error.contains("servers of one cluster") { Ok(()) } else { Err(error) }
        };
        eventually_async(SOON, refused).await;
        first.restart();
        let ours = claim(&format!("again-{}", other.port()));
        assert!(eventually_async(SOON, async || try_take(&store, &ours).await).await.is_some());
    }
    let schemas = "select count(*) from pg_namespace where nspname = 'bandog'";
    assert_eq!(empty.sql(&database, schemas), "0", "a refused client has created tables");
    held.release().await.unwrap();
}

// Promise: PG35
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_answers_nothing_after_the_login_does_not_hide_the_next_one() {
    let server = PostgresServer::start();
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let silent = tokio::spawn(accept_logins(silent));
    let database = server.new_database();
    let hosts = format!("127.0.0.1:{port},127.0.0.1:{}", server.port());
    let store = open(&format!("postgres://{}@{hosts}/{database}", PostgresServer::LOCKS));
    let ours = claim("k");
    assert!(eventually_async(SOON, async || try_take(&store, &ours).await).await.is_some());
    silent.abort();
}

/// Accepts logins, and answers nothing after them.
async fn accept_logins(silent: TcpListener) {
    /// The login is accepted, and the server waits for a query.
    const LOGGED_IN: &[u8] = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";
    let mut sessions = Vec::new();
    loop {
        let (mut session, _) = silent.accept().await.unwrap();
        let length = session.read_u32().await.unwrap();
        session.read_exact(&mut vec![0; length as usize - 4]).await.unwrap();
        session.write_all(LOGGED_IN).await.unwrap();
        sessions.push(session);
    }
}
