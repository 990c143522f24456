//! Deliveries of work queues under another boot id.

use std::{
    path::Path,
    time::{Duration, Instant, SystemTime},
};

use bandog_core::{
    ErrorKind, Key, Pattern,
    queues::{
        Change, Delivered, DeliveryId, ElementId, Extend, Extended, Headers, NewElement, Phase, Push, Queues, Settle,
        SettleEnd, Settled, Take, TakeId, WorkerRow, envelope,
    },
};

use crate::{Sqlite, SqliteOptions, host::Host};

/// An hour in nanoseconds.
const HOUR: i64 = 3_600_000_000_000;
const LEASE: Duration = Duration::from_secs(1);

/// A handle on a machine with this boot id. `shift` is added to the time of the boot clock, in nanoseconds.
fn machine(path: &Path, boot: &str, shift: i64) -> Sqlite {
    Sqlite::on(Host::other(boot, shift, SystemTime::now), SqliteOptions::at(path)).unwrap()
}

fn queue() -> Key {
    Key::new("q").unwrap()
}

async fn take(store: &Sqlite, number: u64) -> Vec<Delivered> {
    let id = TakeId { taker: 1, number };
    let take = Take {
        queue: queue(),
        id,
        is_repeated: false,
        at_most: 1,
        bytes: 1 << 20,
        rest_after: Duration::ZERO,
        lease: LEASE,
        deliveries: 9,
    };
    store.take(&[take]).await.remove(0).unwrap().elements
}

async fn extend(store: &Sqlite, element: &Delivered) -> Extended {
    let delivery = DeliveryId { id: element.id, fence: element.fence };
    let extend = Extend { queue: queue(), deliveries: vec![(delivery, None)], lease: LEASE };
    store.extend(&extend).await.unwrap()[0]
}

#[tokio::test]
async fn a_delivery_of_another_boot_is_kept_for_one_lease_after_it_was_first_seen() {
    for shift in [-HOUR, 0, HOUR] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("q.db");
        let (before, after) = (machine(&path, "before", 0), machine(&path, "after", shift));
        let elements = vec![NewElement::new(ElementId { client: 1, number: 1 }, b"a".to_vec())];
        before.push(&[Push { queue: queue(), elements }]).await.remove(0).unwrap();
        let first = take(&before, 1).await.remove(0);
        let mut number = 2;
        // Its taker runs in a container with a boot id of its own, and extends the lease.
        let begun = Instant::now();
        while begun.elapsed() < LEASE * 2 {
            assert_eq!(extend(&before, &first).await, Extended::Held);
            assert!(take(&after, number).await.is_empty(), "shift {shift}");
            number += 1;
            tokio::time::sleep(LEASE / 10).await;
        }
        // The machine was restarted: nobody extends it.
        let seen = Instant::now();
        let again = loop {
            if let Some(again) = take(&after, number).await.pop() {
                break again;
            }
            number += 1;
            assert!(seen.elapsed() < LEASE * 20, "the element never comes");
            tokio::time::sleep(LEASE / 50).await;
        };
        assert!(seen.elapsed() >= LEASE - LEASE / 5, "{:?}", seen.elapsed());
        assert!(again.fence > first.fence && again.attempt == 2);
        let settle = |element: &Delivered| {
            let delivery = DeliveryId { id: element.id, fence: element.fence };
            [Settle { delivery, end: SettleEnd::Done(Vec::new()) }]
        };
        assert_eq!(before.settle(&queue(), &settle(&first)).await.unwrap(), [Settled::Lost]);
        assert_eq!(after.settle(&queue(), &settle(&again)).await.unwrap(), [Settled::Applied]);
        assert_eq!(after.status(&queue()).await.unwrap().count(Phase::Taken), 0);
    }
}

#[tokio::test]
async fn operators_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("q.db");
    let (before, after) = (machine(&path, "before", 0), machine(&path, "after", HOUR));
    assert_eq!(after.status(&queue()).await.unwrap_err().kind(), bandog_core::ErrorKind::Unavailable);
    let elements = vec![NewElement::new(ElementId { client: 1, number: 1 }, b"a".to_vec())];
    before.push(&[Push { queue: queue(), elements }]).await.remove(0).unwrap();
    take(&before, 1).await;
    let status = after.status(&queue()).await.unwrap();
    assert_eq!(status.count(Phase::Taken), 1);
    let (rows, _) = after.elements(&queue(), Phase::Taken, &Default::default(), 10, 9).await.unwrap();
    assert_eq!(rows.len(), 1);
}

/// A file has the layout 2 from the first element with headers on, unless a worker of an older version is registered. Another
/// process finds out.
#[tokio::test]
async fn a_file_changes_when_it_must() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("q.db");
    let (ours, theirs) = (machine(&path, "boot", 0), machine(&path, "boot", 0));
    let mut headers = Headers::default();
    headers.set("k", "v").unwrap();
    let element = |number, payload: Vec<u8>| NewElement::new(ElementId { client: 1, number }, payload);
    let push = async |store: &Sqlite, number, payload: Vec<u8>| {
        store.push(&[Push { queue: queue(), elements: vec![element(number, payload)] }]).await.remove(0)
    };
    let report = async |layout| {
        let worker = WorkerRow { place: "web/1".into(), layout, ..WorkerRow::default() };
        theirs.change(&queue(), &Change::Worker(worker, LEASE * 60)).await.unwrap();
    };
    push(&theirs, 1, b"a".to_vec()).await.unwrap();
    let first = take(&theirs, 1).await.remove(0);
    report(1).await;
    let enveloped = || envelope::close(&headers, b"payload".to_vec());
    let refused = push(&ours, 2, enveloped()).await.unwrap_err();
    assert!(refused.kind() == ErrorKind::Unsupported && refused.to_string().contains("web/1"), "{refused}");
    report(2).await;
    push(&ours, 2, enveloped()).await.unwrap();
    // This one has opened the file before.
    let settle = Settle { delivery: first.delivery(), end: SettleEnd::Done(Vec::new()) };
    assert_eq!(theirs.settle(&queue(), &[settle]).await.unwrap(), [Settled::Applied]);
    assert_eq!(take(&theirs, 2).await.remove(0).payload, enveloped());
    push(&theirs, 3, b"b".to_vec()).await.unwrap();
    assert_eq!(take(&ours, 3).await.len(), 1);
    let names = ours.queues(&Pattern::new("*"), &Default::default(), 10).await.unwrap().0;
    assert_eq!(names, [queue()]);
    // A program of an older version can read nothing.
    let older = rusqlite::Connection::open(&path).unwrap();
    let error = older.query_row(crate::sql::WORK_QUEUE, ["q"], |row| row.get::<_, i64>(0)).unwrap_err();
    assert!(error.to_string().contains("the work queues have the layout 2: use a newer bandog"), "{error}");
    assert!(older.execute(crate::sql::WORK_ADD_QUEUE, ["q2"]).is_err());
}

/// Elements of a queue that a statement does not need cost nothing.
#[test]
fn no_statement_reads_a_whole_queue() {
    let database = rusqlite::Connection::open_in_memory().unwrap();
    database.execute_batch(include_str!("../../sql/work.sql")).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql");
    let mut plans = 0;
    for file in std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
        if !file.file_name().unwrap().to_string_lossy().starts_with("work_") {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let mut plan = database.prepare(&format!("explain query plan {text}")).unwrap();
        let parameters = vec![1; plan.parameter_count()];
        let parameters = rusqlite::params_from_iter(parameters);
        let steps = plan.query_map(parameters, |row| row.get::<_, String>(3)).unwrap();
        for step in steps.map(|step| step.unwrap()) {
            let is_whole = step.ends_with("(queue=?)") && !step.contains("work_boot") || step.starts_with("SCAN work");
            assert!(!is_whole, "{}: {step}", file.display());
            plans += 1;
        }
    }
    assert!(plans > 15, "{plans}");
}
