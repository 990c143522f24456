use super::*;

#[test]
fn the_first_attempt_has_no_delay_and_later_delays_grow() {
    let mut backoff = Backoff::default();
    assert_eq!(backoff.next_delay(), Duration::ZERO);
    for max_ms in [5, 10, 20, 40, 80, 160, 200, 200] {
        let max = Duration::from_millis(max_ms);
        let delay = backoff.next_delay();
        assert!(delay <= max && delay >= max * 3 / 4, "{delay:?} of {max:?}");
    }
}

#[test]
fn only_a_connection_that_lasted_resets_the_delay() {
    let mut backoff = Backoff::default();
    backoff.next_delay();
    backoff.connection_lasted(Duration::from_millis(1));
    assert!(backoff.next_delay() > Duration::ZERO);
    backoff.connection_lasted(Duration::from_secs(1));
    assert_eq!(backoff.next_delay(), Duration::ZERO);
}
