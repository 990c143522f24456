//! A scheduler's jobs, made known to the store before it starts.

use std::{collections::HashSet, time::Duration};

use bandog_core::{Error, ErrorKind, Holding, Key, Records, Result, Swap, Swapped};
use bandog_sync::Client;

use crate::{
    dispatch::{Entry, Timekeeper, board, era, key, tell_of_rest},
    pauses::{Known, Standing, standing},
    plan::Event,
    state::{Born, JobState, Live, Spec},
    trigger::{Ms, Trigger},
};

/// Records in one call.
const BATCH: usize = 256;
/// So often a record is read again that somebody else changes at the same time.
const TRIES: u32 = 20;

/// Reads the jobs' records, makes those that are not there, and writes down what the jobs are now. Tells what is paused.
pub(crate) async fn register(client: &Client, time: &mut Timekeeper, entries: &mut [Entry]) -> Result<Known> {
    let mut pauses = Known::default();
    let mut left: Vec<&mut Entry> = entries.iter_mut().filter(|entry| entry.is_shared).collect();
    for _ in 0..TRIES {
        let mut again = Vec::new();
        let mut rest = left.into_iter();
        loop {
            let some: Vec<&mut Entry> = rest.by_ref().take(BATCH).collect();
            if some.is_empty() {
                break;
            }
            again.extend(register_some(client, time, some, &mut pauses).await?);
        }
        if again.is_empty() {
            bury(client, entries).await?;
            return Ok(pauses);
        }
        left = again;
    }
    Err(Error::unavailable("other nodes register the same jobs all the time").during("start"))
}

/// Runs of nodes that died before are seen before any tick is: they hold up none.
async fn bury(client: &Client, entries: &mut [Entry]) -> Result<()> {
    let running = |entry: &Entry| {
        let live = entry.state.iter().flat_map(|state| &state.running);
        live.filter_map(Live::holding).collect::<HashSet<_>>()
    };
    let sessions: Vec<Holding> = entries.iter().flat_map(running).collect::<HashSet<_>>().into_iter().collect();
    let mut dead = HashSet::new();
    for some in sessions.chunks(BATCH) {
        let held = client.read(&[], some).await?.held;
        let gone = some.iter().zip(held).filter(|(_, held)| matches!(held, Ok(false)));
        dead.extend(gone.map(|(session, _)| session));
    }
    for entry in entries {
        let died = running(entry).into_iter().filter(|session| dead.contains(session));
        entry.events.extend(died.map(Event::Dead));
    }
    Ok(())
}

/// Gives those back that somebody else has changed meanwhile.
async fn register_some<'a>(
    client: &Client,
    time: &mut Timekeeper,
    mut entries: Vec<&'a mut Entry>,
    pauses: &mut Known,
) -> Result<Vec<&'a mut Entry>> {
    let keys = entries.iter().map(|entry| key(&entry.task.name)).collect::<Result<Vec<Key>>>()?;
    let sent = time.moment();
    let reading = client.read(&[&[board()?, standing()?], &keys[..]].concat(), &[]).await?;
    time.observe(sent, reading.now);
    let now = time.now();
    let mut records = reading.records.into_iter();
    let told = records.next().transpose()?.flatten().map(|board| board.value).filter(|era| !era.is_empty());
    let paused = records.next().transpose()?.flatten();
    *pauses = Known { version: paused.as_ref().map(|record| record.version), standing: Standing::of(paused.as_ref())? };
    let era = match told {
        Some(era) => era,
        None => era(client, None).await?,
    };
    let mut swaps = Vec::new();
    let mut written = Vec::new();
    for ((entry, key), record) in entries.iter_mut().zip(keys).zip(records) {
        let spec = Box::new(Spec::new(&entry.task.trigger, &entry.task.policy, lease(client, entry)));
        let mut change = None;
        let (state, from) = match record? {
            None => {
                let mut state = JobState::born(&entry.task.policy, now, Some(spec), &era);
                state.all = Some(Box::new(pauses.standing.all.clone())).filter(|all| all.number > 0);
                (state, None)
            }
            Some(record) => {
                let mut state = JobState::read(&record.value, &key)?;
                entry.version = Some(record.version);
                state.born.get_or_insert_with(|| Box::new(Born { era: era.clone(), at: now, fresh: false, resets: 0 }));
                change = renew(&mut state, spec, now, &entry.task.name);
                tell_of_rest(&entry.task.name, &state, now);
                if state.is_to_be_seen(now) {
                    state.seen = now;
                }
                (state, Some((record.version, record.value)))
            }
        };
        let value = state.write()?;
        entry.state = Some(Box::new(state));
        let is_same = from.as_ref().is_some_and(|(_, was)| *was == value);
        written.push((!is_same, change));
        if !is_same {
            swaps.push(Swap::new(key, from.map(|(version, _)| version), value));
        }
    }
    if swaps.is_empty() {
        return Ok(Vec::new());
    }
    let mut answers = client.swap(&swaps).await?.each.into_iter();
    let mut again = Vec::new();
    for (entry, (is_written, change)) in entries.into_iter().zip(written) {
        if !is_written {
            continue;
        }
        match answers.next().ok_or_else(|| Error::new(ErrorKind::Corrupt, "the store gave too few answers"))?? {
            Swapped::Done(version) => {
                entry.version = version;
                change.iter().for_each(|change| tell_of_change(&entry.task.name, change));
            }
            Swapped::Differs(_) | Swapped::Early(_) | Swapped::NotHeld => again.push(entry),
        }
    }
    Ok(again)
}

fn lease(client: &Client, entry: &Entry) -> Duration {
    entry.task.policy.lease.unwrap_or_else(|| client.ttl())
}

/// What a job is now that was something else.
struct Change {
    /// What differs.
    what: String,
    /// Replicas that have it as it was claim its ticks too.
    is_disputed: bool,
}

/// Once it is written, so once for each change.
fn tell_of_change(job: &str, Change { what, is_disputed }: &Change) {
    if *is_disputed {
        tracing::warn!(
            job,
            changed = what,
            "the job has changed at the same revision: replicas that still have it as it was claim its ticks too; a \
             greater `Job::revision` prevents that"
        );
    } else {
        tracing::info!(job, changed = what, "the job has changed, under a greater revision");
    }
}

/// Writes down what the job is now, and answers what that changes. After a change of its ticks, or when it is enabled
/// again, nothing before now is missed.
fn renew(state: &mut JobState, spec: Box<Spec>, now: Ms, name: &str) -> Option<Change> {
    let Some(old) = &state.spec else {
        state.spec = Some(spec);
        return None;
    };
    if **old == *spec {
        return None;
    }
    if old.revision > spec.revision {
        let (ours, theirs) = (spec.revision, old.revision);
        tracing::warn!(
            job = name,
            ours,
            theirs,
            "the store knows a newer revision of the job: this node claims no tick of it"
        );
        return None;
    }
    let change = Change { what: old.change_to(&spec), is_disputed: old.revision == spec.revision };
    // What came while it was disabled was not missed.
    if old.trigger != spec.trigger || (spec.enabled && !old.enabled) {
        state.watermark = state.watermark.max(now - 1);
        state.next_due = state.next_due.map(|due| due.max(now)).or(Some(now).filter(|_| state.is_idle()));
        if old.trigger != spec.trigger
            && let Some(Trigger::FixedRate(_)) = spec.trigger()
        {
            state.anchor = now;
        }
    }
    state.spec = Some(spec);
    Some(change)
}
