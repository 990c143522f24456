//! Tables that are missing, and sessions that create them at the same time.

use bandog_core::{Inspect, Pattern};

use crate::claims::tables::{
    TABLES, expect_each_table_to_be_created_again, expect_other_tables_to_be_reported, expect_refused_tables,
    expect_sessions_to_create_the_tables_together, expect_tables_with_other_names,
};
use crate::support::{SERVER, claim, open, take, url};

// Promise: MY5
#[tokio::test]
async fn each_table_that_is_missing_is_created_again() {
    let database = SERVER.new_database();
    let drop_table = |table: &str| drop(SERVER.sql(&database, &format!("drop table {table}")));
    let tables: Vec<_> = TABLES.into_iter().chain(["bandog_channel"]).collect();
    expect_each_table_to_be_created_again(&url(&SERVER, &database), &tables, drop_table).await;
}

// Promise: MY5
#[tokio::test]
async fn a_table_of_another_program_is_not_used() {
    let database = SERVER.new_database();
    SERVER.sql(
        &database,
        "create table oauth_client (id text, expires datetime); insert into oauth_client values ('a', '2000-01-01')",
    );
    expect_refused_tables(&open(&format!("{}?tables=oauth_", url(&SERVER, &database)))).await;
    assert_eq!(SERVER.sql(&database, "select count(*) from oauth_client"), "1");
}

#[tokio::test]
async fn other_tables_of_bandog_in_the_database_are_reported() {
    let url = url(&SERVER, &SERVER.new_database());
    let sets = ["tables=bandog_", "tables=shop_"];
    let urls = sets.map(|set| format!("{url}?{set}"));
    expect_other_tables_to_be_reported([&urls[0], &urls[1]], sets).await;
}

/// The server shows a user only the tables on which the user has a right.
// Promise: MY12
#[tokio::test]
async fn a_user_that_may_read_some_tables_can_list_locks() {
    let database = SERVER.new_database();
    take(&open(&url(&SERVER, &database)), &claim("k")).await;
    SERVER.sql(
        &database,
        &format!(
            "create user reader@'%' identified by 'PASSWORD';
        grant select on {database}.bandog_meta to reader@'%'; grant select on {database}.bandog_lease to reader@'%';
        grant select on {database}.bandog_fence to reader@'%'"
        ),
    );
    let reader = open(&url(&SERVER, &database).replace("locks:", "reader:"));
    assert_eq!(reader.list(&Pattern::all()).await.unwrap().len(), 1);
}

// Promise: MY1
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

// Promise: MY5
#[tokio::test]
async fn sessions_create_the_tables_together() {
    for _ in 0..5 {
        let database = SERVER.new_database();
        expect_sessions_to_create_the_tables_together(&url(&SERVER, &database)).await;
    }
}
