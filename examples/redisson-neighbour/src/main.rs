//! Sells apples from a stock that a Java program sells from, too: one map and one lock. `Seller.java` does the same.

use std::{env, time::Duration};

use bandog::{
    ConnectOptions,
    grid::{ClientGrid, codec::Text},
};
use tokio::time::sleep;

/// Time after which a lock is free whose holder was killed, as `lockWatchdogTimeout` of the Java program.
const WATCHDOG: Duration = Duration::from_secs(5);
/// Interval between two reads of a stock that does not exist yet.
const CLOSED: Duration = Duration::from_millis(20);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init(); // prints what bandog logs
    let url = env::args().nth(1).unwrap_or_else(|| "redis://localhost".to_owned());
    let client = ConnectOptions::parse(url)?.watchdog(WATCHDOG).connect().await?;
    let stock = client.grid().map::<String, u32>("stock")?.codec(Text); // in Java: StringCodec
    let lock = client.mutex("stock-lock"); // in Java: getLock("stock-lock")
    println!("ready");
    loop {
        let guard = lock.lock().await?;
        // Another seller changes the number between this read and the write, if it does not take the lock.
        let left = stock.get("apple").await?;
        if let Some(next) = left.and_then(|left| left.checked_sub(1)) {
            stock.put("apple", &next).await?;
            println!("Rust has sold an apple, {next} are left, fence {}", guard.fence());
        }
        guard.release().await?; // an error if the lock was lost
        match left {
            Some(0) => break,
            Some(_) => {}
            None => sleep(CLOSED).await, // the shop is not open yet
        }
    }
    println!("sold out");
    Ok(client.close().await?)
}
