//! Work queues: elements are pushed and settled in transactions of the user.

use std::{sync::Arc, time::Duration};

use bandog_core::{
    Backend, ErrorKind, Key, SqlStatement,
    queues::{
        Delivered, DeliveryId, ElementId, Extend, Extended, NewElement, OnceId, Phase, Push, Queues, Settle, SettleEnd,
        Settled, Take, TakeId, Taken, When,
    },
};
use bandog_sql::{Sql, SqlOptions};
use bandog_testkit::eventually_async;
use sqlx::{Connection, Transaction};

use super::support::{Database, Db, DbConnection};
use crate::kinds::SOON;

struct Queue {
    store: Arc<dyn Queues>,
    name: Key,
    numbers: std::sync::atomic::AtomicU64,
}

impl Queue {
    fn new(database: &Database) -> Self {
        let options = SqlOptions::from_url(&database.url()).unwrap().timeout(Duration::from_secs(10));
        let store = Backend::queues(&Sql::new(options).unwrap()).unwrap();
        Self { store, name: Key::new("orders").unwrap(), numbers: std::sync::atomic::AtomicU64::new(1) }
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
    }

    fn new_element(&self, text: &str) -> NewElement {
        NewElement::new(ElementId { client: u64::MAX, number: self.number() }, text.into())
    }

    fn with_key(&self, text: &str) -> NewElement {
        NewElement { order_key: Some("k '\"中".into()), ..self.new_element(text) }
    }

    async fn push_sql(&self, elements: &[NewElement]) -> Vec<SqlStatement> {
        self.store.push_sql(&Push { queue: self.name.clone(), elements: elements.to_vec() }).await.unwrap()
    }

    async fn push(&self, elements: &[NewElement]) {
        let push = Push { queue: self.name.clone(), elements: elements.to_vec() };
        self.store.push(&[push]).await.remove(0).unwrap();
    }

    async fn take(&self, at_most: u32) -> Taken {
        let id = TakeId { taker: 1, number: self.number() };
        let lease = Duration::from_secs(3600);
        let take = Take {
            queue: self.name.clone(),
            id,
            is_repeated: false,
            at_most,
            bytes: 1 << 20,
            rest_after: Duration::ZERO,
            lease,
            deliveries: 5,
        };
        self.store.take(&[take]).await.remove(0).unwrap()
    }

    async fn texts(&self) -> Vec<String> {
        texts(&self.take(10).await.elements)
    }

    async fn done_sql(&self, element: &Delivered) -> Vec<SqlStatement> {
        self.store.settle_sql(&self.name, &done(element)).await.unwrap()
    }

    async fn done(&self, element: &Delivered) -> Settled {
        self.store.settle(&self.name, &[done(element)]).await.unwrap()[0]
    }

    async fn phase(&self, id: ElementId) -> Option<Phase> {
        self.store.find(&self.name, &[id], 9).await.unwrap().remove(0).map(|row| row.phase)
    }
}

fn done(element: &Delivered) -> Settle {
    let delivery = DeliveryId { id: element.id, fence: element.fence };
    Settle { delivery, end: SettleEnd::Done(vec![0, b'\'', 255]) }
}

fn texts(elements: &[Delivered]) -> Vec<String> {
    elements.iter().map(|element| String::from_utf8(element.payload.clone()).unwrap()).collect()
}

/// Executes the statements. After an error, the transaction must be rolled back.
async fn execute(statements: &[SqlStatement], tx: &mut Transaction<'_, Db>) -> Result<(), ErrorKind> {
    for statement in statements {
        let query = statement.values.iter().fold(sqlx::query(&statement.text), |query, value| query.bind(value));
        if let Err(error) = query.execute(&mut **tx).await {
            let said = error.as_database_error().expect("the database refuses the statement").message().to_owned();
            return Err(statement.refusal(&said).unwrap_or_else(|| panic!("{said} is no refusal")).kind());
        }
    }
    Ok(())
}

async fn begin(connection: &mut DbConnection) -> Transaction<'_, Db> {
    connection.begin().await.unwrap()
}

// Promise: W8
#[tokio::test]
async fn elements_are_pushed_if_the_transaction_commits() {
    let database = Database::new();
    let (queue, mut connection) = (Queue::new(&database), database.connection().await);
    let once = OnceId { id: "order 7'\"".into(), window: Duration::from_secs(3600) };
    let elements = [
        NewElement { payload: vec![0, 255, b'\''], ..queue.new_element("") },
        NewElement { once: Some(once.clone()), ..queue.new_element("once") },
        NewElement { once: Some(once.clone()), ..queue.new_element("twice") },
        NewElement { when: When::After(Duration::from_secs(3600)), ..queue.new_element("later") },
        NewElement { when: When::At(std::time::UNIX_EPOCH), ..queue.new_element("past") },
        NewElement { waits_for: 1, ..queue.new_element("waits") },
    ];
    let statements = queue.push_sql(&elements).await;
    let mut tx = begin(&mut connection).await;
    execute(&statements, &mut tx).await.unwrap();
    assert!(queue.take(10).await.elements.is_empty(), "the transaction is open");
    tx.rollback().await.unwrap();
    assert!(queue.take(10).await.elements.is_empty());
    assert_eq!(queue.phase(elements[0].id).await, None);

    let mut tx = begin(&mut connection).await;
    execute(&statements, &mut tx).await.unwrap();
    tx.commit().await.unwrap();
    let taken = queue.take(10).await;
    let payloads: Vec<_> = taken.elements.iter().map(|element| element.payload.clone()).collect();
    assert_eq!(payloads, [vec![0, 255, b'\''], b"once".to_vec(), b"past".to_vec()]);
    assert_eq!(queue.phase(elements[3].id).await, Some(Phase::Delayed));
    assert_eq!(queue.phase(elements[5].id).await, Some(Phase::Blocked));
    for element in &taken.elements {
        assert_eq!(queue.done(element).await, Settled::Applied);
    }
    // The commit had no answer: the program repeats the transaction, or pushes by itself.
    let mut tx = begin(&mut connection).await;
    execute(&statements, &mut tx).await.unwrap();
    tx.commit().await.unwrap();
    queue.push(&elements).await;
    let again = NewElement { once: Some(once), ..queue.new_element("third") };
    let mut tx = begin(&mut connection).await;
    execute(&queue.push_sql(&[again]).await, &mut tx).await.unwrap();
    tx.commit().await.unwrap();
    assert!(queue.take(10).await.elements.is_empty());
}

#[tokio::test]
async fn a_delivery_is_done_if_the_transaction_commits() {
    let database = Database::new();
    let (queue, mut connection) = (Queue::new(&database), database.connection().await);
    let last = NewElement { waits_for: 1, ..queue.new_element("last") };
    let first =
        NewElement { before: Some(last.id), keep_result: Some(Duration::from_secs(3600)), ..queue.with_key("first") };
    queue.push(&[first.clone(), queue.with_key("second"), last]).await;
    let element = queue.take(10).await.elements.remove(0);
    let statements = queue.done_sql(&element).await;

    let mut tx = begin(&mut connection).await;
    execute(&statements, &mut tx).await.unwrap();
    assert!(queue.take(10).await.elements.is_empty());
    tx.rollback().await.unwrap();
    assert_eq!(queue.phase(element.id).await, Some(Phase::Taken));
    assert!(queue.take(10).await.elements.is_empty());

    let mut tx = begin(&mut connection).await;
    execute(&statements, &mut tx).await.unwrap();
    tx.commit().await.unwrap();
    let row = queue.store.find(&queue.name, &[element.id], 9).await.unwrap().remove(0).unwrap();
    assert_eq!(row.outcome, Some(bandog_core::queues::Outcome::Done(vec![0, b'\'', 255])));
    let mut next = queue.take(10).await.elements;
    next.sort_by_key(|element| element.id);
    assert_eq!(texts(&next), ["last", "second"]);
    assert!(next[1].fence > element.fence);

    // It is not held any more.
    let mut tx = begin(&mut connection).await;
    assert_eq!(execute(&statements, &mut tx).await, Err(ErrorKind::Lost));
    tx.rollback().await.unwrap();
    let other = Delivered { fence: bandog_core::Fence::new(next[0].fence.get() - 1), ..next[0].clone() };
    let mut tx = begin(&mut connection).await;
    assert_eq!(execute(&queue.done_sql(&other).await, &mut tx).await, Err(ErrorKind::Lost));
    tx.rollback().await.unwrap();
    assert_eq!(queue.done(&next[0]).await, Settled::Applied);
}

/// A transaction of the user that stays open delays the extensions of no other delivery.
#[tokio::test]
async fn leases_are_extended_beside_an_open_settlement() {
    let database = Database::new();
    let (queue, mut connection) = (Queue::new(&database), database.connection().await);
    queue.push(&[queue.new_element("a"), queue.new_element("b")]).await;
    let taken = queue.take(2).await.elements;
    let mut tx = begin(&mut connection).await;
    execute(&queue.done_sql(&taken[0]).await, &mut tx).await.unwrap();
    let deliveries = taken.iter().map(|element| (done(element).delivery, Some("half".to_owned()))).collect();
    let extend = Extend { queue: queue.name.clone(), deliveries, lease: Duration::from_secs(7200) };
    let begun = std::time::Instant::now();
    assert_eq!(queue.store.extend(&extend).await.unwrap(), [Extended::Busy, Extended::Held]);
    assert!(begun.elapsed() < Duration::from_secs(5));
    let row = queue.store.find(&queue.name, &[taken[1].id], 9).await.unwrap().remove(0).unwrap();
    assert!(row.left.is_some_and(|left| left > Duration::from_secs(3700)), "{row:?}");
    tx.commit().await.unwrap();
    assert_eq!(queue.store.extend(&extend).await.unwrap(), [Extended::Lost, Extended::Held]);
}

/// An element that a transaction of the user has locked is settled when that has ended, and the others at once, with keys of
/// order and without.
#[tokio::test]
async fn a_locked_element_delays_no_other_settlement() {
    let database = Database::new();
    let (queue, mut connection) = (Queue::new(&database), database.connection().await);
    for has_keys in [false, true] {
        let elements = ["a", "b"].map(|text| match has_keys {
            true => NewElement { order_key: Some(text.into()), ..queue.new_element(text) },
            false => queue.new_element(text),
        });
        queue.push(&elements).await;
        let taken = queue.take(2).await.elements;
        let statements = queue.done_sql(&taken[0]).await;
        let mut tx = begin(&mut connection).await;
        execute(&statements, &mut tx).await.unwrap();
        let gone = Delivered { id: ElementId { client: 1, number: 1 }, ..taken[1].clone() };
        let settles = [done(&taken[0]), done(&taken[1]), done(&gone)];
        let settled = queue.store.settle(&queue.name, &settles).await.unwrap();
        assert_eq!(settled, [Settled::Busy, Settled::Applied, Settled::Absent]);
        tx.rollback().await.unwrap();
        assert_eq!(queue.done(&taken[0]).await, Settled::Applied);
        assert_eq!(queue.phase(taken[0].id).await, None);
    }
}

/// A push waits for a transaction of the user with the same id of `once`, and delays no other call.
#[tokio::test]
async fn an_open_push_with_the_same_id_of_once_delays_no_other_call() {
    let database = Database::new();
    let (queue, mut connection) = (Queue::new(&database), database.connection().await);
    let once = || Some(OnceId { id: "order 7".into(), window: Duration::from_secs(3600) });
    let first = NewElement { once: once(), ..queue.new_element("first") };
    queue.push(&[queue.new_element("before")]).await;
    let mut tx = begin(&mut connection).await;
    execute(&queue.push_sql(std::slice::from_ref(&first)).await, &mut tx).await.unwrap();
    let second =
        Push { queue: queue.name.clone(), elements: vec![NewElement { once: once(), ..queue.new_element("second") }] };
    let pushes = [second];
    let mut push = queue.store.push(&pushes);
    let error = loop {
        let others = async {
            queue.push(&[queue.new_element("other")]).await;
            let taken = queue.take(1).await.elements.remove(0);
            assert_eq!(queue.done(&taken).await, Settled::Applied);
        };
        tokio::select! {
            biased;
            () = others => {}
            mut answers = &mut push => break answers.remove(0).unwrap_err(),
        }
    };
    assert!(error.is_about_locked_rows() && error.is_retryable() && !error.maybe_applied(), "{error}");
    tx.commit().await.unwrap();
    let pushed = queue.store.push(&pushes).await.remove(0).unwrap();
    assert_eq!((pushed[0].id, pushed[0].is_new), (first.id, false));
}

/// A push that waits for an id of `once` holds no key of order meanwhile.
#[tokio::test]
async fn a_push_that_waits_for_an_open_transaction_holds_no_key() {
    let database = Database::new();
    let (queue, mut connection) = (Queue::new(&database), database.connection().await);
    let with_once = |text: &str| NewElement {
        once: Some(OnceId { id: "order 7".into(), window: Duration::from_secs(3600) }),
        ..queue.with_key(text)
    };
    let mut tx = begin(&mut connection).await;
    execute(&queue.push_sql(&[with_once("first")]).await, &mut tx).await.unwrap();
    let pushes = [Push { queue: queue.name.clone(), elements: vec![with_once("second")] }];
    let is_free = eventually_async(SOON * 3, async || {
        queue.push(&[queue.with_key("other")]).await;
        let taken = queue.take(1).await.elements.remove(0);
        let ended = std::sync::Mutex::new(Vec::new());
        let push = async {
            let error = queue.store.push(&pushes).await.remove(0).unwrap_err();
            assert!(error.is_about_locked_rows(), "{error}");
            ended.lock().unwrap().push("push");
        };
        let settle = async {
            assert_eq!(queue.done(&taken).await, Settled::Applied);
            ended.lock().unwrap().push("settlement");
        };
        tokio::join!(push, settle);
        *ended.lock().unwrap() == ["settlement", "push"]
    });
    is_free.await;
    tx.commit().await.unwrap();
    let second = queue.store.push(&pushes).await.remove(0).unwrap();
    assert!(!second[0].is_new);
    assert_eq!(queue.texts().await, ["first"]);
    queue.store.push(&pushes).await.remove(0).unwrap();
}

/// The program changes its data and settles, while another taker has the element.
#[tokio::test]
async fn a_late_taker_changes_nothing() {
    let database = Database::new();
    let (queue, mut connection) = (Queue::new(&database), database.connection().await);
    queue.push(&[queue.new_element("a")]).await;
    let late = queue.take(1).await.elements.remove(0);
    let back = Settle { delivery: done(&late).delivery, end: SettleEnd::HandBack(Duration::ZERO) };
    queue.store.settle(&queue.name, &[back]).await.unwrap();
    let next = queue.take(1).await.elements.remove(0);
    let mut tx = begin(&mut connection).await;
    super::support::write(&mut tx, "late").await;
    assert_eq!(execute(&queue.done_sql(&late).await, &mut tx).await, Err(ErrorKind::Lost));
    tx.rollback().await.unwrap();
    assert_eq!(database.writes(), "");
    assert_eq!(queue.phase(next.id).await, Some(Phase::Taken));
    let mut tx = begin(&mut connection).await;
    super::support::write(&mut tx, "next").await;
    execute(&queue.done_sql(&next).await, &mut tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!((database.writes(), queue.phase(next.id).await), ("next".to_owned(), None));
}

/// Two transactions push elements of one key, and a third push is bandog's own. In each order of the commits, the elements
/// are delivered one by one, and all of them.
#[tokio::test]
async fn transactions_with_one_key_do_not_wait_for_each_other() {
    let database = Database::new();
    let (mut first, mut second) = (database.connection().await, database.connection().await);
    for (number, order) in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]].into_iter().enumerate() {
        for takes_between in [false, true] {
            let queue = Queue { name: Key::new(format!("q{number}{takes_between}")).unwrap(), ..Queue::new(&database) };
            let (mut a, mut b) = (begin(&mut first).await, begin(&mut second).await);
            execute(&queue.push_sql(&[queue.with_key("a")]).await, &mut a).await.unwrap();
            execute(&queue.push_sql(&[queue.with_key("b"), queue.with_key("b2")]).await, &mut b).await.unwrap();
            let (mut a, mut b) = (Some(a), Some(b));
            let mut taken = Vec::new();
            let mut held: Option<Delivered> = None;
            let step = async |taken: &mut Vec<String>, held: &mut Option<Delivered>| {
                let mut elements = queue.take(10).await.elements;
                assert!(
                    elements.len() + usize::from(held.is_some()) <= 1,
                    "two elements of one key at once: {elements:?}"
                );
                taken.extend(texts(&elements));
                if let Some(element) = elements.pop() {
                    *held = Some(element);
                } else if let Some(element) = held.take() {
                    assert_eq!(queue.done(&element).await, Settled::Applied);
                }
            };
            for part in order {
                match part {
                    0 => a.take().unwrap().commit().await.unwrap(),
                    1 => b.take().unwrap().commit().await.unwrap(),
                    _ => queue.push(&[queue.with_key("c")]).await,
                }
                if takes_between {
                    step(&mut taken, &mut held).await;
                }
            }
            eventually_async(SOON, async || {
                step(&mut taken, &mut held).await;
                taken.len() == 4 && held.is_none()
            })
            .await;
            let place = |text: &str| taken.iter().position(|taken| taken == text);
            assert!(place("b") < place("b2"), "{taken:?}");
            if !takes_between {
                // A push of bandog decides about its key at once, and knows nothing of open transactions.
                let expected = if order[0] == 2 { ["c", "a", "b", "b2"] } else { ["a", "b", "b2", "c"] };
                assert_eq!(taken, expected, "{order:?}");
            }
            assert_eq!(queue.texts().await, Vec::<String>::new());
        }
    }
}

/// Settlements in transactions, and pushes of the same key, in each order of the commits.
#[tokio::test]
async fn a_settlement_in_a_transaction_blocks_no_key() {
    let database = Database::new();
    let (mut first, mut second) = (database.connection().await, database.connection().await);
    for number in 0..6 {
        let queue = Queue { name: Key::new(format!("q{number}")).unwrap(), ..Queue::new(&database) };
        queue.push(&[queue.with_key("a")]).await;
        let element = queue.take(1).await.elements.remove(0);
        let (mut settles, mut pushes) = (begin(&mut first).await, begin(&mut second).await);
        let (done_sql, push_sql) = (queue.done_sql(&element).await, queue.push_sql(&[queue.with_key("b")]).await);
        if number % 2 == 0 {
            execute(&done_sql, &mut settles).await.unwrap();
            execute(&push_sql, &mut pushes).await.unwrap();
        } else {
            execute(&push_sql, &mut pushes).await.unwrap();
            execute(&done_sql, &mut settles).await.unwrap();
        }
        // This one does not wait for them.
        queue.push(&[queue.with_key("c")]).await;
        assert_eq!(queue.texts().await, Vec::<String>::new());
        match number / 2 {
            0 => {
                settles.commit().await.unwrap();
                assert_eq!(queue.texts().await, ["c"], "the other push is not committed");
                pushes.commit().await.unwrap();
                assert_eq!(queue.texts().await, Vec::<String>::new());
                continue;
            }
            1 => {
                pushes.commit().await.unwrap();
                assert_eq!(queue.texts().await, Vec::<String>::new(), "the first one is held");
                settles.commit().await.unwrap();
            }
            _ => {
                settles.commit().await.unwrap();
                pushes.commit().await.unwrap();
            }
        }
        let taken = queue.take(10).await.elements;
        assert_eq!(texts(&taken), ["b"]);
        assert!(taken[0].fence > element.fence);
        queue.done(&taken[0]).await;
        assert_eq!(queue.texts().await, ["c"]);
    }
}
