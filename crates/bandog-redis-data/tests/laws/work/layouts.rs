//! The layouts of a queue.

use std::time::Duration;

use bandog_core::{
    ErrorKind,
    queues::{Change, Headers, LAYOUT, NewElement, Phase, Push, Queues, WorkerRow, envelope},
};
use bandog_testkit::RedisServer;

use super::kit::{HOUR, done, new, push, queue, settle, take};
use crate::at;

fn with_header() -> NewElement {
    let mut headers = Headers::default();
    headers.set("k", "v").unwrap();
    NewElement { payload: envelope::close(&headers, b"payload".to_vec()), ..new("") }
}

async fn report(store: &dyn Queues, layout: u8, keep: Duration) {
    let worker = WorkerRow { id: 5, place: "web 1/4711".into(), layout, ..WorkerRow::default() };
    store.change(&queue(), &Change::Worker(worker, keep)).await.unwrap();
}

/// A queue has the layout 2 from the first element with headers until it is empty.
#[tokio::test]
async fn a_queue_changes_when_it_must() {
    let server = RedisServer::start();
    let (ours, theirs) = (at(&server.url()), at(&server.url()));
    push(&*ours, vec![new("a"), new("b")]).await;
    let first = take(&*theirs, 1, 1).await.elements;
    report(&*ours, 1, HOUR).await;
    let refused = theirs.push(&[Push { queue: queue(), elements: vec![with_header()] }]).await.remove(0).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.to_string().contains("web 1/4711"), "{refused}");
    assert!(!server.keys().iter().any(|key| key.ends_with(":layout") || key.ends_with('2')), "{:?}", server.keys());
    report(&*ours, LAYOUT, HOUR).await;
    push(&*theirs, vec![with_header()]).await;
    for key in ["taken", "expiry", "idle"] {
        let kind = server.cmd(&["TYPE", &format!("bandog:work:{{q}}:{key}")]);
        assert_eq!(kind.text(), "string", "{key}: the first command of an older script fails");
    }
    // This one does not know it yet, and has an element from before.
    let status = ours.status(&queue()).await.unwrap();
    assert_eq!([Phase::Ready, Phase::Taken].map(|phase| status.count(phase)), [2, 1]);
    let rest = take(&*ours, 2, 10).await.elements;
    assert_eq!(rest.len(), 2);
    report(&*ours, LAYOUT, HOUR).await;
    let all: Vec<_> = first.iter().chain(&rest).map(done).collect();
    settle(&*theirs, &all).await;
    report(&*theirs, LAYOUT, HOUR).await;
    assert!(!server.keys().iter().any(|key| key.ends_with(":layout") || key.ends_with('2')), "{:?}", server.keys());
    // Both have seen the layout 2.
    push(&*ours, vec![new("c")]).await;
    assert_eq!(take(&*theirs, 3, 10).await.elements.len(), 1);
}

/// A mark of a layout that this version does not know stops each call, and nothing is changed.
#[tokio::test]
async fn a_newer_layout_is_unsupported() {
    let server = RedisServer::start();
    let store = at(&server.url());
    push(&*store, vec![new("a"), with_header()]).await;
    let taken = take(&*store, 1, 1).await.elements;
    server.cmd(&["SET", "bandog:work:{q}:layout", "3"]);
    let before = server.cmd(&["DBSIZE"]).int();
    let settles: Vec<_> = taken.iter().map(done).collect();
    let pushed = store.push(&[Push { queue: queue(), elements: vec![new("b")] }]).await.remove(0).map(drop);
    let calls = [
        pushed,
        store.settle(&queue(), &settles).await.map(drop),
        store.status(&queue()).await.map(drop),
        store.find(&queue(), &[taken[0].id], 1).await.map(drop),
        store.change(&queue(), &Change::Pause(true)).await.map(drop),
    ];
    for error in calls.map(Result::unwrap_err) {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("layout 3"), "{error}");
    }
    assert_eq!(server.cmd(&["DBSIZE"]).int(), before);
    server.cmd(&["SET", "bandog:work:{q}:layout", "2"]);
    settle(&*store, &settles).await;
    assert_eq!(store.status(&queue()).await.unwrap().count(Phase::Ready), 1);
}
