use std::{
    sync::atomic::{AtomicI64, AtomicU64},
    time::SystemTime,
};

use tokio::time::advance;

use super::{Clock, Duration, Relaxed};

const HOUR: Duration = Duration::from_secs(3600);
/// The time from 1970 until 2024-02-29T00:00:00Z.
const LEAP_DAY: Duration = Duration::from_secs(1_709_164_800);

fn leap_day() -> SystemTime {
    SystemTime::UNIX_EPOCH + LEAP_DAY
}

#[tokio::test(start_paused = true)]
async fn a_test_that_pauses_tokios_clock_also_pauses_and_advances_the_wall_clock() {
    let clock = Clock::tokio();
    let (now, wall) = (clock.now(), clock.wall());
    assert_eq!((clock.now(), clock.wall()), (now, wall));
    let shown = SystemTime::now();
    assert!(
        shown - HOUR < wall && wall < shown + HOUR,
        "the wall clock does not start at the machine's time but at {wall:?}"
    );
    advance(HOUR).await;
    assert_eq!((clock.now(), clock.wall()), (now + HOUR, wall + HOUR));
    tokio::time::sleep(HOUR * 24 * 365 * 20).await;
    assert_eq!(clock.wall().duration_since(wall).unwrap(), clock.now().since(now));
}

#[tokio::test(start_paused = true)]
async fn setting_the_wall_clock_does_not_affect_leases() {
    let clock = Clock::tokio();
    let wall = clock.wall();
    assert_eq!(clock.set_ahead(HOUR).wall(), wall + HOUR);
    assert_eq!(clock.set_back(HOUR).wall(), wall - HOUR);
    assert_eq!(clock.set_ahead(HOUR).set_ahead(HOUR).wall(), wall + HOUR * 2);
    assert_eq!(clock.set_ahead(HOUR).set_back(HOUR * 3).wall(), wall - HOUR * 2);
    assert_eq!(clock.set_back(HOUR).set_ahead(HOUR).wall(), wall);
    for set in [clock.set_ahead(HOUR), clock.set_back(HOUR), clock.set_to(leap_day())] {
        assert_eq!(set.now(), clock.now());
    }
    assert_eq!(clock.wall(), wall, "the original clock was changed");
}

#[tokio::test(start_paused = true)]
async fn a_jumping_wall_clock_does_not_affect_leases() {
    static JUMPS: AtomicI64 = AtomicI64::new(0);
    let clock = Clock::tokio().set_to(leap_day()).jumping_by(&JUMPS);
    let now = clock.now();
    assert_eq!(clock.wall(), leap_day());
    for (by, shown) in
        [(3_600_000_000_000, leap_day() + HOUR), (-3_600_000_000_000, leap_day() - HOUR), (0, leap_day())]
    {
        JUMPS.store(by, Relaxed);
        assert_eq!((clock.wall(), clock.now()), (shown, now));
    }
}

#[tokio::test(start_paused = true)]
async fn a_wall_clock_that_was_set_continues_from_the_new_time() {
    let clock = Clock::tokio();
    for time in [leap_day(), SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH - HOUR, leap_day() + LEAP_DAY * 2] {
        for original in [clock, clock.set_ahead(HOUR), clock.set_back(HOUR)] {
            assert_eq!(original.set_to(time).wall(), time);
        }
    }
    let (set, now) = (clock.set_to(leap_day()), clock.now());
    advance(HOUR * 24).await;
    assert_eq!(set.wall(), leap_day() + HOUR * 24);
    assert_eq!(set.now(), now + HOUR * 24);
    assert_eq!(set.set_back(HOUR).wall(), leap_day() + HOUR * 23);
}

#[tokio::test(start_paused = true)]
async fn the_wall_clock_can_be_moved_by_at_most_292_years() {
    let clock = Clock::tokio();
    let most = Duration::from_nanos(i64::MAX.unsigned_abs());
    assert_eq!(clock.set_ahead(Duration::MAX).wall(), clock.wall() + most);
    assert_eq!(clock.set_ahead(Duration::MAX).set_ahead(HOUR).wall(), clock.wall() + most);
    assert!(clock.set_back(Duration::MAX).wall() <= clock.wall() - most);
}

#[test]
fn the_wall_clock_of_the_system_clock_shows_the_machines_time() {
    let clock = Clock::system();
    let before = SystemTime::now();
    let (behind, wall, ahead) = (clock.set_back(HOUR).wall(), clock.wall(), clock.set_ahead(HOUR).wall());
    let after = SystemTime::now();
    let range = before..=after;
    assert!(range.contains(&wall) && range.contains(&(behind + HOUR)) && range.contains(&(ahead - HOUR)));
}

#[test]
fn the_wall_clock_of_the_system_clock_can_be_set_and_continues() {
    let since = Clock::system().now();
    let set = Clock::system().set_to(leap_day());
    let (first, second) = (set.wall(), set.wall());
    let passed = set.now().since(since);
    assert!(leap_day() <= first && first <= second, "the clock shows {first:?} and then {second:?}");
    assert!(second <= leap_day() + passed + HOUR, "the clock shows {second:?} after {passed:?}");
}

#[test]
fn both_clocks_count_the_time_for_which_the_machine_is_suspended() {
    static SLEPT: AtomicU64 = AtomicU64::new(0);
    let clock = Clock::system_and(&SLEPT);
    let set = clock.set_to(leap_day());
    let now = clock.now();
    SLEPT.store(u64::try_from(HOUR.as_nanos()).unwrap(), Relaxed);
    assert!(clock.now().since(now) >= HOUR);
    assert!(set.wall() >= leap_day() + HOUR && set.wall() < leap_day() + HOUR * 2);
    assert!(clock.wall() >= SystemTime::now() + HOUR - Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn a_clock_is_reported_as_paused_while_it_is_paused() {
    assert!(Clock::tokio_is_paused());
    tokio::time::sleep(HOUR).await;
    assert!(Clock::tokio_is_paused(), "the clock does not count as paused after a sleep has advanced it");
    advance(HOUR).await;
    assert!(Clock::tokio_is_paused(), "the clock does not count as paused after the test has advanced it");
    tokio::time::resume();
    assert!(!Clock::tokio_is_paused());
    tokio::time::pause();
    assert!(Clock::tokio_is_paused());
}

/// The machine's clock moves in small steps, and the result of a check can depend on the time since the last step. So
/// the test makes many checks: outside a runtime, on runtimes with and without timers, and on a blocking thread.
#[test]
fn a_clock_that_runs_is_never_reported_as_paused() {
    let is_never_paused = || (0..20_000).all(|_| !Clock::tokio_is_paused());
    assert!(is_never_paused(), "a clock counts as paused outside a runtime");
    let paused = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    assert!(
        paused.block_on(async { Clock::tokio_is_paused() }),
        "the paused clock of a runtime does not count as paused"
    );
    assert!(is_never_paused(), "a clock counts as paused outside the runtime that has paused it");
    let bare = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert!(bare.block_on(async { is_never_paused() }), "a clock counts as paused on a runtime without timers");
    let running = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    assert!(running.block_on(async { is_never_paused() }));
    let after_resume = running.block_on(async {
        tokio::time::pause();
        tokio::time::resume();
        is_never_paused()
    });
    assert!(after_resume, "the clock counts as paused after it was resumed");
    assert!(
        running.block_on(async { tokio::task::spawn_blocking(is_never_paused).await.unwrap() }),
        "a running clock counts as paused on a blocking thread"
    );
}
