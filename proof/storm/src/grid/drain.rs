//! Reads all objects at the end of a run, and takes out all elements.

use std::{
    collections::BTreeSet,
    future::Future,
    time::{Duration, Instant},
};

use bandog::{
    Client, Result,
    grid::{Queue, Set, SortedSet},
};

use super::{
    context::Context,
    history::{Call, How, Kind, OBJECTS, Object, Op},
};
use crate::{
    calls::{Context as _, JUDGE, Outcome},
    history::{CallId, Files},
};

/// Longer than the lease of a popped element whose client was killed.
const LEASES_END: Duration = Duration::from_secs(35);
/// Interval of the checks whether elements have come again.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// A limit that no call reaches when there are no faults.
const LIMIT: Duration = Duration::from_secs(20);
/// Number of items of one question to the Bloom filter.
const ITEMS: usize = 500;

/// Takes out all elements, until none is taken by another client, and reads all other objects. The calls are those of the
/// client [`JUDGE`].
pub(super) async fn drain(client: &Client, files: &Files, before: &[Call], has_taken: impl Fn() -> bool) {
    let judge = Judge(Context::open(client, JUDGE, &files.client(JUDGE)));
    let start = Instant::now();
    loop {
        let mut found = false;
        for number in 0..OBJECTS {
            for kind in Kind::all().filter(|kind| kind.has_elements()) {
                while judge.next_element(Object(kind, number)).await {
                    found = true;
                }
            }
        }
        let closed = judge.0.grid.close().await;
        if !found && (closed.is_ok() && !has_taken() || start.elapsed() > LEASES_END) {
            break;
        }
        if !found {
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }
    judge.read_all(before).await;
}

struct Judge(Context);

impl Judge {
    /// Takes out one element. Returns whether there was one.
    async fn next_element(&self, object: Object) -> bool {
        let (grid, name) = (&self.0.grid, object.name());
        match object.0 {
            Kind::Sorted => {
                let set: SortedSet<u64> = grid.sorted_set(name).expect("a handle");
                self.call(object, Op::Pop, set.pop_min(), |popped| found(popped.map(|(member, _)| member))).await
            }
            Kind::Bag => {
                let set: Set<u64> = grid.set(name).expect("a handle");
                self.call(object, Op::Pop, set.pop(), found).await
            }
            _ => {
                let queue: Queue<u64> = grid.queue(name).expect("a handle");
                let call = self.0.recorder().begin(0, object, Op::Take, LIMIT);
                match queue.take(Duration::ZERO).await {
                    Ok(Some(taken)) => {
                        let (fence, delivery) = (taken.fence().get(), taken.delivery());
                        self.0.recorder().end(call, Outcome::Taken { element: *taken, fence, delivery });
                        let op = Op::Settle { of: call, how: How::Done, held: false };
                        self.call(object, op, taken.done(), |()| Outcome::Ok).await
                    }
                    Ok(None) => self.end(call, Outcome::No),
                    Err(error) => self.end(call, Context::failed(object, &error)),
                }
            }
        }
    }

    async fn read_all(&self, before: &[Call]) {
        let (mut registers, mut counters, mut items) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for call in before {
            match call.op {
                Op::Write { key, .. } | Op::Swap { key, .. } => _ = registers.insert((call.object, key)),
                Op::Add(_) => _ = counters.insert(call.object),
                Op::Insert(item) if call.is_ok() => _ = items.insert(item),
                _ => {}
            }
        }
        let grid = &self.0.grid;
        for (object, key) in registers {
            let (op, read) = (Op::Read { key }, async { read(&self.0, object, key).await });
            self.call(object, op, read, Outcome::Found).await;
        }
        for object in counters {
            let counter = grid.counter(object.name()).expect("a handle");
            let sum = |sum: i64| Outcome::Found(sum.unsigned_abs());
            self.call(object, Op::Sum, async { counter.get().await }, sum).await;
        }
        let object = Object(Kind::Bloom, 0);
        for items in items.into_iter().collect::<Vec<_>>().chunks(ITEMS) {
            let begin = |item: &u64| self.0.recorder().begin(0, object, Op::Contains(*item), LIMIT);
            let calls: Vec<_> = items.iter().map(begin).collect();
            let contains = async { self.0.bloom().await?.contains_all(items).await };
            match contains.await {
                Ok(answers) => {
                    let outcome = |is_there| if is_there { Outcome::Ok } else { Outcome::No };
                    calls
                        .into_iter()
                        .zip(answers)
                        .for_each(|(call, is_there)| self.0.recorder().end(call, outcome(is_there)));
                }
                Err(error) => {
                    calls.into_iter().for_each(|call| self.0.recorder().end(call, Context::failed(object, &error)))
                }
            }
        }
    }

    /// Makes a call. Returns whether it has found something.
    async fn call<T>(
        &self,
        object: Object,
        op: Op,
        future: impl Future<Output = Result<T>>,
        result: impl FnOnce(T) -> Outcome,
    ) -> bool {
        let call = self.0.recorder().begin(0, object, op, LIMIT);
        match future.await {
            Ok(value) => self.end(call, result(value)),
            Err(error) => self.end(call, Context::failed(object, &error)),
        }
    }

    fn end(&self, call: CallId, outcome: Outcome) -> bool {
        self.0.recorder().end(call, outcome);
        matches!(outcome, Outcome::Ok | Outcome::Found(_) | Outcome::Taken { .. })
    }
}

fn found(element: Option<u64>) -> Outcome {
    element.map_or(Outcome::No, Outcome::Found)
}

/// The value of a key. 0: there is none.
pub(super) async fn read(context: &Context, object: Object, key: u64) -> Result<u64> {
    let (grid, name) = (&context.grid, object.name());
    match object.0 {
        Kind::Map | Kind::Shared => Ok(grid.map::<u64, u64>(name)?.get(&key).await?.unwrap_or(0)),
        Kind::Members => Ok(u64::from(grid.set::<u64>(name)?.contains(&key).await?)),
        Kind::Multimap => Ok(u64::from(grid.set_multimap::<u64, u64>(name)?.contains(&key, &1).await?)),
        Kind::Bits => Ok(u64::from(grid.bits(name)?.get(key).await?)),
        _ => Ok(grid.value::<u64>(name)?.get().await?.unwrap_or(0)),
    }
}
