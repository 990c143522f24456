//! A job that closes unpaid orders: each tick runs in one replica.

use bandog::schedule::{Run, Shared};
use bandog_sqlx::FenceIn;

use crate::{BoxError, Shop, orders};

/// Closes the orders that are due, and returns their products to the stock.
#[bandog::scheduled(fixed_rate = "2s", overlap = "skip", lease = "5s")]
async fn close_unpaid(run: Run, shop: Shared<Shop>) -> Result<(), BoxError> {
    let due = "select id, sku from orders where state = 'unpaid' and due < now() order by due limit 100";
    let due: Vec<(i64, String)> = sqlx::query_as(due).fetch_all(&shop.db).await?;
    let mut closed = 0;
    for (id, sku) in due {
        // The order may be paid at this moment. Then the next tick finds it again, if it is still unpaid.
        let Some(guard) = orders::lock(&shop, id).try_lock().await? else { continue };
        closed += u32::from(close(&guard, &shop, id, &sku).await?);
    }
    run.note(format!("{closed} orders are closed"));
    Ok(())
}

/// Closes an order. Returns whether it was unpaid.
async fn close(guard: &bandog::Guard, shop: &Shop, id: i64, sku: &str) -> Result<bool, BoxError> {
    let mut tx = guard.begin(&shop.db).await?; // the server ends it if this process is stopped
    let still = sqlx::query_scalar("select state = 'unpaid' from orders where id = $1").bind(id);
    if !still.fetch_one(&mut *tx).await? {
        return Ok(false);
    }
    orders::set_state(guard, &mut tx, id, "closed").await?;
    sqlx::query("update products set stock = stock + 1 where sku = $1").bind(sku).execute(&mut *tx).await?;
    tx.commit().await?; // Err(Lost), and nothing is written, if another replica may have the lock
    Ok(true)
}
