//! Faults of real processes and servers, for locks that are not mutexes.

use std::time::Duration;

use bandog_core::{Backend, Error, Kind, PLACE, Row};
use bandog_testkit::eventually_async;

use super::processes::stop_between_requests;
use crate::{
    Law, World,
    child::Child,
    kind_kit::{needs, permits},
    kit::{MAX_WAIT, NAME, nothing_left, until, within},
    wrap::Counting,
};

/// The ttl of a hold of a child that is killed. Before that, the child must renew it, also on a loaded machine.
const TTL: Duration = Duration::from_secs(2);

/// The ttl of a hold that must not expire, also on a machine on which the child does not run for seconds.
const LONG_TTL: Duration = MAX_WAIT;

/// Waits until this is true of the lock's row.
async fn until_row(backend: &impl Backend, fact: impl Fn(&Row) -> bool) {
    let key = bandog_core::Key::new(NAME).expect("the name is valid");
    eventually_async(MAX_WAIT, async || match backend.show(&key).await {
        Ok(row) if fact(&row) => Ok(()),
        row => Err(format!("{row:?}")),
    })
    .await;
}

/// Law 24, for a process that was stopped: when the first call in the queue of a fair mutex belongs to a stopped process,
/// the next call gets the lock after the place has expired. When the process continues, its call is not granted before
/// that lock is released.
// Promise: K2
pub async fn stopped_head_of_the_queue<W: World>(world: &W) -> Law {
    let (client, backend) = (world.client(), world.backend());
    needs(&backend, &[Kind::Fair])?;
    let mut child = Child::start(world, LONG_TTL)?;
    let holder = client.mutex(NAME).fair().lock().await?;
    child.send("fair");
    until_row(&backend, |row| row.queue.len() == 1).await;
    let theirs = world.client();
    let next = theirs.mutex(NAME).fair();
    let next = tokio::spawn(async move { next.lock().await });
    until_row(&backend, |row| row.queue.len() == 2).await;
    stop_between_requests(&mut child, &client, &backend, Kind::Fair).await;
    // A request that the child has sent before the stop can still delay the release. Then the engine repeats it.
    holder.release().await.or_else(|error| if error.is_retryable() { Ok(()) } else { Err(error) })?;
    // The place expires, and then the next call finds this by a poll.
    let limit = PLACE + Duration::from_secs(2) + world.slack();
    let guard = within(limit, "the call behind a stopped process", next).await.expect("the task does not panic")?;
    child.go_on();
    until_row(&backend, |row| row.queue.len() == 1).await;
    assert!(!child.has_said("locked") && !guard.is_lost(), "two holders");
    let fence = guard.fence().get();
    guard.release().await?;
    let later: u64 = child.says("locked").parse().expect("the fence is not a number");
    assert!(later > fence, "{later} is not greater than {fence}");
    child.send("check");
    assert_eq!(child.says("checked"), "held");
    child.send("release");
    child.says("released");
    nothing_left(world, &[&client, &theirs]).await;
    Ok(())
}

/// Law 66, for a process that was killed: the hold of a killed reader expires alone. The other readers keep their holds,
/// and a writer gets the lock after they have ended.
// Promise: K7
pub async fn killed_reader_among_readers<W: World>(world: &W) -> Law {
    let (ours, theirs, backend) = (world.client(), world.client(), world.backend());
    needs(&backend, &[Kind::Read, Kind::Write])?;
    let (mut dead, mut alive) = (Child::start(world, TTL)?, Child::start(world, LONG_TTL)?);
    for child in [&mut dead, &mut alive] {
        child.send("read");
        child.says("locked");
    }
    let reader = ours.rwlock(NAME).read().await?;
    until_row(&backend, |row| row.holders.len() == 3).await;
    let writing = theirs.rwlock(NAME);
    let writing = tokio::spawn(async move { writing.write().await });
    dead.kill();
    until_row(&backend, |row| row.holders.len() == 2).await;
    alive.send("check");
    assert_eq!(alive.says("checked"), "held");
    assert!(!reader.is_lost() && !writing.is_finished());
    alive.send("release");
    alive.says("released");
    until_row(&backend, |row| row.holders.len() == 1).await;
    assert!(!reader.is_lost() && !writing.is_finished());
    let fence = reader.fence();
    reader.release().await?;
    let writer = within(MAX_WAIT, "a writer after all readers", writing).await.expect("the task does not panic")?;
    assert!(writer.fence() > fence);
    writer.release().await?;
    nothing_left(world, &[&ours, &theirs]).await;
    Ok(())
}

/// Law 71, for a process that was killed: its permits return after its ttl, and the permits of others stay.
// Promise: K9
pub async fn killed_holder_of_permits<W: World>(world: &W) -> Law {
    let (ours, theirs, backend) = (world.client(), world.client(), world.backend());
    needs(&backend, &[permits(1, 1)])?;
    let mut child = Child::start(world, TTL)?;
    child.send("permits 2 3");
    child.says("locked");
    let guard = ours.semaphore(NAME, 3).acquire().await?;
    assert!(theirs.semaphore(NAME, 3).try_acquire().await?.is_none());
    let waiting = theirs.semaphore(NAME, 3).permits(2);
    let waiting = tokio::spawn(async move { waiting.acquire().await });
    child.kill();
    let next = within(MAX_WAIT, "the permits of a killed process", waiting).await.expect("the task does not panic")?;
    assert!(!guard.is_lost());
    assert!(ours.semaphore(NAME, 3).try_acquire().await?.is_none(), "too many permits");
    next.release().await?;
    guard.release().await?;
    nothing_left(world, &[&ours, &theirs]).await;
    Ok(())
}

/// Law 83, for a downgrade: if the server's answer is lost, the downgrade is repeated. The client holds the lock once,
/// as a reader.
// Promise: K6, K16
pub async fn downgrade_without_an_answer<W: World>(world: &W) -> Law {
    let counts = Counting::new(world.backend());
    let (ours, theirs, backend) = (world.over(counts.clone()), world.client(), world.backend());
    needs(&backend, &[Kind::Read, Kind::Write])?;
    let writer = ours.rwlock(NAME).write().await?;
    let (fence, passes) = (writer.fence(), counts.passes());
    world.lose_answers(true).await?;
    let downgrade = tokio::spawn(writer.downgrade());
    // The request was sent and then sent again, so no answer has arrived.
    until(|| counts.passes() >= passes + 2).await;
    assert!(!downgrade.is_finished());
    world.lose_answers(false).await?;
    let reader = within(MAX_WAIT, "the downgrade", downgrade).await.expect("the task does not panic")?;
    assert!(reader.fence() > fence && !reader.is_lost());
    until_row(&backend, |row| row.holders.len() == 1 && row.holders[0].kind == Some(Kind::Read)).await;
    assert!(theirs.rwlock(NAME).try_write().await?.is_none());
    let other = theirs.rwlock(NAME).try_read().await?.expect("a reader gets the lock beside a reader");
    other.release().await?;
    reader.release().await?;
    theirs.rwlock(NAME).try_write().await?.expect("the lock is free").release().await?;
    nothing_left(world, &[&ours, &theirs]).await;
    Ok(())
}

/// Law 84, for permits: if the answer of a release is lost and then the connection breaks, the permits are returned
/// once.
// Promise: K13
pub async fn release_of_permits_without_an_answer<W: World>(world: &W) -> Law {
    const LIMIT: u32 = 3;
    let counts = Counting::new(world.backend());
    let (ours, theirs) = (world.over(counts.clone()), world.client());
    needs(&world.backend(), &[permits(1, 1)])?;
    let (semaphore, same) = (ours.semaphore(NAME, LIMIT), theirs.semaphore(NAME, LIMIT));
    for permits in [1, 2] {
        let guard = semaphore.clone().permits(permits).acquire().await?;
        let releases = counts.releases();
        world.lose_answers(true).await?;
        let release = tokio::spawn(guard.release());
        until(|| counts.releases() >= releases + 2).await;
        world.cut().await?;
        world.lose_answers(false).await?;
        // The caller gets an error or a success. In both cases, the engine repeats the release until it is answered.
        let answer: Result<(), Error> =
            within(MAX_WAIT, "the release", release).await.expect("the task does not panic");
        assert!(answer.as_ref().map_or_else(Error::maybe_applied, |()| true), "{answer:?}");
        within(MAX_WAIT, "the repeated release", ours.idle()).await;
        let all = eventually_async(MAX_WAIT, async || same.clone().permits(LIMIT).try_acquire().await).await;
        let all = all.expect("all permits are free");
        assert!(semaphore.try_acquire().await?.is_none(), "a permit was returned twice");
        all.release().await?;
    }
    nothing_left(world, &[&ours, &theirs]).await;
    Ok(())
}
