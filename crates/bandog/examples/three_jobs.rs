//! Three jobs that run once per tick, however many copies of this program run:
//!
//! ```sh
//! export BANDOG_URL=redis://localhost   # or sqlite:/tmp/jobs.db, with --features sqlite
//! cargo run --example three_jobs        # in two terminals: each tick is printed in one of them
//! ```
//!
//! Ctrl-C stops a copy, and the other goes on alone. Stop the store for a while, and the log tells of it.

use std::error::Error;

use bandog::schedule::{Run, Scheduler, Shared};

/// What the jobs share in this process.
struct Shop {
    copy: u32,
}

/// At 0, 10, 20, 30, 40 and 50 seconds of each minute.
#[bandog::scheduled(cron = "0/10 * * * * ?", zone = "Europe/Berlin")]
async fn sweep(run: Run, shop: Shared<Shop>) {
    println!("{}  sweep   in process {}, fence {}", run.tick(), shop.copy, run.fence());
}

/// Every three seconds, on a grid that all copies share.
#[bandog::scheduled(fixed_rate = "3s", timeout = "2s", retry = "3 from 100ms")]
async fn poll(shop: Shared<Shop>, run: Run) -> Result<(), std::num::ParseIntError> {
    let stock: u32 = "42".parse()?; // an error would be tried again three times
    println!("{}  poll    in process {}: {stock} left", run.tick(), shop.copy);
    Ok(())
}

/// When the environment says, else at each full minute. Without async it may block: it has a thread of its own.
#[bandog::scheduled(cron = "${REPORT_CRON:0 * * * * ?}", on_crash = "retry", catch_up = "once")]
fn report(run: Run) {
    println!("{}  report  {:?}, attempt {}", run.tick(), run.kind(), run.attempt());
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt::init(); // prints what bandog logs: outages, runs that failed
    let url = std::env::var("BANDOG_URL").map_err(|_| "set BANDOG_URL: redis://localhost, or sqlite:/tmp/jobs.db")?;
    let client = bandog::connect(url).await?;
    let shop = Shop { copy: std::process::id() };
    let running = Scheduler::over(&client).share(shop).declared().start().await?;
    println!("three jobs, over {}; Ctrl-C stops this copy", client.store());
    running.until_signal().await?; // runs end first; what does not is handed over
    Ok(client.close().await?)
}
