//! Work queues: the rules of `bandog_core` over the rows of the tables.

use async_trait::async_trait;
use bandog_core::{
    Error, Key, Notifier, Pattern, Result, Subscription,
    queues::{
        Bell, Change, ElementId, ElementRow, Extend, Extended, Phase, Push, Pushed, QueueStatus, Queues, Settle,
        Settled, Take, Taken,
        rules::{self, Now},
    },
    structures::Cursor,
};

use crate::{
    Sqlite,
    fault::Fault,
    open::Purpose,
    queue_rows::QueueRows,
    subscribers::Topic,
    table::Table,
    work::{AccessMode, SubscribeToRecords, Work},
};

/// The rules of one operation.
type Apply<A> = Box<dyn Fn(&mut QueueRows<'_, '_>, Now) -> Result<A, Fault> + Send>;

/// One operation on a queue.
struct QueueWork<A> {
    queue: Key,
    mode: AccessMode,
    steps: usize,
    purpose: Purpose,
    apply: Apply<A>,
}

impl<A: Send + 'static> Work for QueueWork<A> {
    type Answer = Result<A>;

    fn access_mode(&self) -> AccessMode {
        self.mode
    }

    fn purpose(&self) -> Purpose {
        self.purpose
    }

    fn steps(&self) -> usize {
        self.steps
    }

    fn run(&self, table: &mut Table<'_>) -> Result<Self::Answer, Fault> {
        table.one_row(|table| match table.may_write() {
            true => table.write_together(|table| table.on_queue(self)),
            false => table.on_queue(self),
        })
    }
}

impl Table<'_> {
    /// Applies an operation to a queue. Its subscribers are notified after the commit.
    fn on_queue<A>(&mut self, QueueWork { queue, mode, apply, .. }: &QueueWork<A>) -> Result<A, Fault> {
        let now =
            Now { wall: self.host().wall_micros().unsigned_abs(), lease: self.host().now_ns().unsigned_abs() / 1000 };
        let mut rows = QueueRows::load(self, queue, now, *mode == AccessMode::Read)?;
        let answer = apply(&mut rows, now)?;
        rows.store()?;
        let (rings, results) = (rows.rings, std::mem::take(&mut rows.results));
        if rings {
            self.notify_after_commit(Topic::of(&ready_topic(queue)?));
        }
        for client in results {
            self.notify_after_commit(Topic::of(&result_topic(client)?));
        }
        Ok(answer)
    }

    /// The names of queues after this one.
    fn queue_names(&mut self, after: &str, about: usize) -> Result<Vec<String>, Fault> {
        if !self.has_queues() {
            return Ok(Vec::new());
        }
        let page = (after, i64::try_from(about).unwrap_or(i64::MAX));
        self.in_layout(|table, texts| {
            Ok(table.statement(texts.names)?.query_map(page, |row| row.get(0))?.collect::<Result<_, _>>()?)
        })
    }
}

/// The topic of elements that may be ready. Its name is as long for each queue.
fn ready_topic(queue: &Key) -> Result<Key, Fault> {
    topic(format!("bandog:work:{:016x}", hash(queue.as_str())))
}

/// The topic of the results for a client.
fn result_topic(client: u64) -> Result<Key, Fault> {
    topic(format!("bandog:work:results:{client:016x}"))
}

fn topic(name: String) -> Result<Key, Fault> {
    Key::new(name).map_err(Fault::Refused)
}

/// FNV-1a. Two queues with the same hash notify each other's subscribers.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The names of queues after this one.
struct QueueNames(String, usize);

impl Work for QueueNames {
    type Answer = Vec<String>;

    fn access_mode(&self) -> AccessMode {
        AccessMode::Read
    }

    fn purpose(&self) -> Purpose {
        Purpose::Inspect
    }

    fn run(&self, table: &mut Table<'_>) -> Result<Vec<String>, Fault> {
        table.queue_names(&self.0, self.1)
    }
}

impl Sqlite {
    async fn on_queue<A: Send + 'static>(
        &self,
        verb: &'static str,
        queue: &Key,
        (mode, steps): (AccessMode, usize),
        apply: impl Fn(&mut QueueRows<'_, '_>, Now) -> Result<A, Fault> + Send + 'static,
    ) -> Result<A> {
        let purpose = if mode == AccessMode::Read { Purpose::Inspect } else { Purpose::Use };
        let work = QueueWork { queue: queue.clone(), mode, steps, purpose, apply: Box::new(apply) };
        self.request(work).await.flatten().map_err(|error| error.during(verb).at(queue))
    }
}

/// A read of operators.
const READ: (AccessMode, usize) = (AccessMode::Read, 1);

#[async_trait]
impl Queues for Sqlite {
    async fn push(&self, pushes: &[Push]) -> Vec<Result<Vec<Pushed>>> {
        let mut answers = Vec::new();
        for push in pushes {
            let (elements, steps) = (push.elements.clone(), push.elements.len() * 2);
            let apply = move |rows: &mut QueueRows<'_, '_>, now| rules::push(rows, &elements, now);
            answers.push(self.on_queue("push", &push.queue, (AccessMode::DurableWrite, steps), apply).await);
        }
        answers
    }

    async fn take(&self, takes: &[Take]) -> Vec<Result<Taken>> {
        let mut answers = Vec::new();
        for take in takes {
            let (sent, steps) = (take.clone(), take.at_most as usize);
            let apply = move |rows: &mut QueueRows<'_, '_>, now| rules::take(rows, &sent, now);
            answers.push(self.on_queue("take", &take.queue, (AccessMode::ReadFirst, steps), apply).await);
        }
        answers
    }

    async fn extend(&self, extend: &Extend) -> Result<Vec<Extended>> {
        let (sent, steps) = (extend.clone(), extend.deliveries.len());
        let apply = move |rows: &mut QueueRows<'_, '_>, now| rules::extend(rows, &sent, now);
        self.on_queue("extend", &extend.queue, (AccessMode::Write, steps), apply).await
    }

    async fn settle(&self, queue: &Key, settles: &[Settle]) -> Result<Vec<Settled>> {
        let (sent, steps) = (settles.to_vec(), settles.len() * 2);
        let apply = move |rows: &mut QueueRows<'_, '_>, now| rules::settle(rows, &sent, now);
        self.on_queue("settle", queue, (AccessMode::DurableWrite, steps), apply).await
    }

    async fn find(&self, queue: &Key, ids: &[ElementId], payload: usize) -> Result<Vec<Option<ElementRow>>> {
        let ids = ids.to_vec();
        self.on_queue("find", queue, READ, move |rows, now| rules::find(rows, &ids, payload, now)).await
    }

    async fn status(&self, queue: &Key) -> Result<QueueStatus> {
        self.on_queue("status", queue, READ, |rows, now| rules::status(rows, now)).await
    }

    async fn elements(
        &self,
        queue: &Key,
        phase: Phase,
        from: &Cursor,
        about: usize,
        payload: usize,
    ) -> Result<(Vec<ElementRow>, Option<Cursor>)> {
        let from = from.clone();
        let apply = move |rows: &mut QueueRows<'_, '_>, now| rules::page(rows, phase, &from, about, payload, now);
        self.on_queue("elements", queue, READ, apply).await
    }

    async fn change(&self, queue: &Key, change: &Change) -> Result<u64> {
        let change = change.clone();
        let mode = match change {
            Change::Worker(..) => AccessMode::Write,
            _ => AccessMode::DurableWrite,
        };
        let apply = move |rows: &mut QueueRows<'_, '_>, now| rules::change(rows, &change, now);
        self.on_queue("change", queue, (mode, rules::MAX_CHANGES), apply).await
    }

    async fn queues(&self, pattern: &Pattern, from: &Cursor, about: usize) -> Result<(Vec<Key>, Option<Cursor>)> {
        let names = self.request(QueueNames(from.0.clone(), about)).await?;
        let next = names.get(about.wrapping_sub(1)).map(|name| Cursor(name.clone()));
        let keys = names.iter().filter(|name| pattern.matches(name)).filter_map(|name| Key::new(name).ok());
        Ok((keys.collect(), next))
    }

    async fn subscribe_bell(&self, bell: &Bell, notifier: Notifier) -> Result<Subscription> {
        let (queue, key) = match bell {
            Bell::Ready { queue, .. } => (queue, ready_topic(queue)),
            Bell::Results { queue, client } => (queue, result_topic(*client)),
        };
        let key = key.map_err(|fault| fault.error(&self.context().options.path))?;
        let subscribed = self.subscribe_topic(Topic::of(&key), notifier).await;
        subscribed.map_err(|error: Error| error.during("subscribe").at(queue))
    }
}

impl Sqlite {
    /// Notifies after changes of this topic, which is one of records or of work queues.
    pub(crate) async fn subscribe_topic(&self, topic: Topic, notifier: Notifier) -> Result<Subscription> {
        let number = self.context().record_subscribers.add(&topic, notifier);
        let handle = self.clone();
        let subscription = Subscription::new(move || handle.context().record_subscribers.remove(&topic, number));
        match self.request(SubscribeToRecords).await? {
            true => Ok(subscription),
            false => Ok(Subscription::silent()),
        }
    }
}
