//! Tables that the user may not create, and tables in another schema.

use bandog_core::Leases;

use super::SERVER;
use crate::suite::{claim, open, tables::expect_other_tables_to_be_reported, take};

/// Otherwise a table on which no grant depends would cost the holds of each client that connects again.
// Promise: PG12
#[tokio::test]
async fn a_client_that_may_not_create_tables_uses_those_that_are_there() {
    let database = SERVER.new_database();
    let url = SERVER.url(&database);
    open(&url).ping().await.unwrap();
    SERVER.sql(&database, "drop table bandog.bandog_line");
    take(&open(&format!("{url}?create=false")), &claim("k")).await;
    SERVER.sql(&database, "alter schema bandog owner to postgres; grant usage on schema bandog to locks");
    take(&open(&url), &claim("other")).await;
}

#[tokio::test]
async fn other_tables_of_bandog_in_the_same_schema_are_reported() {
    let url = SERVER.url(&SERVER.new_database());
    expect_other_tables_to_be_reported(&url, ["schema=shop&tables=bandog_", "schema=shop&tables=shop_"]).await;
}
