//! The check at the end of a run: a new client must be able to take and release each lock, and to use each latch, each
//! barrier and each election.

use std::time::Duration;

use bandog::{Client, Guard, Result, SharedHold};
use tokio::{task::JoinSet, time::timeout};

use crate::plan::{BARRIERS, ELECTIONS, Kind, LATCHES, LIMIT, LONG_TTL, NAMES, PLACE, RECHECK, SLACK, name, parties};

/// Maximum time until a name is free whose last user was killed.
const WAIT: Duration = LONG_TTL.saturating_add(RECHECK).saturating_add(SLACK);

/// Locks and releases each name. Returns a message for each name that cannot be locked or released.
///
/// The client takes the whole lock: a read-write lock as a writer, and all permits of a semaphore. It does so a second time
/// when the places of killed waiters have expired, because a store removes an expired place with the next step for the
/// name, and a writer does not wait for the places of other writers.
pub(crate) async fn sweep(client: &Client, kinds: &[Kind]) -> Vec<String> {
    let mut stuck = lock_each(client, kinds).await;
    for (kind, names) in [(Kind::Latch, LATCHES), (Kind::Barrier, BARRIERS), (Kind::Election, ELECTIONS)] {
        for number in names.filter(|_| kinds.contains(&kind)) {
            let problem = match kind {
                Kind::Latch => use_latch(client, number).await,
                Kind::Barrier => use_barrier(client, number).await,
                _ => use_election(client, number).await,
            };
            let name = format!("{} {}", crate::settings::name(&kind), name(number));
            match problem {
                Ok(None) => {}
                Ok(Some(problem)) => stuck.push(format!("{name}: {problem}")),
                Err(error) => stuck.push(format!("{name} cannot be used: {error}")),
            }
        }
    }
    if kinds.iter().any(|kind| kind.is_lock() && *kind != Kind::Mutex) {
        tokio::time::sleep(PLACE).await;
        stuck.extend(lock_each(client, kinds).await);
    }
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
async fn take(client: &Client, name: &str, kind: Kind) -> Result<Option<Guard<SharedHold>>> {
    let wait = WAIT;
    match kind {
        Kind::Mutex | Kind::All | Kind::Latch | Kind::Barrier | Kind::Election => {
            Ok(client.mutex(name).try_lock_for(wait).await?.map(Guard::into))
        }
        // A killed waiter might still have a place in the queue of these locks.
        Kind::Fair => Ok(client.mutex(name).fair().try_lock_for(wait + PLACE).await?.map(Guard::into)),
        Kind::ReadWrite => Ok(client.rwlock(name).try_write_for(wait + PLACE).await?.map(Guard::from)),
        Kind::Semaphore => {
            let semaphore = client.semaphore(name, LIMIT).permits(LIMIT);
            semaphore.set_limit(LIMIT).await?;
            semaphore.try_acquire_for(wait + PLACE).await
        }
    }
}

/// Deletes the latch, sets it again, and opens it. Returns a problem.
async fn use_latch(client: &Client, number: usize) -> Result<Option<String>> {
    let latch = client.latch(name(number));
    latch.delete().await?;
    let is_set = latch.set(1).await?;
    let count = latch.count_down().await?;
    let is_open = latch.wait_for(WAIT).await?;
    let is_well = is_set && count == 0 && is_open;
    Ok((!is_well)
        .then(|| format!("it was set: {is_set}; the count after a count-down: {count}; it is open: {is_open}")))
}

/// Opens the barrier, and locks the mutexes of its parties, because a store keeps an expired hold until the next step for
/// its name. Returns a problem.
async fn use_barrier(client: &Client, number: usize) -> Result<Option<String>> {
    let mut calls = JoinSet::new();
    for _ in 0..parties(number) {
        let barrier = client.barrier(name(number), parties(number));
        calls.spawn(async move { barrier.wait().await });
    }
    let Ok(arrivals) = timeout(WAIT, calls.join_all()).await else {
        return Ok(Some("enough parties wait, but it does not open".into()));
    };
    let arrivals = arrivals.into_iter().collect::<Result<Vec<_>>>()?;
    // A party takes one of twice as many mutexes as the barrier has parties, and of some more if they are in use.
    for mutex in 0..parties(number) * 4 {
        let mutex = client.mutex(format!("barrier/{}/{mutex}", name(number)));
        let Some(guard) = mutex.try_lock_for(WAIT).await? else {
            return Ok(Some("a party that has ended holds its mutex".into()));
        };
        guard.release().await?;
    }
    let leaders = arrivals.iter().filter(|arrival| arrival.is_leader()).count();
    Ok((leaders != 1).then(|| format!("it has opened with {leaders} leaders")))
}

/// Becomes the leader, and resigns. Returns a problem.
async fn use_election(client: &Client, number: usize) -> Result<Option<String>> {
    let election = client.election(name(number));
    let Ok(leadership) = timeout(WAIT, election.campaign()).await else {
        return Ok(Some("no candidate is running, but a new candidate does not become the leader".into()));
    };
    let leadership = leadership?;
    let fence = leadership.fence();
    let reported = election.leader().await?.map(|leader| leader.fence());
    leadership.resign().await?;
    let after = election.leader().await?.map(|leader| leader.fence());
    let is_well = reported == Some(fence) && after.is_none();
    Ok((!is_well).then(|| format!("the leader {fence} was reported as {reported:?}, and after its end as {after:?}")))
}
