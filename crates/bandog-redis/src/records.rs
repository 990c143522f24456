//! Records: a hash each, a hash for its history, and a set of all names.

use std::{
    collections::BTreeSet,
    ops::Range,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use bandog_core::{
    Error, ErrorKind, Holding, Key, Line, Notifier, Pattern, Reading, Record, Records, Result, Subscription, Swap,
    Swapped, Swaps, Version,
};
use redis::{Cmd, Pipeline, Value};

use crate::{
    inspect::redis_glob,
    leases::Redis,
    names::{Channel, History, INDEX},
    refusal,
    reply::text,
    script::{self, By},
};

/// So many records are swapped by one call of the script: more would keep the server from others for too long.
const SWAPS: usize = 256;
/// So many records and holdings are read by one call.
const READS: usize = 512;
/// So many names are looked through at a time.
const PAGE: usize = 512;
/// The first version that Lua cannot count.
const COUNTED: u64 = 1 << 53;

#[async_trait]
impl Records for Redis {
    async fn swap(&self, swaps: &[Swap]) -> Result<Swaps> {
        let told = |error: Error, swap: &Swap| error.during("swap").at(&swap.key);
        let asked = self.in_calls(swaps.len(), SWAPS, |places, by| script::swap(&swaps[places], by)).await;
        let (now, replies) = asked.map_err(|error| match swaps {
            [swap] => told(error, swap),
            _ => error.during("swap"),
        })?;
        let each = swaps.iter().zip(replies);
        let each = each.map(|(swap, reply)| reply.and_then(swapped).map_err(|error| told(error, swap)));
        Ok(Swaps { now, each: each.collect() })
    }

    async fn read(&self, keys: &[Key], holdings: &[Holding]) -> Result<Reading> {
        let records = keys.len();
        let pack = |places: Range<usize>, by| {
            let holdings = &holdings[places.start.saturating_sub(records)..places.end.saturating_sub(records)];
            script::read(&keys[places.start.min(records)..places.end.min(records)], holdings, by)
        };
        let asked = self.in_calls(records + holdings.len(), READS, pack).await;
        let (now, mut replies) = asked.map_err(|error| error.during("read"))?;
        let held = replies.split_off(records);
        let records = keys.iter().zip(replies);
        let records = records.map(|(key, reply)| reply.and_then(record).map_err(|error| error.during("read").at(key)));
        let held = holdings.iter().zip(held);
        let held = held.map(|(held, reply)| reply.and_then(stands).map_err(|error| error.during("read").at(&held.key)));
        Ok(Reading { now, records: records.collect(), held: held.collect() })
    }

    async fn names(&self, pattern: &Pattern) -> Result<Vec<Key>> {
        self.recorded(pattern).await.map_err(|error| error.during("names"))
    }

    async fn history(&self, key: &Key) -> Result<Vec<Line>> {
        self.lines(key).await.map_err(|error| error.during("history").at(key))
    }

    async fn subscribe_record(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        let heard = self.bells.listen(Channel(key.as_str()), notifier).await;
        heard.map_err(|error| error.during("subscribe").at(key))
    }
}

impl Redis {
    /// Asks about so many things, at most so many in one call of a script, all calls in one round trip. The script
    /// replies with its time and then with one reply for each of them.
    ///
    /// # Errors
    /// When no call had a reply with a time.
    async fn in_calls(
        &self,
        count: usize,
        most: usize,
        pack: impl Fn(Range<usize>, By) -> Cmd + Send + Sync,
    ) -> Result<(SystemTime, Vec<Result<Value>>)> {
        let deadline = Instant::now() + self.options.timeout;
        let mut answers = Answers { each: vec![None; count], now: None, fault: None };
        let mut calls: Vec<_> = (0..count.max(1)).step_by(most).map(|from| from..count.min(from + most)).collect();
        let mut tries = 0;
        while !calls.is_empty() {
            tries += 1;
            let packed = |by| {
                let mut pipe = Pipeline::with_capacity(calls.len());
                calls.iter().for_each(|places| _ = pipe.add_command(pack(places.clone(), by)));
                pipe
            };
            calls = match self.link.call_by(deadline, packed).await {
                Ok(values) => {
                    calls.into_iter().zip(values).flat_map(|(call, value)| answers.take(call, value, tries)).collect()
                }
                Err(error) => {
                    calls.into_iter().for_each(|places| answers.fail(places, &error));
                    Vec::new()
                }
            };
        }
        answers.all()
    }

    async fn recorded(&self, pattern: &Pattern) -> Result<Vec<Key>> {
        let glob = redis_glob(pattern);
        let mut keys = BTreeSet::new();
        let mut cursor = String::from("0");
        loop {
            let mut pipe = Pipeline::with_capacity(1);
            pipe.cmd("SSCAN").arg(INDEX).arg(&cursor).arg("MATCH").arg(&glob).arg("COUNT").arg(PAGE);
            let (next, names) = self.scanned(pipe).await?;
            // A scan may show a name twice.
            keys.extend(names.into_iter().filter(|name| pattern.matches(name)).filter_map(|name| Key::new(name).ok()));
            if next == "0" {
                return Ok(keys.into_iter().collect());
            }
            cursor = next;
        }
    }

    async fn lines(&self, key: &Key) -> Result<Vec<Line>> {
        let mut pipe = Pipeline::with_capacity(1);
        pipe.cmd("HGETALL").arg(History(key.as_str()).to_string());
        let fields = match self.ask(|_| pipe.clone()).await? {
            Value::Map(fields) => fields,
            reply => return Err(refusal::nonsense(&reply)),
        };
        let line = |(slot, value): (Value, Value)| Some(Line { slot: text(&slot)?, value: text(&value)? });
        let lines: Option<Vec<Line>> = fields.into_iter().map(line).collect();
        let mut lines = lines.ok_or_else(|| corrupt("its history has something that is no text"))?;
        lines.sort_unstable_by(|one, other| one.slot.cmp(&other.slot));
        Ok(lines)
    }
}

/// What has been answered so far.
struct Answers {
    each: Vec<Option<Result<Value>>>,
    now: Option<SystemTime>,
    /// What became of a call that had no answer.
    fault: Option<Error>,
}

impl Answers {
    /// Takes in what one call brought, and tells what is to be asked again.
    fn take(&mut self, places: Range<usize>, value: Value, tries: u32) -> Vec<Range<usize>> {
        match value {
            Value::Array(replies) if replies.len() == places.len() + 1 => {
                let mut replies = replies.into_iter();
                self.now = replies.next().and_then(|time| at(&time)).or(self.now);
                for (place, reply) in places.zip(replies) {
                    self.each[place] = Some(Ok(reply));
                }
            }
            // Nothing was done, and the scripts are on their way again.
            value if refusal::is_no_script(&value) && tries == 1 => return vec![places],
            // A right that is missing for one key refuses the call for all of them before it begins.
            Value::ServerError(error) if places.len() > 1 && refusal::is_out_of_reach(&error) => {
                return places.map(|place| place..place + 1).collect();
            }
            Value::ServerError(error) => self.fail(places, &refusal::refused(&error)),
            value => self.fail(places, &refusal::nonsense(&value)),
        }
        Vec::new()
    }

    fn fail(&mut self, places: Range<usize>, error: &Error) {
        self.each[places].fill(Some(Err(error.clone())));
        if self.fault.as_ref().is_none_or(|fault| !fault.maybe_applied()) {
            self.fault = Some(error.clone());
        }
    }

    fn all(self) -> Result<(SystemTime, Vec<Result<Value>>)> {
        let none = || self.fault.clone().unwrap_or_else(|| refusal::nonsense(&Value::Nil));
        let now = self.now.ok_or_else(none)?;
        let each = self.each.into_iter().map(|answer| answer.unwrap_or_else(|| Err(refusal::nonsense(&Value::Nil))));
        Ok((now, each.collect()))
    }
}

/// Reads one reply of `swap.lua`.
fn swapped(reply: Value) -> Result<Swapped> {
    match reply {
        Value::Int(0) => Ok(Swapped::Done(None)),
        Value::Int(number @ 1..) => Ok(Swapped::Done(Version::new(number.unsigned_abs()))),
        Value::Int(number) => Ok(Swapped::Early(Duration::from_micros(number.unsigned_abs()))),
        Value::Nil => Ok(Swapped::NotHeld),
        reply => record(reply).map(Swapped::Differs),
    }
}

/// Reads a record as both scripts tell it.
fn record(reply: Value) -> Result<Option<Record>> {
    match reply {
        Value::ServerError(error) => Err(refusal::refused(&error)),
        Value::Array(parts) => match &parts[..] {
            [] => Ok(None),
            [number, value] => {
                let version = text(number).as_deref().and_then(version);
                let version = version.ok_or_else(|| corrupt("its version cannot be counted on"))?;
                let value = text(value).ok_or_else(|| corrupt("it has no value that is a text"))?;
                Ok(Some(Record { version, value }))
            }
            _ => Err(refusal::nonsense(&Value::Array(parts))),
        },
        reply => Err(refusal::nonsense(&reply)),
    }
}

/// A version as the script prints it; any other text would never compare as equal.
fn version(number: &str) -> Option<Version> {
    let version: u64 = number.parse().ok().filter(|version| *version < COUNTED)?;
    Version::new(version).filter(|_| version.to_string() == number)
}

fn stands(reply: Value) -> Result<bool> {
    match reply {
        Value::Int(held @ 0..=1) => Ok(held == 1),
        Value::ServerError(error) => Err(refusal::refused(&error)),
        reply => Err(refusal::nonsense(&reply)),
    }
}

fn at(micros: &Value) -> Option<SystemTime> {
    match micros {
        Value::Int(micros) => UNIX_EPOCH.checked_add(Duration::from_micros(u64::try_from(*micros).ok()?)),
        _ => None,
    }
}

fn corrupt(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the record was not written by us: {what}"))
}

#[cfg(test)]
mod tests;
