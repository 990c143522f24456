//! Stands for another company, which charges cards: each call is written at once, whatever the caller does then.
//!
//! It would charge an order twice if two requests for it arrived at the same time. The lock of the order prevents this.

use std::time::Duration;

use bandog::Fence;
use sqlx::PgPool;

use crate::BoxError;

/// Duration of a call over the network.
const CALL: Duration = Duration::from_millis(20);

/// Charges the order, unless it is charged already: a replica may have been killed after its call.
pub(crate) async fn charge(provider: &PgPool, order: i64, fence: Fence) -> Result<(), BoxError> {
    let find = sqlx::query_scalar("select count(*) from charges where order_id = $1").bind(order);
    let charges: i64 = find.fetch_one(provider).await?;
    if charges > 0 {
        return Ok(());
    }
    tokio::time::sleep(CALL).await;
    let charge = sqlx::query("insert into charges (order_id, fence) values ($1, $2)").bind(order);
    charge.bind(i64::try_from(fence.get())?).execute(provider).await?;
    Ok(())
}
