//! The rights of docs/mysql.md, and missing rights.

use bandog_core::{ErrorKind, Inspect, Kind, Leases, Pattern, Records, Renewal, Swap};

use bandog_sql::SqlOptions;

use crate::support::{SERVER, claim, open, release, renew, take, try_take, url};

/// The page that lists the rights.
const PAGE: &str = include_str!("../../../../docs/mysql.md");

/// The statements of the page that grant rights, for this database and the user of the tests.
fn grants(beginning: &str, database: &str) -> String {
    let line = PAGE.lines().find(|line| line.starts_with(beginning));
    line.unwrap_or_else(|| panic!("docs/mysql.md has no {beginning:?}")).replace("shop.", &format!("{database}."))
}

#[tokio::test]
async fn the_documented_rights_are_enough() {
    let database = SERVER.new_database();
    let revoke = format!("revoke all on {database}.* from locks@'%'");
    let admin = format!("mysql://root@/{database}?socket={}", SERVER.directory().join("socket").display());
    open(&admin).ping().await.unwrap(); // The administrator creates the tables.
    SERVER.sql("mysql", &format!("{revoke}; {}", grants("grant select, insert, update, delete on", &database)));
    let (store, ours) = (open(&url(&SERVER, &database)), claim("k"));
    take(&store, &ours).await;
    assert!(matches!(renew(&store, &ours).await.unwrap(), Renewal::Extended { .. }));
    release(&store, &ours).await;
    let mut reader = claim("r");
    reader.kind = Kind::Read;
    take(&store, &reader).await;
    assert_eq!(store.list(&Pattern::all()).await.unwrap().len(), 1);
    assert!(store.evict(&reader.key).await.unwrap().is_some());
    assert!(store.forget(&reader.key).await.unwrap());
    let swapped = store.swap(&[Swap::new(ours.key.clone(), None, "text")]).await.unwrap();
    assert!(swapped.each[0].is_ok(), "{swapped:?}");
    assert!(store.members().await.unwrap().is_empty());
    assert!(!store.check().await.unwrap().is_empty());

    let empty = SERVER.new_database();
    let revoke = format!("revoke all on {empty}.* from locks@'%'");
    SERVER.sql("mysql", &format!("{revoke}; {}", grants("grant select, insert, update, delete, create on", &empty)));
    take(&open(&url(&SERVER, &empty)), &claim("k")).await; // The user creates the tables.
}

#[tokio::test]
async fn the_printed_tables_are_enough_without_the_right_to_create_tables() {
    let database = SERVER.new_database();
    let revoke = format!("revoke all on {database}.* from locks@'%'");
    SERVER.sql("mysql", &format!("{revoke}; {}", grants("grant select, insert, update, delete on", &database)));
    let url = url(&SERVER, &database);
    let url = format!("{url}{}create=false", if url.contains('?') { '&' } else { '?' });
    let error = open(&url).ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("bandog schema --print"), "{error}");
    SERVER.sql(&database, &SqlOptions::from_url(&url).unwrap().schema_sql());
    let (store, ours) = (open(&url), claim("k"));
    take(&store, &ours).await;
    assert!(matches!(renew(&store, &ours).await.unwrap(), Renewal::Extended { .. }));
    release(&store, &ours).await;
}

#[tokio::test]
async fn a_missing_right_is_denied() {
    let database = SERVER.new_database();
    SERVER
        .sql("mysql", &format!("revoke all on {database}.* from locks@'%'; grant select on {database}.* to locks@'%'"));
    let error = try_take(&open(&url(&SERVER, &database)), &claim("k")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("docs/mysql.md"), "{error}");
    SERVER.sql("mysql", &format!("grant all on {database}.* to locks@'%'"));
    let (store, ours) = (open(&url(&SERVER, &database)), claim("k"));
    take(&store, &ours).await;
    SERVER.sql("mysql", &format!("revoke update on {database}.* from locks@'%'"));
    // The server checks the rights on a database again in a new session.
    let error = renew(&open(&url(&SERVER, &database)), &ours).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}
