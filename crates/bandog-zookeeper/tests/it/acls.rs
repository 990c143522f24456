//! Users, and the ACLs of nodes.

use bandog_core::{ErrorKind, Key, Records, Swap, Swapped};
use bandog_sync::Client;
use bandog_testkit::{ZooKeeperServer, eventually_async};
use bandog_zookeeper::{ZooKeeper, ZooKeeperOptions};
use zookeeper_client::Error;

use crate::{SOON, client, neighbour, nodes, soon, take};

const JOE: &str = "joe:secret";

/// A backend whose nodes belong to this user.
fn backend_of(login: &str, server: &ZooKeeperServer) -> ZooKeeper {
    let url = format!("zookeeper://{login}@{}/locks?acl=creator&session=20s", server.addr());
    ZooKeeper::new(ZooKeeperOptions::from_url(&url).unwrap())
}

fn client_of(login: &str, server: &ZooKeeperServer) -> Client {
    Client::options().over(backend_of(login, server)).unwrap()
}

/// A connection of another library, for this user.
async fn neighbour_of(login: &str, server: &ZooKeeperServer) -> zookeeper_client::Client {
    let connector = zookeeper_client::Client::connector().with_auth("digest", login.as_bytes());
    connector.connect(&server.addr().to_string()).await.unwrap()
}

/// The paths of a node and of all nodes in it.
async fn tree(client: &zookeeper_client::Client, root: &str) -> Vec<String> {
    let mut all = vec![root.to_owned()];
    let mut next = 0;
    while let Some(path) = all.get(next).cloned() {
        let children = client.list_children(&path).await.unwrap();
        all.extend(children.into_iter().map(|child| format!("{path}/{child}")));
        next += 1;
    }
    all
}

// Promise: Z26
#[tokio::test]
async fn with_acl_creator_all_nodes_belong_to_the_user() {
    let server = ZooKeeperServer::start();
    let (joe, backend) = (neighbour_of(JOE, &server).await, backend_of(JOE, &server));
    let (ours, same) = (Client::options().over(backend.clone()).unwrap(), client_of(JOE, &server));
    let guard = take(&ours, "orders").await;
    let writer = soon(ours.rwlock("catalogue").write()).await.unwrap();
    let reader = soon(writer.downgrade()).await.unwrap();
    let permits = soon(ours.semaphore("gpus", 3).permits(2).acquire()).await.unwrap();
    ours.semaphore("gpus", 3).set_limit(4).await.unwrap();
    let swap = Swap { notifies: true, ..Swap::new(Key::new("record").unwrap(), None, "text") };
    let swapped = backend.swap(&[swap]).await.unwrap().each.remove(0).unwrap();
    assert!(matches!(swapped, Swapped::Done(Some(_))), "{swapped:?}");

    let java = neighbour(&server).await;
    let all = tree(&joe, "/locks").await;
    assert!(all.len() > 15, "{all:?}");
    for path in all {
        // A stranger may not even read the ACL.
        assert_eq!(java.get_acl(&path).await.unwrap_err(), Error::NoAuth, "{path}");
    }
    assert!(same.mutex("orders").try_lock().await.unwrap().is_none());
    assert!(same.show("gpus").await.unwrap().is_held());
    for stranger in [client(server.addr()), client_of("joe:wrong", &server)] {
        let error = soon(stranger.mutex("orders").try_lock()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied);
        assert!(error.to_string().contains("user:password@"), "{error}");
        assert_eq!(soon(stranger.evict("orders")).await.unwrap_err().kind(), ErrorKind::Denied);
        assert_eq!(soon(stranger.semaphore("gpus", 4).try_acquire()).await.unwrap_err().kind(), ErrorKind::Denied);
    }
    for guard in [guard.into(), reader, permits] {
        guard.release().await.unwrap();
    }
    take(&same, "orders").await.release().await.unwrap();
}

/// The folders are open for all, and the nodes of one user are not.
// Promise: Z27
#[tokio::test]
async fn a_client_waits_behind_the_nodes_of_another_user() {
    let server = ZooKeeperServer::start();
    let (java, open, joe) = (neighbour(&server).await, client(server.addr()), client_of(JOE, &server));
    take(&open, "orders").await.release().await.unwrap();
    soon(open.semaphore("gpus", 1).acquire()).await.unwrap().release().await.unwrap();
    let (guard, permit) = (take(&joe, "orders").await, soon(joe.semaphore("gpus", 1).acquire()).await.unwrap());
    assert!(open.mutex("orders").try_lock().await.unwrap().is_none());
    assert!(open.semaphore("gpus", 1).try_acquire().await.unwrap().is_none());
    // The holder is shown by the name of its node.
    for name in ["orders", "gpus"] {
        let row = open.show(name).await.unwrap();
        assert!(row.owner().unwrap().starts_with("_c_") && row.client().is_none(), "{row:?}");
    }
    let (mutex, semaphore) = (open.mutex("orders"), open.semaphore("gpus", 1));
    let (lock, acquire) =
        (tokio::spawn(async move { mutex.lock().await }), tokio::spawn(async move { semaphore.acquire().await }));
    eventually_async(SOON, async || {
        nodes(&java, "orders").await.len() == 2 && nodes(&java, "gpus/locks").await.len() == 1
    })
    .await;
    guard.release().await.unwrap();
    permit.release().await.unwrap();
    soon(lock).await.unwrap().unwrap().release().await.unwrap();
    soon(acquire).await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn the_password_in_a_file_is_read_for_each_session() {
    let server = ZooKeeperServer::start();
    let file = std::env::temp_dir().join(format!("bandog-zookeeper-password-{}", std::process::id()));
    let url =
        format!("zookeeper://joe@{}/locks?acl=creator&session=20s&password_file={}", server.addr(), file.display());
    let client = || Client::options().over(ZooKeeper::new(ZooKeeperOptions::from_url(&url).unwrap())).unwrap();
    let missing = client().mutex("orders").try_lock().await.unwrap_err();
    assert!(format!("{missing:#} {missing:?}").contains(file.to_str().unwrap()), "{missing:?}");
    let held = take(&client_of(JOE, &server), "orders").await;
    std::fs::write(&file, "wrong\n").unwrap();
    let refused = eventually_async(SOON, async || match client().mutex("orders").try_lock().await {
        Err(error) if error.kind() == ErrorKind::Denied => Ok(()),
        other => Err(format!("{other:?}")),
    });
    refused.await;
    std::fs::write(&file, "secret\n").unwrap();
    let joe = client();
    let busy = eventually_async(SOON, async || match joe.mutex("orders").try_lock().await {
        Ok(None) => Ok(()),
        other => Err(format!("{other:?}")),
    });
    busy.await;
    held.release().await.unwrap();
    take(&joe, "orders").await.release().await.unwrap();
    std::fs::remove_file(&file).unwrap();
}
