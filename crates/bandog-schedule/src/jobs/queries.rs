//! Queries: calls that read the store and change nothing.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, HashSet},
    time::{Duration, SystemTime},
};

use bandog_core::{Error, Holding, Pattern, Records, Result};
use bandog_cron::Time;

use super::{Jobs, name_of, readable_trigger};
use crate::{
    Fire, JobRow, NodeRow, Overlap, Presence, RunRow,
    misfire::due_time,
    nodes::{self, node_infos},
    pauses::StoredPauses,
    plan::rests_until,
    policy::Policy,
    records::{BATCH, JOB_PREFIX, job_key},
    state::{HistoryEntry, JobState, LiveRun, format_time},
    trigger::{TickCursor, Trigger, UnixMs, duration_ms},
};

/// Maximum number of ticks in one backfill.
const MAX_BACKFILL: usize = 10_000;

impl Jobs {
    /// The jobs whose names match, sorted by name. If this version of bandog cannot read the record of a job, the job
    /// is left out, and a warning is logged.
    ///
    /// # Errors
    /// As [`Records::read`](bandog_core::Records::read).
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn list(&self, pattern: &Pattern) -> Result<Vec<JobRow>> {
        let (states, now) = self.states(pattern).await?;
        let ended = self.ended(states.values().flat_map(|state| &state.running)).await?;
        let live = nodes::live_jobs(&self.client).await?;
        Ok(states.iter().map(|(name, state)| row(name, state, now, &ended, live.presence(name))).collect())
    }

    /// The job with this name.
    ///
    /// # Errors
    /// `Misused` if the store knows no such job; the message contains similar names. Other errors are those of
    /// [`Jobs::list`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn show(&self, name: &str) -> Result<JobRow> {
        let (state, now) = self.state(name).await?;
        let ended = self.ended(state.running.iter()).await?;
        let presence = nodes::live_jobs(&self.client).await?.presence(name);
        Ok(row(name, &state, now, &ended, presence))
    }

    /// The history of a job, the latest entry first: the queued runs, then the runs under way, then the ended runs.
    /// Among the ended runs, the run that ended last comes first. The store keeps the last 50 successful runs, the last
    /// 50 other runs, and the last 50 ranges of ticks that did not run.
    ///
    /// # Errors
    /// As [`Jobs::show`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn history(&self, name: &str) -> Result<Vec<RunRow>> {
        let (state, _) = self.state(name).await?;
        let ended = self.ended(state.running.iter()).await?;
        let mut past: Vec<HistoryEntry> = self
            .client
            .records()
            .history(&job_key(name)?)
            .await?
            .iter()
            .filter_map(|line| HistoryEntry::read(&line.value))
            .collect();
        past.sort_by_key(|past| Reverse((past.ended, past.id, past.attempt)));
        let waiting = state.queue.iter().rev().map(|waiting| waiting.row(name));
        let running = state.running.iter().rev().map(|live| live_row(live, name, &ended));
        // The history was read after the record. If a run has ended between the two reads, both the record and the
        // history contain the run. Such a run is listed only once.
        let has_ended = |run: &RunRow| past.iter().any(|past| past.id == run.id && past.attempt >= run.attempt);
        let now = waiting.chain(running).filter(|run| !has_ended(run));
        Ok(now.chain(past.iter().map(|past| past.row(name))).collect())
    }

    /// The next ticks of the jobs whose names match, the earliest first. `count` is the maximum number of ticks for all
    /// jobs together. A job that is paused or disabled has no next tick, and neither has a job that no live node has, if
    /// nodes are up. A job with a fixed delay has a single next tick, and no next tick while it runs.
    ///
    /// # Errors
    /// As [`Jobs::list`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn next(&self, pattern: &Pattern, count: usize) -> Result<Vec<Fire>> {
        let (states, now) = self.present_states(pattern).await?;
        let mut coming: Vec<UpcomingTicks<'_>> =
            states.iter().filter_map(|(name, state)| UpcomingTicks::of(name, state, now)).collect();
        let mut ticks: BinaryHeap<Reverse<(UnixMs, usize)>> =
            coming.iter().enumerate().filter_map(|(at, job)| Some(Reverse((job.next()?, at)))).collect();
        let mut fires = Vec::new();
        while fires.len() < count {
            let Some(Reverse((tick, at))) = ticks.pop() else { break };
            let job = &mut coming[at];
            fires.push(job.fire(tick));
            (job.cursor.watermark, job.cursor.next_due) = (tick, None);
            ticks.extend(job.next().map(|tick| Reverse((tick, at))));
        }
        Ok(fires)
    }

    /// The ticks that are due from now until the end of the time `within`, for the jobs whose names match. `most` is
    /// the maximum number of ticks of each job. The ticks are sorted by the job's name and then by time. A job that is
    /// paused or disabled has no next tick, and neither has a job that no live node has, if nodes are up. A job with a
    /// fixed delay has a single next tick, and no next tick while it runs.
    ///
    /// # Errors
    /// As [`Jobs::list`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn next_within(&self, pattern: &Pattern, within: Duration, most: usize) -> Result<Vec<Fire>> {
        let (states, now) = self.present_states(pattern).await?;
        let end = Time::from(now).millisecond().saturating_add(duration_ms(within));
        let mut fires = Vec::new();
        for (name, state) in &states {
            let Some(mut job) = UpcomingTicks::of(name, state, now) else { continue };
            for _ in 0..most {
                let Some(tick) = job.next().filter(|tick| *tick <= end) else { break };
                fires.push(job.fire(tick));
                (job.cursor.watermark, job.cursor.next_due) = (tick, None);
            }
        }
        Ok(fires)
    }

    /// The ticks that [`Jobs::backfill`] would run: from `from` to `to`, both included, at most 10,000.
    ///
    /// # Errors
    /// As [`Jobs::backfill`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn ticks(&self, name: &str, from: Time, to: Time) -> Result<Vec<Time>> {
        let (state, now) = self.state(name).await?;
        let ticks = past_ticks(name, &state, from, to, Time::from(now).millisecond())?;
        Ok(ticks.into_iter().map(Time::from_millisecond).collect())
    }

    /// The schedulers that use this store now. The rows do not contain the schedulers' jobs. A scheduler that was
    /// killed is listed until its lease expires. A scheduler whose jobs all have [`crate::Scope::EachNode`] is not
    /// listed.
    ///
    /// # Errors
    /// As [`Inspect::show`](bandog_core::Inspect::show).
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn nodes(&self) -> Result<Vec<NodeRow>> {
        let (infos, _) = node_infos(&self.client).await?;
        let sessions = nodes::sessions(&self.client, &infos).await?;
        let mut nodes = BTreeMap::new();
        for session in sessions {
            // A node has a session for each length of lease that its jobs use. So several sessions can belong to the
            // same node. One client can also serve several nodes. So a row is identified by the client and the name of
            // the node.
            let Some(holder) = session.holders.into_iter().next() else { continue };
            let (owner, member) = (holder.owner.unwrap_or_default(), holder.member);
            let client = owner.split_once(':').map_or(owner.as_str(), |(client, _)| client).to_owned();
            let info = infos.get(&owner);
            let name = info.map(|info| info.node.clone());
            let here = member.as_ref().map(|member| format!("{}:{}", member.host, member.pid));
            let node = NodeRow {
                node: name.clone().or(here).unwrap_or_else(|| client.clone()),
                since: member.as_ref().map(|member| Time::from(member.since).to_string()),
                program: member.map(|member| member.program),
                zones: info.map(|info| info.zones.clone()),
                paused: None,
            };
            nodes.insert((client, name), node);
        }
        // A session that is not registered yet has no name. If another session of the same client is registered, the
        // row without a name is left out. Otherwise the list would contain the same node twice.
        let named: HashSet<String> =
            nodes.keys().filter(|(_, name)| name.is_some()).map(|(client, _)| client.clone()).collect();
        nodes.retain(|(client, name), _| name.is_some() || !named.contains(client));
        let mut nodes: Vec<NodeRow> = nodes.into_values().collect();
        let (record, _) = self.stored_pauses().await?;
        let pauses = StoredPauses::of(record.as_ref())?;
        nodes.iter_mut().for_each(|node| node.paused = pauses.of_node(&node.node).cloned());
        nodes.sort_unstable_by(|a, b| a.node.cmp(&b.node));
        Ok(nodes)
    }

    /// The store's time.
    ///
    /// # Errors
    /// As [`Jobs::list`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn now(&self) -> Result<Time> {
        Ok(self.client.records().read(&[], &[]).await?.now.into())
    }

    /// The job's state and the store's time.
    async fn state(&self, name: &str) -> Result<(JobState, SystemTime)> {
        let (record, now) = self.record(name).await?;
        Ok((JobState::read(&record.value, &job_key(name)?)?, now))
    }

    /// As [`Self::states`], without the jobs that no live node has, if nodes are up.
    async fn present_states(&self, pattern: &Pattern) -> Result<(BTreeMap<String, JobState>, SystemTime)> {
        let (mut states, now) = self.states(pattern).await?;
        let live = nodes::live_jobs(&self.client).await?;
        states.retain(|name, _| live.presence(name) != Presence::Absent);
        Ok((states, now))
    }

    /// The jobs whose names match, and the store's time.
    pub(super) async fn states(&self, pattern: &Pattern) -> Result<(BTreeMap<String, JobState>, SystemTime)> {
        let keys = self.client.records().names(&pattern.after(JOB_PREFIX)).await?;
        let mut now = None;
        let mut states = BTreeMap::new();
        for some in keys.chunks(BATCH) {
            let reading = self.client.records().read(some, &[]).await?;
            now = Some(reading.now);
            for (key, record) in some.iter().zip(reading.records) {
                let read = |record: bandog_core::Record| JobState::read(&record.value, key);
                match record.and_then(|record| record.map(read).transpose()) {
                    Ok(Some(state)) => _ = states.insert(name_of(key).to_owned(), state),
                    // The job was removed after the names were read.
                    Ok(None) => {}
                    Err(error) if error.is_retryable() => return Err(error),
                    Err(error) => {
                        tracing::warn!(job = name_of(key), %error, "the job's record cannot be read: the list leaves it out")
                    }
                }
            }
        }
        // If there are no jobs, the store's time is not known here. In that case, the callers do not use the time.
        Ok((states, now.unwrap_or(SystemTime::UNIX_EPOCH)))
    }
}

/// A job with its future ticks.
struct UpcomingTicks<'a> {
    name: &'a str,
    trigger: Trigger,
    policy: Policy,
    cursor: TickCursor,
}

impl<'a> UpcomingTicks<'a> {
    /// None if the job is paused or disabled, or if this version of bandog cannot read its trigger.
    fn of(name: &'a str, state: &JobState, now: SystemTime) -> Option<Self> {
        let spec = state.spec.as_deref().filter(|spec| spec.enabled && !state.is_paused())?;
        let trigger = spec.trigger()?;
        let jitter = Duration::from_millis(spec.jitter_ms.unsigned_abs());
        let policy = Policy { jitter, ..Policy::new(Overlap::Skip) };
        let mut cursor = state.tick_cursor();
        // Ticks between the watermark and now are not future ticks: they will be missed or caught up. So the list
        // begins at the present time.
        if !matches!(trigger, Trigger::FixedDelay(_)) {
            cursor.watermark = cursor.watermark.max(Time::from(now).millisecond());
        }
        Some(Self { name, trigger, policy, cursor })
    }

    fn next(&self) -> Option<UnixMs> {
        self.trigger.next(self.cursor)
    }

    /// The row of this tick for operators.
    fn fire(&self, tick: UnixMs) -> Fire {
        Fire {
            job: self.name.to_owned(),
            tick: format_time(tick),
            due: format_time(due_time(self.name, &self.policy, tick)),
        }
    }
}

/// The ticks from `from` to `to`, both included. An error if there are none or too many, or if the range is not in the
/// past.
pub(super) fn past_ticks(name: &str, state: &JobState, from: Time, to: Time, now: UnixMs) -> Result<Vec<UnixMs>> {
    if from > to {
        return Err(Error::misused(format!("the range begins at {from}, after its end at {to}")));
    }
    if to.millisecond() > now {
        return Err(Error::misused(format!("{to} is in the future; a backfill runs past ticks only")));
    }
    let trigger = readable_trigger(name, state)?;
    if let Trigger::FixedDelay(_) = trigger {
        return Err(Error::misused(format!("job {name:?} has a fixed delay, so it has no past ticks")));
    }
    let cursor = TickCursor { watermark: from.millisecond().saturating_sub(1), ..state.tick_cursor() };
    let ticks: Vec<UnixMs> =
        trigger.between(cursor, cursor.watermark, to.millisecond()).take(MAX_BACKFILL + 1).collect();
    match ticks.len() {
        0 => Err(Error::misused(format!("job {name:?} has no tick from {from} to {to}"))),
        many if many > MAX_BACKFILL => Err(Error::misused(format!(
            "job {name:?} has more than {MAX_BACKFILL} ticks from {from} to {to}; backfill them in parts"
        ))),
        _ => Ok(ticks),
    }
}

/// The row of a run under way. `ended`: the sessions that have expired.
fn live_row(live: &LiveRun, name: &str, ended: &HashSet<Holding>) -> RunRow {
    let orphaned = live.holding().is_some_and(|session| ended.contains(&session));
    RunRow { orphaned, ..live.row(name) }
}

/// The row of a job. `ended`: the sessions that have expired.
fn row(name: &str, state: &JobState, now: SystemTime, ended: &HashSet<Holding>, presence: Presence) -> JobRow {
    let spec = state.spec.as_deref();
    let coming = UpcomingTicks::of(name, state, now).filter(|_| presence != Presence::Absent);
    let trigger = spec.and_then(|spec| spec.trigger());
    JobRow {
        name: name.to_owned(),
        trigger: trigger.as_ref().map_or_else(String::new, Trigger::text),
        description: trigger.as_ref().map_or_else(String::new, Trigger::description),
        zone: trigger.as_ref().and_then(Trigger::zone),
        enabled: spec.is_some_and(|spec| spec.enabled),
        paused: state.paused.as_deref().cloned(),
        all_paused: state.all_paused().cloned(),
        unknown_since: state.unknown_since(Time::from(now).millisecond()).map(format_time),
        presence,
        next: coming.and_then(|job| job.next()).map(format_time),
        watermark: format_time(state.watermark),
        rests_until: rests_until(state, Time::from(now).millisecond()).map(format_time),
        lease_ms: spec.map_or(0, |spec| spec.lease_ms.unsigned_abs()),
        overlap: spec.map(|spec| spec.overlap.clone()).unwrap_or_default(),
        catch_up: spec.map(|spec| spec.catch_up.clone()).unwrap_or_default(),
        on_crash: spec.map(|spec| spec.on_crash.clone()).unwrap_or_default(),
        live: state.running.iter().map(|live| live_row(live, name, ended)).collect(),
        queued: u64::try_from(state.queue.len()).unwrap_or(u64::MAX),
        ok: state.counts.ok,
        failed: state.counts.failed,
        cancelled: state.counts.cancelled,
        skipped: state.counts.skipped,
        missed: state.counts.missed,
        lost: state.counts.lost,
        last: state.last.as_ref().map(|past| past.row(name)),
    }
}
