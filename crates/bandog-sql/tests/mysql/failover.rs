//! Failovers: a replica takes the place of the server, with and without its last commits.

use bandog_sync::{Client, Guard};
use bandog_testkit::{MariaDbServer, Wire, eventually, eventually_async};
use tokio::{sync::watch, task::JoinHandle};

use crate::support::{SOON, open};

/// A server with a replica, and the address that clients use.
struct Pair {
    primary: MariaDbServer,
    replica: MariaDbServer,
    wire: Wire,
    database: String,
}

impl Pair {
    fn start() -> Self {
        let primary = MariaDbServer::start_with(&["log-bin=binlog", "server-id=1"]);
        let replica = MariaDbServer::start_with(&["server-id=2"]);
        primary.sql("mysql", "create user replica@'%' identified by 'SECRET'");
        primary.sql("mysql", "grant replication slave on *.* to replica@'%'");
        let begin = primary.sql("mysql", "select @@gtid_binlog_pos");
        let port = primary.port();
        replica.sql(
            "mysql",
            &format!(
                "set global gtid_slave_pos = '{begin}', rpl_semi_sync_slave_enabled = 1;
                change master to master_host = '127.0.0.1', master_port = {port}, master_user = 'replica',
                    master_password = 'SECRET', master_use_gtid = slave_pos, master_connect_retry = 1;
                start slave"
            ),
        );
        let database = primary.new_database();
        let pair = Self { wire: primary.wire(), primary, replica, database };
        pair.catch_up();
        pair
    }

    fn client(&self) -> Client {
        let user = MariaDbServer::LOCKS;
        let url = format!("mysql://{user}@127.0.0.1:{}/{}", self.wire.port(), self.database);
        Client::options().over(open(&url)).unwrap()
    }

    /// Waits until the replica has all commits.
    fn catch_up(&self) {
        let end = self.primary.sql("mysql", "select @@gtid_binlog_pos");
        let waited = self.replica.sql("mysql", &format!("select master_gtid_wait('{end}', 40)"));
        assert_eq!(waited, "0", "{}", self.replica.sql("mysql", "show slave status"));
    }

    /// A commit is answered after the replica has it.
    fn make_synchronous(&self) {
        self.primary.sql(
            "mysql",
            "set global rpl_semi_sync_master_timeout = 3600000, rpl_semi_sync_master_wait_point = 'AFTER_SYNC',
                rpl_semi_sync_master_enabled = 1",
        );
        let replicas = "show status like 'Rpl_semi_sync_master_clients'";
        eventually(SOON, || self.primary.sql("mysql", replicas).ends_with("|1"));
    }

    fn fail_over(&self) {
        self.primary.kill();
        self.replica.sql("mysql", "stop slave io_thread");
        // The replica applies what it has got.
        eventually(SOON, || self.replica.sql("mysql", "show slave status").contains("has read all relay log"));
        self.replica.sql("mysql", "stop slave; reset slave all");
        self.wire.lead_to(self.replica.addr());
        self.wire.cut();
    }
}

/// The result of a try, after the client has connected to the new server.
async fn try_lock(client: &Client, name: &str) -> Option<Guard> {
    eventually_async(SOON, async || client.mutex(name).try_lock().await).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_the_replica_has_not_got_is_granted_again_with_a_greater_fence_and_its_holder_notices() {
    let pair = Pair::start();
    let (holder, other) = (pair.client(), pair.client());
    let kept = holder.mutex("kept").lock().await.unwrap();
    other.mutex("late").lock().await.unwrap().release().await.unwrap();
    pair.catch_up();
    pair.replica.sql("mysql", "stop slave io_thread");
    for _ in 0..100 {
        holder.mutex("late").lock().await.unwrap().release().await.unwrap();
    }
    let late = holder.mutex("late").lock().await.unwrap();
    pair.fail_over();
    let again = try_lock(&other, "late").await.expect("the new server does not know the holder");
    assert!(again.fence() > late.fence(), "{} after {}", again.fence(), late.fence());
    tokio::time::timeout(SOON, late.lost()).await.unwrap();

    assert!(try_lock(&other, "kept").await.is_none(), "a lock that the replica has got was granted twice");
    assert!(!kept.is_lost());
    let fence = kept.fence();
    kept.release().await.unwrap();
    assert!(try_lock(&other, "kept").await.unwrap().fence() > fence);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_semisynchronous_replication_a_failover_loses_no_lock() {
    let pair = Pair::start();
    let (holder, other) = (pair.client(), pair.client());
    holder.mutex("first").lock().await.unwrap().release().await.unwrap();
    pair.make_synchronous();
    // Locks are taken when the server is killed, too. A call without an answer fails.
    let (taken, mut count) = watch::channel(0);
    let (stop, stopped) = watch::channel(false);
    let taking: JoinHandle<Vec<Guard>> = tokio::spawn({
        let holder = holder.clone();
        async move {
            let mut guards = Vec::new();
            for number in 0.. {
                if *stopped.borrow() {
                    break;
                }
                if let Ok(guard) = holder.mutex(format!("k{number}")).try_lock().await {
                    guards.push(guard.expect("no other client takes the locks"));
                    taken.send_replace(guards.len());
                }
            }
            guards
        }
    });
    count.wait_for(|count| *count >= 100).await.unwrap();
    pair.fail_over();
    stop.send_replace(true);
    let guards = tokio::time::timeout(SOON, taking).await.unwrap().unwrap();
    for guard in &guards {
        assert!(try_lock(&other, guard.key().as_str()).await.is_none(), "{} was granted twice", guard.key());
    }
    assert!(!guards.iter().any(Guard::is_lost), "a guard was lost");
    for guard in guards {
        guard.release().await.expect("the new server has the hold");
    }
}
