//! Failovers: a replica takes the place of the server, with and without its last commits.

use bandog_core::{Error, ErrorKind, Leases};
use bandog_sql::Sql;
use bandog_sync::Client;
use bandog_testkit::{MariaDbServer, Wire, eventually, eventually_async};

use crate::suite::{
    SOON, claim,
    failover::{self, Pair as _},
    open, release, take, try_take,
};

/// A server with a replica, and the address that clients use.
pub(crate) struct Pair {
    primary: MariaDbServer,
    replica: MariaDbServer,
    words: &'static Words,
    wire: Wire,
    database: String,
}

/// The statements for replication. MariaDB and MySQL have different ones.
struct Words {
    prepare_primary: &'static str,
    prepare_replica: &'static str,
    /// `PORT` stands for the port of the primary, and `END` for the end of its binary log.
    follow: &'static str,
    /// The end of the binary log.
    end: &'static str,
    /// `END` stands for the end that the replica waits for. The result is 0, or a message that the time has passed.
    wait: &'static str,
    make_synchronous: &'static str,
    synchronous_replicas: &'static str,
    stop_reading: &'static str,
    state: &'static str,
    forget: &'static str,
}

const OF_MARIADB: Words = Words {
    prepare_primary: "do 0",
    prepare_replica: "set global rpl_semi_sync_slave_enabled = 1",
    follow: "set global gtid_slave_pos = 'END';
        change master to master_host = '127.0.0.1', master_port = PORT, master_user = 'replica',
            master_password = 'SECRET', master_use_gtid = slave_pos, master_connect_retry = 1;
        start slave",
    end: "select @@gtid_binlog_pos",
    wait: "select master_gtid_wait('END', 40)",
    make_synchronous: "set global rpl_semi_sync_master_timeout = 3600000,
        rpl_semi_sync_master_wait_point = 'AFTER_SYNC', rpl_semi_sync_master_enabled = 1",
    synchronous_replicas: "show status like 'Rpl_semi_sync_master_clients'",
    stop_reading: "stop slave io_thread",
    state: "show slave status",
    forget: "stop slave; reset slave all",
};

const OF_MYSQL: Words = Words {
    // The users of the tests exist on both servers, so their statements must not be replicated.
    prepare_primary: "install plugin rpl_semi_sync_source soname 'semisync_source.so'; reset binary logs and gtids",
    prepare_replica: "install plugin rpl_semi_sync_replica soname 'semisync_replica.so'; reset binary logs and gtids;
        set global rpl_semi_sync_replica_enabled = 1",
    follow: "change replication source to source_host = '127.0.0.1', source_port = PORT, source_user = 'replica',
            source_password = 'SECRET', source_auto_position = 1, source_connect_retry = 1, get_source_public_key = 1;
        start replica",
    end: "select @@global.gtid_executed",
    wait: "select wait_for_executed_gtid_set('END', 40)",
    make_synchronous: "set global rpl_semi_sync_source_timeout = 3600000,
        rpl_semi_sync_source_wait_point = 'AFTER_SYNC', rpl_semi_sync_source_enabled = 1",
    synchronous_replicas: "show status like 'Rpl_semi_sync_source_clients'",
    stop_reading: "stop replica io_thread",
    state: "show replica status",
    forget: "stop replica; reset replica all",
};

impl failover::Pair for Pair {
    fn start() -> Self {
        // MariaDB ignores the two settings of MySQL.
        let settings = ["log-bin=binlog", "loose-enforce-gtid-consistency=on", "loose-gtid-mode=on"];
        let [primary, replica] = ["server-id=1", "server-id=2"]
            .map(|number| MariaDbServer::start_with(&[&settings[..], &[number]].concat()));
        let is_mariadb = primary.sql("mysql", "select version()").contains("MariaDB");
        let words = if is_mariadb { &OF_MARIADB } else { &OF_MYSQL };
        primary.sql("mysql", words.prepare_primary);
        replica.sql("mysql", words.prepare_replica);
        let end = primary.sql("mysql", words.end);
        primary.sql("mysql", "create user replica@'%' identified by 'SECRET'");
        primary.sql("mysql", "grant replication slave on *.* to replica@'%'");
        replica.sql("mysql", &words.follow.replace("PORT", &primary.port().to_string()).replace("END", &end));
        let database = primary.new_database();
        let pair = Self { wire: primary.wire(), primary, replica, words, database };
        pair.wait_for_replica();
        pair
    }

    fn client(&self) -> Client {
        Client::options().over(self.store()).unwrap()
    }

    async fn catch_up(&self) {
        self.wait_for_replica();
    }

    async fn stop_replication(&self) {
        self.stop_reading();
    }

    async fn make_synchronous(&self) {
        self.primary.sql("mysql", self.words.make_synchronous);
        eventually(SOON, || self.primary.sql("mysql", self.words.synchronous_replicas).ends_with("|1"));
    }

    fn fail_over(&self) {
        self.primary.kill();
        self.stop_reading();
        // The replica applies what it has got.
        eventually(SOON, || self.replica.sql("mysql", self.words.state).contains("has read all relay log"));
        self.replica.sql("mysql", self.words.forget);
        self.wire.lead_to(self.replica.addr());
        self.wire.cut();
    }
}

impl Pair {
    fn store(&self) -> Sql {
        open(&MariaDbServer::url_at(self.wire.port(), &self.database))
    }

    fn wait_for_replica(&self) {
        let end = self.primary.sql("mysql", self.words.end);
        let waited = self.replica.sql("mysql", &self.words.wait.replace("END", &end));
        assert_eq!(waited, "0", "{}", self.replica.sql("mysql", self.words.state));
    }

    /// From now on, the replica does not get the commits of the primary.
    fn stop_reading(&self) {
        self.replica.sql("mysql", self.words.stop_reading);
    }
}

// Promise: MY15
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_replica_is_refused_and_left_as_it_is() {
    let pair = Pair::start();
    pair.replica.sql("mysql", "set global read_only = 1");
    let store = open(&pair.replica.url(&pair.database));
    let state = || {
        let tables = "select table_name from information_schema.tables where table_schema = database()";
        let sql = |statement| pair.replica.sql(&pair.database, statement);
        [sql(tables), sql(pair.words.end), pair.replica.try_sql(&pair.database, "checksum table bandog_lease").unwrap()]
    };
    let expect_refused = |error: Error| {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("the server is read-only; locks need the primary server"), "{error}");
        assert!(!error.maybe_applied(), "{error}");
    };
    let before = state();
    expect_refused(store.ping().await.unwrap_err());
    expect_refused(try_take(&store, &claim("k")).await.unwrap_err());
    assert_eq!(state(), before);

    // The replica gets the tables, and a lock that is held.
    let held = claim("k");
    let fence = take(&pair.store(), &held).await.last();
    pair.wait_for_replica();
    let before = state();
    expect_refused(try_take(&store, &claim("k")).await.unwrap_err());
    expect_refused(store.apply(&[bandog_core::Step::Release(held.clone())]).await.remove(0).unwrap_err());
    assert_eq!(state(), before);

    pair.fail_over();
    pair.replica.sql("mysql", "set global read_only = 0");
    let theirs = claim("k");
    assert!(eventually_async(SOON, async || try_take(&store, &theirs).await).await.is_none());
    release(&store, &held).await;
    assert!(take(&store, &theirs).await.last() > fence);
}
