//! What exceeds the server's `max_allowed_packet`.

use std::time::Duration;

use bandog_core::{
    ErrorKind, Inspect, Level,
    queues::{ElementId, NewElement, Settle, SettleEnd, Settled, Take, TakeId},
};
use bandog_testkit::MariaDbServer;

use crate::suite::{open, open_with, queues::Queue};

fn elements(first: u64, number: u64, length: usize) -> Vec<NewElement> {
    let element = |number| NewElement::new(ElementId { client: 1, number }, vec![b'x'; length]);
    (first..first + number).map(element).collect()
}

/// Takes all elements, in as many takes as this needs, and settles them with results of this length.
async fn work(queue: &Queue, number: u64, result: usize) {
    let mut done = 0;
    while done < number {
        let take = Take {
            queue: queue.name.clone(),
            id: TakeId { taker: 1, number: done },
            is_repeated: false,
            at_most: 1_000,
            bytes: 1 << 20,
            rest_after: Duration::ZERO,
            lease: Duration::from_secs(600),
            deliveries: 5,
        };
        let taken = queue.store.take(&[take]).await.remove(0).unwrap();
        assert!(!taken.elements.is_empty(), "{done} of {number}");
        let settle = |element: &bandog_core::queues::Delivered| Settle {
            delivery: element.delivery(),
            end: SettleEnd::Done(vec![b'r'; result]),
        };
        let settles: Vec<_> = taken.elements.iter().map(settle).collect();
        let settled = queue.store.settle(&queue.name, &settles).await.unwrap();
        assert!(settled.iter().all(|settled| *settled == Settled::Applied), "{settled:?}");
        done += settles.len() as u64;
    }
}

/// A call of any size that the pages allow is written in parts. The keeper settles in portions of 1 MiB; here it is one
/// call of 16 MB, which a busy disk may not write in the 10 s of the other tests.
#[tokio::test]
async fn a_push_of_16_megabytes_and_many_results_are_written_in_parts() {
    let server = MariaDbServer::start();
    let queue = Queue::of(&open_with(&server.url(&server.new_database()), Duration::from_secs(60)));
    let mut push = elements(0, 16, 1 << 20);
    push.iter_mut().for_each(|element| element.keep_result = Some(Duration::from_secs(600)));
    assert_eq!(queue.push(&push).await.unwrap().len(), 16);
    work(&queue, 16, 1 << 20).await;
    let mut push = elements(100, 1_000, 3);
    push.iter_mut().for_each(|element| element.keep_result = Some(Duration::from_secs(600)));
    queue.push(&push).await.unwrap();
    work(&queue, 1_000, 16 << 10).await;
}

/// With a small packet, what is too large is refused at once, and the error names the setting. The connection goes on.
#[tokio::test]
async fn a_payload_that_is_too_large_for_the_server_is_refused_at_once() {
    let server = MariaDbServer::start();
    let database = server.new_database();
    server.sql("mysql", "set global max_allowed_packet = 1048576");
    let store = open(&server.url(&database));
    let queue = Queue::at(&server.url(&database));
    queue.push(&elements(0, 5, 200 << 10)).await.unwrap();
    queue.push(&elements(10, 5_000, 10)).await.unwrap();
    let refused = queue.push(&elements(10_000, 1, 600 << 10)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Misused, "{refused}");
    assert!(!refused.maybe_applied() && refused.to_string().contains("max_allowed_packet"), "{refused}");
    work(&queue, 5_005, 100).await;
    let findings = store.check().await.unwrap();
    let found = findings.iter().find(|finding| finding.subject == "max_allowed_packet").unwrap();
    assert_eq!(found.level, Level::Advice, "{found:?}");
}

/// What was pushed before the limit was lowered can be taken: the limit is that of what the client sends.
#[tokio::test]
async fn an_element_that_is_larger_than_a_packet_of_today_is_delivered() {
    let server = MariaDbServer::start();
    let url = server.url(&server.new_database());
    let before = Queue::at(&url);
    before.push(&elements(0, 1, 1 << 20)).await.unwrap();
    before.push(&elements(10, 5, 10)).await.unwrap();
    server.sql("mysql", "set global max_allowed_packet = 1048576");
    let after = Queue { name: before.name.clone(), ..Queue::at(&url) };
    work(&after, 6, 100).await;
}
