//! Laws of limits, and of what operators see and do.

use std::{num::NonZeroU32, time::Duration};

use bandog_core::{
    Pattern,
    queues::{
        Change, ElementRow, Extended, NewElement, Outcome, Phase, QueueSettings, Rate, SettleEnd, Settled, Take, When,
        WorkerRow,
    },
    structures::Cursor,
};
use bandog_testkit::eventually_async;

use super::{
    QueueWorld,
    kit::{HOUR, Program, SECOND, SOON, new, texts, with_key},
};

fn some(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).expect("not 0")
}

impl Program {
    async fn settings(&self) -> QueueSettings {
        self.store.status(&self.queue).await.expect("the status").settings
    }
}

/// Law 362: a paused queue delivers nothing. Its elements can be pushed, extended and settled. Limits that are changed
/// meanwhile leave it paused, and a pause leaves the limits.
pub async fn queues_can_be_paused<W: QueueWorld>(world: &W) {
    let (ours, theirs) = (Program::of(world.queues()), Program::of(world.queues()));
    ours.push_texts(&["a"]).await;
    let element = ours.take_one().await;
    theirs.change(Change::Pause(true)).await;
    ours.push_texts(&["b"]).await;
    let taken = ours.run(ours.take(1)).await;
    assert!(taken.elements.is_empty() && !taken.has_more, "{taken:?}");
    assert_eq!(ours.extend(&element, HOUR, None).await, Extended::Held);
    assert_eq!(ours.done(&element).await, Settled::Applied);
    let rate = Rate { deliveries: some(1_000), per: SECOND };
    let mut settings = QueueSettings { is_paused: true, concurrency: Some(some(2)), rate: Some(rate) };
    ours.change(Change::Concurrency(settings.concurrency)).await;
    theirs.change(Change::Rate(settings.rate)).await;
    assert_eq!(ours.settings().await, settings);
    assert!(ours.take_all(1).await.is_empty());
    ours.change(Change::Concurrency(None)).await;
    theirs.change(Change::Pause(false)).await;
    (settings.is_paused, settings.concurrency) = (false, None);
    assert_eq!(ours.settings().await, settings);
    ours.change(Change::Rate(None)).await;
    assert_eq!(ours.settings().await, QueueSettings::default());
    assert_eq!(texts(&ours.take_all(1).await), ["b"]);
}

/// Law 363: at most the limit of elements is taken at the same time, by all takers together. Settled ones and those whose
/// lease has ended make room.
pub async fn queues_limit_what_is_taken<W: QueueWorld>(world: &W) {
    let (ours, theirs) = (Program::of(world.queues()), Program::of(world.queues()));
    ours.change(Change::Concurrency(Some(some(3)))).await;
    let settings = QueueSettings { concurrency: Some(some(3)), ..QueueSettings::default() };
    assert_eq!(ours.settings().await, settings);
    ours.push_texts(&["a", "b", "c", "d", "e", "f"]).await;
    let first = ours.run(ours.take(2)).await.elements;
    let second = theirs.run(Take { lease: SECOND, ..theirs.take(10) }).await;
    assert_eq!((first.len(), second.elements.len(), second.has_more), (2, 1, false));
    assert!(ours.take_all(10).await.is_empty());
    ours.done(&first[0]).await;
    assert_eq!(ours.take_all(10).await.len(), 1);
    let mut rest = Vec::new();
    eventually_async(SOON, async || {
        rest = ours.take_all(10).await;
        !rest.is_empty()
    })
    .await;
    assert_eq!(texts(&rest), ["c"], "its lease has ended");
    ours.change(Change::Concurrency(None)).await;
    assert_eq!(texts(&ours.take_all(10).await), ["e", "f"]);
}

/// Law 383: elements that were never delivered can be withdrawn, and no others.
pub async fn elements_are_withdrawn_if_they_were_not_delivered<W: QueueWorld>(world: &W) {
    let (ours, theirs) = (Program::of(world.queues()), Program::of(world.queues()));
    let kept = |element| NewElement { keep_result: Some(HOUR), ..element };
    let later = NewElement { when: When::After(HOUR), ..new("later") };
    let elements = [
        kept(new("taken")),
        kept(new("again")),
        kept(new("ready")),
        kept(later),
        kept(with_key("head", "k")),
        kept(with_key("blocked", "k")),
    ];
    let ids: Vec<_> = elements.iter().map(|element| element.id).collect();
    ours.push_all(&elements).await;
    let taken = theirs.take_all(2).await;
    theirs.settle(&taken[1], SettleEnd::Retry(Duration::ZERO, "again".into())).await;
    assert_eq!(ours.change(Change::Withdraw(ids.clone())).await, 4);
    assert_eq!(ours.change(Change::Withdraw(ids.clone())).await, 0);
    for (number, id) in ids.iter().enumerate() {
        let outcome = ours.find(*id).await.and_then(|row| row.outcome);
        assert_eq!(outcome, (number >= 2).then_some(Outcome::Cancelled), "{number}");
    }
    assert_eq!(theirs.done(&taken[0]).await, Settled::Applied);
    assert_eq!(texts(&theirs.take_all(9).await), ["again"]);
}

/// Law 386: what operators see of payloads is as short as they ask for, and no answer has more than a megabyte of payloads or of
/// results beside the first.
pub async fn elements_are_shown_in_portions<W: QueueWorld>(world: &W) {
    let ours = Program::of(world.queues());
    let long = "0123456789".repeat(30_000);
    let elements: Vec<_> = (0..6).map(|_| NewElement { keep_result: Some(HOUR), ..new(&long) }).collect();
    let ids: Vec<_> = elements.iter().map(|element| element.id).collect();
    ours.push_all(&elements).await;
    let (rows, _) = ours.store.elements(&ours.queue, Phase::Ready, &Cursor::default(), 100, 12).await.expect("a page");
    assert_eq!(rows.len(), 6);
    assert!(rows.iter().all(|row| (row.payload.as_slice(), row.payload_len) == (b"012345678901".as_slice(), 300_000)));
    let (mut from, mut seen, mut pages) = (Some(Cursor::default()), Vec::new(), 0);
    while let Some(cursor) = from {
        let page = ours.store.elements(&ours.queue, Phase::Ready, &cursor, 100, 1 << 20).await.expect("a page");
        assert!(page.0.iter().map(|row| row.payload.len()).sum::<usize>() <= 1 << 20 && !page.0.is_empty());
        seen.extend(page.0.iter().map(|row| row.id));
        (from, pages) = (page.1, pages + 1);
    }
    assert_eq!((seen, pages), (ids.clone(), 2));
    let found = ours.store.find(&ours.queue, &ids, 1 << 20).await.expect("rows");
    let lengths: Vec<_> = found.into_iter().flatten().map(|row| row.payload.len()).collect();
    assert_eq!((lengths.len(), lengths.iter().sum::<usize>()), (6, 900_000));
    for element in ours.take_all(9).await.into_iter().chain(ours.take_all(9).await) {
        ours.settle(&element, SettleEnd::Done(long.clone().into_bytes())).await;
    }
    let mut left = ids;
    while !left.is_empty() {
        let found = ours.store.find(&ours.queue, &left, 0).await.expect("rows");
        let rows: Vec<_> = found.into_iter().map(|row| row.expect("a result is kept")).collect();
        assert!(rows.iter().all(|row| row.phase == Phase::Ended));
        let known: Vec<_> = rows.iter().filter(|row| row.outcome.is_some()).map(|row| row.id).collect();
        assert!((1..=3).contains(&known.len()), "{} results in one answer", known.len());
        left.retain(|id| !known.contains(id));
    }
}

/// Law 364: in no period are more elements delivered than the rate says, and each taker knows when the next one comes.
pub async fn queues_limit_the_rate<W: QueueWorld>(world: &W) {
    let (ours, theirs) = (Program::of(world.queues()), Program::of(world.queues()));
    let rate = Rate { deliveries: some(5), per: SECOND };
    ours.change(Change::Rate(Some(rate))).await;
    let elements: Vec<_> = (0..20).map(|number| new(&number.to_string())).collect();
    ours.push_all(&elements).await;
    let mut times = Vec::new();
    while times.len() < 11 {
        let program = if times.len() % 2 == 0 { &ours } else { &theirs };
        let before = tokio::time::Instant::now();
        let taken = program.run(program.take(10)).await;
        times.extend(taken.elements.iter().map(|_| before));
        let next = taken.next.expect("the time of the next delivery");
        // The deliveries are spread evenly, but for the first one of all.
        assert!(next <= SECOND / 5, "{taken:?}");
        if taken.elements.is_empty() {
            tokio::time::sleep(next.min(SECOND / 20).max(Duration::from_millis(1))).await;
        }
    }
    // The time before a request can be earlier than the delivery.
    for pair in times.windows(6) {
        assert!(pair[5].duration_since(pair[0]) + SECOND / 2 >= SECOND, "{times:?}");
    }
    assert!(times[10].duration_since(times[0]) + SECOND / 2 >= 2 * SECOND, "{times:?}");
}

/// Law 365: a removed element is never delivered. The taker of one that is taken must stop, and the element is gone when
/// it does.
pub async fn elements_can_be_cancelled<W: QueueWorld>(world: &W) {
    let (ours, theirs) = (Program::of(world.queues()), Program::of(world.queues()));
    let elements = ["a", "b", "c", "d", "e"].map(|text| NewElement { keep_result: Some(HOUR), ..new(text) });
    ours.push_all(&elements).await;
    let taken = theirs.run(Take { lease: SECOND, ..theirs.take(4) }).await.elements;
    let ids: Vec<_> = elements.iter().map(|element| element.id).collect();
    assert_eq!(ours.change(Change::Remove(ids.clone())).await, 5);
    assert!(ours.take_all(10).await.is_empty());
    assert_eq!(ours.find(ids[4]).await.and_then(|row| row.outcome), Some(Outcome::Cancelled));
    // It does not become dead.
    assert_eq!(theirs.settle(&taken[3], SettleEnd::Fail("no".into())).await, Settled::Applied);
    assert_eq!(ours.find(ids[3]).await.and_then(|row| row.outcome), Some(Outcome::Cancelled));
    let row = ours.find(ids[0]).await.expect("the element");
    assert!(row.phase == Phase::Taken && row.is_cancelled, "{row:?}");
    assert_eq!(theirs.extend(&taken[0], HOUR, None).await, Extended::Cancelled);
    assert_eq!(theirs.settle(&taken[0], SettleEnd::HandBack(Duration::ZERO)).await, Settled::Applied);
    assert_eq!(ours.find(ids[0]).await.and_then(|row| row.outcome), Some(Outcome::Cancelled));
    // The work may be done nevertheless.
    assert_eq!(theirs.settle(&taken[1], SettleEnd::Done(vec![1])).await, Settled::Applied);
    assert_eq!(ours.find(ids[1]).await.and_then(|row| row.outcome), Some(Outcome::Done(vec![1])));
    let ended = async || {
        assert!(ours.take_all(10).await.is_empty());
        ours.find(ids[2]).await.and_then(|row| row.outcome) == Some(Outcome::Cancelled)
    };
    eventually_async(SOON, ended).await;
    assert_eq!(ours.change(Change::Remove(ids)).await, 0);
}

/// Law 366: the status counts the elements of each phase, pages show each once in its order, and a purge removes a phase.
pub async fn queues_show_their_elements<W: QueueWorld>(world: &W) {
    let ours = Program::of(world.queues());
    let delayed = |text: &str, hours: u32| NewElement { when: When::After(HOUR * hours), ..new(text) };
    ours.push_texts(&["t1", "t2", "t3", "d1", "d2", "d3"]).await;
    let taken = ours.take_all(6).await;
    for element in &taken[3..] {
        ours.settle(element, SettleEnd::Fail(String::from("no"))).await;
    }
    let urgent = NewElement { priority: bandog_core::queues::Priority::MAX, ..new("r0") };
    ours.push_all(&[new("r1"), new("r2"), new("r3"), new("r4"), urgent]).await;
    ours.push_all(&[delayed("l2", 2), delayed("l1", 1), delayed("l3", 3)]).await;
    ours.push_all(&[with_key("k", "k"), with_key("b1", "k"), with_key("b2", "k")]).await;
    let payloads = |rows: &[ElementRow]| -> Vec<String> {
        rows.iter().map(|row| String::from_utf8(row.payload.clone()).expect("a text")).collect()
    };
    let expected: [(Phase, &[&str]); 5] = [
        (Phase::Ready, &["r0", "r1", "r2", "r3", "r4", "k"]),
        (Phase::Delayed, &["l1", "l2", "l3"]),
        (Phase::Blocked, &["b1", "b2"]),
        (Phase::Taken, &["t1", "t2", "t3"]),
        (Phase::Dead, &["d1", "d2", "d3"]),
    ];
    let status = ours.store.status(&ours.queue).await.expect("the status");
    for (phase, texts) in expected {
        let rows = ours.elements(phase).await;
        assert_eq!(payloads(&rows), texts, "{phase:?}");
        assert_eq!(status.count(phase), texts.len() as u64, "{phase:?}");
        assert!(rows.iter().all(|row| row.phase == phase && row.age.is_some_and(|age| age < SOON)), "{rows:?}");
        assert_eq!(
            rows.iter().all(|row| row.left.is_some()),
            matches!(phase, Phase::Delayed | Phase::Taken),
            "{rows:?}"
        );
    }
    assert!(status.oldest.is_some_and(|oldest| oldest < SOON), "{status:?}");
    assert_eq!(ours.change(Change::Purge(Phase::Taken)).await, 0);
    for (phase, texts) in expected.into_iter().filter(|(phase, _)| *phase != Phase::Taken).rev() {
        assert_eq!(ours.change(Change::Purge(phase)).await, texts.len() as u64, "{phase:?}");
    }
    let status = ours.store.status(&ours.queue).await.expect("the status");
    assert_eq!(status.counts.values().sum::<u64>(), 3, "{status:?}");
    assert!(status.oldest.is_none());
}

/// Law 367: queues with elements or settings are listed, those that match.
pub async fn queues_can_be_listed<W: QueueWorld>(world: &W) {
    let names = ["a", "app/b", "app/c", "app/{d}", "中"];
    for name in names {
        Program::named(world.queues(), name).push_texts(&["x"]).await;
    }
    let set = Program::named(world.queues(), "app/set");
    set.change(Change::Pause(true)).await;
    let listed = async |glob: &str, about: usize| {
        let (store, pattern, mut all, mut from) = (world.queues(), Pattern::new(glob), Vec::new(), Cursor::default());
        loop {
            let (page, next) = store.queues(&pattern, &from, about).await.expect("a page");
            all.extend(page.iter().map(|key| key.as_str().to_owned()));
            match next {
                Some(next) => from = next,
                None => break,
            }
        }
        all.sort();
        all.dedup();
        all
    };
    assert_eq!(listed("app/*", 2).await, ["app/b", "app/c", "app/set", "app/{d}"]);
    assert_eq!(listed("*", 100).await, ["a", "app/b", "app/c", "app/set", "app/{d}", "中"]);
    set.change(Change::Pause(false)).await;
    assert_eq!(listed("nothing*", 1).await, Vec::<String>::new());
}

/// Law 368: the rows of workers are shown until their time ends. A store that counts workers counts these.
pub async fn workers_are_shown_for_a_time<W: QueueWorld>(world: &W) {
    let (ours, theirs) = (Program::of(world.queues()), Program::of(world.queues()));
    let worker = |id: u64, done: u64| WorkerRow {
        id,
        place: format!("host {id}/4711 layout=x"),
        slots: 8,
        running: 2,
        done,
        failed: 1,
        layout: 2,
    };
    let first = ours.change(Change::Worker(worker(1, 10), HOUR)).await;
    let second = ours.change(Change::Worker(worker(u64::MAX, 10), HOUR)).await;
    let again = ours.change(Change::Worker(worker(1, 11), HOUR)).await;
    assert!([[0; 3], [1, 2, 2]].contains(&[first, second, again]), "{first}, {second}, {again} workers");
    ours.change(Change::Worker(worker(3, 0), Duration::from_millis(200))).await;
    let shown = async || {
        let mut workers = theirs.store.status(&theirs.queue).await.expect("the status").workers;
        workers.sort_by_key(|worker| worker.id);
        workers
    };
    eventually_async(SOON, async || shown().await == [worker(1, 11), worker(u64::MAX, 10)]).await;
    let left = ours.change(Change::Worker(worker(1, 12), Duration::ZERO)).await;
    assert_eq!(left, first, "the worker that is left");
    assert_eq!(shown().await, [worker(u64::MAX, 10)]);
}
