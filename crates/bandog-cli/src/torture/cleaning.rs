//! Removes the names from the store at the end.

use std::time::Duration;

use bandog::{Client, ConnectOptions, Error, ErrorKind, Result};
use futures_util::future::join_all;
use tokio::time::{Instant, sleep};

use super::plan::Plan;
use crate::store::Store;

/// Interval between two attempts.
const INTERVAL: Duration = Duration::from_millis(100);
/// If the store does not answer for this time, the names stay behind.
const OUT_OF_REACH: Duration = Duration::from_secs(10);
/// A hold may be free this time after its ttl, because the permits of a semaphore stay in Redis a little longer.
const MARGIN: Duration = Duration::from_secs(10);

/// Number of names that are removed at the same time.
pub(super) const TOGETHER: usize = 32;

/// The names that are left in the store.
#[derive(Debug, Default)]
pub(super) struct Cleaning {
    /// The names whose locks are still held, although all workers have released them and their ttl is over.
    pub(super) held: Vec<String>,
    /// The names that could not be removed, and the reason.
    pub(super) not_removed: Option<(Vec<String>, Error)>,
}

impl Cleaning {
    /// Waits until no name is held, for its ttl at most, and removes all names.
    pub(super) async fn of(store: &Store, options: ConnectOptions, plan: &Plan) -> Self {
        let names = plan.names.iter().map(|name| name.text.clone()).collect();
        let patience = patience(&options, plan.lease);
        Self::of_names(store, options, patience, names).await
    }

    /// Waits for `patience` at most until none of these names is held, and removes them.
    pub(super) async fn of_names(
        store: &Store,
        options: ConnectOptions,
        patience: Duration,
        names: Vec<String>,
    ) -> Self {
        let deadline = Instant::now() + patience;
        let client = match store.client(options) {
            Ok(client) => client,
            Err(fault) => {
                return Self { not_removed: Some((names, Error::unavailable(fault.in_short()))), ..Self::default() };
            }
        };
        let cleaning = remove(async |name| client.forget(name).await, names, deadline).await;
        close(&client).await;
        cleaning
    }

    /// The names that stay in the store.
    pub(super) fn left_behind(&self) -> Vec<&str> {
        let not_removed = self.not_removed.iter().flat_map(|(names, _)| names);
        self.held.iter().chain(not_removed).map(String::as_str).collect()
    }
}

/// The time after which no lock of a client that has ended is held. `lease` is the lease of its locks.
pub(super) fn patience(options: &ConnectOptions, lease: Option<Duration>) -> Duration {
    lease.unwrap_or(options.get_watchdog()) + MARGIN
}

/// Removes these names with `forget`, which returns false for a name that is held. A name that is held is tried again until
/// the deadline. A name for which the store does not answer is tried again until the store has answered for no name for
/// some time.
async fn remove(forget: impl AsyncFn(&str) -> Result<bool>, mut names: Vec<String>, deadline: Instant) -> Cleaning {
    let (mut answered, mut held) = (Instant::now(), Vec::new());
    loop {
        let (mut busy, mut failed) = (Vec::new(), Vec::new());
        let mut fault = None;
        for part in names.chunks(TOGETHER) {
            if fault.is_some() && answered.elapsed() >= OUT_OF_REACH {
                failed.extend_from_slice(part);
                continue;
            }
            for (name, removed) in part.iter().zip(join_all(part.iter().map(|name| forget(name))).await) {
                match removed {
                    Ok(true) => answered = Instant::now(),
                    Ok(false) => {
                        answered = Instant::now();
                        busy.push(name.clone());
                    }
                    Err(error) => {
                        failed.push(name.clone());
                        fault = Some(error);
                    }
                }
            }
        }
        if Instant::now() > deadline {
            // So only names without an answer are left, and each answer makes them fewer.
            held.append(&mut busy);
        }
        match fault {
            Some(error) if error.kind() != ErrorKind::Unavailable || answered.elapsed() >= OUT_OF_REACH => {
                held.append(&mut busy);
                return Cleaning { held, not_removed: Some((failed, error)) };
            }
            None if busy.is_empty() => return Cleaning { held, not_removed: None },
            Some(_) | None => names = [busy, failed].concat(),
        }
        sleep(INTERVAL).await;
    }
}

/// Closes a client. An error means that it has ended already.
pub(super) async fn close(client: &Client) {
    let _ = client.close().await;
}

#[cfg(test)]
mod tests;
