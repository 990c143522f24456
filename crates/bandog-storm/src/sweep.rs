//! The end of a run: every lock can be had, by somebody new, and is given back.

use bandog::Client;

use crate::plan::{NAMES, RECHECK, SLACK, TTL, name};

/// The names that cannot be had, with the reason.
pub(crate) async fn sweep(client: &Client) -> Vec<String> {
    let mut stuck = Vec::new();
    for number in 0..NAMES {
        let name = name(number);
        match client.mutex(&name).try_lock_for(TTL + RECHECK + SLACK).await {
            Ok(Some(guard)) => {
                if let Err(error) = guard.release().await {
                    stuck.push(format!("{name} cannot be given back: {error}"));
                }
            }
            Ok(None) => stuck.push(format!("{name} is held by somebody who has gone")),
            Err(error) => stuck.push(format!("{name} cannot be had: {error}")),
        }
    }
    client.idle().await;
    // A client that has ended is closed too.
    let _ = client.close().await;
    stuck
}
