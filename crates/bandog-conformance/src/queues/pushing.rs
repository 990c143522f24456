//! Laws of pushes.

use std::time::Duration;

use bandog_core::{
    Key,
    queues::{
        Change, DeliveryId, Headers, LAYOUT, NewElement, OnceId, Phase, Priority, Push, Pushed, Settle, SettleEnd,
        Settled, When, WorkerRow, envelope, envelope::MAX_ENVELOPE,
    },
};
use bandog_testkit::eventually_async;
use futures_util::future::join_all;

use super::{
    QueueWorld,
    kit::{HOUR, Program, SECOND, SOON, new, texts},
};

/// Law 341: elements are delivered in the order of their pushes, each once, and the queues are separate.
// Promise: W6
pub async fn elements_are_delivered_in_their_order<W: QueueWorld>(world: &W) {
    let (ours, theirs) = (Program::of(world.queues()), Program::of(world.queues()));
    let other = Program::named(world.queues(), "orders2");
    other.push_texts(&["of another queue"]).await;
    ours.push_texts(&["a", "b"]).await;
    theirs.push_texts(&["c"]).await;
    ours.push_texts(&["d"]).await;
    let taken = theirs.run(theirs.take(3)).await;
    assert_eq!(texts(&taken.elements), ["a", "b", "c"]);
    assert!(taken.has_more);
    assert!(taken.elements.iter().all(|element| element.attempt == 1 && element.error.is_none()));
    assert!(taken.elements.is_sorted_by(|a, b| a.fence < b.fence), "{taken:?}");
    let taken = ours.run(ours.take(10)).await;
    assert_eq!(texts(&taken.elements), ["d"]);
    assert!(!taken.has_more);
    assert_eq!(texts(&other.take_all(10).await), ["of another queue"]);
    assert!(ours.take_all(10).await.is_empty());
}

/// Law 342: a payload of any bytes is delivered as it is. A push of many elements, and of several queues, is answered in its
/// order.
pub async fn elements_of_any_bytes_are_delivered<W: QueueWorld>(world: &W) {
    let ours = Program::of(world.queues());
    let large: Vec<u8> = (0..=255).cycle().take(512 * 1024).collect();
    for payload in [&b""[..], b"\0", b"\r\n'\"\\", &[0xff, 0xfe], "中".as_bytes(), &large] {
        ours.push(NewElement { payload: payload.to_vec(), ..new("") }).await;
        let element = ours.take_one().await;
        assert!(element.payload == payload, "{} bytes", payload.len());
        ours.done(&element).await;
    }
    let names = ["a", "b {c}:d", "中"].map(|name| Key::new(name).expect("a valid name"));
    let many: Vec<_> = (0..500).map(|number| new(&number.to_string())).collect();
    let pushes = names.clone().map(|queue| Push {
        queue,
        elements: many.iter().map(|e| NewElement { id: super::kit::new_id(), ..e.clone() }).collect(),
    });
    let answers = ours.store.push(&pushes).await;
    for (push, answer) in pushes.iter().zip(answers) {
        let expected: Vec<_> = push.elements.iter().map(|element| Pushed { id: element.id, is_new: true }).collect();
        assert_eq!(answer.expect("the push succeeds"), expected);
    }
    for name in names {
        let program = Program::named(world.queues(), name.as_str());
        let expected: Vec<_> = (0..500).map(|number| number.to_string()).collect();
        assert_eq!(texts(&program.take_all(1000).await), expected);
    }
}

/// Law 387: what has headers is delivered as it was pushed, in each delivery, beside elements without. A queue that was empty
/// goes on.
pub async fn elements_keep_their_headers<W: QueueWorld>(world: &W) {
    let (ours, theirs) = (Program::of(world.queues()), Program::of(world.queues()));
    let mut headers = Headers::default();
    headers.set("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").expect("valid");
    headers.set("long", &"v".repeat(4000)).expect("valid");
    let with = |payload: &[u8]| NewElement { payload: envelope::close(&headers, payload.to_vec()), ..new("") };
    let report = |layout| WorkerRow { id: 1, place: "host/1".into(), layout, ..WorkerRow::default() };
    for round in 0..3 {
        ours.push_texts(&["before"]).await;
        let earlier = theirs.take_one().await;
        let last = NewElement { priority: Priority::MAX, ..with(b"payload") };
        let pushed = ours.push(last.clone()).await;
        assert_eq!(ours.push(last.clone()).await, pushed, "repeated");
        let keyed = with(&[0xff; 3]);
        ours.push(NewElement { order_key: Some("key".into()), keep_result: Some(HOUR), ..keyed.clone() }).await;
        ours.push_texts(&["plain"]).await;
        let shown = theirs.store.find(&theirs.queue, &[pushed.id], 10 + MAX_ENVELOPE).await.expect("the element");
        let shown = shown[0].clone().expect("it is there").opened(4);
        assert_eq!((&shown.headers, &*shown.payload, shown.payload_len), (&headers, &b"payl"[..], 7));
        let element = theirs.take_one().await;
        assert_eq!(element.payload, last.payload);
        assert_eq!(theirs.settle(&element, SettleEnd::Retry(Duration::ZERO, "again".into())).await, Settled::Applied);
        let again = ours.take_soon().await;
        assert_eq!((again.payload, again.attempt, again.error.as_deref()), (last.payload, 2, Some("again")));
        let rest = theirs.take_all(10).await;
        let payloads: Vec<_> = rest.iter().map(|element| element.payload.clone()).collect();
        assert_eq!(payloads, [keyed.payload, b"plain".to_vec()]);
        for element in rest.iter().chain([&earlier]) {
            assert_eq!(theirs.done(element).await, Settled::Applied);
        }
        let settle =
            [Settle { delivery: DeliveryId { id: again.id, fence: again.fence }, end: SettleEnd::Done(vec![1]) }];
        let settled = async || ours.store.settle(&ours.queue, &settle).await.expect("an answer")[0] == Settled::Applied;
        eventually_async(SOON, settled).await;
        assert!(theirs.take_all(10).await.is_empty(), "round {round}");
        let kept = theirs.store.find(&theirs.queue, &[keyed.id], 0).await.expect("the result");
        assert_eq!(kept[0].as_ref().expect("it is kept").phase, Phase::Ended);
        theirs.store.change(&theirs.queue, &Change::Worker(report(LAYOUT), HOUR)).await.expect("the report");
        assert_eq!(theirs.store.status(&theirs.queue).await.expect("the status").workers, [report(LAYOUT)]);
    }
}

/// Law 343: a repeated push adds nothing, also when its elements are taken or done, and its answer is the same.
// Promise: W4
pub async fn pushes_that_are_repeated_add_nothing<W: QueueWorld>(world: &W) {
    let ours = Program::of(world.queues());
    let elements = [new("a"), new("b")];
    let first = ours.push_all(&elements).await;
    assert_eq!(ours.push_all(&elements).await, first);
    let taken = ours.take_all(10).await;
    assert_eq!(texts(&taken), ["a", "b"]);
    ours.done(&taken[0]).await;
    let theirs = Program::of(world.queues());
    assert_eq!(theirs.push_all(&elements).await, first);
    ours.done(&taken[1]).await;
    assert_eq!(theirs.push_all(&elements).await, first);
    assert!(theirs.take_all(10).await.is_empty());
    // At the same time, by several connections.
    let elements: Vec<_> = (0..20).map(|number| new(&number.to_string())).collect();
    let programs: Vec<_> = (0..4).map(|_| Program::of(world.queues())).collect();
    join_all(programs.iter().map(|program| program.push_all(&elements))).await;
    assert_eq!(ours.take_all(100).await.len(), 20);
}

/// Law 344: of pushes with the same id, one adds an element within the window, also after the element is done. The others
/// are answered with it.
pub async fn elements_with_an_id_are_pushed_once<W: QueueWorld>(world: &W) {
    let ours = Program::of(world.queues());
    let with_id = |id: &str, window: Duration| NewElement { once: Some(OnceId { id: id.into(), window }), ..new(id) };
    let elements = [with_id("x", HOUR), new("plain"), with_id("x", HOUR), with_id("y", HOUR)];
    let answers = ours.push_all(&elements).await;
    let expected = [(0, true), (1, true), (0, false), (3, true)]
        .map(|(at, is_new): (usize, _)| Pushed { id: elements[at].id, is_new });
    assert_eq!(answers, expected);
    assert_eq!(ours.push_all(&elements).await, expected, "a repeated push has the same answer");
    for element in ours.take_all(10).await {
        ours.done(&element).await;
    }
    let programs: Vec<_> = (0..4).map(|_| Program::of(world.queues())).collect();
    let again = join_all(programs.iter().map(|program| program.push(with_id("x", HOUR)))).await;
    assert!(again.iter().all(|pushed| *pushed == Pushed { id: elements[0].id, is_new: false }), "{again:?}");
    let raced = join_all(programs.iter().map(|program| program.push(with_id("z", HOUR)))).await;
    assert_eq!(raced.iter().filter(|pushed| pushed.is_new).count(), 1, "{raced:?}");
    assert!(raced.iter().all(|pushed| pushed.id == raced[0].id), "{raced:?}");
    assert_eq!(texts(&ours.take_all(10).await), ["z"]);

    ours.push(with_id("short", Duration::from_millis(300))).await;
    // A store may remove what is over about once a second, also in the push that uses the id again.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    bandog_testkit::eventually_async(super::kit::SOON, async || ours.push(with_id("short", HOUR)).await.is_new).await;
    assert!(!ours.push(with_id("short", HOUR)).await.is_new, "the window begins anew");
    assert_eq!(texts(&ours.take_all(10).await), ["short", "short"]);
}

/// Law 345: elements with a greater priority are delivered first, those of the same priority in their order.
// Promise: W6
pub async fn elements_with_a_greater_priority_come_first<W: QueueWorld>(world: &W) {
    let ours = Program::of(world.queues());
    let with_priority =
        |text: &str, priority: u8| NewElement { priority: Priority::new(priority).expect("valid"), ..new(text) };
    let elements = [
        with_priority("a0", 0),
        with_priority("a9", 9),
        with_priority("a3", 3),
        with_priority("b9", 9),
        with_priority("b0", 0),
    ];
    ours.push_all(&elements).await;
    assert_eq!(texts(&ours.take_all(1).await), ["a9"]);
    ours.push(with_priority("c9", 9)).await;
    assert_eq!(texts(&ours.take_all(3).await), ["b9", "c9", "a3"]);
    assert_eq!(texts(&ours.take_all(10).await), ["a0", "b0"]);
}

/// Law 346: an element is not delivered before its time, and the answer to a take says when the next one is due. A time that
/// has passed is now.
pub async fn elements_wait_for_their_time<W: QueueWorld>(world: &W) {
    let ours = Program::of(world.queues());
    let when = |text: &str, when: When| NewElement { when, ..new(text) };
    ours.push(when("past", When::At(std::time::UNIX_EPOCH))).await;
    assert_eq!(texts(&ours.take_all(10).await), ["past"]);
    let pushed = tokio::time::Instant::now();
    ours.push_all(&[
        when("later", When::After(2 * SECOND)),
        when("hour", When::After(HOUR)),
        when("soon", When::After(SECOND)),
    ])
    .await;
    assert_eq!(ours.count(Phase::Delayed).await, 3);
    let taken = ours.run(ours.take(10)).await;
    assert!(taken.elements.is_empty());
    assert!(taken.next.is_some_and(|next| next <= SECOND), "{taken:?}");
    assert_eq!(texts(&[ours.take_soon().await]), ["soon"]);
    // Two clocks may differ by a rounding.
    assert!(pushed.elapsed() >= SECOND - Duration::from_millis(2), "{:?}", pushed.elapsed());
    assert_eq!(texts(&[ours.take_soon().await]), ["later"]);
    assert!(pushed.elapsed() >= 2 * SECOND - Duration::from_millis(2), "{:?}", pushed.elapsed());
    assert!(ours.take_all(10).await.is_empty());
}
