//! A worker of a queue on Redis. `push COUNT CUSTOMER…` pushes parcels, and `work` sends them until SIGTERM.

use std::{env, time::Duration};

use bandog::{
    Client,
    grid::List,
    work::{Backoff, Delivery},
};
use bandog_example_worker_redis::{Parcel, parcels, push, sent};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::sleep,
};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Time after which other workers get the parcels of a worker that was killed.
const LEASE: Duration = Duration::from_secs(5);
/// Duration of a step of the work.
const STEP: Duration = Duration::from_millis(25);
/// Number of parcels that a worker sends at the same time.
const SLOTS: u32 = 4;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init(); // prints what bandog logs
    let url = env::var("REDIS_URL").unwrap_or_else(|_| "redis://localhost".to_owned());
    let client = bandog::connect(url).await?;
    let args: Vec<_> = env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["push", count, ..] => push(&client, &args[2..], count.parse()?).await?,
        ["work"] => work(&client).await?,
        _ => return Err("usage: bandog-example-worker-redis push COUNT CUSTOMER… | work".into()),
    }
    Ok(client.close().await?)
}

/// Sends parcels until SIGTERM. Then it finishes those that it has begun, for at most 30 s, and hands back the others.
async fn work(client: &Client) -> Result<(), BoxError> {
    let mut terminate = signal(SignalKind::terminate())?;
    let sent = sent(client)?;
    let backoff = Backoff::fixed(Duration::from_secs(1))?;
    let workers = parcels(client)?.workers(SLOTS).lease(LEASE).backoff(backoff).drain(Duration::from_secs(30));
    let running = workers.run(move |parcel: Delivery<Parcel>| send(parcel, sent.clone()));
    println!("ready");
    running.until(terminate.recv()).await?;
    println!("stopped");
    Ok(())
}

/// Sends a parcel. The lease is extended meanwhile; if it is lost nevertheless, this future is dropped.
async fn send(parcel: Delivery<Parcel>, sent: List<(Parcel, u64)>) -> Result<(), BoxError> {
    let Parcel { customer, number } = &*parcel;
    println!("begin {customer} {number}");
    if customer.is_empty() {
        parcel.fail("a parcel without a customer").await?; // dead at once: another attempt cannot help
        return Ok(());
    }
    if *number % 5 == 3 && parcel.attempt() == 1 {
        parcel.retry_after(Duration::from_millis(200), "the carrier is busy").await?;
        return Ok(());
    }
    for step in 1..=2 {
        sleep(STEP).await;
        parcel.progress(format!("step {step} of 2")); // shown by `bandog queue parcels` and the page
    }
    // The effect. The fence orders it: later deliveries of this customer have greater ones.
    sent.push(&(Parcel::clone(&parcel), parcel.fence().get())).await?;
    println!("sent {customer} {number}");
    Ok(()) // done; after an error the parcel comes again, at most five times
}
