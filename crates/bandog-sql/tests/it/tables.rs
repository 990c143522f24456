//! Tables that are missing, and sessions that create them at the same time.

use bandog_core::{ErrorKind, Leases};

use crate::claims::tables::{
    TABLES, expect_each_table_to_be_created_again, expect_sessions_to_create_the_tables_together,
    expect_tables_with_other_names,
};
use crate::support::{SERVER, open, url};

#[tokio::test]
async fn each_table_that_is_missing_is_created_again() {
    let database = SERVER.new_database();
    let drop_table = |table: &str| drop(SERVER.sql(&database, &format!("drop table bandog.{table}")));
    expect_each_table_to_be_created_again(&url(&SERVER, &database), &TABLES, drop_table).await;
}

#[tokio::test]
async fn a_client_that_may_not_create_tables_refuses_a_schema_without_one_of_them() {
    let database = SERVER.new_database();
    let url = url(&SERVER, &database);
    open(&url).ping().await.unwrap();
    SERVER.sql(&database, "drop table bandog.bandog_line");
    let error = open(&format!("{url}?create=false")).ping().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("does not have all tables of bandog"), "{error}");
}

#[tokio::test]
async fn the_url_can_name_the_tables() {
    let database = SERVER.new_database();
    let count = |prefix: &str| {
        let query = format!(
            "select count(*) from pg_tables where schemaname = 'bandog' and starts_with(tablename, '{prefix}')"
        );
        SERVER.sql(&database, &query)
    };
    expect_tables_with_other_names(&url(&SERVER, &database), count, 6).await;
}

#[tokio::test]
async fn sessions_create_the_tables_together() {
    for _ in 0..5 {
        let database = SERVER.new_database();
        expect_sessions_to_create_the_tables_together(&url(&SERVER, &database)).await;
        assert_eq!(SERVER.sql(&database, "select count(*) from bandog.bandog_meta where name = 'version'"), "1");
    }
}
