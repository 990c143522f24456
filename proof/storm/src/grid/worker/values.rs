//! Calls on values, entries, counters, numbers and filters.

use bandog::grid::Map;

use super::task::{EXACT, ONCE, SEVERAL, Task};
use crate::{
    calls::{Context as _, Outcome, caught, item::Item},
    grid::{
        context::Context,
        drain::read,
        history::{Kind, OBJECTS, Object, Op},
    },
};

/// Number of keys of each task in an object.
const KEYS: u64 = 8;
/// Number of keys that all tasks change.
const SHARED_KEYS: u64 = 4;
/// Maximum number that is added to a counter.
const MAX_SUMMAND: u64 = 1_000;

impl Task {
    /// A key that belongs to this task.
    pub(super) fn own_key(&mut self) -> u64 {
        self.owner * KEYS + self.random.u64(..KEYS)
    }

    /// Writes or reads a value that belongs to this task.
    pub(super) async fn own_value(&mut self) {
        let kind = self.random.choice([Kind::Map, Kind::Members, Kind::Multimap, Kind::Bits]).unwrap_or(Kind::Map);
        let object = Object(kind, self.random.u32(..OBJECTS));
        let key = self.own_key();
        if self.random.u8(..3) == 0 {
            let context = self.context.clone();
            let found = |value: &u64| Outcome::Found(*value);
            self.call((object, Op::Read { key }), ONCE, read(&context, object, key), found).await;
            return;
        }
        let is_set = self.random.u8(..4) > 0;
        let value = match kind {
            Kind::Map if is_set => self.unique(),
            _ => u64::from(is_set),
        };
        let at = (object, Op::Write { key, value });
        let (context, variant) = (self.context.clone(), self.random.bool());
        let grid = &context.grid;
        let write = async {
            let name = object.name();
            match (kind, is_set) {
                (Kind::Map, true) if variant => {
                    grid.map::<u64, Item>(name)?.insert(&key, &Item::new(value)).await.map(drop)
                }
                (Kind::Map, true) => grid.map::<u64, Item>(name)?.put(&key, &Item::new(value)).await,
                (Kind::Map, false) if variant => grid.map::<u64, Item>(name)?.take(&key).await.map(drop),
                (Kind::Map, false) => grid.map::<u64, Item>(name)?.remove(&key).await.map(drop),
                (Kind::Members, true) => grid.set::<u64>(name)?.insert(&key).await.map(drop),
                (Kind::Members, false) => grid.set::<u64>(name)?.remove(&key).await.map(drop),
                (Kind::Multimap, true) => grid.set_multimap::<u64, u64>(name)?.insert(&key, &1).await.map(drop),
                (Kind::Multimap, false) if variant => {
                    grid.set_multimap::<u64, u64>(name)?.remove_all(&key).await.map(drop)
                }
                (Kind::Multimap, false) => grid.set_multimap::<u64, u64>(name)?.remove(&key, &1).await.map(drop),
                _ => grid.bits(name)?.set(key, is_set).await.map(drop),
            }
        };
        self.call(at, ONCE, write, |()| Outcome::Ok).await;
    }

    /// Changes a value that all tasks change, if no other one has changed it meanwhile.
    pub(super) async fn swap(&mut self) {
        let (object, key, to) = match self.random.bool() {
            true => (Object(Kind::Shared, 0), self.random.u64(..SHARED_KEYS), self.unique()),
            false => (Object(Kind::Value, self.random.u32(..OBJECTS)), 0, self.unique()),
        };
        let context = self.context.clone();
        let grid = &context.grid;
        let shared: Map<u64, Item> = grid.map(object.name()).expect("a handle");
        if object.0 == Kind::Shared && self.random.bool() {
            let update = async {
                let mut from = 0;
                let change = |value: Option<Item>| {
                    from = value.map_or(0, |value| *value);
                    Some(Item::new(to))
                };
                shared.update(&key, change).await?;
                Ok(from)
            };
            let at = (object, Op::Swap { key, from: None, to });
            self.call(at, SEVERAL, update, |from| Outcome::Found(*from)).await;
            return;
        }
        let Some(Ok(from)) = caught(read(&context, object, key)).await else { return };
        let at = (object, Op::Swap { key, from: Some(from), to });
        let value = grid.value::<Item>(object.name()).expect("a handle");
        let (from_item, to_item) = (Item::new(from), Item::new(to));
        let swap = async {
            match (object.0, from) {
                (Kind::Shared, 0) => shared.insert_new(&key, &to_item).await,
                (Kind::Shared, _) => shared.swap(&key, Some(&from_item), Some(&to_item)).await,
                (_, 0) => value.set_new(&to_item).await,
                (_, _) => value.swap(Some(&from_item), Some(&to_item)).await,
            }
        };
        let result = |is_written: &bool| if *is_written { Outcome::Ok } else { Outcome::No };
        self.call(at, ONCE, swap, result).await;
    }

    pub(super) async fn add(&mut self) {
        let by = self.random.u64(1..=MAX_SUMMAND);
        // Each task has a counter of its own for exact additions: a sum of a few numbers shows which of them count.
        let (object, limit) = match self.random.bool() {
            true => (Object(Kind::ExactCounter, u32::try_from(self.owner).unwrap_or(u32::MAX)), EXACT),
            false => (Object(Kind::Counter, self.random.u32(..OBJECTS)), ONCE),
        };
        let counter = self.context.grid.counter(object.name()).expect("a handle");
        let counter = if object.0 == Kind::ExactCounter { counter.exact() } else { counter };
        let sum = |sum: &i64| Outcome::Found(sum.unsigned_abs());
        let add = async { counter.add(by.cast_signed()).await };
        self.call((object, Op::Add(by)), limit, add, sum).await;
    }

    pub(super) async fn next_id(&mut self) {
        let ids = self.context.ids.clone();
        let number = |number: &i64| Outcome::Found(number.unsigned_abs());
        // Other tasks that wait for the same block can be before this one.
        self.call((Object(Kind::Ids, 0), Op::Next), SEVERAL, ids.next(), number).await;
    }

    pub(super) async fn bloom(&mut self) {
        let (object, item, context) = (Object(Kind::Bloom, 0), self.unique(), self.context.clone());
        let insert = async { context.bloom().await?.insert(&item).await };
        // The filter may have to be opened first.
        let (_, inserted) = self.call((object, Op::Insert(item)), ONCE * 2, insert, |_| Outcome::Ok).await;
        if inserted.is_none() {
            return context.forget_bloom().await;
        }
        let contains = async { context.bloom().await?.contains(&item).await };
        let result = |is_there: &bool| if *is_there { Outcome::Ok } else { Outcome::No };
        if self.call((object, Op::Contains(item)), ONCE * 2, contains, result).await.1.is_none() {
            context.forget_bloom().await;
        }
    }

    /// Sends a push, an exact addition and a write in one batch.
    pub(super) async fn batch(&mut self) {
        let (element, by) = (self.unique(), self.random.u64(1..=MAX_SUMMAND));
        let (key, value) = (self.owner * KEYS + self.random.u64(..KEYS), self.unique());
        let at = [
            (Object(Kind::Queue, self.random.u32(..OBJECTS)), Op::Push(element)),
            (Object(Kind::ExactCounter, u32::try_from(self.owner).unwrap_or(u32::MAX)), Op::Add(by)),
            (Object(Kind::Map, self.random.u32(..OBJECTS)), Op::Write { key, value }),
        ];
        let grid = self.context.grid.clone();
        let mut batch = grid.batch();
        let pushed = batch.add(self.queue(at[0].0).push(&Item::new(element)));
        let counter = grid.counter(at[1].0.name()).expect("a handle").exact();
        let added = batch.add(counter.add(by.cast_signed()));
        let written = batch.add(grid.map::<u64, Item>(at[2].0.name()).expect("a handle").put(&key, &Item::new(value)));
        let calls = at.map(|(object, op)| self.context.recorder().begin(self.number, object, op, EXACT + ONCE));
        // The result is that of the first error; each call has its own one.
        let _ = batch.send().await;
        let results = [
            pushed.get().map(|_| Outcome::Ok),
            added.get().map(|sum| Outcome::Found(sum.unsigned_abs())),
            written.get().map(|()| Outcome::Ok),
        ];
        for ((call, (object, _)), result) in calls.into_iter().zip(at).zip(results) {
            self.context.recorder().end(call, result.unwrap_or_else(|error| Context::failed(object, &error)));
        }
        self.count(3);
    }
}
