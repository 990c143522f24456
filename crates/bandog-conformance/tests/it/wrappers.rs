use std::{num::NonZeroU32, time::Duration};

use bandog_conformance::wrap::{Capped, Counting, Delayed, Fate, Forgetful, Lossy, Stopped, Which};
use bandog_core::{
    Answer, Backend, Claim, ClaimId, ClientId, Clock, Fence, Fences, Inspect, Key, Kind, Leases, MAX_BLOCK, Member,
    Memory, Pattern, Records, Renewal, Step, Swap, Swapped, Verdict,
};
use bandog_sync::Client;

const TTL: Duration = Duration::from_secs(10);

fn memory() -> Memory {
    Memory::new(Clock::tokio())
}

/// Asserts that the wrapper passes calls on to the backend and returns its answers.
async fn assert_passes_calls(wrapper: impl Backend + Clone) {
    let member = Member::here(ClientId::random());
    wrapper.register(&member, TTL).await.unwrap();
    assert_eq!(wrapper.members().await.unwrap(), std::slice::from_ref(&member));
    wrapper.deregister(member.id).await.unwrap();
    assert_eq!(wrapper.members().await.unwrap(), []);
    assert_eq!(wrapper.check().await.unwrap().len(), 1);

    let key = Key::new("orders").unwrap();
    assert_eq!(wrapper.evict(&key).await.unwrap(), None);
    let client = Client::options().clock(Clock::tokio()).on_current_runtime().over(wrapper.clone()).unwrap();
    let guard = client.mutex("orders").lock().await.unwrap();
    assert!(wrapper.show(&key).await.unwrap().is_held());
    assert!(wrapper.evict(&key).await.unwrap().is_some());
    assert!(!wrapper.show(&key).await.unwrap().is_held());
    drop(guard);

    let created = wrapper.swap(&[Swap::new(key.clone(), None, "one")]).await.unwrap();
    assert!(matches!(created.each[..], [Ok(Swapped::Done(Some(_)))]), "{created:?}");
    let reading = wrapper.read(std::slice::from_ref(&key), &[]).await.unwrap();
    assert!(matches!(&reading.records[..], [Ok(Some(record))] if record.value == "one"), "{reading:?}");
    assert_eq!(wrapper.names(&Pattern::all()).await.unwrap(), std::slice::from_ref(&key));
    assert_eq!(wrapper.history(&key).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn each_wrapper_passes_calls_to_its_backend() {
    assert_passes_calls(memory()).await;
    assert_passes_calls(Counting::new(memory())).await;
    assert_passes_calls(Delayed::new(memory(), 1, TTL / 100, TTL / 100)).await;
    assert_passes_calls(Lossy::new(memory())).await;
    assert_passes_calls(Stopped::new(memory())).await;
    assert_passes_calls(Forgetful::new(memory())).await;
    assert_passes_calls(Capped::short_leases(memory(), TTL)).await;
}

/// The answers of a capped backend say how long a hold lasts, and the hold really ends at this time.
#[tokio::test(start_paused = true)]
async fn a_capped_backend_grants_less_than_requested() {
    let short = TTL / 10;
    let claim = |number| Claim {
        fences: MAX_BLOCK,
        ..Claim::new(Key::new("orders").unwrap(), ClaimId { client: ClientId::random(), number }, Kind::Mutex, TTL)
    };
    let (first, second, third) = (claim(1), claim(2), claim(3));

    let store = Capped::short_leases(memory(), short);
    let granted = store.apply(&[Step::Claim(first.clone())]).await;
    let [Ok(Answer::Claimed(Verdict::Granted { valid_for, .. }))] = granted[..] else { panic!("{granted:?}") };
    assert_eq!(valid_for, short);
    tokio::time::sleep(short / 2).await;
    let renewed = store.renew(std::slice::from_ref(&first)).await;
    assert!(matches!(renewed[..], [Ok(Renewal::Extended { valid_for })] if valid_for == short), "{renewed:?}");
    tokio::time::sleep(short - Duration::from_millis(1)).await;
    let next = Step::Claim(second.clone());
    let refused = store.apply(std::slice::from_ref(&next)).await;
    assert!(matches!(refused[..], [Ok(Answer::Claimed(Verdict::Busy { .. }))]), "{refused:?}");
    tokio::time::sleep(Duration::from_millis(1)).await;
    let granted = store.apply(std::slice::from_ref(&next)).await;
    assert!(matches!(granted[..], [Ok(Answer::Claimed(Verdict::Granted { .. }))]), "{granted:?}");

    let few = NonZeroU32::new(3).unwrap();
    let store = Capped::few_fences(memory(), few);
    let steps =
        [Step::Claim(first.clone()), Step::Claim(first.clone()), Step::Pass { from: Box::new(first), to: third }];
    let blocks = store.apply(&steps).await.into_iter().map(|answer| match answer {
        Ok(Answer::Claimed(Verdict::Granted { fences, .. })) => fences,
        answer => panic!("{answer:?}"),
    });
    let block = |last| Fences::ending(Fence::new(last), few);
    assert_eq!(blocks.collect::<Vec<_>>(), [block(3), block(3), block(6)]);
}

#[tokio::test(start_paused = true)]
async fn faults_apply_to_the_registry() {
    let member = Member::here(ClientId::random());
    let wire = Lossy::new(memory());
    wire.always(Fate::RequestLost);
    assert!(wire.register(&member, TTL).await.is_err());
    assert_eq!(wire.members().await.unwrap(), []);
    wire.always(Fate::ReplyLost);
    assert!(wire.register(&member, TTL).await.is_err());
    assert_eq!(wire.members().await.unwrap(), std::slice::from_ref(&member));

    let still = Stopped::new(memory());
    still.stop(Which::Requests);
    assert!(tokio::time::timeout(TTL, still.register(&member, TTL)).await.is_err());
    assert_eq!((still.members().await.unwrap().len(), still.held()), (0, 0));
    still.go_on();
    still.register(&member, TTL).await.unwrap();
    assert_eq!(still.members().await.unwrap().len(), 1);
}

/// The value of a record.
async fn value(store: &impl Records, key: &Key) -> Option<String> {
    let [record] = <[_; 1]>::try_from(store.read(std::slice::from_ref(key), &[]).await.unwrap().records).unwrap();
    record.unwrap().map(|record| record.value)
}

#[tokio::test(start_paused = true)]
async fn faults_apply_to_records() {
    let key = Key::new("orders").unwrap();
    let creation = [Swap::new(key.clone(), None, "one")];

    for (fate, first_value, later_value) in [
        (Fate::Refused, None, None),
        (Fate::RequestLost, None, None),
        (Fate::ReplyLost, Some("one"), Some("one")),
        (Fate::Late(TTL), None, Some("one")),
    ] {
        let wire = Lossy::new(memory());
        wire.next([fate]);
        let error = wire.swap(&creation).await.unwrap_err();
        assert_eq!((error.verb(), error.maybe_applied()), (Some("swap"), fate != Fate::Refused), "{fate:?}");
        assert_eq!(value(&wire, &key).await.as_deref(), first_value, "{fate:?}");
        tokio::time::sleep(TTL * 2).await;
        assert_eq!(value(&wire, &key).await.as_deref(), later_value, "{fate:?}");
        wire.always(Fate::RequestLost);
        assert!(wire.read(&[], &[]).await.is_err() && wire.names(&Pattern::all()).await.is_err());
        assert!(wire.history(&key).await.is_err() && wire.lost() == 4);
    }

    let still = Stopped::new(memory());
    still.stop(Which::Answers);
    assert!(tokio::time::timeout(TTL, still.swap(&creation)).await.is_err());
    still.go_on();
    assert_eq!(value(&still, &key).await.as_deref(), Some("one"));
    still.stop(Which::Requests);
    assert!(tokio::time::timeout(TTL, still.read(&[], &[])).await.is_err());
    assert_eq!(still.held(), 2);

    let counts = Counting::new(memory());
    counts.swap(&[creation[0].clone(), creation[0].clone()]).await.unwrap();
    counts.read(&[], &[]).await.unwrap();
    assert_eq!((counts.calls(), counts.swaps(), counts.reads()), (2, 2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_slow_connection_keeps_the_order_of_swaps() {
    let key = Key::new("orders").unwrap();
    let wire = Delayed::new(memory(), 7, TTL, TTL);
    for round in 0..20 {
        let swap = async |value: &str| wire.swap(&[Swap::new(key.clone(), None, value)]).await.unwrap();
        let (first, second) = tokio::join!(swap("first"), swap("second"));
        assert!(matches!(first.each[..], [Ok(Swapped::Done(Some(_)))]), "{round}");
        let [Ok(Swapped::Differs(Some(record)))] = &second.each[..] else { panic!("{round}: {second:?}") };
        let deletion = Swap { to: None, ..Swap::new(key.clone(), Some(record.version), "") };
        wire.swap(&[deletion]).await.unwrap();
    }
}
