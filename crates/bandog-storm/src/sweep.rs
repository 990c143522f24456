//! The check at the end of a run: a new client must be able to take and release each lock.

use bandog::Client;

use crate::plan::{NAMES, RECHECK, SLACK, TTL, name};

/// Locks and releases each name. Returns a message for each name that cannot be locked or released.
pub(crate) async fn sweep(client: &Client) -> Vec<String> {
    let mut stuck = Vec::new();
    for number in 0..NAMES {
        let name = name(number);
        match client.mutex(&name).try_lock_for(TTL + RECHECK + SLACK).await {
            Ok(Some(guard)) => {
                if let Err(error) = guard.release().await {
                    stuck.push(format!("{name} cannot be released: {error}"));
                }
            }
            Ok(None) => stuck.push(format!("{name} is held by a client that has ended")),
            Err(error) => stuck.push(format!("{name} cannot be locked: {error}")),
        }
    }
    client.idle().await;
    // An error means that the client has ended already.
    let _ = client.close().await;
    stuck
}
