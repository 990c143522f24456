//! A service whose replicas elect a leader on ZooKeeper. Only the leader works, until it has lost the leadership.

use std::{convert::Infallible, env, time::Duration};

use bandog::{Client, ErrorKind, Leadership};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::sleep,
};

/// Interval between two steps of the work.
const INTERVAL: Duration = Duration::from_millis(100);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init(); // prints what bandog logs
    let url = env::var("ZOOKEEPER_URL").unwrap_or_else(|_| "zookeeper://localhost/example?session=5s".to_owned());
    let name = env::args().nth(1).ok_or("usage: bandog-example-zookeeper-leader NAME")?;
    let client = bandog::connect(url).await?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        Err(error) = serve(&client, &name) => return Err(error.into()),
        _ = terminate.recv() => {} // drops the work, and then the leadership
    }
    client.close().await?; // another replica leads at once
    println!("{name} has ended");
    Ok(())
}

/// Leads whenever it is elected.
async fn serve(client: &Client, name: &str) -> bandog::Result<Infallible> {
    let election = client.election("billing").candidate(name);
    loop {
        println!("{name} is a candidate");
        match election.run(async |leadership| work(name, leadership).await).await {
            Ok(never) => match never {},
            // The work was dropped before another replica could become the leader.
            Err(error) if error.kind() == ErrorKind::Lost => println!("{name} has lost the leadership"),
            Err(error) => return Err(error),
        }
    }
}

/// The work of the leader. Its future is dropped when the leadership is lost, so it must not block its thread.
async fn work(name: &str, leadership: &Leadership) -> Infallible {
    loop {
        // Send the fence with each write: a process can be stopped between its last check and the write.
        println!("{name} works under fence {}", leadership.fence());
        sleep(INTERVAL).await;
    }
}
