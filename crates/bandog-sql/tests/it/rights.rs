//! The rights of docs/postgres.md, and missing rights.

use bandog_core::{ErrorKind, Inspect, Kind, Leases, Pattern, Records, Renewal, Swap};

use bandog_sql::SqlOptions;

use crate::claims::queues::{Queue, element};
use crate::support::{SERVER, claim, open, release, renew, take, try_take, url};

/// The page that lists the rights.
const PAGE: &str = include_str!("../../../../docs/postgres.md");

/// The statements of the page that begin with `grant`, for the user of the tests.
fn grants() -> String {
    let grants: Vec<_> =
        PAGE.lines().filter(|line| line.starts_with("grant ") && line.ends_with(" to locks;")).collect();
    assert!(grants.len() >= 2, "docs/postgres.md lists no rights");
    grants.join("\n")
}

// Promise: PG12
#[tokio::test]
async fn the_documented_rights_are_enough() {
    let database = SERVER.new_database();
    let admin = format!("postgres://postgres@/{database}?host={}&port={}", SERVER.directory().display(), SERVER.port());
    open(&admin).ping().await.unwrap(); // The administrator creates the tables.
    SERVER.sql(&database, &format!("revoke create on database {database} from locks; {}", grants()));
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
}

// Promise: PG12
#[tokio::test]
async fn the_printed_schema_needs_few_rights_and_is_enough() {
    let database = SERVER.new_database();
    SERVER.sql(&database, &format!("revoke create on database {database} from locks"));
    let url = format!("{}?schema=shop_locks&create=false", url(&SERVER, &database));
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
    let error = try_take(&open(&url(&SERVER, &database)), &claim("k")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("docs/postgres.md"), "{error}");
    SERVER.sql(&database, &format!("grant create on database {database} to locks"));
    let (store, ours) = (open(&url(&SERVER, &database)), claim("k"));
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
    let admin = format!("postgres://postgres@/{database}?host={}&port={}", SERVER.directory().display(), SERVER.port());
    open(&admin).ping().await.unwrap(); // The administrator creates the tables.
    for options in ["", "?create=false", "?mode=advisory"] {
        let url = format!("{}{options}", url(&SERVER, &database));
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
