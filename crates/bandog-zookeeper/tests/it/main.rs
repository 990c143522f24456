//! Tests of the ZooKeeper backend with a real server: bad days, and Curator's nodes.

#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod acls;
mod batches;
mod crowds;
mod days;
mod elections;
mod ensemble;
mod handoffs;
mod neighbours;
mod outages;
mod records;
mod refused;
mod requests;
mod semaphores;

use std::{fmt::Display, time::Duration};

use bandog_sync::{Client, Guard};
use bandog_testkit::{ZooKeeperServer, eventually_async};
use bandog_zookeeper::{ZooKeeper, ZooKeeperOptions};
use zookeeper_client::{Acls, CreateMode};

/// Timeout for expected events. A test reaches it only if it fails.
const SOON: Duration = Duration::from_secs(40);
/// The duration of sessions in tests that wait until a session expires. It is long enough that no session expires because
/// the machine is busy.
const SESSION: Duration = Duration::from_secs(4);
/// The longest session that the servers of the tests give. It lasts for longer than [`SOON`].
const LONG_SESSION: Duration = Duration::from_secs(60);

/// A client with a session of its own, which lasts for long.
fn client(addr: impl Display) -> Client {
    client_for(Duration::from_secs(20), addr)
}

/// A client with a session of this duration.
fn client_for(session: Duration, addr: impl Display) -> Client {
    Client::options().over(backend_for(session, addr)).unwrap()
}

/// A backend with a session of its own, which lasts for long.
fn backend(addr: impl Display) -> ZooKeeper {
    backend_for(Duration::from_secs(20), addr)
}

fn backend_for(session: Duration, addr: impl Display) -> ZooKeeper {
    let url = format!("zookeeper://{addr}/locks?session={}ms", session.as_millis());
    ZooKeeper::new(ZooKeeperOptions::from_url(&url).unwrap().timeout(Duration::from_secs(2)))
}

/// A connection of another library.
async fn neighbour(server: &ZooKeeperServer) -> zookeeper_client::Client {
    zookeeper_client::Client::connect(&server.addr().to_string()).await.unwrap()
}

/// Awaits an event that must come.
async fn soon<T>(event: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, event).await.expect("an expected event did not come")
}

/// Takes a free lock. On a loaded machine, the first connection to a new server can take longer than a call.
async fn take(client: &Client, name: &str) -> Guard {
    eventually_async(SOON, async || match client.mutex(name).try_lock().await {
        Ok(Some(guard)) => Ok(guard),
        Ok(None) => Err("the lock is not free".to_owned()),
        Err(error) => Err(error.to_string()),
    })
    .await
}

/// Waits until a client has a connection.
async fn connected(client: &Client) {
    eventually_async(SOON, async || client.show("another").await.map(drop).map_err(|error| error.to_string())).await;
}

/// The nodes of a lock. Empty if the folder does not exist.
async fn nodes(neighbour: &zookeeper_client::Client, name: &str) -> Vec<String> {
    neighbour.list_children(&format!("/locks/{name}")).await.unwrap_or_default()
}

/// Number of nodes of this folder that are places of waiting clients. Before, a refused claim has a node for a moment.
async fn places(neighbour: &zookeeper_client::Client, name: &str) -> usize {
    let mut places = 0;
    for node in nodes(neighbour, name).await {
        let read = neighbour.get_data(&format!("/locks/{name}/{node}")).await;
        places += usize::from(read.is_ok_and(|(data, _)| data.ends_with(b" waits")));
    }
    places
}

/// Creates the folder of a lock, as Curator does.
async fn make_folder(neighbour: &zookeeper_client::Client, name: &str) {
    let options = CreateMode::Container.with_acls(Acls::anyone_all());
    neighbour.mkdir(&format!("/locks/{name}"), &options).await.unwrap();
}
