use std::{
    num::{NonZeroU32, NonZeroU64},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use bandog_conformance::wrap::{
    Capped, Counting, Delayed, Fate, Flaw, Flawed, Forgetful, Lossy, Stopped, Which, WithoutSubscriptions,
};
use bandog_core::{
    Answer, Backend, Claim, ClaimId, ClientId, Clock, ErrorKind, Fence, Fences, IfUnused, Inspect, Key, Kind,
    LatchAction, LatchOperation, Latches, Leases, MAX_BLOCK, Member, Memory, Notifier, OperationId, Pattern, Records,
    Renewal, Step, Swap, Swapped, Usage, Verdict,
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
    assert_eq!(wrapper.members_of(&[member.id]).await.unwrap(), std::slice::from_ref(&member));
    wrapper.deregister(member.id).await.unwrap();
    assert_eq!(wrapper.members().await.unwrap(), []);
    assert_eq!(wrapper.check().await.unwrap().len(), 1);
    assert_eq!(wrapper.check_for("").await.unwrap().len(), 1);
    wrapper.ping().await.unwrap();

    let key = Key::new("orders").unwrap();
    assert_eq!(wrapper.evict(&key).await.unwrap(), None);
    let client = Client::options().clock(Clock::tokio()).on_current_runtime().over(wrapper.clone()).unwrap();
    let guard = client.mutex("orders").lock().await.unwrap();
    assert!(wrapper.show(&key).await.unwrap().is_held());
    assert!(wrapper.show_all(std::slice::from_ref(&key)).await.unwrap()[0].is_held());
    assert_eq!(wrapper.list(&Pattern::all()).await.unwrap().len(), 1);
    assert!(!wrapper.forget(&key).await.unwrap());
    assert!(wrapper.evict(&key).await.unwrap().is_some());
    assert!(!wrapper.show(&key).await.unwrap().is_held());
    drop(guard);
    let page = wrapper.names_page(&Pattern::all(), Duration::ZERO, None).await.unwrap();
    assert_eq!(page.keys, std::slice::from_ref(&key));
    tokio::time::sleep(TTL).await;
    let usage = wrapper.usage(&page.keys, Duration::ZERO, IfUnused::Forget).await.unwrap();
    assert_eq!(usage, [Usage::Unused]);
    assert_eq!(wrapper.set_limit(&key, NonZeroU32::MIN).await.unwrap(), None);
    assert_eq!(wrapper.set_limit(&key, NonZeroU32::MIN).await.unwrap(), Some(1));

    let created = wrapper.swap(&[Swap::new(key.clone(), None, "one")]).await.unwrap();
    assert!(matches!(created.each[..], [Ok(Swapped::Done(Some(_)))]), "{created:?}");
    let reading = wrapper.read(std::slice::from_ref(&key), &[]).await.unwrap();
    assert!(matches!(&reading.records[..], [Ok(Some(record))] if record.value == "one"), "{reading:?}");
    assert_eq!(wrapper.names(&Pattern::all()).await.unwrap(), std::slice::from_ref(&key));
    assert_eq!(wrapper.history(&key).await.unwrap(), []);

    assert!(wrapper.change_latch(&latch(1, LatchAction::Set(NonZeroU64::MIN))).await.unwrap().unwrap().has_changed);
    assert_eq!(wrapper.latch_count(&key).await.unwrap(), 1);
    assert_eq!(wrapper.list_latches(&Pattern::all()).await.unwrap().len(), 1);
    wrapper.change_latch(&latch(2, LatchAction::Delete)).await.unwrap().unwrap();
    tokio::time::sleep(TTL * 2).await;
    let records = async || wrapper.names(&Pattern::all()).await.unwrap().len();
    let before = records().await;
    wrapper.clear_latches().await.unwrap();
    assert_eq!((before, records().await), (2, 1));
}

/// An operation on the latch `orders`.
fn latch(number: u64, action: LatchAction) -> LatchOperation {
    let id = OperationId { client: ClientId::random(), number };
    LatchOperation { key: Key::new("orders").unwrap(), id, action, remember: TTL, forget_before: 0 }
}

/// The key and the claim of the subscriptions below.
fn orders() -> (Key, Claim) {
    let key = Key::new("orders").unwrap();
    let claim = Claim::new(key.clone(), ClaimId { client: ClientId::random(), number: 1 }, Kind::Mutex, TTL);
    (key, claim)
}

/// Asserts that each of the three subscriptions of this wrapper notifies.
async fn assert_notifies(wrapper: impl Backend) {
    let (key, claim) = orders();
    let notified = Arc::new(AtomicBool::new(false));
    let notifier = || {
        let notified = Arc::clone(&notified);
        Notifier::new(move || notified.store(true, Relaxed))
    };

    let subscription = wrapper.subscribe(&claim, notifier()).await.unwrap();
    wrapper.apply(&[Step::Claim(claim.clone()), Step::Release(claim)]).await;
    assert!(notified.swap(false, Relaxed));
    drop(subscription);

    let subscription = wrapper.subscribe_record(&key, notifier()).await.unwrap();
    wrapper.swap(&[Swap { notifies: true, ..Swap::new(key.clone(), None, "one") }]).await.unwrap();
    assert!(notified.swap(false, Relaxed));
    drop(subscription);

    let subscription = wrapper.subscribe_latch(&key, notifier()).await.unwrap();
    wrapper.change_latch(&latch(1, LatchAction::Set(NonZeroU64::MIN))).await.unwrap();
    wrapper.change_latch(&latch(2, LatchAction::Delete)).await.unwrap();
    assert!(notified.swap(false, Relaxed));
    drop(subscription);
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
    assert_passes_calls(Flawed::new(memory(), Flaw::None)).await;
    assert_passes_calls(WithoutSubscriptions::new(memory())).await;
}

#[tokio::test(start_paused = true)]
async fn each_wrapper_passes_subscriptions_to_its_backend() {
    assert_notifies(memory()).await;
    assert_notifies(Counting::new(memory())).await;
    assert_notifies(Delayed::new(memory(), 1, TTL / 100, TTL / 100)).await;
    assert_notifies(Lossy::new(memory())).await;
    assert_notifies(Stopped::new(memory())).await;
    assert_notifies(Forgetful::new(memory())).await;
    assert_notifies(Capped::short_leases(memory(), TTL)).await;
    assert_notifies(Flawed::new(memory(), Flaw::None)).await;
}

#[tokio::test(start_paused = true)]
async fn a_backend_without_subscriptions_refuses_each() {
    let ((key, claim), store) = (orders(), WithoutSubscriptions::new(memory()));
    let notifier = || Notifier::new(|| ());
    let refused = [
        store.subscribe(&claim, notifier()).await,
        store.subscribe_record(&key, notifier()).await,
        store.subscribe_latch(&key, notifier()).await,
    ];
    for error in refused.map(Result::unwrap_err) {
        assert_eq!((error.kind(), error.verb(), error.key()), (ErrorKind::Denied, Some("subscribe"), Some(&key)));
    }
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
