use bandog_core::queues::TakeId;

use super::*;

fn take() -> Take {
    let (queue, id) = (Key::new("q").unwrap(), TakeId { taker: 1, number: 1 });
    Take {
        queue,
        id,
        is_repeated: false,
        at_most: 10,
        bytes: 1 << 20,
        rest_after: Duration::ZERO,
        lease: Duration::from_secs(1),
        deliveries: 5,
    }
}

fn id(number: u64) -> ElementId {
    ElementId { client: 1, number }
}

const NOW: i64 = 1_000_000;

/// Hints after a full scan that took this time, and has found an element of rank 9 at 100.
fn after(took: Duration) -> Hints {
    let mut hints = Hints::default();
    let scan = hints.scan(false);
    assert!(scan.is_full && scan.leases == Some([0; 2]));
    hints.scanned(&scan, &Found { now: NOW, woke_all: true, next_lease: None, took, woke_in: took });
    hints.took(&scan, [(9, 100, id(1))], &take());
    hints
}

#[test]
fn fast_scans_begin_at_the_beginning() {
    let hints = after(Duration::ZERO);
    let scan = hints.scan(false);
    assert!(scan.is_full && scan.ready == [START; RANKS] && scan.delayed == 0);
    assert_eq!(hints.pause(), None);
}

#[test]
fn slow_scans_begin_at_the_last_element() {
    let mut hints = after(Duration::from_millis(100));
    let scan = hints.scan(false);
    assert!(!scan.is_full);
    assert_eq!((scan.ready[9], scan.ready[8], scan.delayed), ((100, id(1)), START, NOW));
    assert!(hints.scan(true).is_full, "a scan has found nothing");
    assert!(hints.pause().is_some_and(|pause| pause <= Duration::from_millis(300)));
    hints.reset();
    let scan = hints.scan(false);
    assert_eq!((scan.ready, scan.delayed), ([START; RANKS], 0), "elements before that place may be ready");
}

/// A client knows the end of the leases that it has given itself.
#[test]
fn leases_are_checked_when_one_ends() {
    let mut hints = after(Duration::ZERO);
    assert_eq!(hints.next_lease(), Some(2_000_000));
    assert_eq!(hints.scan(false).leases, None, "they were checked");
    hints.checked = Instant::now().checked_sub(2 * INTERVAL);
    assert_eq!(hints.scan(false).leases, Some([0; 2]));
    hints.checked = Instant::now().checked_sub(2 * MIN_CHECK);
    assert_eq!(hints.scan(false).leases, None);
    hints.now.0 = 2_000_000;
    assert_eq!(hints.scan(false).leases, Some([0; 2]), "one has ended");
}

#[test]
fn slow_scans_for_leases_begin_at_the_known_ones() {
    let mut hints = after(Duration::from_millis(100));
    hints.checked = None;
    assert_eq!(hints.scan(false).leases, Some([NOW, 2_000_000]));
    assert_eq!(hints.scan(true).leases, Some([0; 2]), "a scan has found nothing");
    hints.full_wake = hints.full_wake.map(|last| FullScan { took: Duration::ZERO, ..last });
    assert_eq!(hints.scan(false).leases, Some([0; 2]));
}

/// A scan begins before pushes that may not be committed yet, and knows nothing of a take that another call has overtaken.
#[test]
fn scans_begin_a_little_earlier() {
    let mut hints = after(Duration::from_millis(100));
    let scan = hints.scan(false);
    hints.took(&scan, [(9, NOW - 1, id(2))], &take());
    assert_eq!(hints.scan(false).ready[9], (NOW - EARLIER, START.1));
    let scan = hints.scan(false);
    hints.reset();
    hints.took(&scan, [(9, NOW - EARLIER - 1, id(3))], &take());
    assert_eq!(hints.scan(false).ready[9], START);
}

#[test]
fn a_slow_scan_of_delayed_elements_is_one_of_leases_too() {
    let mut hints = after(Duration::from_millis(100));
    hints.full_wake = hints.full_wake.map(|last| FullScan { ended: last.ended - FULL_INTERVAL, ..last });
    let scan = hints.scan(false);
    assert_eq!((scan.is_full, scan.delayed, scan.leases), (false, 0, Some([0; 2])));
    let found = Found { now: NOW, woke_all: true, next_lease: None, took: SLOW, woke_in: SLOW };
    hints.scanned(&scan, &found);
    assert_eq!(hints.scan(false).delayed, NOW);
}

/// A full scan that needs 10 minutes is not the only work of the server, and is repeated after 10 s nevertheless.
#[test]
fn full_scans_need_a_small_part_of_the_time() {
    for (took, interval) in [(4, 0), (10, 200), (100, 2_000), (600_000, 10_000)] {
        let (took, interval) = (Duration::from_millis(took), Duration::from_millis(interval));
        let ended = |ago: Duration| FullScan { ended: Instant::now().checked_sub(ago).unwrap(), took };
        assert!(ended(interval).is_old());
        assert!(interval.is_zero() || !ended(interval - Duration::from_millis(150)).is_old(), "{took:?}");
    }
}

#[test]
fn rows_are_removed_once_in_a_while() {
    let mut hints = Hints::default();
    assert_eq!(hints.forgets(1), Some((0, 100)));
    hints.forgot(7);
    let calls: Vec<_> = (0..KEPT).map(|_| hints.forgets(1)).collect();
    assert_eq!(calls.iter().filter(|call| **call == Some((7, 600))).count(), 1, "{calls:?}");
    assert_eq!(hints.forgets(2000), Some((7, 5000)), "more than were added");
}
