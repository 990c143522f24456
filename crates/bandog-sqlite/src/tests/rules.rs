//! The states of holds, as a table of cases.

use std::time::Duration;

use crate::{
    options::check_system,
    rules::{HoldState, Lease, Sighting, Wanted},
};

/// A hold of the owner `me` that expires at 1,100 ns and has a ttl of 100 ns.
fn held(is_of_this_boot: bool) -> Lease {
    Lease {
        owner: Some("me".into()),
        fence: 9,
        expires_ns: 1_100,
        ttl_ns: 100,
        stamp: 5,
        is_of_this_boot,
        wanted: Wanted::No,
    }
}

/// The state in which the owner `me` still holds the lock for this time.
fn is_held(left_ns: u64, is_unseen: bool) -> HoldState<'static> {
    HoldState::Held { owner: "me", left: Duration::from_nanos(left_ns), is_unseen }
}

#[test]
fn a_hold_of_this_boot_expires_at_its_time() {
    assert_eq!(held(true).state(1_000, None), is_held(100, false));
    assert_eq!(held(true).state(1_099, None), is_held(1, false));
    assert_eq!(held(true).state(1_100, None), HoldState::Free);
    assert_eq!(held(true).state(i64::MAX, None), HoldState::Free);
    assert_eq!(Lease { owner: None, ..held(true) }.state(1_000, None), HoldState::Free);
}

#[test]
fn a_hold_of_another_boot_is_observed_for_its_ttl() {
    let lease = held(false);
    for now_ns in [0, 1_000, i64::MAX] {
        assert_eq!(lease.state(now_ns, None), is_held(100, true), "a time of another clock was compared");
    }
    let sighting = |stamp| Some(Sighting { since_ns: 7_000, stamp });
    assert_eq!(lease.state(7_000, sighting(5)), is_held(100, false));
    assert_eq!(lease.state(7_099, sighting(5)), is_held(1, false));
    assert_eq!(lease.state(7_100, sighting(5)), HoldState::Free);
    assert_eq!(lease.state(7_100, sighting(4)), is_held(100, true), "a sighting before the renewal was used");
    assert_eq!(lease.state(6_999, sighting(5)), is_held(100, true), "a sighting in the future was used");
}

#[test]
fn a_hold_with_a_time_in_the_future_is_observed_for_its_ttl() {
    assert_eq!(held(true).state(999, None), is_held(100, true));
    let sighting = Some(Sighting { since_ns: 800, stamp: 5 });
    assert_eq!(held(true).state(900, sighting), HoldState::Free);
}

// Promise: SQ24
#[test]
fn a_system_without_a_common_clock_is_refused() {
    check_system("linux").unwrap();
    for system in ["macos", "windows", "freebsd", "android"] {
        let error = check_system(system).unwrap_err();
        assert_eq!(error.kind(), bandog_core::ErrorKind::Unsupported);
        for words in [system, "needs Linux", "redis://HOST", "memory:"] {
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
