//! A look at every key of the server, in steps that leave nearly all of the server's time to others.
//!
//! A key space that is shared may have millions of keys that are no locks, and a scan passes them all. So each step is
//! short by the server's own clock, and nine times as long nothing is asked. Whoever drops the future has ended the
//! scan.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use bandog_core::{Pattern, Result, Row};
use redis::{Pipeline, Value};
use tokio::time::sleep;

use crate::{
    inspect::{fields, is_lock, is_owner, look, redis_glob, row},
    leases::Redis,
    names, refusal,
    reply::{list, text, time},
};

/// After each step the server has so many times as long for others.
const REST: u32 = 9;
/// How long a step may keep the server, about.
const STEP: Duration = Duration::from_millis(1);
/// How many keys a step passes: at first, at least, and at most. Servers take far longer for one step of thousands
/// than for several of hundreds.
const FIRST: usize = 128;
const FEWEST: usize = 16;
const MOST: usize = 1024;

/// How long steps take, and how many keys the next one passes.
#[derive(Debug)]
struct Pace {
    count: usize,
}

impl Pace {
    /// Takes in how long a step took, and gives how long to rest after it.
    fn took(&mut self, step: Duration) -> Duration {
        if step > STEP {
            self.count = (self.count / 2).max(FEWEST);
        } else if step < STEP / 3 {
            self.count = (self.count * 2).min(MOST);
        }
        step * REST
    }
}

impl Redis {
    /// The locks whose names match, by name: a scan may show a name twice.
    pub(crate) async fn all(&self, pattern: &Pattern) -> Result<BTreeMap<String, Row>> {
        let glob = redis_glob(pattern);
        let mut pace = Pace { count: FIRST };
        let mut rows = BTreeMap::new();
        let mut cursor = String::from("0");
        loop {
            let mut pipe = Pipeline::with_capacity(3);
            pipe.cmd("SCAN").arg(&cursor).arg("MATCH").arg(&glob).arg("COUNT").arg(pace.count);
            pipe.arg("TYPE").arg("hash");
            let (replies, scanning) = self.timed(pipe).await?;
            let (next, names) = scanned(replies)?;
            let is_wanted = |name: &String| pattern.matches(name) && !names::is_of_records(name);
            let names: Vec<String> = names.into_iter().filter(is_wanted).collect();
            let (found, looking) = self.locks(names).await?;
            rows.extend(found);
            if next == "0" {
                return Ok(rows);
            }
            cursor = next;
            sleep(pace.took(scanning + looking)).await;
        }
    }

    /// The answers to these commands, and how long they kept the server: by its own clock, or by ours where it does
    /// not tell its time, and then with the way there and back.
    async fn timed(&self, commands: Pipeline) -> Result<(Vec<Value>, Duration)> {
        let mut pipe = Pipeline::with_capacity(commands.len() + 2);
        pipe.cmd("TIME");
        commands.cmd_iter().for_each(|command| _ = pipe.add_command(command.clone()));
        pipe.cmd("TIME");
        let asked = Instant::now();
        let mut replies = self.link.call(|_| pipe).await?;
        let elapsed = asked.elapsed();
        let after = replies.pop().as_ref().and_then(time);
        let before = if replies.is_empty() { None } else { time(&replies.remove(0)) };
        let took = before.zip(after).map(|(before, after)| after.saturating_sub(before));
        Ok((replies, took.map_or(elapsed, |took| took.min(elapsed))))
    }

    /// Those of these hashes that are locks, and how long it took the server.
    async fn locks(&self, names: Vec<String>) -> Result<(Vec<(String, Row)>, Duration)> {
        if names.is_empty() {
            return Ok((Vec::new(), Duration::ZERO));
        }
        // Most hashes are no locks: one question tells, and only those that may be locks are asked the others.
        let mut pipe = Pipeline::with_capacity(names.len());
        names.iter().for_each(|name| fields(&mut pipe, name));
        let (replies, mut took) = self.timed(pipe).await?;
        let mut candidates = Vec::new();
        for (name, reply) in names.into_iter().zip(&replies) {
            match refusal::of(reply) {
                // What this user may not see is not there for him.
                Some(error) if refusal::is_out_of_reach(error) => {}
                Some(error) if refusal::is_denied(error) => return Err(refusal::refused(error)),
                // It is something else by now.
                Some(_) => {}
                None => candidates.extend(is_lock(reply).then_some(name)),
            }
        }
        let mut rows = Vec::new();
        for names in candidates.chunks(FIRST) {
            let mut pipe = Pipeline::with_capacity(3 * names.len());
            names.iter().for_each(|name| look(&mut pipe, name));
            let (replies, more) = self.timed(pipe).await?;
            took += more;
            for (name, replies) in names.iter().zip(replies.chunks(3)) {
                match row(name, replies) {
                    Ok(Some(row)) if row.owner.as_deref().is_some_and(is_owner) => rows.push((name.clone(), row)),
                    // It is no lock, or it is gone by now.
                    Ok(Some(_) | None) => {}
                    Err(error) if refusal::is_out_of_reach(&error) => {}
                    Err(error) => return Err(refusal::refused(&error)),
                }
            }
        }
        Ok((rows, took))
    }

    /// Sends a command that scans, and gives the next cursor and the names that are texts.
    pub(crate) async fn scanned(&self, pipe: Pipeline) -> Result<(String, Vec<String>)> {
        scanned(self.link.call(|_| pipe).await?)
    }
}

/// Reads the answer to a command that scans; a name that is no text is no lock of ours.
fn scanned(replies: Vec<Value>) -> Result<(String, Vec<String>)> {
    match replies.first() {
        Some(Value::ServerError(error)) => Err(refusal::refused(error)),
        Some(Value::Array(parts)) if parts.len() == 2 => {
            let cursor = text(&parts[0]).ok_or_else(|| refusal::nonsense(&parts[0]))?;
            let names = match &parts[1] {
                Value::Set(names) => names,
                names => list(names),
            };
            Ok((cursor, names.iter().filter_map(text).collect()))
        }
        Some(_) | None => Err(refusal::nonsense(&Value::Array(replies))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_become_as_long_as_they_may_be() {
        // A server that takes so many nanoseconds for each key.
        for (each, counts) in [(100, 1024..=1024), (2000, 160..=512), (20_000, 16..=64), (1_000_000, 16..=16)] {
            let mut pace = Pace { count: FIRST };
            for _ in 0..20 {
                let step = Duration::from_nanos(each * u64::try_from(pace.count).unwrap());
                assert_eq!(pace.took(step), step * 9);
            }
            assert!(counts.contains(&pace.count), "{each} ns: {pace:?}");
        }
    }
}
