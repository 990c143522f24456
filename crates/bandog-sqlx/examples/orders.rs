//! Closes unpaid orders and returns their items to the stock. Each item is returned once, however long a process is
//! stopped in between.
//!
//! ```sh
//! export BANDOG_URL=postgres://locks:secret@db/shop
//! psql $BANDOG_URL -c 'create table orders (id bigint primary key, item bigint not null, state text not null, due timestamptz not null)'
//! psql $BANDOG_URL -c 'create table stock (item bigint primary key, count bigint not null)'
//! cargo run -p bandog-sqlx --example orders      # in several terminals
//! ```

use std::{env, time::Duration};

use bandog_sqlx::FenceIn;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = env::var("BANDOG_URL")?;
    let (client, shop) = (bandog::connect(&url).await?, sqlx::PgPool::connect(&url).await?);
    loop {
        if let Err(error) = sweep(&client, &shop).await {
            eprintln!("{error}"); // the next sweep repeats what was not committed
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
}

pub(crate) async fn sweep(client: &bandog::Client, shop: &sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
    let guard = client.mutex("orders").lock().await?; // in the same database as the orders
    let mut tx = guard.begin(shop).await?; // the server ends it if this process is stopped
    let unpaid = sqlx::query_as("select id, item from orders where state = 'unpaid' and due < now()");
    let unpaid: Vec<(i64, i64)> = unpaid.fetch_all(&mut *tx).await?;
    for (id, item) in unpaid {
        sqlx::query("update orders set state = 'closed' where id = $1").bind(id).execute(&mut *tx).await?;
        sqlx::query("update stock set count = count + 1 where item = $1").bind(item).execute(&mut *tx).await?;
    }
    tx.commit().await?; // Err(Lost), and nothing is written, if the lock was lost
    Ok(guard.release().await?)
}
