//! Publishers and subscribers of topics.

use std::time::{Duration, Instant};

use bandog::grid::{Event, Subscriber, Topic};

use super::task::{ONCE, Task};
use crate::{
    calls::{Context as _, Outcome},
    grid::history::{Heard, HeardEvent, Kind, Object, Op},
    history::{CallId, now},
};

/// A message: the number of its publisher, and its number there.
type Message = (u64, u64);

/// Number of events after which a subscriber sometimes subscribes anew.
const EVENTS: u64 = 2_000;
/// Interval of the checks whether the subscriber must stop, and of its own messages at the end.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum time in which a subscriber gets its own last message.
const HEARS_WITHIN: Duration = Duration::from_secs(20);

impl Task {
    fn topic(&self, object: Object) -> Topic<Message> {
        let grid = &self.context.grid;
        let topic = if object.0 == Kind::Topic { grid.topic(object.name()) } else { grid.sharded_topic(object.name()) };
        topic.expect("a handle")
    }

    pub(super) async fn publish(&mut self) {
        let kind = if self.random.bool() { Kind::Topic } else { Kind::Sharded };
        self.publish_at(Object(kind, 0)).await;
    }

    async fn publish_at(&mut self, object: Object) {
        let publisher = self.owner;
        let number = self.context.next_message(self.number, object);
        let topic = self.topic(object);
        let publish = topic.publish(&(publisher, number));
        self.call((object, Op::Publish { publisher, number }), ONCE, publish, |_| Outcome::Ok).await;
    }
}

/// Subscribes to a topic again and again, and records what the subscribers get.
pub(super) async fn subscribe(mut task: Task, object: Object) {
    let topic = task.topic(object);
    loop {
        let mut subscriber = match topic.subscribe().await {
            Ok(subscriber) => subscriber,
            Err(_) if task.must_stop() => return,
            Err(_) => {
                tokio::time::sleep(CHECK_INTERVAL).await;
                continue;
            }
        };
        let subscription = task.context.recorder().next_call();
        let note = |task: &Task, heard| {
            task.context.recorder().note(HeardEvent { subscription, at: now(), object, heard });
        };
        note(&task, Heard::Subscribed);
        let mut left = task.random.u64(1..EVENTS);
        while left > 0 {
            if task.must_stop() {
                return hear_last(&mut task, object, subscription, &mut subscriber).await;
            }
            let Ok(event) = tokio::time::timeout(CHECK_INTERVAL, subscriber.next()).await else { continue };
            match event {
                Some(event) => note(&task, heard(event)),
                None => break,
            }
            left -= 1;
        }
    }
}

/// Publishes messages until the subscriber gets one of them.
async fn hear_last(task: &mut Task, object: Object, subscription: CallId, subscriber: &mut Subscriber<Message>) {
    let start = Instant::now();
    let note = |task: &Task, heard| {
        task.context.recorder().note(HeardEvent { subscription, at: now(), object, heard });
    };
    while start.elapsed() < HEARS_WITHIN {
        task.publish_at(object).await;
        let until = Instant::now() + CHECK_INTERVAL;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            let Ok(event) = tokio::time::timeout(left, subscriber.next()).await else { break };
            let Some(event) = event else { return };
            let heard = heard(event);
            note(task, heard);
            if matches!(heard, Heard::Message { publisher, .. } if publisher == task.owner) {
                return;
            }
        }
    }
    note(task, Heard::Deaf);
}

fn heard(event: Event<Message>) -> Heard {
    match event {
        Event::Message((publisher, number)) => Heard::Message { publisher, number },
        Event::Gap => Heard::Gap,
        Event::Corrupt(error) => panic!("a message is corrupt: {error}"),
    }
}
