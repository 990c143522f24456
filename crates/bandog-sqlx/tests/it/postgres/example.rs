//! The example of README.md.

#[path = "../../../examples/orders.rs"]
#[expect(dead_code, reason = "the tests do not call main")]
mod orders;

use bandog_testkit::eventually_async;
use sqlx::Connection;

use super::support::{Database, SERVER, narrow_pool};
use crate::kinds::SOON;

const ORDERS: &str = "
    create table orders (id bigint primary key, item bigint not null, state text not null, due timestamptz not null);
    create table stock (item bigint primary key, count bigint not null);
    insert into orders select id, id % 2, 'unpaid', now() from generate_series(1, 6) as id;
    insert into stock values (0, 0), (1, 0);
    grant all on orders, stock to locks";
const STOCK: &str = "select string_agg(count::text, ' ') from stock";

/// The lock expires while the sweep is in its transaction, and other clients get it.
#[tokio::test]
async fn the_sweep_of_the_readme_is_exact() {
    let database = Database::new();
    SERVER.sql(&database.0, ORDERS);
    let (client, other) = (database.client("").await, database.client("").await);
    let mut blocking = database.connection().await;
    let mut block = blocking.begin().await.unwrap();
    sqlx::query("select from stock for update").execute(&mut *block).await.unwrap();
    let pool = narrow_pool(&database.url()).await;
    let sweeping = tokio::spawn({
        let (client, pool) = (client.clone(), pool.clone());
        async move { orders::sweep(&client, &pool).await.map_err(|error| error.to_string()) }
    });
    eventually_async(SOON, async || database.blocked() == "1").await;
    database.age_lease("orders");
    for _ in 0..2 {
        other.mutex("orders").lock().await.unwrap().release().await.unwrap();
    }
    block.rollback().await.unwrap();
    let error = tokio::time::timeout(SOON, sweeping).await.unwrap().unwrap().unwrap_err();
    assert!(error.contains("the lock was lost"), "{error}");
    assert_eq!(SERVER.sql(&database.0, STOCK), "0 0");
    for _ in 0..2 {
        orders::sweep(&client, &pool).await.unwrap();
    }
    assert_eq!(SERVER.sql(&database.0, STOCK), "3 3");
}
