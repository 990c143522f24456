//! Locks of all kinds: what handles, operators and programs of older versions see of them.

use std::{num::NonZeroU32, time::Duration};

use bandog_core::{
    Answer, Claim, ClaimId, Clock, ErrorKind, Fence, Inspect, Kind, Leases, Notifier, Pattern, Released, Renewal, Step,
    Verdict,
};
use bandog_sqlite::Sqlite;
use rusqlite::{Connection, params};

use crate::support::{TTL, TestDir, busy, claim, pass, release, renew, take, try_take};

pub(crate) fn permits(take: u32, of: u32) -> Kind {
    Kind::Permits { take: NonZeroU32::new(take).unwrap(), of: NonZeroU32::new(of).unwrap() }
}

/// A claim of the lock `k`. If it is refused, it gets a place if its kind has places.
pub(crate) fn of_kind(kind: Kind) -> Claim {
    Claim { kind, joins: true, ..claim("k", TTL) }
}

/// The owner, the time until the expiry and the waiters' mark in the table `lease`.
fn lease(raw: &Connection) -> (Option<String>, Duration, u32) {
    let row = "select owner, expires, wanted from lease where name = 'k'";
    let (owner, expires, wanted): (_, i64, _) =
        raw.query_row(row, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    (owner, bandog_core::Moment::from_nanos(expires.unsigned_abs()).since(Clock::system().now()), wanted)
}

/// Whether a program that knows mutexes only gets the lock `k`. It grants a lock without an owner with one statement.
/// In other cases, it grants the lock if the hold has expired, or if the owner is that of an offer.
fn grants_a_mutex(raw: &Connection) -> bool {
    let boot: String = raw.query_row("select boot from lease", [], |row| row.get(0)).unwrap();
    let row = params!["k", "an old program", i64::MAX, 1, 1, boot, i64::MAX];
    if raw.execute(include_str!("../../sql/take.sql"), row).unwrap() == 1 {
        return true;
    }
    let (owner, left, _) = lease(raw);
    left.is_zero() || owner == Some(ClaimId::OFFERED.to_string())
}

#[tokio::test]
async fn two_handles_see_the_same_locks_and_the_fences_of_all_kinds_rise() {
    let dir = TestDir::new();
    let (here, there) = (dir.open(), dir.open());
    let mut fence = Fence::new(0);
    for (kind, rival) in [
        (Kind::Mutex, Kind::Fair),
        (Kind::Fair, Kind::Fair),
        (Kind::Read, Kind::Write),
        (Kind::Write, Kind::Read),
        (permits(3, 5), permits(3, 5)),
        (Kind::Fair, Kind::Mutex),
    ] {
        let (ours, theirs) = (of_kind(kind), of_kind(rival));
        let granted = take(&here, &ours).await.unwrap();
        assert!(granted.clone().take().unwrap() > fence, "{kind}");
        assert_eq!(take(&there, &ours).await, Some(granted), "a repeated claim of {kind}");
        busy(&there, &theirs).await;
        assert_eq!(renew(&here, &ours).await, Renewal::Extended { valid_for: TTL });
        assert!(matches!(release(&there, &ours).await, Released::Freed { .. }));
        assert_eq!(release(&here, &ours).await, Released::NotHeld);
        fence = take(&there, &theirs).await.unwrap().last();
        release(&here, &theirs).await;
    }
}

#[tokio::test]
async fn a_name_has_one_family_at_a_time_and_a_refused_step_affects_no_other_step() {
    let families = [vec![Kind::Mutex, Kind::Fair], vec![Kind::Read, Kind::Write], vec![permits(1, 2)]];
    for (n, family) in families.iter().enumerate() {
        for kind in family {
            let dir = TestDir::new();
            let (store, ours) = (dir.open(), of_kind(*kind));
            take(&store, &ours).await.unwrap();
            let before = dir.open().show(&ours.key).await.unwrap();
            for other in families.iter().enumerate().filter(|(m, _)| *m != n).flat_map(|(_, kinds)| kinds) {
                let steps = [Step::Claim(of_kind(*other)), Step::Claim(claim("free", TTL)), Step::Claim(ours.clone())];
                let answers = store.apply(&steps).await;
                let error = answers[0].as_ref().unwrap_err();
                assert_eq!(
                    (error.kind(), error.verb(), error.maybe_applied()),
                    (ErrorKind::Denied, Some("claim"), false)
                );
                assert!(answers[2].is_ok(), "{answers:?}");
                assert_eq!(release(&store, &of_kind(*other)).await, Released::NotHeld);
                assert_eq!(renew(&store, &of_kind(*other)).await, Renewal::Gone);
            }
            let after = store.show(&ours.key).await.unwrap();
            assert_eq!((after.owner(), after.kind), (before.owner(), Some(*kind)));
        }
    }
}

#[tokio::test]
async fn operators_see_the_holders_and_the_queue_of_every_kind_and_can_evict_them() {
    for (kind, holders, waiter, queue) in [
        (Kind::Mutex, 1, Kind::Fair, 1),
        (Kind::Fair, 1, Kind::Fair, 1),
        (Kind::Read, 3, Kind::Write, 1),
        (Kind::Write, 1, Kind::Write, 1),
        (permits(2, 6), 3, permits(1, 6), 0),
    ] {
        let dir = TestDir::new();
        let (store, reader) = (dir.open(), dir.open());
        let holding: Vec<_> = (0..holders).map(|_| of_kind(kind)).collect();
        let mut fences = Vec::new();
        for ours in &holding {
            fences.push(take(&store, ours).await.unwrap().last());
        }
        let theirs = of_kind(waiter);
        busy(&store, &theirs).await;
        let row = reader.show(&theirs.key).await.unwrap();
        let owners: Vec<_> = row.holders.iter().map(|holder| holder.owner.clone().unwrap()).collect();
        assert_eq!(owners, holding.iter().map(|claim| claim.id.to_string()).collect::<Vec<_>>(), "{kind}");
        assert_eq!(row.holders.iter().map(|holder| holder.last_fence.unwrap()).collect::<Vec<_>>(), fences);
        assert!(row.kind == Some(kind) && row.holders.iter().all(|holder| holder.kind == Some(kind)), "{row:?}");
        assert_eq!(row.queue, vec![theirs.id.to_string(); queue], "{kind}");
        let listed = reader.list(&Pattern::all()).await.unwrap();
        assert_eq!((listed.len(), listed[0].holders.len(), &listed[0].queue), (1, holders, &row.queue));

        assert_eq!(reader.evict(&theirs.key).await.unwrap().unwrap().holders.len(), holders);
        assert_eq!(reader.evict(&theirs.key).await.unwrap(), None);
        assert_eq!(renew(&store, &holding[0]).await, Renewal::Gone);
        assert!(reader.list(&Pattern::all()).await.unwrap().is_empty());
        assert!(take(&store, &theirs).await.unwrap().last() > fences[holders - 1], "{kind}");
    }
}

// Promise: SQ25
#[tokio::test]
async fn a_program_of_an_older_version_gets_no_mutex_while_another_kind_holds_the_name() {
    for kind in [Kind::Fair, Kind::Read, Kind::Write, permits(1, 5)] {
        let dir = TestDir::new();
        let (store, first) = (dir.open(), of_kind(kind));
        take(&store, &first).await.unwrap();
        let raw = Connection::open(dir.path()).unwrap();
        assert!(!grants_a_mutex(&raw), "{kind}");
        if let Kind::Read | Kind::Permits { .. } = kind {
            let second = Claim { ttl: TTL * 3, ..of_kind(kind) };
            take(&store, &second).await.unwrap();
            assert!(lease(&raw).1 > TTL * 2, "the row of the lease must be occupied until the last hold expires");
            release(&store, &second).await;
            assert!(!grants_a_mutex(&raw) && lease(&raw).1 <= TTL, "{kind}");
        }
        renew(&store, &Claim { ttl: TTL * 3, ..first.clone() }).await;
        assert!(lease(&raw).1 > TTL * 2, "a renewal of {kind} must extend the row of the lease");
        release(&store, &first).await;
        assert!(grants_a_mutex(&raw), "{kind}");
    }
}

// Promise: SQ25
#[tokio::test]
async fn an_eviction_by_a_program_of_an_older_version_ends_the_holds_of_every_kind() {
    for kind in [Kind::Fair, Kind::Read, Kind::Write, permits(4, 5)] {
        for old_takes_it in [false, true] {
            let dir = TestDir::new();
            let (store, ours) = (dir.open(), of_kind(kind));
            take(&store, &ours).await.unwrap();
            let raw = Connection::open(dir.path()).unwrap();
            raw.execute(include_str!("../../sql/release.sql"), ["k"]).unwrap();
            let mutex = claim("k", TTL);
            if old_takes_it {
                assert!(take(&store, &mutex).await.is_some()); // The same row as that of an older program.
                assert!(!store.show(&ours.key).await.unwrap().holders.iter().any(|h| h.kind != Some(Kind::Mutex)));
            }
            assert_eq!(renew(&store, &ours).await, Renewal::Gone, "{kind}");
            assert_eq!(release(&store, &ours).await, Released::NotHeld, "{kind}");
            release(&store, &mutex).await;
            let other = if kind == permits(4, 5) { Kind::Write } else { permits(1, 5) };
            take(&store, &of_kind(other)).await.unwrap();
            assert_eq!(store.show(&ours.key).await.unwrap().holders.len(), 1);
            let left: u32 = raw.query_row("select count(*) from claim", [], |row| row.get(0)).unwrap();
            assert_eq!(left, 1, "rows of ended holds were not deleted");
        }
    }
}

// Promise: SQ26
#[tokio::test]
async fn nothing_is_left_behind_after_the_last_release() {
    let dir = TestDir::new();
    let store = dir.open();
    for kinds in [[Kind::Fair, Kind::Fair], [Kind::Read, Kind::Write], [permits(2, 2), permits(1, 2)]] {
        let [ours, theirs] = kinds.map(of_kind);
        take(&store, &ours).await.unwrap();
        // The subscription sets the waiters' mark, and the last release removes the mark.
        drop(store.subscribe(&theirs, Notifier::new(|| {})).await.unwrap());
        busy(&store, &theirs).await;
        release(&store, &theirs).await;
        release(&store, &ours).await;
    }
    let raw = Connection::open(dir.path()).unwrap();
    let left =
        "select (select count(*) from claim) + (select count(*) from lease where owner is not null or wanted > 0)
        + (select count(*) from sighting)";
    assert_eq!(raw.query_row(left, [], |row| row.get(0)), Ok(0));
}

#[tokio::test]
async fn a_starving_claim_gets_the_lock_before_other_claims() {
    for (kind, starving) in [(Kind::Write, Kind::Read), (Kind::Read, Kind::Write), (Kind::Fair, Kind::Mutex)] {
        let dir = TestDir::new();
        let (store, ours, theirs) = (dir.open(), of_kind(kind), Claim { offers: true, ..of_kind(starving) });
        take(&store, &ours).await.unwrap();
        busy(&store, &Claim { joins: false, ..theirs.clone() }).await;
        let raw = Connection::open(dir.path()).unwrap();
        assert_eq!(lease(&raw).2, 2, "{kind}");
        release(&store, &ours).await;
        assert!(!store.show(&ours.key).await.unwrap().is_held());
        let rival = if kind == Kind::Fair { Kind::Mutex } else { Kind::Write };
        // An offer lasts for 250 ms. If this machine was slower than that, the test proves nothing.
        let begun = std::time::Instant::now();
        let verdict = try_take(&store, &Claim { joins: false, ..of_kind(rival) }).await.unwrap();
        if begun.elapsed() < Duration::from_millis(200) && lease(&raw).1 > Duration::ZERO {
            assert!(matches!(verdict, Verdict::Busy { .. }), "the lock was not offered after {kind}");
            take(&store, &theirs).await.unwrap();
        }
    }
}

// Promise: SQ26
#[tokio::test]
async fn the_limit_of_a_semaphore_is_kept_and_can_be_changed() {
    let dir = TestDir::new();
    let (store, other) = (dir.open(), dir.open());
    let ours = of_kind(permits(2, 2));
    take(&store, &ours).await.unwrap();
    release(&store, &ours).await;
    let error = try_take(&dir.open(), &of_kind(permits(1, 3))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused);
    assert!(error.to_string().contains('2') && error.to_string().contains('3'), "{error}");
    other.set_limit(&ours.key, NonZeroU32::new(3).unwrap()).await.unwrap();
    take(&store, &of_kind(permits(2, 2))).await.unwrap();
    take(&store, &of_kind(permits(1, 3))).await.unwrap();
    busy(&store, &of_kind(permits(1, 3))).await;
    let mutex = claim("mutex", TTL);
    take(&store, &mutex).await.unwrap();
    let error = other.set_limit(&mutex.key, NonZeroU32::MIN).await.unwrap_err();
    assert_eq!((error.kind(), error.verb()), (ErrorKind::Denied, Some("set_limit")));
}

#[tokio::test]
async fn a_downgrade_lets_readers_in_and_keeps_writers_out() {
    let dir = TestDir::new();
    let (store, writer, reader): (Sqlite, _, _) = (dir.open(), of_kind(Kind::Write), of_kind(Kind::Read));
    take(&store, &writer).await.unwrap();
    let old = pass(&store, &writer, &reader).await.unwrap();
    assert_eq!(pass(&store, &writer, &reader).await, Some(old), "a repeated downgrade");
    take(&store, &of_kind(Kind::Read)).await.unwrap();
    busy(&store, &of_kind(Kind::Write)).await;
    let upgrade = Step::Pass { from: Box::new(reader), to: of_kind(Kind::Write) };
    let answer: bandog_core::Result<Answer> = store.apply(&[upgrade]).await.remove(0);
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::Misused);
}
