//! The workers of the outbox: each receipt is written once, whatever dies in between.

use bandog::work::{Delivery, Running};
use bandog_sqlx::DoneIn;

use crate::{BoxError, Shop, TTL};

/// Starts the workers of this replica.
pub(crate) fn start(shop: &Shop) -> Running {
    let db = shop.db.clone();
    shop.receipts.workers(4).lease(TTL).run(move |order: Delivery<i64>| {
        let db = db.clone();
        async move {
            let mut tx = db.begin().await?;
            sqlx::query("insert into receipts (order_id) values ($1)").bind(*order).execute(&mut *tx).await?;
            order.done_in(&mut tx).await?; // the receipt and the end of the element commit together
            tx.commit().await?;
            Ok::<_, BoxError>(()) // after an error, the receipt comes again
        }
    })
}
