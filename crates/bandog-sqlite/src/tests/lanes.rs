//! Whose turn it is in the writer's queue.

use bandog_core::{Clock, Result};
use tokio::sync::mpsc;

use crate::{
    fault::Fault,
    lanes::Lanes,
    queue::Order,
    table::Table,
    work::{Way, Work},
};

struct Asked(Way);

impl Work for Asked {
    type Answer = ();

    fn way(&self) -> Way {
        self.0
    }

    fn run(&self, _: &mut Table<'_>) -> Result<(), Fault> {
        Ok(())
    }
}

struct Queue(mpsc::Sender<Order>, Lanes);

impl Queue {
    fn new() -> Self {
        let (sender, queue) = mpsc::channel(64);
        Self(sender, Lanes::new(queue))
    }

    fn ask(&self, ways: &[Way]) {
        for way in ways {
            assert!(self.0.try_send(Order::new(Asked(*way), Clock::system().now()).0).is_ok());
        }
    }

    fn next(&mut self) -> Vec<Way> {
        self.1.next().unwrap().iter().map(Order::way).collect()
    }
}

#[test]
fn those_who_wait_for_the_disk_share_it_and_everybody_who_stands_there_then_comes_next() {
    use Way::{Durable, Look, Read, Write};
    let mut queue = Queue::new();
    queue.ask(&[Write, Durable, Look, Read, Write, Durable]);
    assert_eq!(queue.next(), [Durable, Durable]);
    queue.ask(&[Durable, Look]);
    assert_eq!(queue.next(), [Write, Look]);
    queue.ask(&[Write, Durable]);
    assert_eq!(queue.next(), [Read], "what reads is done alone");
    assert_eq!(queue.next(), [Write, Look, Write], "those who stood there first, and whoever fits in with them");
    queue.ask(&[Write]);
    assert_eq!(queue.next(), [Durable, Durable], "nor do those wait for ever");
    assert_eq!(queue.next(), [Write]);
}

#[test]
fn those_who_were_put_back_keep_their_order_and_are_passed_by() {
    use Way::{Durable, Look};
    let mut queue = Queue::new();
    queue.ask(&[Durable, Durable]);
    let orders = queue.1.next().unwrap();
    queue.1.put_back(orders);
    queue.ask(&[Durable, Look]);
    assert_eq!(queue.next(), [Look]);
    assert_eq!(queue.next(), [Durable, Durable, Durable]);
}

#[test]
fn whatever_was_asked_is_done_before_the_end() {
    use Way::{Durable, Write};
    let queue = Queue::new();
    queue.ask(&[Durable, Write]);
    let Queue(sender, mut lanes) = queue;
    drop(sender);
    assert_eq!([lanes.next().unwrap().len(), lanes.next().unwrap().len()], [1, 1]);
    assert!(lanes.next().is_none());
}
