//! Records on a Redis Cluster: each call of a script has the records of one slot.

use std::{collections::BTreeSet, ops::Range};

use super::{MAX_READS_PER_CALL, MAX_SWAPS_PER_CALL, TimedReplies};
use crate::{
    leases::Redis,
    names::{INDEX, IndexKey},
    script, slots,
};
use bandog_core::{Error, Holding, Key, Pattern, Result, Swap};

impl Redis {
    /// Swaps records of several slots.
    pub(super) async fn swap_in_slots(&self, swaps: &[Swap]) -> Result<TimedReplies> {
        let place = |swap: &Swap| {
            slots::check_record(swap.key.as_str())?;
            swap.held.as_ref().map_or(Ok(()), |held| slots::check_lock(held.key.as_str()))?;
            let held = swap.held.as_ref().map(slots::placed_holding);
            let swap = Swap { key: slots::record_key(&swap.key), held, ..swap.clone() };
            Ok((slot_of_swap(&swap)?, swap))
        };
        let placed = Placed::new(swaps.iter().map(place));
        let calls = placed.calls(MAX_SWAPS_PER_CALL);
        let swaps: Vec<Swap> = placed.items.iter().map(|(.., swap)| swap.clone()).collect();
        let format = self.format;
        let asked = self.in_calls(calls, swaps.len(), |range, form| script::swap(&swaps[range], format, form)).await?;
        Ok(placed.in_place(asked))
    }

    /// Reads records and holdings of several slots. If the clocks of the nodes differ, the time is the time of one of them.
    /// (All records of a scheduler are on one node.)
    pub(super) async fn read_in_slots(&self, keys: &[Key], holdings: &[Holding]) -> Result<TimedReplies> {
        let keys = keys.iter().map(|key| {
            slots::check_record(key.as_str())?;
            let key = slots::record_key(key);
            Ok((slot_of(&key)?, Item::Record(key)))
        });
        let holdings = holdings.iter().map(|held| {
            slots::check_lock(held.key.as_str())?;
            let held = slots::placed_holding(held);
            Ok((slot_of(&held.key)?, Item::Holding(held)))
        });
        // In each slot, the records come first, because they come first among all items.
        let placed = Placed::new(keys.chain(holdings));
        let pack = |range: Range<usize>, form| {
            let (mut keys, mut holdings) = (Vec::new(), Vec::new());
            for (.., item) in &placed.items[range] {
                match item {
                    Item::Record(key) => keys.push(key.clone()),
                    Item::Holding(held) => holdings.push(held.clone()),
                }
            }
            script::read(&keys, &holdings, self.format, form)
        };
        let asked = self.in_calls(placed.calls(MAX_READS_PER_CALL), placed.items.len(), pack).await?;
        Ok(placed.in_place(asked))
    }

    /// The names of the records that match the pattern.
    pub(super) async fn names_in_cluster(&self, pattern: &Pattern) -> Result<BTreeSet<Key>> {
        let mut names = BTreeSet::new();
        for index in self.indexes(pattern).await? {
            names.extend(self.names_in(&index, "*", pattern).await?);
        }
        Ok(names)
    }

    /// The indexes that can have names that match the pattern. If the pattern does not show the hash tag of these names,
    /// all masters are scanned.
    async fn indexes(&self, pattern: &Pattern) -> Result<BTreeSet<String>> {
        match name_with_tag(pattern) {
            Some(name) => Ok([IndexKey(&name, self.format).to_string()].into()),
            None => self.keys(&format!("{INDEX}:{{*"), "set").await,
        }
    }
}

/// A name with the hash tag of all records that match the pattern. None if they can have different tags. The tag is known
/// if the pattern begins with a part in braces, with a prefix and a part of our own names, such as `shop:job/`, or if it
/// matches one name only.
fn name_with_tag(pattern: &Pattern) -> Option<String> {
    let (mut start, mut chars) = (String::new(), pattern.as_str().chars());
    let is_whole = loop {
        match chars.next() {
            None => break true,
            Some('*' | '?') => break false,
            Some('\\') => start.push(chars.next().unwrap_or('\\')),
            Some(c) => start.push(c),
        }
    };
    let placed = slots::placed_record(&start);
    let has_tag = bandog_redis_net::tag(placed.as_bytes()).len() < placed.len();
    (is_whole || has_tag).then(|| placed.into_owned())
}

/// A record or a holding that is read.
enum Item {
    Record(Key),
    Holding(Holding),
}

/// The items of a call, in the order of their slots.
struct Placed<T> {
    /// The slot of each item, its position among all items, and the item.
    items: Vec<(u16, usize, T)>,
    /// The positions of the items that are not sent.
    refused: Vec<(usize, Error)>,
}

impl<T> Placed<T> {
    fn new(each: impl Iterator<Item = Result<(u16, T)>>) -> Self {
        let (mut items, mut refused) = (Vec::new(), Vec::new());
        for (at, item) in each.enumerate() {
            match item {
                Ok((slot, item)) => items.push((slot, at, item)),
                Err(error) => refused.push((at, error)),
            }
        }
        items.sort_by_key(|(slot, at, _)| (*slot, *at));
        Self { items, refused }
    }

    /// The ranges of items that one call of a script takes: at most `max_per_call` items of one slot. Without items, one
    /// empty range: such a call returns the time.
    fn calls(&self, max_per_call: usize) -> Vec<Range<usize>> {
        let mut calls: Vec<Range<usize>> = Vec::new();
        for (at, (slot, ..)) in self.items.iter().enumerate() {
            match calls.last_mut() {
                Some(call) if self.items[call.start].0 == *slot && call.len() < max_per_call => call.end = at + 1,
                Some(_) | None => calls.push(at..at + 1),
            }
        }
        if calls.is_empty() {
            calls.push(0..0);
        }
        calls
    }

    /// The replies in the order in which the items were given.
    fn in_place(self, (now, replies): TimedReplies) -> TimedReplies {
        let sent = self.items.into_iter().zip(replies).map(|((_, at, _), reply)| (at, reply));
        let mut each: Vec<_> = sent.chain(self.refused.into_iter().map(|(at, error)| (at, Err(error)))).collect();
        each.sort_by_key(|(at, _)| *at);
        (now, each.into_iter().map(|(_, reply)| reply).collect())
    }
}

/// The slot of a record and of the lock that its swap requires.
fn slot_of_swap(swap: &Swap) -> Result<u16> {
    let slot = slot_of(&swap.key)?;
    if let Some(held) = &swap.held
        && slot_of(&held.key)? != slot
    {
        return Err(Error::misused(format!(
            "on a Redis Cluster, a record and the lock that its change requires must have the same hash tag, such as \
             {{orders}}; the lock is {}",
            held.key
        )));
    }
    Ok(slot)
}

/// The slot of a record or a lock.
fn slot_of(key: &Key) -> Result<u16> {
    slots::check(key.as_str())?;
    Ok(bandog_redis_net::slot(key.as_str().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_shows_the_hash_tag_of_its_names() {
        let shop = Pattern::new("job/*").after("{shop}:");
        for (pattern, name) in [
            (shop, Some("{shop}:job/")),
            (Pattern::new("{shop}*"), Some("{shop}")),
            (Pattern::new("shop:job/?x"), Some("{shop:/}bandog:job/")),
            (Pattern::new("job/*").after("a*b:"), Some("{a*b:/}bandog:job/")),
            (Pattern::exactly(&Key::new("what*").unwrap()), Some("what*")),
            (Pattern::new("a{b}*c{d}"), Some("a{b}")),
            (Pattern::new("{shop*"), None),
            (Pattern::new("{sh?op}:job/*"), None),
            (Pattern::new("{}*"), None),
            (Pattern::new("shop:*"), None),
            (Pattern::all(), None),
        ] {
            assert_eq!(name_with_tag(&pattern).as_deref(), name, "{pattern:?}");
        }
    }
}
