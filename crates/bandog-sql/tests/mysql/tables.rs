//! Tables that are missing, and sessions that create them at the same time.

use crate::claims::tables::{
    TABLES, expect_each_table_to_be_created_again, expect_sessions_to_create_the_tables_together,
    expect_tables_with_other_names,
};
use crate::support::{SERVER, url};

#[tokio::test]
async fn each_table_that_is_missing_is_created_again() {
    let database = SERVER.new_database();
    let drop_table = |table: &str| drop(SERVER.sql(&database, &format!("drop table {table}")));
    let tables: Vec<_> = TABLES.into_iter().chain(["bandog_channel"]).collect();
    expect_each_table_to_be_created_again(&url(&SERVER, &database), &tables, drop_table).await;
}

#[tokio::test]
async fn the_url_can_name_the_tables() {
    let database = SERVER.new_database();
    let count = |prefix: &str| {
        let query = format!(
            "select count(*) from information_schema.tables where table_schema = '{database}' and table_name like '{prefix}%'"
        );
        SERVER.sql(&database, &query)
    };
    expect_tables_with_other_names(&url(&SERVER, &database), count, 7).await;
}

#[tokio::test]
async fn sessions_create_the_tables_together() {
    for _ in 0..5 {
        let database = SERVER.new_database();
        expect_sessions_to_create_the_tables_together(&url(&SERVER, &database)).await;
    }
}
