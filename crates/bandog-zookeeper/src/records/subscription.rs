//! Notifications of swaps. Each record has a node beside it that a notifying swap writes.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use bandog_core::{Key, Notifier, Result, Subscription};
use tokio::{select, sync::oneshot, time::sleep};
use zookeeper_client::OneshotWatcher;

use crate::host::Shared;

/// Delay before a watch that could not be set is set again.
const RETRY: Duration = Duration::from_millis(200);

/// Sets the first watch, and notifies in the background from then on.
pub(super) async fn begin(shared: &Arc<Shared>, key: &Key, notifier: Notifier) -> Result<Subscription> {
    let path = shared.notice_path(key);
    let watcher = watch(shared, &path).await?;
    let (stop, stopped) = oneshot::channel::<()>();
    let weak = shared.weak.clone();
    tokio::spawn(async move {
        select! {
            _ = stopped => {}
            () = notify_of_changes(weak, path, watcher, notifier) => {}
        }
    });
    Ok(Subscription::new(move || drop(stop)))
}

async fn watch(shared: &Arc<Shared>, path: &str) -> Result<OneshotWatcher> {
    let deadline = shared.deadline();
    let session = shared.session(deadline).await?;
    let (_, watcher) = shared
        .answered(deadline, async {
            session.client.check_and_watch_stat(path).await.map_err(|error| shared.fault(error))
        })
        .await?;
    Ok(watcher)
}

/// Notifies after each change of the node. Ends when the backend is dropped.
async fn notify_of_changes(shared: Weak<Shared>, path: String, mut watcher: OneshotWatcher, notifier: Notifier) {
    loop {
        // The watch also ends when its session does.
        watcher.changed().await;
        // The next watch is set before the notification, so that no change is lost between the two.
        watcher = loop {
            let Some(shared) = shared.upgrade() else { return };
            match watch(&shared, &path).await {
                Ok(watcher) => break watcher,
                Err(_) => {
                    drop(shared);
                    sleep(RETRY).await;
                }
            }
        };
        notifier.notify();
    }
}
