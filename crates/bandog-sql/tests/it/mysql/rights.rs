//! The rights of docs/mysql.md, and missing rights.

use bandog_core::{ErrorKind, Leases, Renewal};
use bandog_sql::SqlOptions;
use bandog_sync::Client;
use bandog_testkit::eventually_async;

use super::{SERVER, grant_only};
use crate::suite::{SOON, claim, open, release, renew, take, try_take};

/// The page that lists the rights.
const PAGE: &str = include_str!("../../../../../docs/mysql.md");

/// The beginning of the statement that grants all rights, also that to create the tables.
const WITH_TABLES: &str = "grant select, insert, update, delete, create on";

/// The user of the tests gets the rights of the statement of the page with this beginning, and no others.
pub(super) fn grant_documented(beginning: &str, database: &str) {
    let line = PAGE.lines().find(|line| line.starts_with(beginning));
    let line = line.unwrap_or_else(|| panic!("docs/mysql.md has no {beginning:?}"));
    let grant = line.replace("shop.", &format!("{database}."));
    SERVER.sql("mysql", &format!("revoke all on {database}.* from locks@'%'; {grant}"));
}

// Promise: MY12
#[tokio::test]
async fn the_documented_rights_to_create_the_tables_are_enough() {
    let database = SERVER.new_database();
    grant_documented(WITH_TABLES, &database);
    take(&open(&SERVER.url(&database)), &claim("k")).await;
}

/// All tests run with these rights.
// Promise: MY12
#[tokio::test]
async fn the_user_of_the_tests_has_the_documented_rights() {
    let database = SERVER.new_database();
    let of_database = || {
        let grants = SERVER.sql("mysql", "show grants for locks@'%'");
        grants.lines().filter(|grant| grant.contains(&format!("`{database}`"))).map(str::to_owned).collect::<Vec<_>>()
    };
    let given = of_database();
    grant_documented(WITH_TABLES, &database);
    assert_eq!(given, of_database());
}

/// The table is in a database on which the user has no other rights.
#[tokio::test]
async fn the_documented_rights_on_tables_of_other_programs_are_enough() {
    let (database, other) = (SERVER.new_database(), SERVER.new_database());
    SERVER.sql(
        &other,
        &format!(
            "create table tb_lock (lockname varchar(64) not null primary key);
             create table shedlock (name varchar(64) not null, lock_until datetime(3) not null,
                locked_at datetime(3) not null default current_timestamp(3), locked_by varchar(255) not null,
                primary key (name));
             revoke all on {other}.* from locks@'%';
             grant select, insert, update on {other}.tb_lock to locks@'%';
             grant select, insert, update on {other}.shedlock to locks@'%'"
        ),
    );
    let url = SERVER.url(&database);
    for layout in [
        format!("mode=rowlock&table={other}.tb_lock&column=lockname"),
        format!("layout=shedlock&table={other}.shedlock"),
        "mode=advisory".to_owned(),
    ] {
        let client = || Client::options().over(open(&format!("{url}?{layout}"))).unwrap();
        let (holder, waiter) = (client(), client());
        let guard = holder.mutex(&database).lock().await.unwrap();
        let waiting = tokio::spawn({
            let mutex = waiter.mutex(&database);
            async move { mutex.lock().await.unwrap() }
        });
        eventually_async(SOON, async || waiter.members().await.unwrap().len() == 2).await;
        let fence = guard.fence();
        guard.release().await.unwrap();
        let guard = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap();
        assert!(guard.fence() > fence, "{layout}");
        guard.release().await.unwrap();
        assert!(!waiter.check().await.unwrap().is_empty());
        for client in [holder, waiter] {
            client.close().await.unwrap();
        }
    }
}

// Promise: MY12
#[tokio::test]
async fn the_printed_tables_are_enough_without_the_right_to_create_tables() {
    let database = SERVER.new_database();
    grant_documented("grant select, insert, update, delete on", &database);
    let url = format!("{}?create=false", SERVER.url(&database));
    let error = open(&url).ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("bandog schema --print"), "{error}");
    SERVER.sql(&database, &SqlOptions::from_url(&url).unwrap().schema_sql());
    let (store, ours) = (open(&url), claim("k"));
    take(&store, &ours).await;
    assert!(matches!(renew(&store, &ours).await.unwrap(), Renewal::Extended { .. }));
    release(&store, &ours).await;
}

// Promise: MY11
#[tokio::test]
async fn a_missing_right_is_denied() {
    let database = SERVER.new_database();
    grant_only("select", &database);
    let error = try_take(&open(&SERVER.url(&database)), &claim("k")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("docs/mysql.md"), "{error}");
    SERVER.sql("mysql", &format!("grant all on {database}.* to locks@'%'"));
    let (store, ours) = (open(&SERVER.url(&database)), claim("k"));
    take(&store, &ours).await;
    SERVER.sql("mysql", &format!("revoke update on {database}.* from locks@'%'"));
    // The server checks the rights on a database again in a new session.
    let error = renew(&open(&SERVER.url(&database)), &ours).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}
