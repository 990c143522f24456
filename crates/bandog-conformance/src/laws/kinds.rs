//! Laws that apply to locks of every kind. A *family* is a set of kinds that work together on the same name: mutexes
//! and fair mutexes, the two sides of a read-write lock, and semaphores.

use std::{iter, num::NonZeroU32};

use bandog_core::{Backend, Claim, Error, ErrorKind, Fence, Inspect, Kind, Leases, Pattern, Renewal, Row};
use bandog_testkit::eventually_async;

use crate::{
    Law, World,
    kind_kit::{
        KINDS, Subscribed, assert_free, attempt, each_kind, freed, granted, left_queue, needs, pass, permits, refused,
        row, starving, waiting, without_ttl,
    },
    kit::{MAX_WAIT, NAME, assert_again, claim, error_kind, nothing_left, release, renew, renewal},
    laws::admin::can_evict,
    wrap::{Fate, Lossy},
};

/// A name for the locks of this kind. The limit of a semaphore stays in the store, so each kind has its own name.
fn name_of(kind: Kind) -> String {
    format!("{NAME} {}", kind.to_string().replace([':', '/'], " "))
}

/// Whether several claims of this kind can hold a lock at the same time.
fn is_shared(kind: Kind) -> bool {
    match kind {
        Kind::Read | Kind::Permits { .. } => true,
        Kind::Mutex | Kind::Fair | Kind::Write => false,
    }
}

/// Law 13: while a claim of one family holds a name, a claim of another family fails with [`ErrorKind::Denied`] and
/// changes nothing. When the name is free, every family can use it. Exception: some stores keep the name of a
/// semaphore.
// Promise: K11
pub async fn kinds_do_not_collide<W: World>(world: &W) -> Law {
    let (ours, theirs) = (world.backend(), world.backend());
    let kinds = ours.profile().kinds;
    each_kind(world, async |held| {
        let name = name_of(held);
        let holder = attempt(held, &name);
        let fences = granted(&ours, &holder).await?;
        let before = row(&ours, &holder).await?;
        let others = KINDS.into_iter().filter(|other| kinds.contains(*other) && other.family() != held.family());
        for other in others.clone() {
            for asked in [attempt(other, &name), starving(other, &name)] {
                let answer = claim(&theirs, &asked).await;
                assert_eq!(error_kind(answer), Some(ErrorKind::Denied), "{other} while {held} holds the name");
                assert_eq!(row(&ours, &holder).await?, before, "{other} changed {held}");
                assert_holds_nothing(&theirs, &asked).await;
            }
        }
        assert_eq!(granted(&ours, &holder).await?, fences);
        freed(&ours, &holder).await?;
        let is_kept = matches!(held, Kind::Permits { .. }) && world.frees_names_of_semaphores().is_err();
        for other in others.filter(|_| !is_kept) {
            assert_free(&theirs, other, &name).await?;
        }
        Ok(())
    })
    .await
}

/// Asserts that a claim of another family than the holder's has neither a hold nor a place.
async fn assert_holds_nothing(backend: &impl Backend, asked: &Claim) {
    // A store can refuse these calls, because the data under the key are of another family.
    let is_denied = |error: &Error| error.kind() == ErrorKind::Denied;
    let (renewed, released) = (renewal(backend, asked).await, left_queue(backend, asked).await);
    assert!(matches!(renewed, Ok(Renewal::Gone)) || renewed.as_ref().is_err_and(is_denied), "{asked:?}: {renewed:?}");
    assert!(matches!(released, Ok(false)) || released.as_ref().is_err_and(is_denied), "{asked:?}: {released:?}");
}

/// Law 13: a mutex and a fair mutex of one name exclude each other. A claim of a mutex does not respect the queue of
/// the fair mutex. This law does not check notifications, because a store can have separate notifications for each
/// kind.
// Promise: K11
pub async fn mutex_and_fair_mutex_exclude_each_other<W: World>(world: &W) -> Law {
    let (ours, theirs) = (world.backend(), world.backend());
    needs(&ours, &[Kind::Mutex, Kind::Fair])?;
    world.barges()?;
    let (plain, fair) = (attempt(Kind::Mutex, NAME), waiting(Kind::Fair, NAME));
    granted(&ours, &plain).await?;
    refused(&theirs, &fair).await?;
    freed(&ours, &plain).await?;
    let second = attempt(Kind::Mutex, NAME);
    granted(&ours, &second).await?;
    refused(&theirs, &fair).await?;
    freed(&ours, &second).await?;
    granted(&theirs, &fair).await?;
    let third = attempt(Kind::Mutex, NAME);
    refused(&ours, &third).await?;
    freed(&theirs, &fair).await?;
    granted(&ours, &third).await?;
    freed(&ours, &third).await?;
    nothing_left(world, &[]).await;
    Ok(())
}

/// Law 65: which holds can be passed. A hold can be passed to a claim of the same kind and the same number of permits,
/// and from a writer to a reader. The hold of a fair mutex is never passed. Any other pass fails with
/// [`ErrorKind::Misused`]: then `from` keeps the lock, and `to` holds nothing.
// Promise: K6
pub async fn pass_rules<W: World>(world: &W) -> Law {
    let (ours, theirs) = (world.backend(), world.backend());
    let (kinds, fourth) = (ours.profile().kinds, permits(1, 5));
    let all = KINDS.into_iter().chain([fourth]);
    each_kind(world, async |held| {
        let name = name_of(held);
        for next in all.clone().filter(|next| kinds.contains(*next)) {
            let (from, to) = (attempt(held, &name), waiting(next, &name));
            let fences = granted(&ours, &from).await?;
            let is_allowed = held == next && held != Kind::Fair || (held, next) == (Kind::Write, Kind::Read);
            let before = row(&theirs, &from).await?;
            let passed = pass(&ours, &from, &to).await;
            if !is_allowed {
                assert_eq!(error_kind(passed), Some(ErrorKind::Misused), "a pass from {held} to {next}");
                assert_eq!(row(&theirs, &from).await?, before, "a refused pass changed {held}");
                assert_holds_nothing(&ours, &to).await;
                freed(&ours, &from).await?;
                continue;
            }
            let passed_fences = passed?.expect("the claim holds the lock");
            assert!(passed_fences.last() > fences.last(), "{passed_fences:?} after {fences:?}");
            let again = pass(&ours, &from, &to).await?.expect("the claim holds the lock");
            assert_again(world, &again, &passed_fences);
            assert!(!release(&ours, &from).await? && !renew(&ours, &from).await?, "`from` still holds the lock");
            let row = row(&theirs, &to).await?;
            assert_eq!((row.owner(), row.holders.len()), (Some(to.id.to_string().as_str()), 1));
            freed(&ours, &to).await?;
        }
        Ok(())
    })
    .await
}

/// Law 5, for holders of every kind: each call can be repeated. A repeated claim gets the fences of its own grant, even
/// if other claims were granted later. Repeated renewals and releases do no harm, and never affect another holder.
// Promise: K13
pub async fn repeated_calls_of_every_kind<W: World>(world: &W) -> Law {
    let ours = world.backend();
    let theirs = world.peer(&ours);
    each_kind(world, async |kind| {
        let name = name_of(kind);
        let block = |claim: Claim| Claim { fences: NonZeroU32::MIN.saturating_add(3), ..claim };
        let (first, second) = (block(attempt(kind, &name)), block(attempt(kind, &name)));
        let fences = granted(&ours, &first).await?;
        let second_fences = if is_shared(kind) {
            Some(granted(&theirs, &second).await?)
        } else {
            refused(&theirs, &second).await?;
            assert!(!left_queue(&theirs, &second).await?);
            None
        };
        let holders = row(&ours, &first).await?.holders.len();
        for _ in 0..3 {
            assert_again(world, &granted(&theirs, &first).await?, &fences);
            assert!(renew(&ours, &first).await? && renew(&ours, &first).await?);
            if let Some(fences) = &second_fences {
                assert_again(world, &granted(&ours, &second).await?, fences);
            }
        }
        assert_eq!(row(&ours, &first).await?.holders.len(), holders, "{kind}: a repeated claim holds the lock twice");
        freed(&ours, &first).await?;
        for _ in 0..2 {
            assert!(!release(&ours, &first).await? && !renew(&ours, &first).await?, "{kind}");
        }
        assert_eq!(renew(&theirs, &second).await?, second_fences.is_some(), "{kind}: the other holder");
        if second_fences.is_some() {
            freed(&theirs, &second).await?;
        }
        assert!(!release(&ours, &first).await? && !release(&theirs, &second).await?);
        assert_free(&ours, kind, &name).await
    })
    .await
}

/// Law 49: the fences of one name rise over the grants of all kinds. A pass gets greater fences, too.
// Promise: K12
pub async fn fences_rise_over_all_kinds<W: World>(world: &W) -> Law {
    let (ours, theirs) = (world.backend(), world.backend());
    let has = ours.profile().kinds;
    let is_reusable = |kind: &Kind| !matches!(kind, Kind::Permits { .. }) || world.frees_names_of_semaphores().is_ok();
    let (reusable, last): (Vec<_>, Vec<_>) =
        KINDS.into_iter().filter(|kind| has.contains(*kind)).partition(is_reusable);
    // Each kind follows each other kind.
    let pairs = reusable.iter().flat_map(|before| reusable.iter().flat_map(|after| [*before, *after]));
    let mut last_fence = Fence::new(0);
    for kind in pairs.chain(last) {
        let two = NonZeroU32::MIN.saturating_add(1);
        let (mut holder, next) = (Claim { fences: two, ..attempt(kind, NAME) }, attempt(kind, NAME));
        let mut grants = vec![granted(&ours, &holder).await?];
        if is_shared(kind) {
            let second = attempt(kind, NAME);
            grants.push(granted(&theirs, &second).await?);
            freed(&theirs, &second).await?;
        }
        if kind != Kind::Fair {
            grants.push(pass(&ours, &holder, &next).await?.expect("the claim holds the lock"));
            holder = next;
        }
        for fence in grants.into_iter().flat_map(|mut fences| iter::from_fn(move || fences.take())) {
            assert!(fence > last_fence, "{kind}: {fence} after {last_fence}");
            last_fence = fence;
        }
        freed(&ours, &holder).await?;
    }
    each_kind(world, async |_| Ok(())).await
}

/// Laws 83 and 84, for holders of every kind: if the answer to a claim, a pass, a renewal or a release is lost, the
/// client repeats the call. Whether or not the store has applied the first call, the result is the same as for one
/// call.
// Promise: K13
pub async fn lost_answers_of_every_kind<W: World>(world: &W) -> Law {
    // `wire` is a connection to the store. The test chooses which calls this connection loses.
    let store = world.backend();
    let wire = Lossy::new(world.peer(&store));
    each_kind(world, async |kind| {
        let name = name_of(kind);
        for fate in [Fate::ReplyLost, Fate::RequestLost, Fate::Refused] {
            let (neighbour, mut holder) = (attempt(kind, &name), attempt(kind, &name));
            if is_shared(kind) {
                granted(&store, &neighbour).await?;
            }
            let holders = usize::from(is_shared(kind)) + 1;
            wire.next([fate]);
            assert!(claim(&wire, &holder).await.is_err());
            let fences = granted(&wire, &holder).await?;
            assert_again(world, &granted(&store, &holder).await?, &fences);
            assert_eq!(row(&store, &holder).await?.holders.len(), holders, "{kind}, {fate:?}: the claim");
            if kind != Kind::Fair {
                let next = attempt(kind, &name);
                wire.next([fate]);
                assert!(pass(&wire, &holder, &next).await.is_err());
                assert!(pass(&wire, &holder, &next).await?.expect("the claim holds the lock").last() > fences.last());
                assert_eq!(row(&store, &next).await?.holders.len(), holders, "{kind}, {fate:?}: the pass");
                holder = next;
            }
            wire.always(fate);
            assert!(renewal(&wire, &holder).await.is_err());
            wire.heal();
            assert!(renew(&wire, &holder).await?);
            wire.next([fate]);
            assert!(release(&wire, &holder).await.is_err());
            assert_eq!(release(&wire, &holder).await?, fate != Fate::ReplyLost, "{kind}, {fate:?}: the release");
            assert_eq!(row(&store, &holder).await?.holders.len(), holders - 1, "{kind}, {fate:?}: the release");
            if is_shared(kind) {
                freed(&store, &neighbour).await?;
            }
            assert_free(&store, kind, &name).await?;
        }
        lost_answers_of_a_place(&store, &wire, kind, &name).await
    })
    .await
}

/// The same for a claim that waits: it gets one place, and the place is removed once.
async fn lost_answers_of_a_place<B: Backend>(store: &B, wire: &Lossy<B>, kind: Kind, name: &str) -> Law {
    let holders = [attempt(kind, name), attempt(kind, name)];
    let waiter = match kind {
        Kind::Mutex | Kind::Read => return Ok(()),
        Kind::Fair | Kind::Write => waiting(kind, name),
        Kind::Permits { .. } => starving(kind, name),
    };
    let holders = &holders[..1 + usize::from(is_shared(kind))];
    for holder in holders {
        granted(store, holder).await?;
    }
    for fate in [Fate::ReplyLost, Fate::RequestLost] {
        wire.next([fate]);
        assert!(claim(wire, &waiter).await.is_err());
        refused(wire, &waiter).await?;
        assert_eq!(row(store, &waiter).await?.queue, [waiter.id.to_string()], "{kind}, {fate:?}");
        wire.next([fate]);
        assert!(left_queue(wire, &waiter).await.is_err());
        assert_eq!(left_queue(wire, &waiter).await?, fate == Fate::RequestLost, "{kind}, {fate:?}");
        assert_eq!(row(store, &waiter).await?.queue, [""; 0], "{kind}, {fate:?}");
    }
    for holder in holders {
        freed(store, holder).await?;
    }
    Ok(())
}

/// Law 95: `show` and `list` report the kind of a lock of every kind, all its holders, and the owners of the claims
/// that have a place, in the order of the queue. For each holder, the row has the owner, the kind, the fences and the
/// ttl.
// Promise: K14
pub async fn rows_of_every_kind<W: World>(world: &W) -> Law {
    let (ours, theirs) = (world.backend(), world.backend());
    each_kind(world, async |kind| {
        let name = name_of(kind);
        let mut holders = vec![attempt(kind, &name)];
        holders.extend(is_shared(kind).then(|| attempt(kind, &name)));
        let mut grants = Vec::new();
        for holder in &holders {
            grants.push((holder.id.to_string(), granted(&ours, holder).await?));
        }
        let waiter = match kind {
            Kind::Mutex => None,
            Kind::Fair => Some(Kind::Fair),
            Kind::Read | Kind::Write => Some(Kind::Write),
            Kind::Permits { .. } => Some(kind),
        };
        let no_place = matches!(kind, Kind::Mutex).then(|| waiting(kind, &name));
        if let Some(claim) = &no_place {
            refused(&theirs, claim).await?;
        }
        // A claim for permits has a place only if its client starves.
        let waiters: Vec<_> = waiter.into_iter().flat_map(|kind| [(); 3].map(|()| starving(kind, &name))).collect();
        for waiter in &waiters {
            refused(&theirs, waiter).await?;
        }
        let mut row = theirs.show(&holders[0].key).await?;
        assert_eq!((row.name.as_str(), row.kind.map(Kind::name)), (name.as_str(), Some(kind.name())));
        let mut queue: Vec<_> = waiters.iter().map(|waiter| waiter.id.to_string()).collect();
        if matches!(kind, Kind::Read | Kind::Write) {
            // Between writers there is no order.
            queue.sort();
            row.queue.sort();
        }
        assert_eq!(row.queue, queue, "{kind}");
        assert_eq!(row.holders.len(), holders.len(), "{row:?}");
        for (owner, mut fences) in grants {
            let holder = row.holders.iter().find(|holder| holder.owner.as_ref() == Some(&owner));
            let holder = holder.unwrap_or_else(|| panic!("{owner} is not a holder in {row:?}"));
            assert_eq!((holder.kind, holder.last_fence), (Some(kind), Some(fences.last())));
            assert!(holder.fence.is_some() && holder.fence <= fences.take(), "{holder:?}");
            let ttl = holder.ttl.expect("the hold has a ttl");
            // A store with Redisson's layout keeps permits a little longer, because Java clients use their own clocks.
            assert!(!ttl.is_zero() && ttl <= holders[0].ttl + world.slack(), "{ttl:?}");
        }
        let comparable = |row: Row| {
            let mut row = without_ttl(row);
            if matches!(kind, Kind::Read | Kind::Write) {
                row.queue.sort();
            }
            row
        };
        let shown = comparable(theirs.show(&holders[0].key).await?);
        let listed = theirs.list(&Pattern::exactly(&holders[0].key)).await?;
        assert_eq!(listed.into_iter().map(comparable).collect::<Vec<_>>(), [shown], "`list` and `show`");

        if let Some(claim) = &no_place {
            assert!(!left_queue(&theirs, claim).await?, "a claim of a mutex has no place");
        }
        for waiter in waiters.iter().rev() {
            assert!(left_queue(&theirs, waiter).await?);
        }
        for holder in holders.iter().rev() {
            freed(&ours, holder).await?;
        }
        let row = theirs.show(&holders[0].key).await?;
        assert_eq!((row.is_held(), row.queue.len()), (false, 0), "{row:?}");
        nothing_left(world, &[]).await;
        Ok(())
    })
    .await
}

/// Law 96, for locks of every kind: a name is deleted only if no claim holds the lock or has a place. Then the name can
/// be used as if it were new: a semaphore can have another number of permits.
// Promise: C8
pub async fn forget_every_kind<W: World>(world: &W) -> Law {
    let (ours, theirs) = (world.backend(), world.backend());
    each_kind(world, async |kind| {
        let name = name_of(kind);
        let exclusive = match kind {
            Kind::Read => Kind::Write,
            Kind::Permits { of, .. } => Kind::Permits { take: of, of },
            Kind::Mutex | Kind::Fair | Kind::Write => kind,
        };
        let (holder, next) = (attempt(exclusive, &name), waiting(exclusive, &name));
        granted(&ours, &holder).await?;
        let before = row(&ours, &holder).await?;
        match theirs.forget(&holder.key).await {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                return Err(crate::Unkept::Cannot("the backend cannot delete names"));
            }
            answer => assert!(!answer?, "{kind} was deleted while it was held"),
        }
        assert_eq!(row(&ours, &holder).await?, before, "{kind}");
        refused(&theirs, &next).await?;
        freed(&ours, &holder).await?;
        let was_forgotten = ours.forget(&holder.key).await?;
        let had_place = left_queue(&theirs, &next).await?;
        assert!(!(was_forgotten && had_place), "{kind} was deleted while a claim had a place");
        forgotten(&ours, &holder).await;
        if let Kind::Permits { take, of } = exclusive {
            let other = attempt(Kind::Permits { take, of: of.saturating_add(2) }, &name);
            granted(&ours, &other).await?;
            freed(&ours, &other).await?;
            forgotten(&ours, &other).await;
        }
        assert_free(&theirs, kind, &name).await
    })
    .await
}

/// Deletes a name. Another node of the store may still have to free its lock.
async fn forgotten(backend: &impl Backend, claim: &Claim) {
    let forget = async || backend.forget(&claim.key).await.expect("cannot delete the name");
    eventually_async(MAX_WAIT, forget).await;
}

/// Law 96, for locks of every kind: an eviction ends the holds of all holders, and returns the row with all of them. It
/// notifies the waiters, and the claims in the queue keep their places. Later fences are greater.
// Promise: K13
pub async fn evict_every_kind<W: World>(world: &W) -> Law {
    can_evict(world).await?;
    let (ours, theirs) = (world.backend(), world.backend());
    each_kind(world, async |kind| {
        let name = name_of(kind);
        let mut holders = vec![attempt(kind, &name)];
        holders.extend(is_shared(kind).then(|| attempt(kind, &name)));
        let mut last_fence = Fence::new(0);
        for holder in &holders {
            last_fence = last_fence.max(granted(&ours, holder).await?.last());
        }
        let exclusive = if matches!(kind, Kind::Read) { Kind::Write } else { kind };
        let (first, second) = (waiting(exclusive, &name), waiting(exclusive, &name));
        refused(&theirs, &first).await?;
        refused(&theirs, &second).await?;
        let subscribed = Subscribed::with(&theirs, &first).await?;
        let (before, count) = (row(&ours, &first).await?, subscribed.count());
        let evicted = theirs.evict(&first.key).await?.expect("the lock is held");
        assert_eq!(without_ttl(evicted), before, "{kind}");
        subscribed.notified_after(count).await;
        assert_eq!(theirs.evict(&first.key).await?, None, "{kind}");
        for holder in &holders {
            assert!(!renew(&ours, holder).await? && !release(&ours, holder).await?, "{kind} still holds the lock");
        }
        if matches!(kind, Kind::Fair) {
            refused(&theirs, &second).await?;
        }
        assert!(granted(&theirs, &first).await?.last() > last_fence, "{kind}");
        freed(&theirs, &first).await?;
        release(&theirs, &second).await?;
        assert_free(&ours, kind, &name).await
    })
    .await
}
