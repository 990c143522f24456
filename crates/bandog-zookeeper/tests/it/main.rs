//! Tests of the ZooKeeper backend with a real server: bad days, and Curator's nodes.

#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod days;
mod ensemble;
mod neighbours;
mod outages;
mod records;
mod requests;

use std::{fmt::Display, time::Duration};

use bandog_sync::{Client, Guard};
use bandog_testkit::ZooKeeperServer;
use bandog_zookeeper::{ZooKeeper, ZooKeeperOptions};
use zookeeper_client::{Acls, CreateMode};

/// Timeout for expected events. A test reaches it only if it fails.
const SOON: Duration = Duration::from_secs(40);
/// The duration of sessions in tests that wait until a session expires. It is long enough that no session expires because
/// the machine is busy.
const SESSION: Duration = Duration::from_secs(4);

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

/// Takes a free lock.
async fn take(client: &Client, name: &str) -> Guard {
    client.mutex(name).try_lock().await.unwrap().expect("the lock is free")
}

/// The nodes of a lock. Empty if the folder does not exist.
async fn nodes(neighbour: &zookeeper_client::Client, name: &str) -> Vec<String> {
    neighbour.list_children(&format!("/locks/{name}")).await.unwrap_or_default()
}

/// Creates the folder of a lock, as Curator does.
async fn make_folder(neighbour: &zookeeper_client::Client, name: &str) {
    let options = CreateMode::Container.with_acls(Acls::anyone_all());
    neighbour.mkdir(&format!("/locks/{name}"), &options).await.unwrap();
}
