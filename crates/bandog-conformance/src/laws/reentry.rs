//! Re-entry: an owner that holds a lock can lock it again, and then has several guards.

use bandog_core::ErrorKind;

use crate::{
    Law, World,
    kit::{MAX_WAIT, NAME, error_kind, is_free, nothing_left, within},
    wrap::Counting,
};

/// Law 55: an owner's lock is released when the last guard of the owner is released or dropped. The owner's first call
/// sends a claim to the store, and the later calls get a guard without a request.
// Promise: L18
pub async fn reentrant_count<W: World>(world: &W) -> Law {
    let counts = Counting::new(world.backend());
    let (a, b) = (world.over(counts.clone()), world.client());
    let owner = a.owner();
    let mutex = a.mutex(NAME).by(&owner);
    let (first, second) = tokio::try_join!(mutex.lock(), mutex.lock())?; // Two concurrent first calls share one claim.
    let third = mutex.try_lock_for(MAX_WAIT).await?.expect("an owner could not lock its own lock again");
    assert_eq!(counts.claims(), 1);
    second.release().await?;
    assert!(!is_free(&b, NAME).await?);
    drop(first);
    a.idle().await;
    assert!(!is_free(&b, NAME).await?);
    assert_eq!((counts.claims(), counts.passes(), counts.releases()), (1, 0, 0));
    third.release().await?;
    assert!(is_free(&b, NAME).await?);
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}

/// Law 56: while one owner holds a lock, calls of another owner of the same client must wait. Calls without an owner
/// must wait, too.
// Promise: L18
pub async fn reentrant_other_owner_blocks<W: World>(world: &W) -> Law {
    let client = world.client();
    let (one, two) = (client.owner(), client.owner());
    let guard = client.mutex(NAME).by(&one).lock().await?;
    assert!(client.mutex(NAME).by(&two).try_lock().await?.is_none());
    assert!(client.mutex(NAME).try_lock().await?.is_none());
    let other = client.mutex(NAME).by(&two);
    let waiting = tokio::spawn(async move { other.lock().await });
    tokio::task::yield_now().await;
    client.idle().await;
    assert!(!waiting.is_finished());
    guard.release().await?;
    let guard = within(MAX_WAIT, "the other owner", waiting).await.expect("the task has panicked")?;
    assert!(client.mutex(NAME).by(&one).try_lock().await?.is_none());
    guard.release().await?;
    nothing_left(world, &[&client]).await;
    Ok(())
}

/// Law 59: after an owner has lost its lock, each of its further calls fails with `ErrorKind::Lost`, until its old
/// guards are dropped or released.
// Promise: L18
pub async fn reentry_after_loss_errors<W: World>(world: &W) -> Law {
    let client = world.client();
    let owner = client.owner();
    let mutex = client.mutex(NAME).lease(world.ttl()).by(&owner);
    let (first, second) = (mutex.lock().await?, mutex.lock().await?);
    first.lost().await;
    assert_eq!(error_kind(mutex.lock().await), Some(ErrorKind::Lost));
    assert_eq!(error_kind(mutex.try_lock().await), Some(ErrorKind::Lost));
    drop(first);
    assert_eq!(error_kind(mutex.lock().await), Some(ErrorKind::Lost));
    let fence = second.fence();
    assert_eq!(error_kind(second.release().await), Some(ErrorKind::Lost));
    let third = within(MAX_WAIT, "a lock after its loss", mutex.lock()).await?;
    assert!(third.fence() > fence);
    third.release().await?;
    nothing_left(world, &[&client]).await;
    Ok(())
}

/// Law 60: an owner is a value in the program, and not a task or a thread. It can be moved between tasks and threads,
/// and two owners in one task are different.
pub async fn owner_is_explicit<W: World>(world: &W) -> Law {
    let client = world.client();
    let owner = client.owner();
    let guard = client.mutex(NAME).by(&owner).lock().await?;
    let (mutex, fence) = (client.mutex(NAME).by(&owner.clone()), guard.fence());
    let elsewhere = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("cannot make a runtime");
        runtime.block_on(async { mutex.lock().await.map(|guard| guard.fence()) })
    });
    // `join` blocks this thread. The other thread can lock nevertheless, because re-entry needs no request to the
    // store.
    let same_fence = elsewhere.join().expect("the other thread has panicked")?;
    assert_eq!(same_fence, fence);
    assert!(client.mutex(NAME).by(&client.owner()).try_lock().await?.is_none());
    let other_client = world.client();
    let error = error_kind(other_client.mutex(NAME).by(&owner).try_lock().await);
    assert_eq!(error, Some(ErrorKind::Misused), "an owner of another client was accepted");
    drop(within(world.slack(), "re-entry", client.mutex(NAME).by(&owner).lock()).await?);
    guard.release().await?;
    nothing_left(world, &[&client]).await;
    Ok(())
}
