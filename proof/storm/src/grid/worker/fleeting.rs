//! Objects that last for some milliseconds, objects of every type under one name, and copies and events of maps that are
//! dropped while the maps change.

use std::time::Duration;

use bandog::{
    Result,
    grid::{MapEvents, NearMap, Ttl},
};
use tokio::time::timeout;

use super::task::{ONCE, SEVERAL, Task};
use crate::{
    calls::{Outcome, caught, item::Item},
    grid::{
        context::Context,
        drain::read,
        history::{Kind, LENT, OBJECTS, Object, Op},
    },
};

/// The ttls, in milliseconds.
const TTLS: std::ops::Range<u32> = 5..50;
/// Number of keys of each task whose values have a ttl.
const KEYS: u64 = 4;
/// Number of names that have objects of every type.
const STRANGE: u32 = 4;
/// Number of copies of a map.
const COPIES: usize = 100;
/// Maximum number of reads of one handle with copies.
const PEEKS: u32 = 20;
/// Maximum number of events of one subscription.
const EVENTS: u32 = 20;
/// Maximum time for which a task waits for an event.
const EVENT: Duration = Duration::from_millis(50);

fn millis(ttl: u32) -> Duration {
    Duration::from_millis(ttl.into())
}

impl Task {
    /// Writes or reads a value that has a ttl and belongs to this task.
    pub(super) async fn fleeting(&mut self) {
        let kind = self.random.choice([Kind::Fleeting, Kind::Timed, Kind::Expiring, Kind::Lent]).unwrap_or(Kind::Timed);
        let key = self.owner * KEYS + self.random.u64(..KEYS);
        let number = u32::try_from(key).unwrap_or(u32::MAX);
        let (object, context) = (Object(kind, number), self.context.clone());
        let (value, ttl, variant) = (self.unique(), self.random.u32(TTLS), self.random.bool());
        let grid = &context.grid;
        match kind {
            Kind::Expiring => {
                let counter = grid.counter(object.name()).expect("a handle").expiring(millis(ttl));
                let sum = |sum: &i64| Outcome::Found(sum.unsigned_abs());
                self.call((object, Op::Add(1)), ONCE, async { counter.add(1).await }, sum).await;
            }
            Kind::Lent => {
                let object = Object(kind, number * LENT + self.random.u32(..LENT));
                let is_there = |is_there: &bool| if *is_there { Outcome::Ok } else { Outcome::No };
                let op = Op::Lend { key: 0, value, ttl };
                self.call((object, op), SEVERAL, lend(&context, object, value, ttl), is_there).await;
            }
            _ if self.random.u8(..3) == 0 => {
                let object = if kind == Kind::Timed { Object(kind, number % OBJECTS) } else { object };
                let found = |value: &u64| Outcome::Found(*value);
                self.call((object, Op::Read { key }), ONCE, read(&context, object, key), found).await;
            }
            Kind::Timed => {
                let object = Object(kind, number % OBJECTS);
                let map = grid.timed_map::<u64, Item>(object.name()).expect("a handle");
                let (value_of, life) = (Item::new(value), millis(ttl));
                let write = async {
                    match variant {
                        true => map.put_for(&key, &value_of, life).await,
                        false => map.insert_for(&key, &value_of, life).await.map(drop),
                    }
                };
                self.call((object, Op::Lend { key, value, ttl }), ONCE, write, |()| Outcome::Ok).await;
            }
            _ => {
                let handle = grid.value::<Item>(object.name()).expect("a handle");
                let (value_of, ttl_of) = (Item::new(value), millis(ttl));
                let write = async {
                    match variant {
                        true => handle.set_for(&value_of, ttl_of).await.map(|()| true),
                        false => handle.set_new_for(&value_of, ttl_of).await,
                    }
                };
                let result = |is_written: &bool| if *is_written { Outcome::Ok } else { Outcome::No };
                self.call((object, Op::Lend { key, value, ttl }), ONCE, write, result).await;
            }
        }
    }

    /// Makes a call on a name that has objects of every type, also those of another program.
    pub(super) async fn strange(&mut self) {
        let object = Object(Kind::Strange, self.random.u32(..STRANGE));
        let (verb, value) = (self.random.u8(..24), self.unique());
        let context = self.context.clone();
        let call = strange(&context, object, verb, value);
        self.call((object, Op::Try(verb)), SEVERAL, call, |()| Outcome::Ok).await;
    }

    /// Reads a map through copies, and drops them; or listens to the changes of a map for some time.
    pub(super) async fn copies(&mut self) {
        let number = self.random.u32(..OBJECTS);
        let context = self.context.clone();
        if self.random.u8(..4) == 0 {
            let object = Object(Kind::Timed, number);
            let map = context.grid.timed_map::<u64, Item>(object.name()).expect("a handle");
            let events = async { map.events().await };
            let (_, events) = self.call((object, Op::Listen), SEVERAL, events, |_| Outcome::Ok).await;
            let Some(mut events): Option<MapEvents<u64, Item>> = events else { return };
            for _ in 0..self.random.u32(..EVENTS) {
                // The values of an event may panic while they are read.
                let event = timeout(EVENT, caught(events.next())).await;
                if event.is_ok_and(|event| event.is_some_and(|event| event.is_none())) {
                    return;
                }
            }
            return;
        }
        let object = Object(Kind::Map, number);
        let copies: NearMap<u64, Item> = context.grid.map(object.name()).expect("a handle").near(COPIES);
        for _ in 0..self.random.u32(..PEEKS) {
            let key = self.own_key();
            let found = |value: &u64| Outcome::Found(*value);
            let peek = async { Ok(copies.read(&key).await?.map_or(0, |value| **value)) };
            self.call((object, Op::Peek { key }), ONCE, peek, found).await;
        }
    }
}

/// Adds an element to an object, and gives the object a ttl. Returns whether the object was there then.
async fn lend(context: &Context, object: Object, value: u64, ttl: u32) -> Result<bool> {
    let (grid, name, value, ttl) = (&context.grid, object.name(), Item::new(value), millis(ttl));
    match object.1 % LENT {
        0 => {
            let queue = grid.queue::<Item>(name)?;
            queue.push(&value).await?;
            let is_there = queue.expire(ttl).await?;
            if let Some(taken) = queue.take(Duration::ZERO).await? {
                drop(taken);
            }
            Ok(is_there)
        }
        1 => {
            let set = grid.set::<Item>(name)?;
            set.insert(&value).await?;
            set.expire(ttl).await
        }
        2 => {
            let map = grid.map::<u64, Item>(name)?;
            map.put(&value, &value).await?;
            map.expire(ttl).await
        }
        3 => {
            let list = grid.list::<Item>(name)?;
            list.push(&value).await?;
            list.expire(ttl).await
        }
        4 => {
            let set = grid.sorted_set::<Item>(name)?;
            set.insert(1.0, &value).await?;
            set.expire(ttl).await
        }
        5 => {
            let map = grid.list_multimap::<u64, Item>(name)?;
            map.insert(&value, &value).await?;
            map.expire(ttl).await
        }
        6 => {
            let map = grid.timed_map::<u64, Item>(name)?;
            map.put_for(&value, &value, ttl * 3).await?;
            map.expire(ttl).await
        }
        _ => {
            let bits = grid.bits(name)?;
            bits.set(*value % 100, true).await?;
            bits.expire(ttl).await
        }
    }
}

/// The remaining time of an object that was lent, and gives it a short ttl.
pub(in crate::grid) async fn end_lent(context: &Context, object: Object, ttl: Duration) -> Result<(Ttl, bool)> {
    let (grid, name) = (&context.grid, object.name());
    Ok(match object.1 % LENT {
        0 => (grid.queue::<Item>(&name)?.ttl().await?, grid.queue::<Item>(name)?.expire(ttl).await?),
        1 => (grid.set::<Item>(&name)?.ttl().await?, grid.set::<Item>(name)?.expire(ttl).await?),
        2 => (grid.map::<u64, Item>(&name)?.ttl().await?, grid.map::<u64, Item>(name)?.expire(ttl).await?),
        3 => (grid.list::<Item>(&name)?.ttl().await?, grid.list::<Item>(name)?.expire(ttl).await?),
        4 => (grid.sorted_set::<Item>(&name)?.ttl().await?, grid.sorted_set::<Item>(name)?.expire(ttl).await?),
        5 => {
            let map = grid.list_multimap::<u64, Item>(name)?;
            (map.ttl().await?, map.expire(ttl).await?)
        }
        6 => {
            let map = grid.timed_map::<u64, Item>(name)?;
            (map.ttl().await?, map.expire(ttl).await?)
        }
        _ => (grid.bits(&name)?.ttl().await?, grid.bits(name)?.expire(ttl).await?),
    })
}

async fn strange(context: &Context, object: Object, verb: u8, value: u64) -> Result<()> {
    let (grid, name, value) = (&context.grid, object.name(), Item::new(value));
    match verb {
        0 => grid.value::<Item>(name)?.get().await.map(drop),
        1 => grid.value::<Item>(name)?.set(&value).await,
        2 => grid.map::<u64, Item>(name)?.put(&7, &value).await,
        3 => grid.map::<u64, Item>(name)?.get(&7).await.map(drop),
        4 => grid.map::<u64, Item>(name)?.to_vec(100).await.map(drop),
        5 => grid.set::<Item>(name)?.insert(&value).await.map(drop),
        6 => grid.set::<Item>(name)?.pop().await.map(drop),
        7 => grid.sorted_set::<Item>(name)?.insert(1.0, &value).await.map(drop),
        8 => grid.sorted_set::<Item>(name)?.pop_min().await.map(drop),
        9 => grid.queue::<Item>(name)?.push(&value).await.map(drop),
        10 => grid.queue::<Item>(name)?.pop().await.map(drop),
        11 => match grid.queue::<Item>(name)?.take(Duration::from_millis(5)).await? {
            Some(taken) => taken.done().await,
            None => Ok(()),
        },
        12 => grid.counter(name)?.add(1).await.map(drop),
        13 => grid.counter(name)?.exact().add(1).await.map(drop),
        14 => grid.list::<Item>(name)?.push(&value).await.map(drop),
        15 => grid.list::<Item>(name)?.to_vec(100).await.map(drop),
        16 => grid.timed_map::<u64, Item>(name)?.put_for(&7, &value, Duration::from_millis(30)).await,
        17 => grid.timed_map::<u64, Item>(name)?.get(&7).await.map(drop),
        18 => grid.bits(name)?.set(9, true).await.map(drop),
        19 => grid.set_multimap::<u64, Item>(name)?.insert(&7, &value).await.map(drop),
        20 => grid.list_multimap::<u64, Item>(name)?.contains(&7, &value).await.map(drop),
        21 => grid.map::<u64, Item>(name)?.near(COPIES).read(&7).await.map(drop),
        22 => grid.queue::<Item>(name)?.delete().await.map(drop),
        _ => grid.value::<Item>(name)?.delete().await.map(drop),
    }
}
