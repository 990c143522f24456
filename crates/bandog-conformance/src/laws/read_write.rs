//! Read-write locks. Any number of readers, or one writer, holds the lock. A waiting claim of a writer has a *place*,
//! which keeps new readers out, so that the writer does not starve. A reader *starves* if it has waited for a second or
//! more; its claims then have `offers`.

use std::time::Duration;

use bandog_core::{Claim, ErrorKind, Kind, PLACE, Renewal};

use crate::{
    Law, World,
    kind_kit::{
        LONG, Subscribed, assert_free, attempt, for_only, freed, granted, granted_within, left_queue, needs, pass,
        refused, row, starving, waiting,
    },
    kit::{MAX_WAIT, NAME, assert_again, claim, error_kind, nothing_left, release, renew, renewal},
};

fn reader() -> Claim {
    attempt(Kind::Read, NAME)
}

fn writer() -> Claim {
    waiting(Kind::Write, NAME)
}

/// Law 61: many readers hold the lock at the same time. A writer holds the lock alone: it is refused while a reader
/// holds the lock, and while a writer holds the lock, readers and other writers are refused. The fence of each grant is
/// greater than the fences before it.
// Promise: K4
pub async fn many_readers_one_writer<W: World>(world: &W) -> Law {
    const READERS: usize = 10;
    let ours = world.backend();
    let theirs = world.peer(&ours);
    needs(&ours, &[Kind::Read])?;
    let readers: [Claim; READERS] = std::array::from_fn(|_| reader());
    let mut last_fence = None;
    for (number, reader) in readers.iter().enumerate() {
        let backend = if number % 2 == 0 { &ours } else { &theirs };
        let fences = granted(backend, reader).await?;
        assert!(Some(fences.last()) > last_fence, "{fences:?} after {last_fence:?}");
        last_fence = Some(fences.last());
    }
    assert_eq!(row(&theirs, &readers[0]).await?.holders.len(), READERS);
    let tried = attempt(Kind::Write, NAME);
    for reader in &readers {
        refused(&theirs, &tried).await?;
        freed(&theirs, reader).await?;
    }
    assert!(granted(&ours, &tried).await?.last() > last_fence.expect("readers held the lock"));
    for other in [reader(), attempt(Kind::Write, NAME)] {
        refused(&ours, &other).await?;
        refused(&theirs, &other).await?;
    }
    freed(&ours, &tried).await?;
    assert_free(&ours, Kind::Read, NAME).await?;
    nothing_left(world, &[]).await;
    Ok(())
}

/// Law 62: while a claim of a writer has a place, claims of new readers are refused. Readers that hold the lock are not
/// affected. When the last writer has left the queue, readers are notified and get the lock. A `try_write` has no
/// place, so it does not affect readers.
// Promise: K5
pub async fn waiting_writer_keeps_new_readers_out<W: World>(world: &W) -> Law {
    let ours = world.backend();
    let theirs = world.peer(&ours);
    needs(&ours, &[Kind::Read])?;
    let (held, late) = (reader(), reader());
    let fences = granted(&ours, &held).await?;
    refused(&ours, &attempt(Kind::Write, NAME)).await?;
    let second_reader = reader();
    granted(&theirs, &second_reader).await?;

    let (first, second) = (writer(), writer());
    refused(&ours, &first).await?;
    refused(&theirs, &second).await?;
    refused(&theirs, &late).await?;
    assert_again(world, &granted(&ours, &held).await?, &fences);
    assert!(renew(&ours, &held).await?);
    assert!(left_queue(&ours, &first).await?);
    assert!(!left_queue(&ours, &first).await?);
    refused(&theirs, &late).await?;

    let subscribed = Subscribed::with(&theirs, &late).await?;
    let before = subscribed.count();
    assert!(left_queue(&theirs, &second).await?);
    subscribed.notified_after(before).await;
    drop(subscribed);
    granted(&theirs, &late).await?;

    // A writer that is granted no longer has a place. So the readers after it get the lock.
    refused(&ours, &first).await?;
    for reader in [&held, &second_reader, &late] {
        freed(&ours, reader).await?;
    }
    refused(&theirs, &late).await?;
    granted(&ours, &first).await?;
    freed(&ours, &first).await?;
    granted(&theirs, &late).await?;
    freed(&theirs, &late).await?;
    nothing_left(world, &[]).await;
    Ok(())
}

/// Law 62: a writer whose client has died keeps new readers out for [`PLACE`], counted from its last claim. Renewals
/// keep the place of a writer for longer.
// Promise: K5
pub async fn dead_writer_lets_readers_in<W: World>(world: &W) -> Law {
    let (store, clock) = (world.backend(), world.clock());
    needs(&store, &[Kind::Read])?;
    // `dead` and `alive` wait for different locks.
    let other = "kept";
    let (held, kept) = (reader(), attempt(Kind::Read, other));
    let (dead, alive) = (writer(), waiting(Kind::Write, other));
    granted(&store, &held).await?;
    granted(&store, &kept).await?;
    let before = clock.now();
    refused(&store, &dead).await?;
    refused(&store, &alive).await?;
    let late = reader();
    let served = async || {
        assert!(matches!(renewal(&store, &alive).await, Ok(Renewal::Waiting { .. })), "the place was not kept");
        matches!(claim(&store, &late).await, Ok(Some(_)))
    };
    bandog_testkit::eventually_async(PLACE + world.slack(), served).await;
    let waited = clock.now().since(before);
    // A store can round times to milliseconds.
    assert!(waited + Duration::from_millis(2) >= PLACE, "the place expired after {waited:?}");
    assert!(!renew(&store, &dead).await?);
    refused(&store, &attempt(Kind::Read, other)).await?;
    assert!(left_queue(&store, &alive).await?);
    for reader in [&held, &late, &kept] {
        freed(&store, reader).await?;
    }
    assert_free(&store, Kind::Write, NAME).await
}

/// Law 63: a starving reader gets the lock beside other readers, although writers have places.
// Promise: K5
pub async fn starving_reader_passes_waiting_writers<W: World>(world: &W) -> Law {
    let (ours, theirs) = (world.backend(), world.backend());
    needs(&ours, &[Kind::Read])?;
    world.barges()?;
    let (held, waits, starves) = (reader(), writer(), starving(Kind::Read, NAME));
    granted(&ours, &held).await?;
    refused(&ours, &waits).await?;
    refused(&theirs, &reader()).await?;
    granted(&theirs, &starves).await?;
    freed(&ours, &held).await?;
    refused(&ours, &waits).await?;
    freed(&theirs, &starves).await?;
    granted(&ours, &waits).await?;
    refused(&theirs, &starving(Kind::Read, NAME)).await?;
    freed(&ours, &waits).await
}

/// Law 64: a downgrade is a pass from a writer to a reader. It is one step: no other writer gets the lock, even if it
/// has a place or starves. Waiting readers are notified. The claim of the writer ends, and the claim of the reader gets
/// a greater fence. A repeated downgrade gets the same fence.
// Promise: K6
pub async fn downgrade<W: World>(world: &W) -> Law {
    let (ours, theirs) = (world.backend(), world.backend());
    needs(&ours, &[Kind::Read])?;
    let (from, to, waits) = (writer(), reader(), reader());
    let before_fence = granted(&ours, &from).await?.last();
    refused(&theirs, &waits).await?;
    let subscribed = Subscribed::with(&theirs, &waits).await?;
    let before = subscribed.count();
    let fences = pass(&ours, &from, &to).await?.expect("the writer holds the lock");
    assert!(fences.last() > before_fence, "{fences:?} after {before_fence}");
    subscribed.notified_after(before).await;
    granted(&theirs, &waits).await?;
    assert_again(world, &pass(&ours, &from, &to).await?.expect("the reader holds the lock"), &fences);
    assert_eq!(row(&theirs, &to).await?.holders.len(), 2);
    assert!(!release(&ours, &from).await? && !renew(&ours, &from).await?, "the writer still holds the lock");
    refused(&theirs, &attempt(Kind::Write, NAME)).await?;
    freed(&ours, &to).await?;
    freed(&theirs, &waits).await?;

    // The same beside other writers, of which one starves.
    let (from, to, other, starves) = (writer(), reader(), writer(), starving(Kind::Write, NAME));
    granted(&ours, &from).await?;
    refused(&theirs, &other).await?;
    refused(&theirs, &starves).await?;
    pass(&ours, &from, &to).await?.expect("the writer holds the lock");
    refused(&theirs, &other).await?;
    refused(&theirs, &starves).await?;
    assert!(renew(&ours, &to).await?);
    assert!(left_queue(&theirs, &starves).await?);
    let last = Claim { offers: false, ..to };
    freed(&ours, &last).await?;
    granted_within(world.slack(), &theirs, &other).await;
    freed(&theirs, &other).await
}

/// Law 64: only the holder can downgrade. A downgrade of a claim that does not hold the lock is an ordinary claim.
// Promise: K6
pub async fn downgrade_only_by_the_holder<W: World>(world: &W) -> Law {
    let store = world.backend();
    needs(&store, &[Kind::Read])?;
    let (holder, other) = (writer(), writer());
    granted(&store, &holder).await?;
    assert_eq!(pass(&store, &other, &reader()).await?, None);
    let before = row(&store, &holder).await?;
    assert_eq!((before.owner(), before.holders.len()), (Some(holder.id.to_string().as_str()), 1));
    freed(&store, &holder).await?;
    let to = reader();
    assert!(pass(&store, &holder, &to).await?.is_some(), "the lock is free");
    freed(&store, &to).await
}

/// Law 65: an upgrade, which is a pass from a reader to a writer, is refused with an error. The reader keeps its hold,
/// and the writer gets no place.
// Promise: K6
pub async fn upgrade_is_refused<W: World>(world: &W) -> Law {
    let store = world.backend();
    needs(&store, &[Kind::Read])?;
    let (from, to) = (reader(), writer());
    let fences = granted(&store, &from).await?;
    assert_eq!(error_kind(pass(&store, &from, &to).await), Some(ErrorKind::Misused));
    assert_eq!(granted(&store, &from).await?, fences);
    assert!(!left_queue(&store, &to).await?);
    let second = reader();
    granted(&store, &second).await?;
    freed(&store, &second).await?;
    freed(&store, &from).await?;
    nothing_left(world, &[]).await;
    Ok(())
}

/// Law 66: the hold of a reader whose client has died expires after its own ttl. The holds of other readers neither
/// extend nor shorten it.
// Promise: K7
pub async fn dead_reader_expires_alone<W: World>(world: &W) -> Law {
    let (store, clock) = (world.backend(), world.clock());
    needs(&store, &[Kind::Read])?;
    let ttl = world.ttl();
    // The ttl of the renewed reader is longer, so that a slow machine does not renew it too late.
    let (dead, renewed, long) = (for_only(ttl, reader()), for_only(ttl * 4, reader()), for_only(LONG, reader()));
    let before = clock.now();
    granted(&store, &dead).await?;
    granted(&store, &renewed).await?;
    granted(&store, &long).await?;
    let is_gone = async || {
        assert!(matches!(renew(&store, &renewed).await, Ok(true)), "a renewed reader lost the lock");
        let row = row(&store, &dead).await.expect("a row");
        let dead = dead.id.to_string();
        row.holders.iter().all(|holder| holder.owner.as_ref() != Some(&dead))
    };
    bandog_testkit::eventually_async(ttl + world.slack(), is_gone).await;
    let lasted = clock.now().since(before);
    // A store can round times to milliseconds.
    assert!(lasted + Duration::from_millis(2) >= ttl, "the hold expired after {lasted:?}");
    assert!(!renew(&store, &dead).await? && !release(&store, &dead).await?);
    assert_eq!(row(&store, &long).await?.holders.len(), 2);
    refused(&store, &attempt(Kind::Write, NAME)).await?;
    assert!(renew(&store, &long).await?);
    freed(&store, &renewed).await?;
    freed(&store, &long).await?;

    // When the last reader dies, a writer gets the lock.
    let (last, next) = (for_only(ttl, reader()), for_only(MAX_WAIT, writer()));
    granted(&store, &last).await?;
    let (retry_after, _) = refused(&store, &next).await?;
    assert!(retry_after <= ttl + world.slack(), "{retry_after:?}");
    granted_within(ttl + world.slack(), &store, &next).await;
    freed(&store, &next).await
}
