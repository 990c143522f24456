//! Records: one hash for each record, one hash for its history, and a set of all names.

mod cluster;

use std::{
    borrow::Cow,
    collections::BTreeSet,
    ops::Range,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use bandog_core::{
    Error, ErrorKind, Holding, Key, Line, Notifier, Pattern, Reading, Record, Records, Result, Subscription, Swap,
    Swapped, Swaps, Version, messages::Sink,
};
use bandog_redis_net::{Keys, ScriptForm, redis_glob, reply::text};
use futures_util::FutureExt;
use redis::{Cmd, Pipeline, Value};

use crate::{
    leases::Redis,
    names::{Channel, HistoryKey, INDEX},
    refusal, script, slots,
};

/// Maximum number of records that one call of `swap.lua` swaps. A larger call would block the server for other clients
/// for too long.
const MAX_SWAPS_PER_CALL: usize = 256;
/// Maximum number of items, that is, of records and holdings together, that one call of `read.lua` reads.
const MAX_READS_PER_CALL: usize = 512;
/// Number of names that one SSCAN examines.
const NAMES_PER_SCAN: usize = 512;
/// The server's time, and the reply or the error for each item.
type TimedReplies = (SystemTime, Vec<Result<Value>>);

/// All versions are below this number. Lua's numbers are doubles, which represent all whole numbers below 2^53 exactly.
const VERSION_LIMIT: u64 = 1 << 53;

#[async_trait]
impl Records for Redis {
    async fn swap(&self, swaps: &[Swap]) -> Result<Swaps> {
        let at_record = |error: Error, swap: &Swap| error.during("swap").at(&swap.key);
        let asked = if self.format.in_cluster {
            self.swap_in_slots(swaps).boxed().await
        } else {
            self.swap_in_calls(swaps).await
        };
        let (now, replies) = asked.map_err(|error| match swaps {
            [swap] => at_record(error, swap),
            _ => error.during("swap"),
        })?;
        let each = swaps.iter().zip(replies);
        let each = each.map(|(swap, reply)| reply.and_then(swapped).map_err(|error| at_record(error, swap)));
        Ok(Swaps { now, each: each.collect() })
    }

    async fn read(&self, keys: &[Key], holdings: &[Holding]) -> Result<Reading> {
        let asked = if self.format.in_cluster {
            self.read_in_slots(keys, holdings).boxed().await
        } else {
            self.read_in_calls(keys, holdings).await
        };
        let (now, mut replies) = asked.map_err(|error| error.during("read"))?;
        let held = replies.split_off(keys.len());
        let records = keys.iter().zip(replies);
        let records = records.map(|(key, reply)| reply.and_then(record).map_err(|error| error.during("read").at(key)));
        let held = holdings.iter().zip(held);
        let held =
            held.map(|(held, reply)| reply.and_then(is_held).map_err(|error| error.during("read").at(&held.key)));
        Ok(Reading { now, records: records.collect(), held: held.collect() })
    }

    async fn names(&self, pattern: &Pattern) -> Result<Vec<Key>> {
        let names = if self.format.in_cluster {
            self.names_in_cluster(pattern).boxed().await
        } else {
            self.names_in(INDEX, &redis_glob(pattern), pattern).await
        };
        names.map(|names| names.into_iter().collect()).map_err(|error| error.during("names"))
    }

    async fn history(&self, key: &Key) -> Result<Vec<Line>> {
        self.lines(key).await.map_err(|error| error.during("history").at(key))
    }

    async fn subscribe_record(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        let placed = self.record_key(key);
        let subscription = self.servers.subscribe(&Channel(placed.as_str()).to_string(), Sink::of(notifier)).await;
        subscription.map_err(|error| error.during("subscribe").at(key))
    }
}

impl Redis {
    /// The key of a record with this name.
    fn record_key(&self, key: &Key) -> Key {
        if self.format.in_cluster { slots::record_key(key) } else { key.clone() }
    }

    /// The name of a record whose key has this name.
    fn plain_name<'a>(&self, name: &'a str) -> Cow<'a, str> {
        if self.format.in_cluster { slots::plain_record(name) } else { name.into() }
    }

    /// Swaps records on a single server.
    async fn swap_in_calls(&self, swaps: &[Swap]) -> Result<TimedReplies> {
        let format = self.format;
        let calls = ranges(swaps.len(), MAX_SWAPS_PER_CALL);
        self.in_calls(calls, swaps.len(), |positions, form| script::swap(&swaps[positions], format, form)).await
    }

    /// Reads records and holdings on a single server.
    async fn read_in_calls(&self, keys: &[Key], holdings: &[Holding]) -> Result<TimedReplies> {
        let records = keys.len();
        let pack = |positions: Range<usize>, form| {
            // The positions of the keys come first. The positions of the holdings follow.
            let holdings = &holdings[positions.start.saturating_sub(records)..positions.end.saturating_sub(records)];
            let keys = &keys[positions.start.min(records)..positions.end.min(records)];
            script::read(keys, holdings, self.format, form)
        };
        let count = records + holdings.len();
        self.in_calls(ranges(count, MAX_READS_PER_CALL), count, pack).await
    }

    /// Sends calls of a script for `count` items. `calls` has the range of items of each call. `pack` makes the call for
    /// a range of items. All calls are sent in one round trip. If a call must be repeated, it is sent in a
    /// further round trip. The answer to a call contains the time, and then one reply for each item.
    ///
    /// # Errors
    /// Fails if no answer contains the time, for example because all calls failed. Otherwise each item has its own
    /// result.
    async fn in_calls(
        &self,
        mut calls: Vec<Range<usize>>,
        count: usize,
        pack: impl Fn(Range<usize>, ScriptForm) -> Cmd + Send + Sync,
    ) -> Result<TimedReplies> {
        let deadline = self.servers.deadline();
        let mut answers = PendingReplies { each: vec![None; count], now: None, fault: None };
        while !calls.is_empty() {
            let packed = |form| {
                let mut pipe = Pipeline::with_capacity(calls.len());
                calls.iter().for_each(|positions| _ = pipe.add_command(pack(positions.clone(), form)));
                pipe
            };
            calls = match self.servers.call_scripts(deadline, Keys::OfScripts, packed).await {
                Ok(replies) => {
                    calls.into_iter().zip(replies).flat_map(|(call, reply)| answers.take(call, reply)).collect()
                }
                Err(error) => {
                    calls.into_iter().for_each(|positions| answers.fail(positions, &error));
                    Vec::new()
                }
            };
        }
        answers.all()
    }

    /// The names in this index that match the pattern. `glob` is a glob that matches at least these names as the index has
    /// them.
    pub(crate) async fn names_in(&self, index: &str, glob: &str, pattern: &Pattern) -> Result<BTreeSet<Key>> {
        let mut keys = BTreeSet::new();
        let mut cursor = String::from("0");
        loop {
            let mut pipe = Pipeline::with_capacity(1);
            pipe.cmd("SSCAN").arg(index).arg(&cursor).arg("MATCH").arg(glob).arg("COUNT").arg(NAMES_PER_SCAN);
            let (next, names) = self.scanned(pipe).await?;
            // A scan may return a name twice.
            let names = names.iter().map(|name| self.plain_name(name)).filter(|name| pattern.matches(name));
            keys.extend(names.filter_map(|name| Key::new(name).ok()));
            if next == "0" {
                return Ok(keys);
            }
            cursor = next;
        }
    }

    /// The lines of the record's history, sorted by slot. (The slot of a line is its name in the history.)
    async fn lines(&self, key: &Key) -> Result<Vec<Line>> {
        if self.format.in_cluster {
            slots::check_record(key.as_str())?;
        }
        let mut pipe = Pipeline::with_capacity(1);
        pipe.cmd("HGETALL").arg(HistoryKey(self.record_key(key).as_str(), self.format).to_string());
        let fields = match self.command(pipe).await? {
            Value::Map(fields) => fields,
            reply => return Err(refusal::unexpected_reply(&reply)),
        };
        let line = |(slot, value): (Value, Value)| Some(Line { slot: text(&slot)?, value: text(&value)? });
        let lines: Option<Vec<Line>> = fields.into_iter().map(line).collect();
        let mut lines = lines.ok_or_else(|| corrupt("its history contains data that are not text"))?;
        lines.sort_unstable_by(|one, other| one.slot.cmp(&other.slot));
        Ok(lines)
    }
}

/// The ranges of at most `max_per_call` items. At least one range.
fn ranges(count: usize, max_per_call: usize) -> Vec<Range<usize>> {
    (0..count.max(1)).step_by(max_per_call).map(|from| from..count.min(from + max_per_call)).collect()
}

/// The replies received so far.
struct PendingReplies {
    /// The reply or the error for each item.
    each: Vec<Option<Result<Value>>>,
    /// The server's time in the latest answer.
    now: Option<SystemTime>,
    /// The error of a failed call. If several calls failed, an ambiguous error is preferred to the others, because it
    /// says that a swap may have been applied.
    fault: Option<Error>,
}

impl PendingReplies {
    /// Takes the reply to the call with the items at these positions. Returns the ranges of items that must be sent
    /// again.
    fn take(&mut self, positions: Range<usize>, reply: Result<Value>) -> Vec<Range<usize>> {
        let value = match reply {
            Ok(value) => value,
            Err(error) => {
                self.fail(positions, &error);
                return Vec::new();
            }
        };
        match value {
            Value::Array(replies) if replies.len() == positions.len() + 1 => {
                let mut replies = replies.into_iter();
                self.now = replies.next().and_then(|time| time_from_micros(&time)).or(self.now);
                for (position, reply) in positions.zip(replies) {
                    self.each[position] = Some(Ok(reply));
                }
            }
            // If the user lacks the right for one key, or one item is too long, the whole call is refused before it runs. So
            // each item is sent again alone.
            Value::ServerError(error)
                if positions.len() > 1 && (refusal::is_out_of_reach(&error) || refusal::is_too_long(&error)) =>
            {
                return positions.map(|position| position..position + 1).collect();
            }
            Value::ServerError(error) => self.fail(positions, &refusal::refused(&error)),
            value => self.fail(positions, &refusal::unexpected_reply(&value)),
        }
        Vec::new()
    }

    /// Gives this error to the items at these positions.
    fn fail(&mut self, positions: Range<usize>, error: &Error) {
        self.each[positions].fill(Some(Err(error.clone())));
        if self.fault.as_ref().is_none_or(|fault| !fault.maybe_applied()) {
            self.fault = Some(error.clone());
        }
    }

    /// The time, and the results of all items.
    fn all(self) -> Result<(SystemTime, Vec<Result<Value>>)> {
        let error = || self.fault.clone().unwrap_or_else(|| refusal::unexpected_reply(&Value::Nil));
        let now = self.now.ok_or_else(error)?;
        let each =
            self.each.into_iter().map(|answer| answer.unwrap_or_else(|| Err(refusal::unexpected_reply(&Value::Nil))));
        Ok((now, each.collect()))
    }
}

/// Reads one reply of `swap.lua`:
///
/// - 0: the record is deleted;
/// - a positive number: the new version of the record;
/// - a negative number: the microseconds until the swap is allowed, with a minus sign;
/// - nil: the swap requires that a claim holds a lock, and the claim does not hold the lock;
/// - a record, or an empty array if there is no record: the present state, which is not the state that the swap
///   expects.
fn swapped(reply: Value) -> Result<Swapped> {
    match reply {
        Value::Int(0) => Ok(Swapped::Done(None)),
        Value::Int(number @ 1..) => Ok(Swapped::Done(Version::new(number.unsigned_abs()))),
        Value::Int(number) => Ok(Swapped::Early(Duration::from_micros(number.unsigned_abs()))),
        Value::Nil => Ok(Swapped::NotHeld),
        reply => record(reply).map(Swapped::Differs),
    }
}

/// Reads a record from a reply of `swap.lua` or `read.lua`.
fn record(reply: Value) -> Result<Option<Record>> {
    match reply {
        Value::ServerError(error) => Err(refusal::refused(&error)),
        Value::Array(parts) => match &parts[..] {
            [] => Ok(None),
            [number, value] => {
                let version = text(number).as_deref().and_then(version);
                let version = version.ok_or_else(|| corrupt("its version is not a valid number"))?;
                let value = text(value).ok_or_else(|| corrupt("its value is not a text"))?;
                Ok(Some(Record { version, value }))
            }
            _ => Err(refusal::unexpected_reply(&Value::Array(parts))),
        },
        reply => Err(refusal::unexpected_reply(&reply)),
    }
}

/// Reads a version. Only the format that the script writes is accepted. The script compares versions as texts, so a
/// number in another format, for example with leading zeros, would never match.
fn version(number: &str) -> Option<Version> {
    let version: u64 = number.parse().ok().filter(|version| *version < VERSION_LIMIT)?;
    Version::new(version).filter(|_| version.to_string() == number)
}

/// Reads the reply of `read.lua` for a holding: whether this claim holds this lock.
fn is_held(reply: Value) -> Result<bool> {
    match reply {
        Value::Int(held @ 0..=1) => Ok(held == 1),
        Value::ServerError(error) => Err(refusal::refused(&error)),
        reply => Err(refusal::unexpected_reply(&reply)),
    }
}

fn time_from_micros(micros: &Value) -> Option<SystemTime> {
    match micros {
        Value::Int(micros) => UNIX_EPOCH.checked_add(Duration::from_micros(u64::try_from(*micros).ok()?)),
        _ => None,
    }
}

/// The error for data that bandog has not written. `what` describes the data.
fn corrupt(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the record was not written by us: {what}"))
}

#[cfg(test)]
mod tests;
