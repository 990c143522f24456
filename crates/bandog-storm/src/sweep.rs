//! The check at the end of a run: a new client must be able to take and release each lock.

use bandog::{Client, Guard, Result};

use crate::plan::{Kind, LIMIT, NAMES, PLACE, RECHECK, SLACK, TTL, name};

/// Locks and releases each name. Returns a message for each name that cannot be locked or released.
///
/// The client takes the whole lock: a read-write lock as a writer, and all permits of a semaphore. It does so a second time
/// when the places of killed waiters have expired, because a store removes an expired place with the next step for the
/// name, and a writer does not wait for the places of other writers.
pub(crate) async fn sweep(client: &Client, kinds: &[Kind]) -> Vec<String> {
    let mut stuck = lock_each(client, kinds).await;
    if kinds.iter().any(|kind| !matches!(kind, Kind::Mutex)) {
        tokio::time::sleep(PLACE).await;
        stuck.extend(lock_each(client, kinds).await);
    }
    client.idle().await;
    // An error means that the client has ended already.
    let _ = client.close().await;
    stuck
}

async fn lock_each(client: &Client, kinds: &[Kind]) -> Vec<String> {
    let mut stuck = Vec::new();
    for number in 0..NAMES {
        let name = name(number);
        match take(client, &name, Kind::of_name(number, kinds)).await {
            Ok(Some(guard)) => {
                if let Err(error) = guard.release().await {
                    stuck.push(format!("{name} cannot be released: {error}"));
                }
            }
            Ok(None) => stuck.push(format!("{name} is held by a client that has ended")),
            Err(error) => stuck.push(format!("{name} cannot be locked: {error}")),
        }
    }
    stuck
}

/// Takes the whole lock.
async fn take(client: &Client, name: &str, kind: Kind) -> Result<Option<Guard>> {
    let wait = TTL + RECHECK + SLACK;
    match kind {
        Kind::Mutex | Kind::All => client.mutex(name).try_lock_for(wait).await,
        // A killed waiter might still have a place in the queue of these locks.
        Kind::Fair => client.mutex(name).fair().try_lock_for(wait + PLACE).await,
        Kind::ReadWrite => Ok(client.rwlock(name).try_write_for(wait + PLACE).await?.map(Guard::from)),
        Kind::Semaphore => {
            let semaphore = client.semaphore(name, LIMIT).permits(LIMIT);
            semaphore.set_limit(LIMIT).await?;
            semaphore.try_acquire_for(wait + PLACE).await
        }
    }
}
