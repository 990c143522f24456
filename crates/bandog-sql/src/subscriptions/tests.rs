use std::time::SystemTime;

use bandog_core::ClientId;

use super::*;

/// A poll that was sent before this client has changed the lock, and whose answer comes after it, says nothing.
#[test]
fn a_poll_in_flight_does_not_undo_that_a_lease_was_forgotten() {
    let key = Key::new("k").unwrap();
    let (channel, subscriptions) = (Channel::of_lock(&key), Subscriptions::default());
    let claim =
        Claim::new(key.clone(), ClaimId { client: ClientId::random(), number: 1 }, Kind::Mutex, Duration::from_secs(1));
    subscriptions.state().channels.insert(
        channel,
        Subscribers { claims: vec![(1, key.clone(), claim.id)], is_active: true, ..Subscribers::default() },
    );
    let names = HashMap::from([(key.clone(), channel)]);
    let poll = |asked_at| {
        let lease = PolledLease {
            owner: "another".into(),
            is_starving: false,
            expires: SystemTime::UNIX_EPOCH,
            until: Instant::now() + Duration::from_secs(60),
            asked_at: Some(asked_at),
        };
        subscriptions.polled(&names, &HashMap::from([("k".to_owned(), lease)]));
        subscriptions.busy_for(&claim).is_some()
    };
    assert!(poll(Instant::now()), "a poll says that the lock is held");
    let in_flight = Instant::now();
    subscriptions.forget_lease(&key);
    assert!(!poll(in_flight));
    let later = loop {
        // The clock may have a coarse resolution.
        match Instant::now() {
            now if now > in_flight + Duration::from_micros(1) => break now,
            _ => {}
        }
    };
    assert!(poll(later));
}
