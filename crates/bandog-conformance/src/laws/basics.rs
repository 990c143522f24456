//! Taking and releasing a lock.

use bandog_core::{ErrorKind, Kind, Leases};

use crate::{
    Law, World,
    kind_kit::each_sole,
    kit::{NAME, assert_again, claim, error_kind, is_free, nothing_left, release, take, until, within},
    wrap::{Fate, Lossy},
};

/// Law 1: a client can take a free lock. A second client then sees that the lock is held. After the release, the lock
/// is free again.
pub async fn acquire_release<W: World>(world: &W) -> Law {
    let (a, b) = (world.client(), world.client());
    let guard = take(&a, NAME).await?;
    assert!(b.show(NAME).await?.is_held());
    assert!(!is_free(&b, NAME).await?);
    guard.release().await?;
    assert!(!b.show(NAME).await?.is_held());
    assert!(is_free(&b, NAME).await?);
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}

/// Law 1: the profile of a backend contains the kinds of locks that these laws take.
pub async fn supported_kinds<W: World>(world: &W) -> Law {
    let kinds = world.backend().profile().kinds;
    assert!(kinds.contains(Kind::Mutex), "{kinds:?}");
    Ok(())
}

/// Law 2: `try_lock` on a held lock returns `None` without waiting, for the holder's client and for another client.
// Promise: L1
pub async fn second_try_fails<W: World>(world: &W) -> Law {
    let (a, b) = (world.client(), world.client());
    let guard = take(&a, NAME).await?;
    for client in [&a, &b] {
        let second = within(world.slack(), "`try_lock` on a held lock", client.mutex(NAME).try_lock()).await?;
        assert!(second.is_none());
    }
    guard.release().await?;
    Ok(())
}

/// Law 3: locks with different names are independent.
pub async fn independent_names<W: World>(world: &W) -> Law {
    let (a, b) = (world.client(), world.client());
    let one = take(&a, "one").await?;
    let two = take(&b, "two").await?;
    one.release().await?;
    assert!(!is_free(&a, "two").await?);
    two.release().await?;
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}

/// Law 4: a lock can be taken and released any number of times. While the lock is held, a second try is refused.
pub async fn relock_after_unlock<W: World>(world: &W) -> Law {
    let (a, b) = (world.client(), world.client());
    for round in 0..10 {
        let (taker, other) = if round % 2 == 0 { (&a, &b) } else { (&b, &a) };
        let guard = take(taker, NAME).await?;
        assert!(other.mutex(NAME).try_lock().await?.is_none());
        guard.release().await?;
    }
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}

/// Law 5: a second release is harmless and never frees the hold of a later claim. A repeated claim is granted again,
/// with the same fences ([`World::keeps_fences`]).
// Promise: L15
pub async fn release_idempotent<W: World>(world: &W) -> Law {
    let backend = world.backend();
    let result = each_sole(world, async |sole| {
        let [first, later, third] = [(); 3].map(|()| sole.claim(world.slack() * 10));
        let fences = claim(&backend, &first).await?.expect("the lock is free");
        let again = claim(&backend, &first).await?.expect("the claim holds the lock");
        assert_again(world, &again, &fences);
        assert!(release(&backend, &first).await?);
        assert!(!release(&backend, &first).await?);
        assert!(claim(&backend, &later).await?.is_some());
        assert!(!release(&backend, &first).await?);
        assert!(claim(&backend, &third).await?.is_none(), "the later claim still holds the lock");
        assert!(release(&backend, &later).await?);
        assert!(!release(&backend, &third).await?);
        Ok(())
    })
    .await;
    nothing_left(world, &[]).await;
    result
}

/// Law 6: a dropped guard releases its lock, inside and outside of a Tokio runtime.
pub async fn drop_releases<W: World>(world: &W) -> Law {
    let (a, b) = (world.client(), world.client());
    drop(take(&a, NAME).await?);
    let guard = within(world.slack(), "the lock of a dropped guard", b.mutex(NAME).lock()).await?;
    let outside = std::thread::spawn(move || drop(guard));
    until(|| outside.is_finished()).await;
    let guard = within(world.slack(), "the lock of a guard dropped by a thread", a.mutex(NAME).lock()).await?;
    drop(guard);
    nothing_left(world, &[&a, &b]).await;
    Ok(())
}

/// Law 7: a release reports one of three results: the lock was released, the lock had been lost, or the result is
/// unknown.
pub async fn explicit_release_reports<W: World>(world: &W) -> Law {
    // `wire` is a connection to the store. The test chooses which calls this connection loses.
    let wire = Lossy::new(world.backend());
    let client = world.over(wire.clone());
    take(&client, NAME).await?.release().await?;

    let guard = client.mutex(NAME).lease(world.ttl()).lock().await?;
    guard.lost().await;
    assert_eq!(error_kind(guard.release().await), Some(ErrorKind::Lost));

    let guard = take(&client, NAME).await?;
    wire.always(Fate::Refused);
    assert_eq!(error_kind(guard.release().await), Some(ErrorKind::Unavailable));
    wire.heal();
    nothing_left(world, &[&client]).await; // The client repeats the release in the background.
    Ok(())
}
