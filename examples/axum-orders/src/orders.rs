//! Orders: a payment runs under the lock of its order, and commits with it.

use std::time::Duration;

use axum::{
    extract::{Path, State},
    http::StatusCode,
};
use bandog::{Guard, Mutex};
use bandog_sqlx::{FenceIn, PushIn};

use crate::{Shop, provider, refusal::Refusal};

/// Maximum time for which a request waits for another one of the same order.
const WAIT: Duration = Duration::from_secs(5);

/// The lock of an order. All programs that change the order use it.
pub(crate) fn lock(shop: &Shop, id: i64) -> Mutex {
    shop.client.mutex(format!("order-{id}"))
}

/// Creates an order. The body is the product.
pub(crate) async fn create(State(shop): State<Shop>, sku: String) -> Result<String, Refusal> {
    let mut tx = shop.db.begin().await?;
    let take = "update products set stock = stock - 1 where sku = $1 and stock > 0";
    if sqlx::query(take).bind(&sku).execute(&mut *tx).await?.rows_affected() == 0 {
        return Err(Refusal::new(StatusCode::CONFLICT, format!("no {sku} is in stock")));
    }
    let insert = sqlx::query_scalar("insert into orders (sku) values ($1) returning id").bind(&sku);
    let id: i64 = insert.fetch_one(&mut *tx).await?;
    tx.commit().await?;
    Ok(format!("{id}\n"))
}

/// Pays an order: across all replicas, one request at a time works on it.
pub(crate) async fn pay(State(shop): State<Shop>, Path(id): Path<i64>) -> Result<String, Refusal> {
    let Some(guard) = lock(&shop, id).try_lock_for(WAIT).await? else {
        return Err(Refusal::new(StatusCode::CONFLICT, format!("order {id} is in use")));
    };
    // The drop of the guard releases the lock, also if the client of this request goes away.
    pay_under(&guard, &shop, id).await
}

async fn pay_under(guard: &Guard, shop: &Shop, id: i64) -> Result<String, Refusal> {
    let state = sqlx::query_scalar("select state from orders where id = $1").bind(id);
    let state: Option<String> = state.fetch_optional(&shop.db).await?;
    match state.as_deref() {
        Some("unpaid") => {}
        Some("paid") => return Ok(format!("order {id} was paid before\n")),
        Some(other) => return Err(Refusal::new(StatusCode::CONFLICT, format!("order {id} is {other}"))),
        None => return Err(Refusal::new(StatusCode::NOT_FOUND, format!("there is no order {id}"))),
    }
    provider::charge(&shop.db, id, guard.fence()).await?;

    let mut tx = shop.db.begin().await?;
    set_state(guard, &mut tx, id, "paid").await?;
    shop.receipts.push(&id).push_in(&mut tx).await?; // the outbox: a receipt, if the transaction commits
    guard.commit(tx).await?; // Err(Lost), and nothing is written, if another replica may have the lock
    Ok(format!("order {id} is paid\n"))
}

/// Writes the state of an order, with the fence of the lock.
pub(crate) async fn set_state(
    guard: &Guard,
    tx: &mut sqlx::PgConnection,
    id: i64,
    state: &str,
) -> Result<(), sqlx::Error> {
    let fence = i64::try_from(guard.fence().get()).map_err(|error| sqlx::Error::Encode(error.into()))?;
    let update = sqlx::query("update orders set state = $2, fence = $3 where id = $1 and fence < $3");
    match update.bind(id).bind(state).bind(fence).execute(tx).await?.rows_affected() {
        0 => Err(sqlx::Error::RowNotFound), // A later holder of the lock has written the order.
        _ => Ok(()),
    }
}
