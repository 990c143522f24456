//! Registers a scheduler's jobs with the store. This happens before the scheduler starts.

use std::{collections::HashSet, sync::Arc};

use bandog_core::{Error, ErrorKind, Holding, Key, Moment, Records, Result, Swap, Swapped};
use bandog_cron::Time;
use bandog_sync::Client;

use crate::{
    dispatch::{JobEntry, MissedTicks, Timekeeper},
    job::JobDefinition,
    meters,
    pauses::{AllJobsPause, KnownPauses, StoredPauses, pauses_key},
    plan::{Plan, PlanContext, redefine},
    records::{BATCH, board_key, job_key},
    recovery::read_or_create_era,
    state::{Creation, JobSpec, JobState, LiveRun},
    trigger::UnixMs,
};

/// Maximum number of attempts to write a record. An attempt fails if another process changes the record at the same
/// time.
const MAX_ATTEMPTS: u32 = 20;

/// Reads the jobs' records, creates the records that do not exist, and writes the jobs' settings. Returns the pauses in
/// effect.
pub(crate) async fn register(client: &Client, time: &mut Timekeeper, entries: &mut [JobEntry]) -> Result<KnownPauses> {
    let mut pauses = KnownPauses::default();
    // `left`: the jobs that are not registered yet.
    let mut left: Vec<&mut JobEntry> = entries.iter_mut().filter(|entry| entry.is_shared).collect();
    for _ in 0..MAX_ATTEMPTS {
        let mut changed_meanwhile = Vec::new();
        let mut rest = left.into_iter();
        loop {
            let some: Vec<&mut JobEntry> = rest.by_ref().take(BATCH).collect();
            if some.is_empty() {
                break;
            }
            changed_meanwhile.extend(register_some(client, time, some, &mut pauses).await?);
        }
        if changed_meanwhile.is_empty() {
            add_node_deaths(client, entries, time.now()).await?;
            return Ok(pauses);
        }
        left = changed_meanwhile;
    }
    Err(Error::unavailable("other nodes keep changing the records of the same jobs").during("start"))
}

/// Finds the nodes whose sessions have expired. For each of these nodes, adds the event of its death to the jobs that
/// the node ran. The dispatcher plans these events before the first tick. So a run of a dead node does not delay the
/// job's next tick.
async fn add_node_deaths(client: &Client, entries: &mut [JobEntry], now: UnixMs) -> Result<()> {
    // The sessions of the job's runs under way.
    let running = |entry: &JobEntry| {
        let live = entry.state.iter().flat_map(|state| &state.running);
        live.filter_map(LiveRun::holding).collect::<HashSet<_>>()
    };
    let sessions: Vec<Holding> = entries.iter().flat_map(running).collect::<HashSet<_>>().into_iter().collect();
    let mut dead = HashSet::new();
    for some in sessions.chunks(BATCH) {
        let held = client.records().read(&[], some).await?.held;
        let gone = some.iter().zip(held).filter(|(_, held)| matches!(held, Ok(false)));
        dead.extend(gone.map(|(session, _)| session));
    }
    for entry in entries {
        let died: Vec<Holding> = running(entry).into_iter().filter(|session| dead.contains(session)).collect();
        for session in died {
            entry.node_died(&session, now);
        }
    }
    Ok(())
}

/// Registers these jobs with a single read and a single write. Returns the entries whose records another process has
/// changed between the read and the write.
async fn register_some<'a>(
    client: &Client,
    time: &mut Timekeeper,
    mut entries: Vec<&'a mut JobEntry>,
    pauses: &mut KnownPauses,
) -> Result<Vec<&'a mut JobEntry>> {
    let keys = entries.iter().map(|entry| job_key(&entry.definition.name)).collect::<Result<Vec<Key>>>()?;
    let sent = time.moment();
    let reading = client.records().read(&[&[board_key()?, pauses_key()?], &keys[..]].concat(), &[]).await?;
    time.observe(sent, reading.now);
    let now = time.now();
    // The store's own time. The ticks that a change of settings claims are due by it.
    let asked = Time::from(reading.now).millisecond();
    let mut records = reading.records.into_iter();
    let era = records.next().transpose()?.flatten().map(|board| board.value).filter(|era| !era.is_empty());
    let paused = records.next().transpose()?.flatten();
    *pauses = KnownPauses {
        version: paused.as_ref().map(|record| record.version),
        stored: StoredPauses::of(paused.as_ref())?,
    };
    let era = match era {
        Some(era) => era,
        None => read_or_create_era(client, None).await?,
    };
    let mut swaps = Vec::new();
    // For each job: whether this call writes the job's record, and the change of the job's settings.
    let mut written = Vec::new();
    for ((entry, key), record) in entries.iter_mut().zip(keys).zip(records) {
        let spec = Box::new(JobSpec::new(&entry.definition.trigger, &entry.definition.policy));
        let mut change = None;
        let (state, from) = match record? {
            None => {
                let mut state = JobState::create(&entry.definition.policy, now, Some(spec), &era);
                state.all = Some(Box::new(pauses.stored.all.clone())).filter(|all| all.number > 0);
                (state, None)
            }
            Some(record) => {
                let mut state = JobState::read(&record.value, &key)?;
                entry.version = Some(record.version);
                state
                    .born
                    .get_or_insert_with(|| Box::new(Creation { era: era.clone(), at: now, fresh: false, resets: 0 }));
                change = update_spec(&mut state, entry, spec, asked, &pauses.stored.all);
                if state.needs_heartbeat(now) {
                    state.seen = now;
                }
                (state, Some((record.version, record.value)))
            }
        };
        let value = state.write()?;
        entry.state = Some(Box::new(state));
        let is_same = from.as_ref().is_some_and(|(_, was)| *was == value);
        if !is_same {
            let lines = change.as_mut().map(|change: &mut SpecChange| std::mem::take(&mut change.plan.lines));
            let lines = lines.unwrap_or_default();
            swaps.push(Swap { lines, ..Swap::new(key, from.map(|(version, _)| version), value) });
        }
        written.push((!is_same, change));
    }
    if swaps.is_empty() {
        return Ok(Vec::new());
    }
    let mut answers = client.records().swap(&swaps).await?.each.into_iter();
    let mut changed_meanwhile = Vec::new();
    for (entry, (is_written, change)) in entries.into_iter().zip(written) {
        if !is_written {
            continue;
        }
        match answers.next().ok_or_else(|| Error::new(ErrorKind::Corrupt, "the store gave too few answers"))?? {
            Swapped::Done(version) => {
                entry.version = version;
                change.iter().for_each(|change| log_change(&entry.definition.name, change, time.moment()));
            }
            Swapped::Differs(_) | Swapped::Early(_) | Swapped::NotHeld => changed_meanwhile.push(entry),
        }
    }
    Ok(changed_meanwhile)
}

/// A change of a job's settings.
struct SpecChange {
    /// The differences.
    what: String,
    /// Whether the old and the new settings have the same revision. If so, replicas with the old settings also claim
    /// ticks.
    is_disputed: bool,
    /// The plan for the ticks that were due before the change.
    plan: Plan,
}

/// Logs a change of the settings. This is called only after the write has succeeded. So each change is logged once.
fn log_change(job: &Arc<str>, SpecChange { what, is_disputed, plan }: &SpecChange, now: Moment) {
    if *is_disputed {
        tracing::warn!(
            %job,
            changed = what,
            "the job has changed at the same revision: replicas with the old settings also claim its ticks; a \
             greater `revision` of the job prevents that"
        );
    } else {
        tracing::info!(%job, changed = what, "the job has changed, under a greater revision");
    }
    meters::left_out(job, plan);
    let mut missed = MissedTicks::default();
    missed.add(0, plan, || now);
    missed.log(now, |_| Arc::clone(job));
}

/// Replaces the settings in the state by the settings of this node's job (`spec`), and returns the change.
fn update_spec(
    state: &mut JobState,
    entry: &JobEntry,
    spec: Box<JobSpec>,
    now: UnixMs,
    all: &AllJobsPause,
) -> Option<SpecChange> {
    let JobDefinition { name, trigger, policy, .. } = &entry.definition;
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
            job = %name,
            ours,
            theirs,
            "the store knows a newer revision of the job: this node claims no tick of it"
        );
        return None;
    }
    let (what, is_disputed) = (old.change_to(&spec), old.revision == spec.revision);
    let (node, session) = (&Arc::from(""), None);
    let context = PlanContext { name, trigger, policy, now, node, session, free_slots: 0, is_current: false, all };
    let plan = redefine(state, &context, spec);
    Some(SpecChange { what, is_disputed, plan })
}
