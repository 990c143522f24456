//! Scans all keys of the servers, in steps that leave 90 % of the server's time to other clients.
//!
//! A shared key space may have millions of keys of other kinds, and a scan visits all of them. So each step takes
//! only about a millisecond of the server's time, and a scan then pauses for nine times the duration of the step.
//! Dropping the future ends the scan.

mod unused;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use bandog_core::{ClientId, Pattern, Result, Row};
use bandog_redis_net::{
    Keys, Master, ScriptForm, redis_glob,
    reply::{list, text, time},
};
use redis::{Pipeline, ServerError, Value};
use tokio::time::sleep;

use crate::{
    inspect::{fields, is_lock, row},
    latches,
    leases::Redis,
    names,
    options::{Format, Layout, Semaphores},
    refusal, slots,
};

/// Duration of the pause after a step, as a multiple of the duration of the step.
const PAUSE_FACTOR: u32 = 9;
/// Approximate maximum duration of a step on the server.
const MAX_STEP_TIME: Duration = Duration::from_millis(1);
/// Number of keys that the first step visits.
const FIRST_COUNT: usize = 128;
/// Minimum number of keys that a later step visits.
const MIN_COUNT: usize = 16;
/// Maximum number of keys that a step visits. For the same number of keys, one step of thousands of keys takes a server
/// far longer than several steps of hundreds of keys.
const MAX_COUNT: usize = 1024;

/// Chooses the number of keys that the next step visits: fewer keys after a slow step, more keys after a fast step.
#[derive(Debug)]
struct Pace {
    /// Number of keys that the next step visits.
    count: usize,
}

impl Pace {
    /// Takes the duration of a step, and returns the duration of the pause after it.
    fn pause_after(&mut self, step: Duration) -> Duration {
        if step > MAX_STEP_TIME {
            self.count = (self.count / 2).max(MIN_COUNT);
        } else if step < MAX_STEP_TIME / 3 {
            self.count = (self.count * 2).min(MAX_COUNT);
        }
        step * PAUSE_FACTOR
    }
}

/// A search for the names of locks among all keys.
struct Search {
    glob: String,
    /// The type of the keys, as an option of SCAN.
    type_name: &'static str,
    /// The names of the locks that can have such a key.
    names_of: fn(&str) -> Vec<String>,
    /// Whether such a key shows that its name is a lock. If not, a few fields of the hash are read first.
    is_certain: bool,
}

/// The searches that find all locks of this format.
fn searches(pattern: &Pattern, format: Format) -> Vec<Search> {
    let hashes = Search {
        glob: redis_glob(pattern),
        type_name: "hash",
        names_of: |key| vec![key.to_owned()],
        is_certain: false,
    };
    // A semaphore with permits that are taken has a sorted set, whose key contains the name.
    let permits =
        Search { glob: "*:timeout".into(), type_name: "zset", names_of: names::semaphores_of, is_certain: true };
    let plain = Search {
        glob: format!("{}*", names::PLAIN),
        type_name: "hash",
        names_of: |key| names::names_of(names::PLAIN, key),
        is_certain: true,
    };
    // A string of another application can be anything. If bandog has once held the lock, there is a fencing token.
    let tokens = Search {
        glob: format!("{}*", names::TOKEN),
        type_name: "string",
        names_of: |key| names::names_of(names::TOKEN, key),
        is_certain: true,
    };
    let mut searches = match (format.layout, format.semaphores) {
        (Layout::Setnx, _) => return vec![tokens],
        (Layout::Redisson, Semaphores::Leased) => vec![hashes, permits],
        (Layout::Redisson, Semaphores::Plain) => vec![hashes, permits, plain],
    };
    if format.in_cluster {
        searches.push(Search {
            glob: slots::PLACED_GLOB.into(),
            type_name: "hash",
            names_of: |key| vec![key.to_owned()],
            is_certain: false,
        });
    }
    searches
}

impl Redis {
    /// The held locks whose names match the pattern. A scan might return a name twice. The map has one row for each
    /// name.
    pub(crate) async fn all(&self, pattern: &Pattern) -> Result<BTreeMap<String, Row>> {
        let mut rows = BTreeMap::new();
        for master in self.servers.masters().await? {
            rows.append(&mut self.all_at(&master, pattern).await?);
        }
        self.add_fences(rows.values_mut().collect()).await;
        Ok(rows)
    }

    /// The held locks on this server whose names match the pattern.
    async fn all_at(&self, master: &Master<'_>, pattern: &Pattern) -> Result<BTreeMap<String, Row>> {
        let (mut pace, in_cluster) = (Pace { count: FIRST_COUNT }, self.format.in_cluster);
        let mut rows = BTreeMap::new();
        for Search { glob, type_name, names_of, is_certain } in searches(pattern, self.format) {
            let mut cursor = String::from("0");
            loop {
                let (next, keys, scanning) = self.step(master, &cursor, &glob, type_name, pace.count).await?;
                let plain = |name: String| if in_cluster { slots::plain_lock(&name).into_owned() } else { name };
                let is_wanted = |name: &String| pattern.matches(name) && !names::is_private(name);
                let names = keys.iter().flat_map(|key| names_of(key)).map(plain).filter(is_wanted).collect();
                let (names, checking) =
                    if is_certain { (names, Duration::ZERO) } else { self.candidates(names).await? };
                let (found, querying) = self.locks(&names).await?;
                rows.extend(found);
                if next == "0" {
                    break;
                }
                cursor = next;
                sleep(pace.pause_after(scanning + checking + querying)).await;
            }
        }
        Ok(rows)
    }

    /// The latches that are not open and whose names match the pattern. A latch of Redisson is a number without any sign
    /// that it is a latch. So this finds only latches with a set of operations, which the operations of bandog leave.
    pub(crate) async fn all_latches(&self, pattern: &Pattern) -> Result<BTreeMap<String, u64>> {
        let mut counts = BTreeMap::new();
        for master in self.servers.masters().await? {
            counts.append(&mut self.latches_at(&master, pattern).await?);
        }
        Ok(counts)
    }

    /// The latches on this server, as in [`Redis::all_latches`].
    async fn latches_at(&self, master: &Master<'_>, pattern: &Pattern) -> Result<BTreeMap<String, u64>> {
        let (mut pace, mut counts) = (Pace { count: FIRST_COUNT }, BTreeMap::new());
        let (glob, mut cursor) = (format!("{}*", names::OPERATIONS), String::from("0"));
        loop {
            let (next, keys, scanning) = self.step(master, &cursor, &glob, "zset", pace.count).await?;
            let names = keys.iter().flat_map(|key| names::names_of(names::OPERATIONS, key));
            let names: Vec<String> = names.filter(|name| pattern.matches(name)).collect();
            let (found, reading) = self.latch_counts(names).await?;
            counts.extend(found);
            if next == "0" {
                return Ok(counts);
            }
            cursor = next;
            sleep(pace.pause_after(scanning + reading)).await;
        }
    }

    /// The counts of the latches with these names that are not open, and the time that the server needed.
    async fn latch_counts(&self, names: Vec<String>) -> Result<(Vec<(String, u64)>, Duration)> {
        if names.is_empty() {
            return Ok((Vec::new(), Duration::ZERO));
        }
        let mut pipe = Pipeline::with_capacity(names.len());
        names.iter().for_each(|name| _ = pipe.cmd("GET").arg(name));
        let (replies, took) = self.timed(Keys::FirstArguments, |_| pipe.clone()).await?;
        // Keys that this user has no right to read are skipped, and data of other applications.
        let count = |reply: &Value| latches::count(reply).ok().filter(|count| *count > 0);
        let counts = names.into_iter().zip(&replies).filter_map(|(name, reply)| Some((name, count(reply)?)));
        Ok((counts.collect(), took))
    }

    /// The keys of this type on all servers that match the glob.
    pub(crate) async fn keys(&self, glob: &str, type_name: &str) -> Result<BTreeSet<String>> {
        let mut keys = BTreeSet::new();
        for master in self.servers.masters().await? {
            let (mut pace, mut cursor) = (Pace { count: FIRST_COUNT }, String::from("0"));
            loop {
                let (next, found, scanning) = self.step(&master, &cursor, glob, type_name, pace.count).await?;
                keys.extend(found);
                if next == "0" {
                    break;
                }
                cursor = next;
                sleep(pace.pause_after(scanning)).await;
            }
        }
        Ok(keys)
    }

    /// One step of a scan: the next cursor, the keys, and the time that the server needed.
    async fn step(
        &self,
        master: &Master<'_>,
        cursor: &str,
        glob: &str,
        type_name: &str,
        count: usize,
    ) -> Result<(String, Vec<String>, Duration)> {
        let mut pipe = Pipeline::with_capacity(3);
        pipe.cmd("SCAN").arg(cursor).arg("MATCH").arg(glob).arg("COUNT").arg(count).arg("TYPE").arg(type_name);
        let (replies, took) = self.timed_at(Some(master), Keys::None, |_| pipe.clone()).await?;
        let (next, keys) = scanned(replies)?;
        Ok((next, keys, took))
    }

    /// The replies to these commands, and the time that the server needed for them. This time is measured by the
    /// server's clock. If the server refuses TIME, the time is measured by the client's clock, and includes the round
    /// trip.
    pub(crate) async fn timed(
        &self,
        keys: Keys<'_>,
        pack: impl Fn(ScriptForm) -> Pipeline + Send + Sync,
    ) -> Result<(Vec<Value>, Duration)> {
        self.timed_at(None, keys, pack).await
    }

    /// Does the same as [`Redis::timed`] at this server, or at the servers of the keys.
    async fn timed_at(
        &self,
        master: Option<&Master<'_>>,
        keys: Keys<'_>,
        pack: impl Fn(ScriptForm) -> Pipeline + Send + Sync,
    ) -> Result<(Vec<Value>, Duration)> {
        let timed = |form| {
            let commands = pack(form);
            let mut pipe = Pipeline::with_capacity(commands.len() + 2);
            pipe.cmd("TIME");
            commands.cmd_iter().for_each(|command| _ = pipe.add_command(command.clone()));
            pipe.cmd("TIME");
            pipe
        };
        let (asked, deadline) = (Instant::now(), self.servers.deadline());
        let mut replies = match master {
            Some(master) => master.link().call_scripts(deadline, timed).await?,
            None => self.servers.call_scripts(deadline, keys, timed).await?.into_values()?,
        };
        let elapsed = asked.elapsed();
        let after = replies.pop().as_ref().and_then(time);
        let before = if replies.is_empty() { None } else { time(&replies.remove(0)) };
        let took = before.zip(after).map(|(before, after)| after.saturating_sub(before));
        Ok((replies, took.map_or(elapsed, |took| took.min(elapsed))))
    }

    /// The names of the hashes that may be locks, and the time that the server needed for the queries. Most hashes are
    /// not locks.
    async fn candidates(&self, names: Vec<String>) -> Result<(Vec<String>, Duration)> {
        if names.is_empty() {
            return Ok((names, Duration::ZERO));
        }
        let mut pipe = Pipeline::with_capacity(names.len());
        names.iter().for_each(|name| fields(&mut pipe, &self.lock_name(name)));
        let (replies, took) = self.timed(Keys::FirstArguments, |_| pipe.clone()).await?;
        let mut candidates = Vec::new();
        for (name, reply) in names.into_iter().zip(&replies) {
            match refusal::server_error(reply) {
                // Keys that this user has no right to read are skipped.
                Some(error) if refusal::is_out_of_reach(error) => {}
                Some(error) if refusal::is_denied(error) => return Err(refusal::refused(error)),
                // The key got another type after the scan had returned it.
                Some(_) => {}
                None => candidates.extend(is_lock(reply).then_some(name)),
            }
        }
        Ok((candidates, took))
    }

    /// The locks with these names, and the time that the server needed for the queries.
    async fn locks(&self, names: &[String]) -> Result<(Vec<(String, Row)>, Duration)> {
        let (mut rows, mut took) = (Vec::new(), Duration::ZERO);
        for names in names.chunks(FIRST_COUNT) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let (replies, more) = self.show_replies(&names).await?;
            took += more;
            for (name, reply) in names.into_iter().zip(replies) {
                // Keys that this user has no right to read are skipped, and sorted sets of other applications.
                if refusal::server_error(&reply).is_some_and(is_skipped) {
                    continue;
                }
                match row(name, &reply)? {
                    Some(row)
                        if row.is_held() && (row.kind.is_some() || row.owner().is_some_and(ClientId::is_owner)) =>
                    {
                        rows.push((name.to_owned(), row));
                    }
                    // The lock is free, the hash is not a lock, or it was deleted after the first query.
                    Some(_) | None => {}
                }
            }
        }
        Ok((rows, took))
    }

    /// Sends a scan command, and returns the next cursor and the names that are UTF-8.
    pub(crate) async fn scanned(&self, pipe: Pipeline) -> Result<(String, Vec<String>)> {
        scanned(self.servers.call(Keys::FirstArguments, pipe).await?)
    }
}

/// Whether a key is skipped if the server refuses its query with this error.
fn is_skipped(error: &ServerError) -> bool {
    refusal::is_out_of_reach(error) || refusal::is_wrong_type(error)
}

/// Reads the reply of a scan command. Names that are not UTF-8 are left out, because no lock of ours has such a name.
fn scanned(replies: Vec<Value>) -> Result<(String, Vec<String>)> {
    match replies.first() {
        Some(Value::ServerError(error)) => Err(refusal::refused(error)),
        Some(Value::Array(parts)) if parts.len() == 2 => {
            let cursor = text(&parts[0]).ok_or_else(|| refusal::unexpected_reply(&parts[0]))?;
            let names = match &parts[1] {
                Value::Set(names) => names,
                names => list(names),
            };
            Ok((cursor, names.iter().filter_map(text).collect()))
        }
        Some(_) | None => Err(refusal::unexpected_reply(&Value::Array(replies))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_grow_up_to_the_allowed_duration() {
        // `each` is the time in nanoseconds that the server takes for one key.
        for (each, counts) in [(100, 1024..=1024), (2000, 160..=512), (20_000, 16..=64), (1_000_000, 16..=16)] {
            let mut pace = Pace { count: FIRST_COUNT };
            for _ in 0..20 {
                let step = Duration::from_nanos(each * u64::try_from(pace.count).unwrap());
                assert_eq!(pace.pause_after(step), step * 9);
            }
            assert!(counts.contains(&pace.count), "{each} ns: {pace:?}");
        }
    }
}
