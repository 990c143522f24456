//! The order of queued requests in transactions.

use bandog_core::{Clock, Result};
use tokio::sync::mpsc;

use crate::{
    batches::Batches,
    fault::Fault,
    request::Request,
    table::Table,
    work::{AccessMode, Work},
};

/// Work that does nothing.
struct NoWork(AccessMode);

impl Work for NoWork {
    type Answer = ();

    fn access_mode(&self) -> AccessMode {
        self.0
    }

    fn run(&self, _: &mut Table<'_>) -> Result<(), Fault> {
        Ok(())
    }
}

struct Queue {
    sender: mpsc::Sender<Request>,
    batches: Batches,
}

impl Queue {
    fn new() -> Self {
        let (sender, queue) = mpsc::channel(64);
        Self { sender, batches: Batches::new(queue) }
    }

    fn send(&self, modes: &[AccessMode]) {
        for mode in modes {
            assert!(self.sender.try_send(Request::new(NoWork(*mode), Clock::system().now()).0).is_ok());
        }
    }

    fn next(&mut self) -> Vec<AccessMode> {
        self.batches.next().unwrap().iter().map(Request::access_mode).collect()
    }
}

// Promise: SQ7
#[test]
fn durable_writes_share_a_transaction_and_requests_queued_during_it_run_next() {
    use AccessMode::{DurableWrite, Read, ReadFirst, Write};
    let mut queue = Queue::new();
    queue.send(&[Write, DurableWrite, ReadFirst, Read, Write, DurableWrite]);
    assert_eq!(queue.next(), [DurableWrite, DurableWrite]);
    queue.send(&[DurableWrite, ReadFirst]);
    assert_eq!(queue.next(), [Write, ReadFirst]);
    queue.send(&[Write, DurableWrite]);
    assert_eq!(queue.next(), [Read], "a read shared its transaction");
    assert_eq!(
        queue.next(),
        [Write, ReadFirst, Write],
        "expected the requests that were queued before, and the later requests that share their transaction"
    );
    queue.send(&[Write]);
    assert_eq!(queue.next(), [DurableWrite, DurableWrite], "a later request was executed before the durable writes");
    assert_eq!(queue.next(), [Write]);
}

#[test]
fn durable_writes_that_were_put_back_keep_their_order_and_quick_requests_overtake_them() {
    use AccessMode::{DurableWrite, ReadFirst};
    let mut queue = Queue::new();
    queue.send(&[DurableWrite, DurableWrite]);
    let requests = queue.batches.next().unwrap();
    queue.batches.put_back(requests);
    queue.send(&[DurableWrite, ReadFirst]);
    assert_eq!(queue.next(), [ReadFirst]);
    assert_eq!(queue.next(), [DurableWrite, DurableWrite, DurableWrite]);
}

#[test]
fn all_queued_requests_run_before_the_queue_ends() {
    use AccessMode::{DurableWrite, Write};
    let queue = Queue::new();
    queue.send(&[DurableWrite, Write]);
    let Queue { sender, mut batches } = queue;
    drop(sender);
    assert_eq!([batches.next().unwrap().len(), batches.next().unwrap().len()], [1, 1]);
    assert!(batches.next().is_none());
}
