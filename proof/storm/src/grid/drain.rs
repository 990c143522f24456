//! Reads all objects at the end of a run, and takes out all elements.

use std::{
    collections::BTreeSet,
    future::Future,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

use bandog::{
    Client, Result,
    grid::{Queue, Set, SortedSet},
};

use super::{
    context::Context,
    history::{Call, How, Kind, OBJECTS, Object, Op},
    worker::fleeting::end_lent,
};
use crate::{
    calls::{
        Context as _, JUDGE, Outcome,
        item::{self, Item},
    },
    history::{CallId, Files},
    settings::Profile,
};

/// Longer than the lease of a popped element whose client was killed.
const LEASES_END: Duration = Duration::from_secs(35);
/// The ttl of lent objects at the end.
const LENT_FOR: Duration = Duration::from_millis(20);
/// Maximum time until objects with a ttl are gone, and the expired entries of maps are removed.
const TTLS_END: Duration = Duration::from_secs(15);
/// Interval of the checks whether elements have come again.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// A limit that no call reaches when there are no faults.
const LIMIT: Duration = Duration::from_secs(20);
/// Number of items of one question to the Bloom filter.
const ITEMS: usize = 500;

/// Takes out all elements, until none is taken by another client, and reads all other objects. The calls are those of the
/// client [`JUDGE`].
pub(super) async fn drain(
    client: &Client,
    files: &Files,
    before: &[Call],
    has_taken: impl Fn() -> bool,
    has_ttls: impl Fn() -> bool,
) {
    item::read_calmly();
    let judge = Judge(Context::open(client, JUDGE, &files.client(JUDGE), Profile::Calm), AtomicBool::new(false));
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
        let has_failed = judge.1.swap(false, Relaxed);
        if !found && (closed.is_ok() && !has_failed && !has_taken() || start.elapsed() > LEASES_END) {
            break;
        }
        if !found {
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }
    judge.read_all(before, has_ttls).await;
}

/// The client, and whether a call has failed: on a busy machine the store may answer late.
struct Judge(Context, AtomicBool);

impl Judge {
    /// Takes out one element. Returns whether there was one.
    async fn next_element(&self, object: Object) -> bool {
        let (grid, name) = (&self.0.grid, object.name());
        match object.0 {
            Kind::Sorted => {
                let set: SortedSet<Item> = grid.sorted_set(name).expect("a handle");
                self.call(object, Op::Pop, set.pop_min(), |popped| found(popped.map(|(member, _)| member))).await
            }
            Kind::Bag => {
                let set: Set<Item> = grid.set(name).expect("a handle");
                self.call(object, Op::Pop, set.pop(), found).await
            }
            _ => {
                let queue: Queue<Item> = grid.queue(name).expect("a handle");
                let call = self.0.recorder().begin(0, object, Op::Take, LIMIT);
                match queue.take(Duration::ZERO).await {
                    Ok(Some(taken)) => {
                        let (fence, delivery) = (taken.fence().get(), taken.delivery());
                        self.0.recorder().end(call, Outcome::Taken { element: **taken, fence, delivery });
                        let op = Op::Settle { of: call, how: How::Done, held: false };
                        self.call(object, op, taken.done(), |()| Outcome::Ok).await
                    }
                    Ok(None) => self.end(call, Outcome::No),
                    Err(error) => self.end(call, Context::failed(object, &error)),
                }
            }
        }
    }

    async fn read_all(&self, before: &[Call], has_ttls: impl Fn() -> bool) {
        let (mut registers, mut counters, mut items) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut lent = BTreeSet::new();
        for call in before {
            match call.op {
                Op::Write { key, .. } | Op::Swap { key, .. } => _ = registers.insert((call.object, key)),
                Op::Add(_) if call.object.0 == Kind::Expiring => {}
                Op::Add(_) => _ = counters.insert(call.object),
                Op::Lend { .. } if call.object.0 == Kind::Lent => _ = lent.insert(call.object),
                Op::Lend { key, .. } => _ = registers.insert((call.object, key)),
                Op::Insert(item) if call.is_ok() => _ = items.insert(item),
                _ => {}
            }
        }
        for object in lent {
            let ended = end_lent(&self.0, object, LENT_FOR);
            self.call(object, Op::Lend { key: 0, value: 0, ttl: 20 }, ended, |_| Outcome::Ok).await;
        }
        // The programs that have a handle of a map remove its expired entries.
        let of_timed =
            |number| self.0.grid.timed_map::<u64, Item>(Object(Kind::Timed, number).name()).expect("a handle");
        let timed: Vec<_> = (0..OBJECTS).map(of_timed).collect();
        for map in &timed {
            self.call(Object(Kind::Timed, 0), Op::Read { key: 0 }, async { map.get(&0).await }, |_| Outcome::No).await;
        }
        let start = Instant::now();
        while has_ttls() && start.elapsed() < TTLS_END {
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
        // What a map keeps for its programs.
        for (map, number) in timed.iter().zip(0..) {
            let deleted = async { map.delete().await };
            self.call(Object(Kind::Timed, number), Op::Lend { key: 0, value: 0, ttl: 0 }, deleted, |_| Outcome::Ok)
                .await;
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
        if matches!(outcome, Outcome::Refused | Outcome::Unclear) {
            self.1.store(true, Relaxed);
        }
        matches!(outcome, Outcome::Ok | Outcome::Found(_) | Outcome::Taken { .. })
    }
}

fn found(element: Option<Item>) -> Outcome {
    element.map_or(Outcome::No, |item| Outcome::Found(*item))
}

/// The value of a key. 0: there is none.
pub(super) async fn read(context: &Context, object: Object, key: u64) -> Result<u64> {
    let (grid, name) = (&context.grid, object.name());
    match object.0 {
        Kind::Map | Kind::Shared => Ok(grid.map::<u64, Item>(name)?.get(&key).await?.map_or(0, |item| *item)),
        Kind::Timed => Ok(grid.timed_map::<u64, Item>(name)?.get(&key).await?.map_or(0, |item| *item)),
        Kind::Members => Ok(u64::from(grid.set::<u64>(name)?.contains(&key).await?)),
        Kind::Multimap => Ok(u64::from(grid.set_multimap::<u64, u64>(name)?.contains(&key, &1).await?)),
        Kind::Bits => Ok(u64::from(grid.bits(name)?.get(key).await?)),
        _ => Ok(grid.value::<Item>(name)?.get().await?.map_or(0, |item| *item)),
    }
}
