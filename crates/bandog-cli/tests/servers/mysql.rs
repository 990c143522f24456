//! The command over MariaDB.

use std::sync::LazyLock;

use bandog_testkit::{MariaDb, MariaDbServer};

use crate::{
    help::Place,
    sql::{self, Database},
};

sql::tests!(bandog_testkit::MariaDb);

pub(crate) static SERVER: LazyLock<MariaDbServer> = LazyLock::new(MariaDbServer::start);

impl Database for MariaDb {
    const USE_TABLES: &'static str = "do 0";
    const SETTING: &'static str = "innodb_flush_log_at_trx_commit";
    const NO_ROWS: &'static str = "`tb_lock` does not exist";
    const ROWS: &'static str = "create table tb_lock (lockname varchar(64) character set utf8mb4 primary key)";
    const ADVISORY: [&'static str; 2] = ["select get_lock('x', 0)", "1"];

    fn shared() -> &'static MariaDbServer {
        &SERVER
    }
}

/// The URL of a new database.
pub(crate) fn url() -> String {
    MariaDb::url()
}

/// The user of the locks may not create tables.
#[test]
fn the_printed_schema_creates_the_tables() {
    let (place, database) = (Place::new(), SERVER.new_database());
    let rights = format!("grant select, insert, update, delete on {database}.* to few@'%'");
    SERVER.sql(&database, &format!("create user few@'%' identified by 'PASSWORD'; {rights}"));
    let url = format!("mysql://few:PASSWORD@127.0.0.1:{}/{database}?create=false", SERVER.port());
    let lock = ["lock", "x", "--url", &url, "--", "true"];
    place.run(&lock).assert_ended(64, &["tables of bandog", "create=false", "bandog schema --print"]);
    let printed = place.run(&["schema", "--print", "--url", &url]);
    assert_eq!((printed.code, printed.stderr.as_str()), (0, ""));
    assert!(!printed.stdout.contains("PASSWORD"), "{printed:?}");
    SERVER.sql(&database, &printed.stdout);
    place.run(&lock).assert_ended(0, &[]);
    // An administrator may run it again.
    SERVER.sql(&database, &printed.stdout);
    let shown = place.run(&["show", "x", "--json", "--url", &url]);
    assert!(shown.stdout.contains("\"held\":false"), "{shown:?}");
}
