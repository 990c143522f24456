//! The nodes of records: their folders, and their notices.

use std::{fs, path::Path, sync::Arc};

use bandog_core::{Key, Notifier, Records, Swap, Swapped, Version};
use bandog_testkit::ZooKeeperServer;
use tokio::sync::Notify;

use crate::{backend, neighbour, soon};

/// The type of a transaction that creates a container, in the log of the server.
const CREATE_CONTAINER: u32 = 19;

async fn swap(records: &impl Records, swap: Swap) -> Option<Version> {
    match records.swap(&[swap]).await.unwrap().each.remove(0).unwrap() {
        Swapped::Done(version) => version,
        other => panic!("{other:?}"),
    }
}

fn notifying(from: Option<Version>, to: Option<&str>) -> Swap {
    Swap { notifies: true, to: to.map(str::to_owned), ..Swap::new(Key::new("orders").unwrap(), from, "") }
}

// Promise: Z21
#[tokio::test]
async fn swaps_notify_after_the_folder_of_the_notices_was_deleted() {
    let server = ZooKeeperServer::start();
    let (ours, java) = (backend(server.addr()), neighbour(&server).await);
    let first = swap(&ours, notifying(None, Some("one"))).await;
    java.delete("/locks/%bandog/notices/orders", None).await.unwrap();
    java.delete("/locks/%bandog/notices", None).await.unwrap();
    let notified = Arc::new(Notify::new());
    let notify = Arc::clone(&notified);
    let _subscription =
        ours.subscribe_record(&Key::new("orders").unwrap(), Notifier::new(move || notify.notify_one())).await.unwrap();
    assert!(swap(&ours, notifying(first, Some("two"))).await > first);
    soon(notified.notified()).await;
}

// Promise: Z21
#[tokio::test]
async fn a_deleted_record_leaves_no_notice_and_notifies() {
    let server = ZooKeeperServer::start();
    let (ours, java) = (backend(server.addr()), neighbour(&server).await);
    let notified = Arc::new(Notify::new());
    let notify = Arc::clone(&notified);
    let key = Key::new("orders").unwrap();
    let _subscription = ours.subscribe_record(&key, Notifier::new(move || notify.notify_one())).await.unwrap();
    let notices = async || java.list_children("/locks/%bandog/notices").await.unwrap_or_default();
    for has_notice in [true, false] {
        let version = swap(&ours, Swap { notifies: has_notice, ..notifying(None, Some("one")) }).await;
        assert_eq!(notices().await.len(), usize::from(has_notice));
        if has_notice {
            soon(notified.notified()).await;
        }
        assert_eq!(swap(&ours, notifying(version, None)).await, None);
        soon(notified.notified()).await;
        assert!(notices().await.is_empty());
    }
    // A deletion that does not notify leaves no notice either.
    let version = swap(&ours, notifying(None, Some("one"))).await;
    swap(&ours, Swap { notifies: false, ..notifying(version, None) }).await;
    assert!(notices().await.is_empty());
}

/// A client cannot ask whether a node is a container. The server's log of transactions shows it.
// Promise: Z21
#[tokio::test]
async fn the_folder_with_the_greatest_deleted_version_is_not_deleted_when_it_is_empty() {
    let server = ZooKeeperServer::start();
    let ours = backend(server.addr());
    let first = swap(&ours, notifying(None, Some("one"))).await;
    swap(&ours, notifying(first, None)).await;
    assert!(swap(&ours, notifying(None, Some("two"))).await > first);
    let notices = types(&server.data(), "/locks/%bandog/notices");
    assert!(notices.contains(&CREATE_CONTAINER), "{notices:?}");
    let records = types(&server.data(), "/locks/%bandog/records");
    assert!(!records.is_empty() && !records.contains(&CREATE_CONTAINER), "{records:?}");
}

/// The types of the transactions that begin with this path, in the log of the server.
fn types(data: &Path, path: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for file in fs::read_dir(data.join("version-2")).unwrap() {
        let file = file.unwrap();
        if !file.file_name().to_string_lossy().starts_with("log.") {
            continue;
        }
        let bytes = fs::read(file.path()).unwrap();
        // The type of the transaction, the length of the path, and the path: two numbers of four bytes.
        let text = [u32::try_from(path.len()).unwrap().to_be_bytes().as_slice(), path.as_bytes()].concat();
        for at in 4..bytes.len().saturating_sub(text.len()) {
            if bytes[at..].starts_with(&text) {
                found.push(u32::from_be_bytes(bytes[at - 4..at].try_into().unwrap()));
            }
        }
    }
    found
}
