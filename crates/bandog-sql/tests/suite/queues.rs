//! Work queues: missing tables, missing rights, and answers that are lost.

use std::{sync::Arc, time::Duration};

use bandog_core::{
    Backend, Error, ErrorKind, Inspect, Key, Level,
    queues::{
        Change, DeliveryId, ElementId, Extend, Extended, Headers, LAYOUT, NewElement, OnceId, Phase, Push, Pushed,
        Queues, Settle, SettleEnd, Settled, Take, TakeId, Taken, WorkerRow, envelope,
    },
};
use bandog_sql::Sql;
use bandog_testkit::{SqlServer, eventually_async};

use super::{Database, Place, SOON, claim, open, open_with, take, terminal::Terminal};

/// A time that does not pass in a test.
const HOUR: Duration = Duration::from_secs(3600);

/// A queue of a program.
pub(crate) struct Queue {
    pub(crate) store: Arc<dyn Queues>,
    pub(crate) name: Key,
}

impl Queue {
    pub(crate) fn at(url: &str) -> Self {
        Self::of(&open(url))
    }

    pub(crate) fn of(store: &Sql) -> Self {
        Self { store: Backend::queues(store).unwrap(), name: Key::new("q").unwrap() }
    }

    pub(crate) async fn push(&self, elements: &[NewElement]) -> Result<Vec<Pushed>, Error> {
        self.store.push(&[Push { queue: self.name.clone(), elements: elements.to_vec() }]).await.remove(0)
    }

    async fn take(&self, number: u64, is_repeated: bool) -> Result<Taken, Error> {
        let id = TakeId { taker: 7, number };
        let take = Take {
            queue: self.name.clone(),
            id,
            is_repeated,
            at_most: 2,
            bytes: 1 << 20,
            rest_after: Duration::ZERO,
            lease: HOUR,
            deliveries: 5,
        };
        self.store.take(&[take]).await.remove(0)
    }
}

pub(crate) fn element(number: u64) -> NewElement {
    NewElement::new(ElementId { client: 1, number }, number.to_string().into_bytes())
}

/// A client whose user may not create tables uses locks, and learns what its work queues need.
pub(crate) async fn tables_that_the_user_may_not_create_are_named<D: Database>() {
    let place = Place::<D>::new();
    let url = place.url();
    take(&open(&url), &claim("first")).await; // An earlier version has created the other tables.
    D::forbid_tables(&place.database);
    for (url, kind) in [(url.clone(), ErrorKind::Denied), (format!("{url}?create=false"), ErrorKind::Unsupported)] {
        let store = open(&url);
        take(&store, &claim(&url)).await;
        let error = Queue::of(&store).push(&[element(1)]).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        for word in ["bandog_work_queue", "bandog_work_kept", "bandog schema --print"] {
            assert!(error.to_string().contains(word), "{error}");
        }
        take(&store, &claim(&format!("{url} again"))).await;
    }
    let store = open(&url);
    assert_eq!(Queue::of(&store).push(&[element(1)]).await.unwrap_err().kind(), ErrorKind::Denied);
    D::allow_tables(&place.database);
    assert!(Queue::at(&url).push(&[element(1)]).await.unwrap()[0].is_new);
}

/// A client whose user may not use the tables uses locks.
pub(crate) async fn rights_that_the_user_lacks_are_named<D: Database>() {
    let place = Place::<D>::new();
    Queue::at(&place.url()).push(&[element(1)]).await.unwrap();
    D::forbid_elements(&place.database);
    let store = open(&place.url());
    let queue = Queue::of(&store);
    let error = queue.push(&[element(2)]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("bandog_work"), "{error}");
    take(&store, &claim("k")).await;
    let findings = store.check().await.unwrap();
    let rights = findings.iter().find(|finding| finding.subject == "rights").unwrap();
    assert!(rights.says.contains("bandog_work") && rights.level == Level::Danger, "{rights:?}");
}

/// Tables of the layout 1 are used as they are, until an operator upgrades them. A session that has found them goes on.
pub(crate) async fn older_tables_are_used_and_upgraded<D: Database>() {
    let place = Place::<D>::new();
    let queue = Queue::at(&place.url());
    queue.push(&[element(1)]).await.unwrap();
    for statement in [
        "drop table if exists bandog_work_queue",
        "alter table bandog_work_queues rename to bandog_work_queue",
        "update bandog_meta set value = '1' where name = 'work'",
    ] {
        place.sql(statement);
    }
    let (ours, theirs) = (Queue::at(&place.url()), Queue::at(&place.url()));
    let mut headers = Headers::default();
    headers.set("k", "v").unwrap();
    let enveloped = |number| NewElement { payload: envelope::close(&headers, b"payload".to_vec()), ..element(number) };
    assert!(ours.push(&[element(2)]).await.unwrap()[0].is_new);
    assert_eq!(theirs.take(1, false).await.unwrap().elements.len(), 2);
    let error = theirs.push(&[enveloped(3)]).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains("doctor --upgrade"), "{error}");
    let push = Push { queue: ours.name.clone(), elements: vec![enveloped(3)] };
    assert_eq!(ours.store.push_sql(&push).await.unwrap_err().kind(), ErrorKind::Unsupported);
    let report =
        |layout, keep| Change::Worker(WorkerRow { place: "web/1".into(), layout, ..WorkerRow::default() }, keep);
    ours.store.change(&ours.name, &report(1, HOUR)).await.unwrap();
    let operator = Queue::at(&place.server.administrator(&place.database));
    let error = operator.store.upgrade().await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains("web/1"), "{error}");
    ours.store.change(&ours.name, &report(2, HOUR)).await.unwrap();
    // A transaction that uses the tables is waited for, and then nothing is changed.
    let mut session = Terminal::start(&mut D::terminal(place.server, &place.database));
    session.ask(D::USE_TABLES);
    session.ask("begin; select count(*) from bandog_work_queue");
    let error = operator.store.upgrade().await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && error.to_string().contains("transactions"), "{error}");
    assert_eq!(theirs.store.status(&ours.name).await.unwrap().count(Phase::Taken), 2);
    session.ask("commit");
    assert_eq!(operator.store.upgrade().await.unwrap(), 1);
    // This one has read the layout before.
    assert!(ours.push(&[element(4), enveloped(5)]).await.unwrap()[0].is_new);
    assert_eq!(ours.store.upgrade().await.unwrap(), LAYOUT);
    let taken = theirs.take(2, false).await.unwrap().elements;
    let payloads: Vec<_> = taken.iter().map(|element| envelope::opened(element.payload.clone()).unwrap()).collect();
    assert_eq!(payloads, [(Headers::default(), b"4".to_vec()), (headers.clone(), b"payload".to_vec())]);
    assert_eq!(ours.store.status(&ours.name).await.unwrap().count(Phase::Taken), 4);
    // A program of the older version finds no column of the queues.
    let older = "select count(*) from information_schema.columns where table_name = 'bandog_work_queue' and column_name = 'number'";
    assert_eq!(place.sql(older).trim(), "0");
}

/// Tables that are gone are created again.
pub(crate) async fn tables_that_are_gone_are_created_again<D: Database>() {
    let place = Place::<D>::new();
    let queue = Queue::at(&place.url());
    queue.push(&[element(1)]).await.unwrap();
    place.sql(&format!("drop table {}", D::QUEUE_TABLES.join(", ")));
    eventually_async(SOON, async || queue.push(&[element(1)]).await).await;
    assert_eq!(eventually_async(SOON, async || queue.take(1, false).await).await.elements.len(), 1);
}

/// A report of a worker returns the number of those that have a free slot, so that many poll less often.
pub(crate) async fn a_report_of_a_worker_counts_those_that_wait<D: Database>() {
    let place = Place::<D>::new();
    let queue = Queue::at(&place.url());
    let report = async |id, running| {
        let report = Change::Worker(WorkerRow { id, slots: 20, running, ..WorkerRow::default() }, HOUR);
        queue.store.change(&queue.name, &report).await.unwrap()
    };
    for id in 1..=120 {
        assert_eq!(report(id, 0).await, id.min(100));
    }
    for id in 1..=100 {
        assert_eq!(report(id, 20).await, (120 - id).min(100));
    }
    assert_eq!(report(1, 19).await, 21);
}

/// Each call is repeated after its answer was lost.
pub(crate) async fn calls_without_answers_can_be_repeated<D: Database>() {
    let place = Place::<D>::new();
    let wire = place.server.wire();
    let url = SqlServer::<D>::url_at(wire.port(), &place.database);
    let store = open_with(&url, Duration::from_secs(1));
    let queue = Queue::of(&store);
    let once = OnceId { id: "once".into(), window: HOUR };
    let all = [
        element(1),
        NewElement { order_key: Some("k".into()), ..element(2) },
        NewElement { once: Some(once), order_key: Some("k".into()), ..element(3) },
    ];
    queue.push(&[element(99)]).await.unwrap(); // The session is open, and the statements are prepared.
    assert_eq!(queue.take(1, false).await.unwrap().elements.len(), 1);
    for round in 0..3 {
        let ids = |element: &NewElement| ElementId { client: 10 + round, ..element.id };
        let elements = all.clone().map(|element| NewElement { id: ids(&element), ..element });
        wire.drop_replies(true);
        assert!(queue.push(&elements).await.unwrap_err().is_retryable());
        wire.drop_replies(false);
        wire.cut();
        let pushed = eventually_async(SOON, async || queue.push(&elements).await).await;
        assert_eq!(pushed.iter().filter(|pushed| pushed.is_new).count(), if round == 0 { 3 } else { 2 });

        let number = 10 + round;
        wire.drop_replies(true);
        assert!(queue.take(number, false).await.unwrap_err().is_retryable());
        wire.drop_replies(false);
        wire.cut();
        let mut taken = eventually_async(SOON, async || queue.take(number, true).await).await;
        if taken.elements.is_empty() {
            // It had several statements, and was not completed. A repetition takes nothing new.
            assert!(taken.has_more);
            taken = eventually_async(SOON, async || queue.take(number + 1_000, false).await).await;
        }
        let taken = taken.elements;
        assert_eq!(taken.len(), 2, "{taken:?}");
        assert!(taken.iter().all(|element| element.attempt == 1), "{taken:?}");
        assert!(queue.take(number + 100, false).await.unwrap().elements.is_empty());

        let done = |element: &bandog_core::queues::Delivered| Settle {
            delivery: DeliveryId { id: element.id, fence: element.fence },
            end: SettleEnd::Done(Vec::new()),
        };
        let settles: Vec<_> = taken.iter().map(done).collect();
        wire.drop_replies(true);
        assert!(queue.store.settle(&queue.name, &settles).await.unwrap_err().is_retryable());
        wire.drop_replies(false);
        wire.cut();
        let settle = async || match queue.store.settle(&queue.name, &settles).await {
            // The session of the lost request has not ended.
            Ok(settled) if settled.contains(&Settled::Busy) => Err("an element is locked".to_owned()),
            answer => answer.map_err(|error| error.to_string()),
        };
        let settled = eventually_async(SOON, settle).await;
        assert!(settled.iter().all(|settled| *settled != Settled::Lost), "{settled:?}");
        // The next one of the key is there.
        let rest = eventually_async(SOON, async || queue.take(number + 200, false).await).await.elements;
        assert_eq!(rest.len(), usize::from(round == 0), "{rest:?}");
        let settles: Vec<_> = rest.iter().map(done).collect();
        assert!(queue.store.settle(&queue.name, &settles).await.unwrap().iter().all(|s| *s == Settled::Applied));
        let status = queue.store.status(&queue.name).await.unwrap();
        assert_eq!((status.count(Phase::Taken), status.counts.values().sum::<u64>()), (1, 1), "{status:?}");
    }
}

/// The planner must not decide for a scan of a queue in which many elements wait, also if it knows little about the tables.
pub(crate) async fn no_call_reads_the_elements_that_wait<D: Database>() {
    let server = SqlServer::<D>::start();
    let place = Place::on(&server);
    let url = place.url();
    long_queue(&url, 0).await;
    let analyze = format!("{} {}", D::ANALYZE, D::QUEUE_TABLES.join(", "));
    // Also if the queue was empty when the server has looked at it.
    let forget_all = format!("delete from bandog_work; delete from bandog_work_body; {analyze}");
    for (step, statistics) in (1..).zip(["", &analyze, &forget_all]) {
        if !statistics.is_empty() {
            place.sql(statistics);
        }
        if statistics == forget_all {
            long_queue(&url, step * WAITING).await;
        }
        let before = D::rows_read(&place).await;
        use_of_a_long_queue(&url).await;
        let rows = D::rows_read(&place).await - before;
        assert!(rows < WAITING, "{rows} rows were read, {statistics:?}");
    }
}

/// The number of elements that wait in [`use_of_a_long_queue`].
const WAITING: u64 = 10_000;

/// Pushes many elements, which wait. Half of them have the same key of order. `first`: the number of the first one, a
/// multiple of 500.
async fn long_queue(url: &str, first: u64) {
    let queue = Queue::at(url);
    for first in (first..first + WAITING).step_by(500) {
        let element = |number| NewElement { order_key: (number % 2 == 1).then(|| "k".into()), ..element(number) };
        queue.push(&(first..first + 500).map(element).collect::<Vec<_>>()).await.unwrap();
    }
}

/// Calls everything that workers do with a queue, 20 times.
async fn use_of_a_long_queue(url: &str) {
    let queue = Queue::at(url);
    let ends: [fn() -> SettleEnd; 4] = [
        || SettleEnd::Done(Vec::new()),
        || SettleEnd::Retry(HOUR, "later".into()),
        || SettleEnd::Fail("never".into()),
        || SettleEnd::HandBack(Duration::ZERO),
    ];
    for number in 0..20 {
        let elements = queue.take(number, false).await.unwrap().elements;
        assert_eq!(queue.take(number, true).await.unwrap().elements.len(), elements.len());
        let deliveries: Vec<_> = elements.iter().map(|of| DeliveryId { id: of.id, fence: of.fence }).collect();
        let with_progress = deliveries.iter().map(|delivery| (*delivery, Some("half".to_owned()))).collect();
        let extend = Extend { queue: queue.name.clone(), deliveries: with_progress, lease: HOUR };
        let extended = queue.store.extend(&extend).await.unwrap();
        assert!(extended.iter().all(|answer| *answer == Extended::Held), "{extended:?}");
        queue.store.find(&queue.name, &[elements[0].id], 9).await.unwrap();
        let ends = ends.iter().cycle().skip(usize::try_from(number).unwrap());
        let settles: Vec<_> =
            deliveries.into_iter().zip(ends).map(|(delivery, end)| Settle { delivery, end: end() }).collect();
        let settled = queue.store.settle(&queue.name, &settles).await.unwrap();
        assert!(settled.iter().all(|settled| *settled == Settled::Applied), "{settled:?}");
        queue.store.settle(&queue.name, &settles).await.unwrap(); // Some are absent.
        queue.push(&[element(10 * WAITING + number)]).await.unwrap();
    }
}
