//! The rights of docs/postgres.md, and missing rights.

use bandog_core::{ErrorKind, Leases, Renewal};
use bandog_sql::SqlOptions;

use super::SERVER;
use crate::suite::{
    claim, open,
    queues::{Queue, element},
    release, renew, take, try_take,
};

/// The page that lists the rights.
const PAGE: &str = include_str!("../../../../../docs/postgres.md");

/// The statements of the page that begin with `grant`, for the user of the tests.
pub(super) fn grants() -> String {
    let grants: Vec<_> =
        PAGE.lines().filter(|line| line.starts_with("grant ") && line.ends_with(" to locks;")).collect();
    assert!(grants.len() >= 2, "docs/postgres.md lists no rights");
    grants.join("\n")
}

// Promise: PG12
#[tokio::test]
async fn the_printed_schema_needs_few_rights_and_is_enough() {
    let database = SERVER.new_database();
    SERVER.sql(&database, &format!("revoke create on database {database} from locks"));
    let url = format!("{}?schema=shop_locks&create=false", SERVER.url(&database));
    let error = open(&url).ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("bandog schema --print"), "{error}");
    let schemas = "select count(*) from pg_namespace where nspname = 'shop_locks'";
    assert_eq!(SERVER.sql(&database, schemas), "0");

    let text = SqlOptions::from_url(&url).unwrap().schema_sql();
    SERVER.sql(
        &database,
        &format!("create role tables_{database}; grant create on database {database} to tables_{database}"),
    );
    SERVER.sql(&database, &format!("set role tables_{database};\n{text}"));
    let (store, ours) = (open(&url), claim("k"));
    take(&store, &ours).await;
    assert!(matches!(renew(&store, &ours).await.unwrap(), Renewal::Extended { .. }));
    release(&store, &ours).await;
    Queue::at(&url).push(&[element(1)]).await.unwrap();
    let owner = "select distinct tableowner from pg_tables where schemaname = 'shop_locks'";
    assert_eq!(SERVER.sql(&database, owner), format!("tables_{database}"));
    // A client that may create tables finds the same ones.
    take(&open(&url.replace("&create=false", "")), &ours).await;
}

// Promise: PG11
#[tokio::test]
async fn a_missing_right_is_denied() {
    let database = SERVER.new_database();
    SERVER.sql(&database, &format!("revoke create on database {database} from locks"));
    let error = try_take(&open(&SERVER.url(&database)), &claim("k")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("docs/postgres.md"), "{error}");
    SERVER.sql(&database, &format!("grant create on database {database} to locks"));
    let (store, ours) = (open(&SERVER.url(&database)), claim("k"));
    take(&store, &ours).await;
    SERVER.sql(
        &database,
        "revoke all on bandog.bandog_lease from locks; alter table bandog.bandog_lease owner to postgres",
    );
    let error = renew(&store, &ours).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}

/// A schema that the user may not use is left out of its search path, so its tables seem to be missing.
// Promise: PG11
#[tokio::test]
async fn a_schema_that_the_user_may_not_use_is_denied_at_once() {
    let database = SERVER.new_database();
    let admin = SERVER.administrator(&database);
    open(&admin).ping().await.unwrap(); // The administrator creates the tables.
    for options in ["", "?create=false", "?mode=advisory"] {
        let url = format!("{}{options}", SERVER.url(&database));
        let error = open(&url).ping().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(!error.is_retryable() && error.to_string().contains("bandog schema --print"), "{error}");
        SERVER.sql(&database, "grant usage on schema bandog to locks");
        let error = open(&url).ping().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.to_string().contains("bandog schema --print"), "{error}");
        SERVER.sql(&database, "revoke usage on schema bandog from locks");
    }
}
