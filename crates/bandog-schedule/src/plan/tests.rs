use std::num::NonZeroU32;

use bandog_core::{ClaimId, ClientId, Holding, Key};
use bandog_cron::Cron;

use super::*;
use crate::{
    CatchUp, Kind, OnCrash, Overlap, Paused, Retry, State,
    state::{HistoryEntry, format_time},
};

/// Start of each test.
const T0: UnixMs = 1_800_000_000_000;

fn n(count: u32) -> NonZeroU32 {
    NonZeroU32::new(count).unwrap()
}

/// The session of a new node. `number`: the number of its claim.
fn holding(number: u64) -> Holding {
    Holding { key: Key::new("schedule/node/1").unwrap(), id: ClaimId { client: ClientId::random(), number } }
}

/// A node with one job and the record of this job.
struct Fixture {
    trigger: Trigger,
    policy: Policy,
    state: JobState,
    me: Holding,
    node: Arc<str>,
    free_slots: usize,
    all: AllJobsPause,
}

impl Fixture {
    fn new(trigger: Trigger, policy: Policy) -> Self {
        let spec = Box::new(crate::state::JobSpec::new(&trigger, &policy));
        let state = JobState::new(&policy, T0, Some(spec));
        Self {
            trigger,
            policy,
            state,
            me: holding(1),
            node: "here".into(),
            free_slots: 10,
            all: AllJobsPause::default(),
        }
    }

    fn every_second(overlap: Overlap) -> Self {
        Self::new(Trigger::FixedRate(1000), Policy::new(overlap))
    }

    /// Plans the job at the time `after`, in milliseconds after the start of the test.
    fn at(&mut self, after: UnixMs, events: &[Event]) -> Plan {
        let context = PlanContext {
            name: "job",
            trigger: &self.trigger,
            policy: &self.policy,
            now: T0 + after,
            node: &self.node,
            session: Some(&self.me),
            free_slots: self.free_slots,
            is_current: true,
            all: &self.all,
        };
        plan(&mut self.state, &context, events)
    }

    /// The event that a run has ended in this state. `nth`: the index of the run among the runs under way.
    fn end(&self, nth: usize, state: State, after: UnixMs) -> Event {
        let live = &self.state.running[nth];
        let (id, fence, attempt) = (live.id, live.fence, live.attempt);
        Event::RunEnded(RunEnd { id, fence, attempt, state, at: T0 + after, error: None, note: None })
    }

    /// The ticks of the runs under way, in milliseconds after the start of the test.
    fn running(&self) -> Vec<UnixMs> {
        self.state.running.iter().map(|live| live.tick - T0).collect()
    }

    /// The ticks of the queued runs, in milliseconds after the start of the test.
    fn waiting(&self) -> Vec<UnixMs> {
        self.state.queue.iter().map(|queued| queued.tick - T0).collect()
    }

    /// Registers the job with its present settings at the time `after`.
    fn redefine(&mut self, after: UnixMs) -> Plan {
        let spec = Box::new(crate::state::JobSpec::new(&self.trigger, &self.policy));
        let context = PlanContext {
            name: "job",
            trigger: &self.trigger,
            policy: &self.policy,
            now: T0 + after,
            node: &self.node,
            session: None,
            free_slots: 0,
            is_current: false,
            all: &self.all,
        };
        redefine(&mut self.state, &context, spec)
    }

    /// Applies a command of an operator at the time `after`, in milliseconds after the start of the test.
    fn command(&mut self, after: UnixMs, command: &Command) -> Plan {
        apply_command(&mut self.state, "job", &self.trigger, &self.policy, T0 + after, command)
    }
}

#[test]
fn a_tick_is_claimed_once_however_often_it_is_planned() {
    let mut job = Fixture::every_second(Overlap::Skip);
    assert_eq!(job.at(0, &[]).starts, 1);
    let fence = job.state.fence;
    let again = job.at(0, &[]);
    assert_eq!((again.starts, again.lines.len()), (0, 0));
    assert_eq!(job.running(), [0]);
    let ended = job.end(0, State::Ok, 10);
    job.at(10, &[ended]);
    assert_eq!(job.at(999, &[]).starts, 0, "no claim before the tick is due");
    assert_eq!(job.at(1000, &[]).starts, 1);
    assert!(job.state.fence > fence);
    assert_eq!(job.state.counts.ok, 1);
}

// Promise: J2
#[test]
fn the_store_can_refuse_a_claim_before_its_tick() {
    let mut job = Fixture::every_second(Overlap::Skip);
    assert_eq!(job.at(3, &[]).not_before, Some(T0 - 500));
}

// Promise: J3
#[test]
fn overlap_skip_records_overlapping_ticks_once() {
    let mut job = Fixture::every_second(Overlap::Skip);
    job.at(0, &[]);
    for second in 1..=3 {
        let plan = job.at(second * 1000, &[]);
        assert_eq!((plan.starts, plan.skipped, plan.lines.len()), (0, 1, 1));
    }
    // No node plans the job when the ticks of 4 s and 5 s are due. The plan at 5.5 s skips both ticks, as earlier plans
    // would have done.
    let ended = job.end(0, State::Ok, 5500);
    let plan = job.at(5500, &[ended]);
    assert_eq!((plan.starts, plan.skipped), (0, 2), "the ticks of 4 s and 5 s were due while the job ran");
    assert_eq!(job.state.watermark, T0 + 5000);
    assert_eq!(job.at(6000, &[]).starts, 1);
    assert_eq!(job.state.counts.skipped, 5);
}

#[test]
fn overlap_queue_limits_the_number_of_queued_ticks() {
    let mut job = Fixture::every_second(Overlap::Queue(n(2)));
    job.at(0, &[]);
    let plan = job.at(4000, &[]);
    assert_eq!((plan.starts, plan.skipped), (0, 2));
    assert_eq!((job.running(), job.waiting()), (vec![0], vec![1000, 2000]));
    let ended = job.end(0, State::Failed, 4100);
    assert_eq!(job.at(4100, &[ended]).starts, 1);
    assert_eq!((job.running(), job.waiting()), (vec![1000], vec![2000]));
}

#[test]
fn overlap_allow_limits_the_number_of_concurrent_runs() {
    let mut job = Fixture::every_second(Overlap::Allow(n(2)));
    job.at(0, &[]);
    job.at(1000, &[]);
    let plan = job.at(2000, &[]);
    assert_eq!((job.running(), plan.skipped), (vec![0, 1000], 1));
}

#[test]
fn overlap_replace_cancels_the_run_and_waits_for_its_end() {
    let mut job = Fixture::every_second(Overlap::Replace);
    job.at(0, &[]);
    let plan = job.at(2000, &[]);
    assert!(job.state.running[0].cancel);
    assert_eq!((plan.starts, plan.skipped, job.waiting()), (0, 1, vec![2000]));
    let ended = job.end(0, State::Cancelled, 2010);
    assert_eq!(job.at(2010, &[ended]).starts, 1);
    assert_eq!(job.running(), [2000]);
}

// Promise: J3
#[test]
fn late_ticks_run_within_the_grace_and_older_ones_by_the_catch_up_policy() {
    let graced = |catch_up, window: u64, grace: u64| {
        let mut policy = Policy::new(Overlap::Queue(n(1000)));
        policy.misfire_grace = std::time::Duration::from_secs(grace);
        policy.catch_up = catch_up;
        policy.window = std::time::Duration::from_secs(window);
        let cron = Cron::parse("0 * * * * ?").unwrap();
        let mut job = Fixture::new(Trigger::Cron(std::sync::Arc::new(cron)), policy);
        let plan = job.at(2 * 3_600_000 + 30_000, &[]);
        let kinds: Vec<Kind> = job
            .state
            .running
            .iter()
            .map(|live| live.kind)
            .chain(job.state.queue.iter().map(|queued| queued.kind))
            .collect();
        assert_eq!(job.at(2 * 3_600_000 + 30_000, &[]).missed.ticks, 0, "the missed ticks are recorded once");
        (kinds, plan.missed.ticks, job.running().into_iter().chain(job.waiting()).collect::<Vec<_>>())
    };
    let minutes = |catch_up, window| graced(catch_up, window, 60);
    // 121 ticks are due. The last one is 30 s old, so it is within the misfire grace.
    let fresh = Kind::Scheduled;
    let (kinds, missed, _) = minutes(CatchUp::Skip, 3600);
    assert_eq!((kinds, missed), (vec![fresh], 120));
    let (kinds, missed, ticks) = minutes(CatchUp::Once, 3600);
    assert_eq!((kinds, missed, ticks), (vec![fresh], 120, vec![7_200_000]), "a tick that is in time suffices");
    let (kinds, missed, ticks) = graced(CatchUp::Once, 3600, 29);
    assert_eq!((kinds, missed, ticks), (vec![Kind::CatchUp], 120, vec![7_200_000]), "the latest missed tick");
    let (kinds, missed, ticks) = minutes(CatchUp::All(n(3)), 3600);
    assert_eq!((kinds, missed), (vec![Kind::CatchUp, Kind::CatchUp, Kind::CatchUp, fresh], 117));
    assert!(ticks.is_sorted());
    let (kinds, ..) = minutes(CatchUp::All(n(1000)), 600);
    assert_eq!(kinds.len(), 10, "the ticks of the last ten minutes");
}

#[test]
fn a_fixed_delay_waits_for_the_end() {
    let mut job = Fixture::new(Trigger::FixedDelay(1000), Policy::new(Overlap::Skip));
    assert_eq!(job.at(0, &[]).starts, 1);
    assert_eq!(next_claim(&job.state, "job", &job.trigger, &job.policy), None, "while it runs");
    let ended = job.end(0, State::Failed, 5000);
    job.at(5000, &[ended]);
    assert_eq!(next_claim(&job.state, "job", &job.trigger, &job.policy), Some(T0 + 6000));
    assert_eq!(job.at(6000, &[]).starts, 1);
}

#[test]
fn a_single_run_fires_once() {
    let mut job = Fixture::new(Trigger::Once, Policy::new(Overlap::Skip));
    assert_eq!(job.at(0, &[]).starts, 1);
    let ended = job.end(0, State::Ok, 10);
    job.at(10, &[ended]);
    assert_eq!(next_claim(&job.state, "job", &job.trigger, &job.policy), None);
    assert_eq!(job.at(1_000_000, &[]).starts, 0);
}

// Promise: J6
#[test]
fn a_dead_nodes_run_is_lost_or_runs_again_under_a_greater_fence() {
    let dead = holding(7);
    for on_crash in [OnCrash::Abandon, OnCrash::Retry, OnCrash::RetryUpTo(n(1)), OnCrash::RetryUpTo(n(2))] {
        let mut job = Fixture::every_second(Overlap::Skip);
        job.policy.on_crash = on_crash;
        let me = std::mem::replace(&mut job.me, dead.clone());
        job.at(0, &[]);
        let fence = job.state.fence;
        job.me = me;
        let plan = job.at(900, &[Event::NodeDied(dead.clone())]);
        assert_eq!(
            (plan.lines.len(), job.state.streak),
            (1, 1),
            "each death is a history line and counts as a failure"
        );
        match on_crash.max_deaths() {
            1 => {
                assert_eq!((plan.starts, plan.lost.ticks, plan.died.ticks), (0, 1, 0));
                assert_eq!((job.state.counts.lost, &job.state.deaths), (1, &None));
                assert_eq!(
                    plan.failures.iter().map(|run| (run.tick, run.state)).collect::<Vec<_>>(),
                    [(T0, State::Lost)]
                );
            }
            _ => {
                assert_eq!((plan.starts, plan.lost.ticks, plan.died.ticks, job.state.counts.lost), (1, 0, 1, 0));
                assert_eq!(plan.failures, [], "another attempt follows");
                let live = &job.state.running[0];
                assert_eq!((live.tick, live.attempt, live.id), (T0, 2, 1));
                assert!(live.fence > fence);
            }
        }
        assert_eq!(
            job.at(950, &[Event::NodeDied(dead.clone())]).starts,
            0,
            "a second report of the same death changes nothing"
        );
    }
}

/// The state, attempt and error of each history line.
fn deaths_in_history(plan: &Plan) -> Vec<(State, u32, String)> {
    let lines = plan.lines.iter().map(|line| HistoryEntry::read(&line.value).unwrap());
    lines.map(|past| (past.state, past.attempt, past.error.unwrap_or_default())).collect()
}

#[test]
fn a_run_that_kills_every_node_is_abandoned() {
    for (on_crash, most) in [(OnCrash::Retry, 5), (OnCrash::RetryUpTo(n(2)), 2)] {
        let mut job = Fixture::new(Trigger::Once, Policy::new(Overlap::Skip));
        (job.policy.on_crash, job.policy.pause_after) = (on_crash, Some(n(2)));
        job.at(0, &[]);
        for death in 1..=most {
            assert_eq!((job.state.running[0].attempt, job.state.counts.lost), (death, 0));
            let dead = std::mem::replace(&mut job.me, holding(100 + u64::from(death)));
            let plan = job.at(i64::from(death), &[Event::NodeDied(dead)]);
            let why = "its node died or lost its session";
            let then = if death < most { "the run is tried again" } else { "the run is given up" };
            let error = format!("{why}: death {death} of {most}, {then}");
            assert_eq!(deaths_in_history(&plan), [(State::Lost, death, error)]);
            assert_eq!((job.state.streak, job.state.paused.is_some()), (death, death >= 2));
        }
        assert!(job.state.is_idle() && job.state.deaths.is_none(), "{:?}", job.state);
        assert_eq!((job.state.counts.lost, job.at(100, &[]).starts), (1, 0));
    }
}

#[test]
fn a_session_that_was_lost_counts_as_a_death_and_a_stop_does_not() {
    let mut job = Fixture::new(Trigger::Once, Policy::new(Overlap::Skip));
    job.policy.on_crash = OnCrash::RetryUpTo(n(3));
    job.at(0, &[]);
    let ends = [State::Interrupted, State::Lost, State::Interrupted, State::Lost, State::Interrupted];
    for (nth, end) in (1..).zip(ends) {
        let ended = job.end(0, end, nth);
        assert_eq!(job.at(nth, &[ended]).starts, 1, "{end:?}");
    }
    assert_eq!(job.state.deaths.as_deref().unwrap()[&1], 2);
    let ended = job.end(0, State::Lost, 10);
    let plan = job.at(10, &[ended]);
    assert_eq!((plan.starts, plan.lost.ticks, job.state.counts.lost), (0, 1, 1));
    let error = "its node lost its session: death 3 of 3, the run is given up".to_owned();
    assert_eq!(deaths_in_history(&plan), [(State::Lost, 6, error)]);
}

#[test]
fn deaths_of_a_finished_run_are_dropped() {
    let mut job = Fixture::every_second(Overlap::Queue(n(9)));
    job.policy.on_crash = OnCrash::Retry;
    job.free_slots = 1;
    job.at(0, &[]);
    let dead = std::mem::replace(&mut job.me, holding(2));
    job.at(1, &[Event::NodeDied(dead)]);
    assert_eq!(job.state.deaths.as_deref().unwrap()[&1], 1);
    let text = job.state.write().unwrap();
    assert_eq!(JobState::read(&text, &Key::new("job/job").unwrap()).unwrap(), job.state);
    let ended = job.end(0, State::Ok, 2);
    job.at(2, &[ended]);
    assert_eq!((&job.state.deaths, job.state.streak), (&None, 0));
}

// Promise: J7
#[test]
fn an_end_after_the_takeover_changes_nothing() {
    let dead = holding(7);
    let mut job = Fixture::every_second(Overlap::Skip);
    job.policy.on_crash = OnCrash::Retry;
    let me = std::mem::replace(&mut job.me, dead.clone());
    job.at(0, &[]);
    let late = job.end(0, State::Ok, 900);
    job.me = me;
    job.at(900, &[Event::NodeDied(dead)]);
    let before = job.state.clone();
    assert!(job.at(901, &[late]).is_fenced);
    assert_eq!(job.state, before);
}

#[test]
fn a_stopping_node_hands_over_runs_that_may_run_again() {
    for (on_crash, waits) in [(OnCrash::Retry, 1), (OnCrash::Abandon, 0)] {
        let mut job = Fixture::every_second(Overlap::Skip);
        job.policy.on_crash = on_crash;
        job.at(0, &[]);
        job.free_slots = 0;
        let ended = job.end(0, State::Interrupted, 100);
        let plan = job.at(100, &[ended]);
        assert_eq!((job.state.queue.len(), plan.is_news, plan.lines.len()), (waits, waits == 1, 1));
    }
}

#[test]
fn a_tick_that_is_handed_over_is_counted_once() {
    let mut job = Fixture::every_second(Overlap::Skip);
    job.policy.on_crash = OnCrash::Retry;
    job.at(0, &[]);
    let interrupted = job.end(0, State::Interrupted, 100);
    assert_eq!(job.at(100, &[interrupted]).starts, 1);
    let ended = job.end(0, State::Ok, 200);
    job.at(200, &[ended]);
    assert_eq!((job.state.counts.ok, job.state.counts.failed), (1, 0), "the run succeeded on another node");
}

#[test]
fn failures_in_a_row_pause_the_job() {
    let mut job = Fixture::every_second(Overlap::Skip);
    job.policy.pause_after = Some(n(2));
    job.policy.retry = Retry::times(0);
    for second in 0..2 {
        assert_eq!(job.at(second * 1000, &[]).starts, 1);
        let ended = job.end(0, State::Failed, second * 1000 + 10);
        job.at(second * 1000 + 10, &[ended]);
    }
    assert!(job.state.paused.is_some());
    assert_eq!(job.at(5000, &[]).starts, 0);
    job.command(6500, &Command::Resume);
    assert_eq!(job.state.watermark, T0 + 6000, "the ticks of the pause are skipped");
    assert_eq!(job.at(7000, &[]).starts, 1);
}

fn all_jobs_pause(number: u64, is_pause: bool) -> AllJobsPause {
    let paused = Paused { by: "me".into(), reason: "moon".into(), at: format_time(T0) };
    AllJobsPause { number, paused: Some(paused).filter(|_| is_pause) }
}

#[test]
fn a_pause_of_all_jobs_is_applied_before_any_tick_and_the_latest_counts() {
    let mut job = Fixture::every_second(Overlap::Skip);
    job.all = all_jobs_pause(5, true);
    let plan = job.at(0, &[]);
    assert_eq!((plan.starts, plan.skipped, job.state.watermark), (0, 1, T0), "the history shows the pause");
    assert!(job.state.all_paused().is_some() && job.state.paused.is_none());
    // A node that does not know the pause yet plans the job. The older knowledge of this node does not end the pause.
    // Afterwards, an operator resumes all jobs.
    job.all = all_jobs_pause(3, false);
    assert_eq!((job.at(2000, &[]).starts, job.state.is_paused()), (0, true));
    let plan = job.command(3500, &Command::SetAllJobsPause(all_jobs_pause(6, false)));
    assert_eq!((job.state.watermark, job.state.counts.skipped, plan.lines.len()), (T0 + 3000, 4, 1));
    job.all = all_jobs_pause(5, true);
    assert_eq!(job.at(4000, &[]).starts, 1, "an older pause with a lower number has no effect");
}

#[test]
fn ticks_of_two_pauses_are_skipped_when_both_are_over() {
    let mut job = Fixture::every_second(Overlap::Skip);
    job.command(0, &Command::Pause(Paused { by: "me".into(), reason: "x".into(), at: format_time(T0) }));
    job.command(1000, &Command::SetAllJobsPause(all_jobs_pause(1, true)));
    for (after, lifted) in [(2000, Command::Resume), (4000, Command::SetAllJobsPause(all_jobs_pause(2, false)))] {
        assert_eq!((job.at(after - 1, &[]).starts, job.state.counts.skipped), (0, 2), "the first ticks only");
        job.command(after, &lifted);
    }
    assert_eq!((job.state.counts.skipped, job.state.is_paused()), (5, false), "the ticks are skipped once");
    assert_eq!(job.at(5000, &[]).starts, 1);
}

#[test]
fn a_record_from_before_pauses_of_all_jobs_is_read() {
    let mut job = Fixture::every_second(Overlap::Skip);
    job.at(0, &[]);
    let text = job.state.write().unwrap();
    assert!(!text.contains("\"all\""), "and the field is not written: {text}");
    assert_eq!(JobState::read(&text, &Key::new("job/job").unwrap()).unwrap().all, None);
}

#[test]
fn without_a_free_slot_a_node_claims_nothing() {
    let mut job = Fixture::every_second(Overlap::Skip);
    job.free_slots = 0;
    let plan = job.at(0, &[]);
    assert!(plan.is_starved);
}

#[test]
fn the_history_is_a_ring() {
    let mut job = Fixture::every_second(Overlap::Skip);
    let mut slots = std::collections::BTreeSet::new();
    for second in 0..120 {
        job.at(second * 1000, &[]);
        let ended = job.end(0, State::Ok, second * 1000 + 10);
        slots.extend(job.at(second * 1000 + 10, &[ended]).lines.into_iter().map(|line| line.slot));
    }
    assert_eq!(slots.len(), 50);
    assert_eq!(job.state.counts.ok, 120);
}

#[test]
fn jitter_is_the_same_on_every_node_and_keeps_the_ticks_in_order() {
    let mut policy = Policy::new(Overlap::Skip);
    policy.jitter = std::time::Duration::from_millis(800);
    let dues: Vec<UnixMs> =
        (0..1000).map(|nth| misfire::due_time("job", &policy, T0 + nth * 1000) - T0 - nth * 1000).collect();
    assert!(dues.iter().all(|by| (0..800).contains(by)));
    assert!(dues.iter().filter(|by| **by < 400).count().abs_diff(500) < 100, "the starts are spread evenly");
    assert_ne!(misfire::due_time("job", &policy, T0), misfire::due_time("other", &policy, T0));
}

/// Runs 500 ticks of a fixed rate with this jitter. Each run takes the time `took`. Returns the job, the number of
/// ticks that started, and the number of ticks that overlapped with the run before them.
fn spread(rate: UnixMs, jitter: UnixMs, took: UnixMs, catch_up: CatchUp) -> (Fixture, usize, usize) {
    let mut policy = Policy::new(Overlap::Skip);
    (policy.jitter, policy.catch_up) = (std::time::Duration::from_millis(jitter.unsigned_abs()), catch_up);
    let mut job = Fixture::new(Trigger::FixedRate(rate), policy);
    let (mut began, mut overlapped, mut ended) = (0, 0, -1);
    for nth in 0..500 {
        let due = misfire::due_time("job", &job.policy, T0 + nth * rate) - T0;
        if due <= ended {
            overlapped += 1;
            continue;
        }
        began += job.at(due, &[]).starts;
        assert!(job.state.running.iter().all(|live| live.kind == Kind::Scheduled && live.due - T0 == due));
        ended = due + took;
        let end = job.end(0, State::Ok, ended);
        job.at(ended, &[end]);
    }
    (job, began, overlapped)
}

#[test]
fn a_ticks_age_counts_from_the_end_of_its_jitter() {
    for catch_up in [CatchUp::Skip, CatchUp::Once] {
        let (job, began, _) = spread(3 * 3_600_000, 2 * 3_600_000, 1000, catch_up);
        assert_eq!((began, job.state.counts.missed), (500, 0));
    }
}

#[test]
fn a_tick_whose_jitter_passes_after_the_run_before_it_is_not_skipped() {
    let (job, began, overlapped) = spread(60_000, 59_000, 5000, CatchUp::Skip);
    assert!(overlapped > 0 && began == 500 - overlapped);
    assert_eq!(job.state.counts.skipped, u64::try_from(overlapped).unwrap());
}

#[test]
fn an_unclaimed_run_is_counted_once_though_its_end_arrives_twice() {
    let mut job = Fixture::every_second(Overlap::Skip);
    job.at(0, &[]);
    let end = job.end(0, State::Ok, 10);
    job.at(10, &[end]);
    let past = HistoryEntry {
        kind: Kind::Unclaimed,
        id: 0,
        fence: Some(7),
        tick: T0 + 1000,
        ..*job.state.last.clone().unwrap()
    };
    let ended = Event::UnclaimedRunEnded(Arc::new(past));
    job.at(1010, &[Event::RanUnclaimed(T0 + 1000), ended.clone()]);
    assert_eq!(job.state.counts.ok, 2);
    let lines = job.at(1010, &[Event::RanUnclaimed(T0 + 1000), ended]).lines.len();
    assert_eq!((job.state.counts.ok, lines), (2, 0));
}

/// A node that cannot reach the store does not know that another node runs the job. So the end of the node's own run
/// starts no delay.
#[test]
fn an_unclaimed_run_that_ends_during_a_claimed_one_starts_no_delay() {
    let mut job = Fixture::new(Trigger::FixedDelay(1000), Policy::new(Overlap::Skip));
    job.at(0, &[]);
    let first = job.end(0, State::Ok, 10);
    job.at(10, std::slice::from_ref(&first));
    assert_eq!(job.at(1010, &[]).starts, 1);
    let past = HistoryEntry {
        kind: Kind::Unclaimed,
        id: 0,
        fence: Some(7),
        ended: T0 + 500,
        ..*job.state.last.clone().unwrap()
    };
    let plan = job.at(2000, &[Event::RanUnclaimed(T0 + 1010), Event::UnclaimedRunEnded(Arc::new(past))]);
    assert_eq!((plan.starts, plan.skipped, job.state.tick_cursor().next_due), (0, 0, None));
    let second = job.end(0, State::Ok, 3000);
    job.at(3000, &[second]);
    assert_eq!(job.state.next_due, Some(T0 + 4000));
}

#[test]
fn a_delay_follows_a_run_that_was_interrupted_and_cancelled() {
    let mut job = Fixture::new(Trigger::FixedDelay(60_000), Policy::new(Overlap::Skip));
    job.policy.on_crash = OnCrash::Retry;
    job.at(0, &[]);
    let end = job.end(0, State::Ok, 1000);
    job.at(1000, &[end]);
    job.command(30_000, &Command::Run);
    job.at(90_000, &[]);
    job.free_slots = 0;
    job.at(100_000, &[Event::NodeDied(job.me.clone())]);
    job.command(101_000, &Command::Cancel(None));
    assert_eq!(next_claim(&job.state, "job", &job.trigger, &job.policy), Some(T0 + 160_000));
}

#[test]
fn a_tick_that_is_to_be_retried_stays_though_it_ran_unclaimed() {
    for trigger in [Trigger::FixedRate(1000), Trigger::FixedDelay(1000)] {
        let mut job = Fixture::new(trigger, Policy::new(Overlap::Skip));
        job.policy.on_crash = OnCrash::Retry;
        job.at(0, &[]);
        job.free_slots = 0;
        job.at(500, &[Event::NodeDied(job.me.clone()), Event::RanUnclaimed(T0)]);
        assert_eq!(job.waiting(), [0]);
    }
}

#[test]
fn a_record_reads_back_as_it_was_written() {
    let mut job = Fixture::every_second(Overlap::Queue(n(5)));
    job.at(4000, &[]);
    job.command(4000, &Command::Pause(Paused { by: "me".into(), reason: "\"tests\"\n".into(), at: format_time(T0) }));
    let text = job.state.write().unwrap();
    assert_eq!(JobState::read(&text, &Key::new("job/job").unwrap()).unwrap(), job.state);
    assert!(JobState::read("{}", &Key::new("job/job").unwrap()).is_err());
}

// Promise: J6
#[test]
fn fences_rise_within_a_millisecond_and_with_a_clock_that_was_set_back() {
    let mut job = Fixture::every_second(Overlap::Skip);
    let mut last = 0;
    for after in [0, 0, 0, -5000] {
        job.command(after, &Command::Run);
        job.at(after, &[]);
        assert!(job.state.running[0].fence > last);
        last = job.state.running[0].fence;
        let ended = job.end(0, State::Ok, after);
        job.free_slots = 0;
        job.at(after, &[ended]);
        job.free_slots = 10;
        job.state.queue.clear();
    }
}

#[test]
fn many_missed_ticks_are_caught_up_once() {
    let mut policy = Policy::new(Overlap::Queue(n(10)));
    policy.misfire_grace = std::time::Duration::ZERO;
    let mut job = Fixture::new(Trigger::FixedRate(1), policy);
    let mut caught = 0;
    for _ in 0..10 {
        let plan = job.at(450_000, &[]);
        caught += plan.starts + job.state.queue.len();
        job.state.running.clear();
        job.state.queue.clear();
    }
    assert_eq!(job.state.watermark, T0 + 450_000);
    assert_eq!(caught, 1, "the present tick");
    assert_eq!(job.state.counts.missed, 450_001 - 1);
}

#[test]
fn a_run_that_was_dropped_for_its_lease_has_ended_even_if_the_lease_was_renewed() {
    for on_crash in [OnCrash::Abandon, OnCrash::Retry] {
        let mut job = Fixture::every_second(Overlap::Skip);
        job.policy.on_crash = on_crash;
        job.at(0, &[]);
        let fence = job.state.fence;
        let ended = job.end(0, State::Lost, 100);
        job.at(100, &[ended]);
        match on_crash {
            OnCrash::Abandon => assert_eq!((job.state.running.len(), job.state.counts.lost), (0, 1)),
            OnCrash::Retry | OnCrash::RetryUpTo(_) => {
                let live = &job.state.running[0];
                assert_eq!((live.attempt, job.state.counts.lost), (2, 0), "the next attempt runs, and no run is lost");
                assert!(live.fence > fence);
            }
        }
    }
}

#[test]
fn skip_runs_one_of_the_ticks_that_waited_together() {
    let mut job = Fixture::every_second(Overlap::Skip);
    let plan = job.at(40_000, &[]);
    assert_eq!((plan.starts, plan.skipped, job.running()), (1, 40, vec![40_000]));
    let ended = job.end(0, State::Ok, 40_010);
    assert_eq!(job.at(40_010, &[ended]).starts, 0);
}

#[test]
fn the_first_tick_of_a_pause_is_recorded_at_once_and_the_others_at_its_end() {
    for (trigger, at_once, more) in [(Trigger::FixedRate(1000), 2, 7), (Trigger::FixedDelay(1000), 1, 0)] {
        let mut job = Fixture::new(trigger, Policy::new(Overlap::Skip));
        job.at(0, &[]);
        let ended = job.end(0, State::Ok, 10);
        job.at(10, &[ended]);
        let paused = Paused { by: "ann".into(), reason: "stock".into(), at: format_time(T0 + 1500) };
        job.command(1500, &Command::Pause(paused));
        let next = next_claim(&job.state, "job", &job.trigger, &job.policy);
        assert!(next.is_some_and(|next| next <= T0 + 2000));
        let plan = job.at(2000, &[]);
        assert_eq!((plan.starts, plan.skipped, plan.lines.len()), (0, at_once, 1));
        assert!(plan.not_before.is_some() && plan.lines[0].value.contains("paused by ann: stock"), "{plan:?}");
        assert_eq!(next_claim(&job.state, "job", &job.trigger, &job.policy), None);
        assert_eq!(job.at(9000, &[]), Plan::default());
        let plan = job.command(9000, &Command::Resume);
        assert_eq!((plan.skipped, job.state.counts.skipped), (more, at_once + more));
        assert_eq!(job.at(10_000, &[]).starts, 1);
    }
}

#[test]
fn skip_replaces_a_tick_that_waits_in_the_queue_by_a_later_one() {
    let mut job = Fixture::every_second(Overlap::Skip);
    job.free_slots = 0;
    for second in 0..5 {
        let plan = job.at(second * 1000, &[]);
        assert!((plan.starts, plan.is_news, plan.is_starved) == (0, second == 0, true), "other nodes may start it");
        assert_eq!(job.waiting(), [second * 1000]);
    }
    job.command(4500, &Command::Run);
    job.free_slots = 1;
    let plan = job.at(5000, &[]);
    assert_eq!((plan.starts, job.state.counts.skipped, job.waiting()), (1, 5, vec![5000]), "runs by hand stay");
}

#[test]
fn a_fixed_delay_is_never_missed_and_a_single_run_neither() {
    for trigger in [Trigger::FixedDelay(1000), Trigger::Once] {
        let mut policy = Policy::new(Overlap::Skip);
        (policy.catch_up, policy.misfire_grace) = (CatchUp::Skip, std::time::Duration::ZERO);
        let mut job = Fixture::new(trigger, policy);
        let plan = job.at(YEAR, &[]);
        assert_eq!((plan.starts, plan.missed.ticks, job.running()), (1, 0, vec![0]));
        assert_eq!(job.state.running[0].kind, Kind::Scheduled);
    }
}

// Promise: J3
#[test]
fn a_change_of_the_trigger_settles_the_ticks_that_were_due_and_loses_none() {
    let change = |setting: &dyn Fn(&mut Fixture)| {
        let mut job = Fixture::every_second(Overlap::Queue(n(100)));
        job.policy.jitter = std::time::Duration::from_secs(3600);
        setting(&mut job);
        job.trigger = Trigger::FixedRate(700);
        let plan = job.redefine(4300);
        assert_eq!((job.state.watermark, job.state.anchor), (T0 + 4299, T0 + 4300));
        (job, plan)
    };
    let (job, plan) = change(&|_| ());
    assert_eq!((job.waiting(), plan.missed.ticks), (vec![0, 1000, 2000, 3000, 4000], 0), "without their jitter");
    let (job, plan) = change(&|job| job.policy.misfire_grace = std::time::Duration::from_secs(1));
    assert_eq!((job.waiting(), plan.missed.ticks, plan.lines.len()), (vec![4000], 4, 1));
    let (job, plan) = change(&|job| job.policy.enabled = false);
    assert_eq!((job.waiting(), plan.skipped, job.state.counts.skipped), (vec![], 5, 5), "a disabled job does not run");
    let (mut job, plan) = change(&|job| job.all = all_jobs_pause(1, true));
    assert_eq!((job.waiting(), plan.skipped, job.state.counts.skipped), (vec![], 5, 5));
    job.all = all_jobs_pause(2, false);
    assert_eq!(job.at(4300, &[]).skipped, 1, "the pause went on until now");
}

#[test]
fn a_new_delay_counts_from_the_last_end_also_after_another_trigger() {
    for (old, next) in [(Trigger::FixedDelay(86_400_000), 6000), (Trigger::FixedRate(1_000_000), 6000)] {
        let mut job = Fixture::new(old, Policy::new(Overlap::Skip));
        job.at(0, &[]);
        let ended = job.end(0, State::Ok, 1000);
        job.at(1000, &[ended]);
        job.trigger = Trigger::FixedDelay(5000);
        let plan = job.redefine(3000);
        assert!(plan.lines.is_empty());
        assert_eq!(next_claim(&job.state, "job", &job.trigger, &job.policy), Some(T0 + next));
    }
}

/// Jobs that fire each second and were registered a year before the test's present: two cron jobs and a fixed rate.
fn a_year_ago(policy: &Policy) -> [Fixture; 3] {
    let zone = bandog_cron::Zone::named("America/New_York").unwrap();
    let every_second = Cron::parse("* * * * * ?").unwrap();
    let local = every_second.clone().in_zone(zone);
    let triggers = [every_second, local].map(|cron| Trigger::Cron(Arc::new(cron)));
    let [utc, local] = triggers.map(|trigger| Fixture::new(trigger, policy.clone()));
    [utc, local, Fixture::new(Trigger::FixedRate(1000), policy.clone())]
}

const YEAR: UnixMs = 365 * 86_400_000;

#[test]
fn a_resume_after_a_year_counts_the_ticks_without_a_visit_of_each() {
    for mut job in a_year_ago(&Policy::new(Overlap::Skip)) {
        job.command(0, &Command::Pause(Paused { by: "me".into(), reason: "x".into(), at: format_time(T0) }));
        let began = std::time::Instant::now();
        let plan = job.command(YEAR, &Command::Resume);
        let took = began.elapsed();
        // If the code examined each of the 31 million ticks, the command would take seconds in a release build, and
        // minutes in a test build.
        assert!(took < std::time::Duration::from_millis(200), "{took:?}");
        assert_eq!((job.state.counts.skipped, plan.lines.len()), (365 * 86_400 + 1, 1));
        assert_eq!(job.state.watermark, T0 + YEAR);
    }
}

#[test]
fn one_plan_handles_an_outage_of_a_year() {
    for (catch_up, jitter) in [(CatchUp::Once, 0), (CatchUp::All(n(5)), 2500), (CatchUp::Skip, 300)] {
        let mut policy = Policy::new(Overlap::Queue(n(1000)));
        (policy.catch_up, policy.jitter) = (catch_up, std::time::Duration::from_millis(jitter));
        for mut job in a_year_ago(&policy) {
            let began = std::time::Instant::now();
            let plan = job.at(YEAR, &[]);
            assert!(began.elapsed() < std::time::Duration::from_secs(2), "{:?}", began.elapsed());
            let runs = job.state.run;
            let due = job.state.watermark - T0;
            assert!((YEAR - 3000..=YEAR).contains(&due), "one plan handles all of these ticks");
            assert_eq!(plan.missed.ticks + runs, u64::try_from(due).unwrap() / 1000 + 1);
            assert_eq!(plan.missed.first, Some(T0));
        }
    }
}

/// The other nodes are notified when a queue begins, and not of each tick that it gets: with many jobs and full pools,
/// each node would read all records all the time.
#[test]
fn a_queue_is_news_when_it_begins() {
    let mut job = Fixture::every_second(Overlap::Queue(n(100)));
    job.free_slots = 0;
    let news = [0, 1000, 2000, 3000].map(|after| job.at(after, &[]).is_news);
    assert_eq!((news, job.state.queue.len()), ([true, false, false, false], 4));
    job.free_slots = 1;
    assert_eq!(job.at(3500, &[]).starts, 1);
}

#[test]
fn a_job_that_becomes_once_runs_once() {
    for before in [Trigger::FixedRate(1000), Trigger::FixedDelay(1000), Trigger::At(T0), Trigger::Never] {
        let mut job = Fixture::new(before, Policy::new(Overlap::Skip));
        let first = job.at(0, &[]).starts;
        if first == 1 {
            let ended = job.end(0, State::Ok, 10);
            job.at(10, &[ended]);
        }
        job.trigger = Trigger::Once;
        job.redefine(300);
        assert_eq!(job.at(300, &[]).starts, 1, "the run of `once`");
        let ended = job.end(0, State::Ok, 310);
        job.at(310, &[ended]);
        job.redefine(400);
        assert_eq!([400, 5000, 3_600_000].map(|after| job.at(after, &[]).starts), [0; 3]);
    }
}

#[test]
fn a_job_that_becomes_once_waits_for_its_initial_delay() {
    let mut job = Fixture::new(Trigger::Never, Policy::new(Overlap::Skip));
    job.trigger = Trigger::Once;
    job.policy.initial_delay = std::time::Duration::from_secs(60);
    job.redefine(300);
    assert_eq!([300, 60_299, 60_300].map(|after| job.at(after, &[]).starts), [0, 0, 1]);
}

/// An older version removed the next tick of a fixed delay when it paused the job.
#[test]
fn a_fixed_delay_without_a_next_tick_runs_after_the_pause() {
    let mut job = Fixture::new(Trigger::FixedDelay(1000), Policy::new(Overlap::Skip));
    job.at(0, &[]);
    let ended = job.end(0, State::Ok, 10);
    job.at(10, &[ended]);
    job.state.next_due = None;
    job.state.paused = Some(Box::new(crate::Paused { by: "me".into(), reason: "why".into(), at: String::new() }));
    assert_eq!([20, 5000].map(|after| job.at(after, &[]).starts), [0; 2]);
    job.state.paused = None;
    assert_eq!(job.at(6000, &[]).starts, 1);
}
