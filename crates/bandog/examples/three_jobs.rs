//! Three jobs that run once per tick, however many copies of this program run:
//!
//! ```sh
//! export BANDOG_URL=redis://localhost   # or sqlite:/tmp/jobs.db, with --features sqlite
//! cargo run --example three_jobs        # in two terminals: each tick is printed in one of them
//! ```
//!
//! Ctrl-C stops one copy, and the other copy continues alone. If you stop the store for a while, the log reports the
//! outage.

use std::error::Error;

use bandog::schedule::{Run, Scheduler, Shared};

/// The state that the jobs share in this process.
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
    let stock: u32 = "42".parse()?; // after an error, the run is retried up to three times
    println!("{}  poll    in process {}: {stock} left", run.tick(), shop.copy);
    Ok(())
}

/// At the times of the environment variable REPORT_CRON, by default at each full minute. A job without async is allowed
/// to block, because it runs in a thread of the blocking pool.
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
    running.until_signal().await?; // waits for runs to end, and hands the others over to another copy
    Ok(client.close().await?)
}
