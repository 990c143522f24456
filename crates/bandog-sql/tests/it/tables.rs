//! Tables that are missing, and sessions that create them at the same time.

use bandog_core::Leases;

use crate::claims::tables::{
    TABLES, expect_each_table_to_be_created_again, expect_other_tables_to_be_reported, expect_refused_tables,
    expect_sessions_to_create_the_tables_together, expect_tables_with_other_names,
};
use crate::support::{SERVER, claim, open, take, url};

// Promise: PG28
#[tokio::test]
async fn each_table_that_is_missing_is_created_again() {
    let database = SERVER.new_database();
    let drop_table = |table: &str| drop(SERVER.sql(&database, &format!("drop table bandog.{table}")));
    expect_each_table_to_be_created_again(&url(&SERVER, &database), &TABLES, drop_table).await;
}

/// Otherwise a table on which no grant depends would cost the holds of each client that connects again.
// Promise: PG12
#[tokio::test]
async fn a_client_that_may_not_create_tables_uses_those_that_are_there() {
    let database = SERVER.new_database();
    let url = url(&SERVER, &database);
    open(&url).ping().await.unwrap();
    SERVER.sql(&database, "drop table bandog.bandog_line");
    take(&open(&format!("{url}?create=false")), &claim("k")).await;
    SERVER.sql(&database, "alter schema bandog owner to postgres; grant usage on schema bandog to locks");
    take(&open(&url), &claim("other")).await;
}

// Promise: PG28
#[tokio::test]
async fn a_table_of_another_program_is_not_used() {
    let database = SERVER.new_database();
    SERVER.sql(&database, "create schema shop authorization locks; set role locks;
        create table shop.oauth_client (id text, expires timestamptz); insert into shop.oauth_client values ('a', '2000-01-01')");
    let store = open(&format!("{}?schema=shop&tables=oauth_", url(&SERVER, &database)));
    expect_refused_tables(&store).await;
    assert_eq!(SERVER.sql(&database, "select count(*) from shop.oauth_client"), "1");
}

// Promise: PG1
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
async fn other_tables_of_bandog_in_the_database_are_reported() {
    let database = SERVER.new_database();
    let url = url(&SERVER, &database);
    let sets = ["schema=bandog&tables=bandog_", "schema=shop&tables=bandog_", "schema=shop&tables=shop_"];
    let urls = sets.map(|set| format!("{url}?{set}"));
    expect_other_tables_to_be_reported([&urls[0], &urls[1]], [sets[0], sets[1]]).await;
    SERVER.sql(&database, "drop schema bandog cascade");
    expect_other_tables_to_be_reported([&urls[1], &urls[2]], [sets[1], sets[2]]).await;
}

// Promise: PG28
#[tokio::test]
async fn sessions_create_the_tables_together() {
    for _ in 0..5 {
        let database = SERVER.new_database();
        expect_sessions_to_create_the_tables_together(&url(&SERVER, &database)).await;
        assert_eq!(SERVER.sql(&database, "select count(*) from bandog.bandog_meta where name = 'version'"), "1");
    }
}
