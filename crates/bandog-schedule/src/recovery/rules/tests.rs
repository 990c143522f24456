use std::sync::Arc;

use bandog_core::{ClaimId, ClientId, Holding, Key, Version};

use super::*;
use crate::{
    Overlap,
    plan::Event,
    policy::Policy,
    state::QueuedRun,
    trigger::{Trigger, UnixMs},
};

/// Start of each test.
const T0: UnixMs = 1_800_000_000_000;

/// A node and its job, which fires every second.
struct Node {
    trigger: Trigger,
    policy: Policy,
    session: Holding,
}

impl Node {
    fn new() -> Self {
        let session = Holding {
            key: Key::new("schedule/node/1").unwrap(),
            id: ClaimId { client: ClientId::random(), number: 1 },
        };
        Self { trigger: Trigger::FixedRate(1000), policy: Policy::new(Overlap::Skip), session }
    }

    /// A record that is created at this time after the start of the test.
    fn born(&self, at: UnixMs, era: &str) -> JobState {
        let spec = JobSpec::new(&self.trigger, &self.policy);
        JobState::create(&self.policy, T0 + at, Some(Box::new(spec)), era)
    }

    fn plan(&self, state: &mut JobState, now: UnixMs, events: &[Event]) -> Plan {
        self.plan_with(1, state, now, events)
    }

    fn plan_with(&self, free_slots: usize, state: &mut JobState, now: UnixMs, events: &[Event]) -> Plan {
        let (trigger, policy, session) = (&self.trigger, &self.policy, Some(&self.session));
        let (now, here) = (T0 + now, Arc::from("here"));
        let all = &crate::pauses::AllJobsPause::default();
        let context =
            PlanContext { name: "job", trigger, policy, now, node: &here, session, free_slots, is_current: true, all };
        crate::plan::plan(state, &context, events)
    }
}

/// The event that the store has lost a record of which the node has this copy.
fn memory(state: &JobState, is_later: bool) -> Event {
    Event::RecordLost(KnownRecord { state: Arc::new(state.clone()), version: Version::new(1).unwrap(), is_later })
}

#[test]
fn a_known_record_is_restored_once_however_many_nodes_remember_it() {
    let node = Node::new();
    let mut known = node.born(0, "before");
    node.plan(&mut known, 0, &[]);
    (known.counts.ok, known.streak, known.run) = (7, 2, 9);
    let mut state = node.born(3500, "after");
    let plan = node.plan(&mut state, 3600, &[memory(&known, false), memory(&known, false)]);
    assert_eq!((state.counts.ok, state.counts.missed, state.streak, state.run), (7, 3, 2, 9));
    assert_eq!((plan.missed.ticks, plan.lines.len()), (3, 1));
    assert_eq!((state.anchor, state.watermark), (T0, T0 + 3499), "the fixed rate keeps its ticks");
    assert_eq!(
        state.running, known.running,
        "the run stays until the expired session of its node shows that the node died"
    );
    assert!(state.fence >= known.fence);
    let again = state.clone();
    node.plan(&mut state, 3600, &[memory(&known, false)]);
    assert_eq!(state, again);
}

#[test]
fn a_record_that_fell_back_is_restored_and_nothing_starts_in_the_same_plan() {
    let node = Node::new();
    let mut old = node.born(0, "era");
    old.queue.push_back(QueuedRun { id: 1, kind: Kind::Manual, tick: T0, attempt: 1 });
    let mut known = old.clone();
    node.plan(&mut known, 0, &[]);
    let mut state = old.clone();
    let plan = node.plan(&mut state, 5000, &[memory(&known, true)]);
    assert_eq!(state, known);
    assert_eq!((plan.starts, plan.not_before), (0, None), "the session may be lost too, and must not delay the write");
}

#[test]
fn changes_of_nodes_that_continued_from_an_earlier_state_are_kept() {
    let node = Node::new();
    let mut known = node.born(0, "era");
    known.watermark = T0 + 9000;
    let mut state = node.born(0, "era");
    (state.watermark, state.run, state.counts.ok) = (T0 + 4000, 5, 5);
    state.paused = Some(Box::new(crate::Paused { by: "me".into(), reason: "why".into(), at: String::new() }));
    node.plan(&mut state, 9500, &[memory(&known, true)]);
    assert_eq!((state.watermark, state.run, state.counts.ok), (T0 + 9000, 5, 5));
    assert!(state.paused.is_some());
}

#[test]
fn a_record_that_was_forgotten_and_created_again_is_left_as_it_is() {
    let node = Node::new();
    let mut known = node.born(0, "era");
    known.watermark = T0 + 9_000_000;
    let state = node.born(5000, "era");
    assert!(
        !lacks(&state, &known, true),
        "an operator must be able to create the job again after the clock was set back"
    );
}

#[test]
fn ticks_of_a_job_that_was_disabled_were_not_missed() {
    let mut node = Node::new();
    node.policy.enabled = false;
    let known = node.born(0, "before");
    let mut state = node.born(9500, "after");
    node.plan(&mut state, 9600, &[memory(&known, false)]);
    assert_eq!((state.counts.missed, state.counts.skipped), (0, 0));
}

#[test]
fn a_record_of_an_older_version_is_read_and_lacks_nothing() {
    let text = r#"{"spec":null,"watermark":1800000000000,"anchor":1799999999000,"next_due":null,"fence":3,"run":3,
        "counts":{"ok":3,"failed":0,"skipped":0,"missed":0,"lost":0},"rings":[3,0,0],"streak":0,"busy":null,
        "last_success":1800000000000,"last":null,"running":[],"queue":[],"paused":null}"#;
    let state = JobState::read(text, &Key::new("job/job").unwrap()).unwrap();
    assert_eq!(state.born, None);
    assert!(!state.write().unwrap().contains("born"));
    assert!(!lacks(&Node::new().born(0, "era"), &JobState { fence: 0, watermark: T0 - 1, ..state }, false));
}

#[test]
fn a_watermark_that_was_set_back_by_hand_is_not_raised_again() {
    let node = Node::new();
    let mut known = node.born(0, "era");
    known.watermark = T0 + 9_000_000;
    let mut state = known.clone();
    let command = crate::plan::Command::Reset { by: "me".into(), reason: "the clock was ahead".into() };
    crate::plan::apply_command(&mut state, "job", &node.trigger, &node.policy, T0 + 5000, &command);
    assert_eq!(state.watermark, T0 + 5000);
    assert!(!lacks(&state, &known, false));
}

#[test]
fn a_run_of_this_node_continues_unless_others_have_claimed_its_tick() {
    let node = Node::new();
    let old = node.born(0, "era");
    let mut known = old.clone();
    node.plan(&mut known, 3000, &[]);
    assert_eq!(known.running.iter().map(|live| live.tick - T0).collect::<Vec<_>>(), [3000]);
    for (watermark, goes_on) in [(2000, true), (3000, false), (4000, false)] {
        let mut state = old.clone();
        // Another node has changed the record after the loss, so the record is not equal to the earlier record any
        // more.
        (state.watermark, state.run) = (T0 + watermark, 9);
        node.plan(&mut state, 3500, &[memory(&JobState { fence: u64::MAX / 2, ..known.clone() }, true)]);
        assert_eq!(!state.running.is_empty(), goes_on, "{watermark}");
    }
}

/// The copies of two nodes: in the older one, the tick 3000 runs on another node; in the newer one, it has ended and two
/// more ticks, too.
fn copies(node: &Node) -> (JobState, JobState) {
    let (mut older, other) = (node.born(0, "before"), Node::new());
    other.plan(&mut older, 3000, &[]);
    let mut newer = older.clone();
    for now in [3400, 4400, 5400] {
        let live = &newer.running[0];
        let (id, fence, attempt, at) = (live.id, live.fence, live.attempt, T0 + now);
        let ended = RunEnd { id, fence, attempt, state: State::Ok, at, error: None, note: None };
        other.plan(&mut newer, now, &[Event::RunEnded(ended)]);
        other.plan(&mut newer, now + 600, &[]);
    }
    (older, newer)
}

/// The number of running and queued runs of the tick 3000.
fn open_runs(state: &JobState) -> usize {
    let running = state.running.iter().filter(|live| live.tick == T0 + 3000).count();
    running + state.queue.iter().filter(|queued| queued.tick == T0 + 3000).count()
}

/// The first node that restores the record has the older copy. The run has waited, has been queued again, or has started
/// again, when the node with the newer copy comes.
#[test]
fn a_run_that_is_over_in_a_better_copy_ends_and_is_not_repeated() {
    let mut node = Node::new();
    node.policy.on_crash = crate::OnCrash::Retry;
    let (older, newer) = copies(&node);
    let dead = older.running[0].holding().unwrap();
    for step in 0..3 {
        let mut state = node.born(9000, "after");
        node.plan(&mut state, 9100, &[memory(&older, false)]);
        assert_eq!(open_runs(&state), 1, "{step}");
        if step > 0 {
            node.plan(&mut state, 13_999, &[Event::NodeDied(dead.clone())]);
            assert!(state.running.iter().any(|live| live.attempt == 1), "it waits for the copies of other nodes");
            node.plan_with(usize::from(step == 2), &mut state, 14_000, &[Event::NodeDied(dead.clone())]);
            let again = state.running.iter().filter(|live| (live.tick, live.attempt) == (T0 + 3000, 2)).count();
            assert_eq!((open_runs(&state), again), (1, usize::from(step == 2)), "{step}");
        }
        assert!(lacks(&state, &newer, false), "{step}");
        node.plan(&mut state, 14_100, &[memory(&newer, false)]);
        assert_eq!(open_runs(&state), 0, "{step}: {state:?}");
        assert!(!lacks(&state, &newer, false), "{step}");
        node.plan(&mut state, 14_100, &[memory(&older, false)]);
        assert_eq!(open_runs(&state), 0, "{step}: the older copy changes nothing");
    }
}

#[test]
fn a_run_of_this_node_that_ended_long_ago_is_not_repeated_after_a_fall_back() {
    let mut node = Node::new();
    node.policy.on_crash = crate::OnCrash::Retry;
    let mut state = node.born(0, "era");
    node.plan(&mut state, 3000, &[]);
    let mut known = state.clone();
    known.running.clear();
    known.fence += 1;
    // Another node has changed the record after the loss.
    state.run += 1;
    node.plan(&mut state, 3500, &[memory(&known, true)]);
    assert_eq!((open_runs(&state), state.counts.lost), (0, 1));
    assert_eq!(state.last.as_ref().unwrap().error.as_deref(), Some(END_UNKNOWN));
}

#[test]
fn runs_of_a_lost_record_wait_for_the_copies_of_all_nodes() {
    let node = Node::new();
    let (older, _) = copies(&node);
    let mut state = node.born(9000, "after");
    node.plan(&mut state, 9100, &[memory(&older, false)]);
    let live = state.running[0].clone();
    assert!(state.awaits_copies(live.started, T0 + 13_999) && !state.awaits_copies(live.started, T0 + 14_000));
    assert!(!state.awaits_copies(T0 + 9000, T0 + 9100));
    assert!(!node.born(9000, "new").awaits_copies(T0, T0 + 9100), "a new record has no copies");
}

#[test]
fn a_queued_run_of_a_lost_record_waits_for_the_copies_and_has_the_next_attempt() {
    let mut node = Node::new();
    node.policy = Policy { on_crash: crate::OnCrash::Retry, ..Policy::new(Overlap::Queue(std::num::NonZeroU32::MIN)) };
    let mut known = node.born(0, "before");
    known.watermark = T0 + 3000;
    known.queue.push_back(QueuedRun { id: 1, kind: Kind::Scheduled, tick: T0 + 3000, attempt: 1 });
    let mut state = node.born(9000, "after");
    node.plan(&mut state, 9000, &[memory(&known, false)]);
    let mut ended = state.clone();
    let end = RunEnd { id: 1, fence: 7, attempt: 1, state: State::Ok, at: T0 + 8990, error: None, note: None };
    node.plan(&mut ended, 9100, &[Event::RunEnded(end.clone())]);
    assert_eq!((open_runs(&ended), ended.counts.ok, ended.last_success), (0, 1, Some(T0 + 3000)));
    for (now, attempts) in [(9100, vec![]), (13_999, vec![]), (14_000, vec![2])] {
        node.plan(&mut state, now, &[]);
        let of_tick = state.running.iter().filter(|live| live.tick == T0 + 3000);
        assert_eq!(of_tick.map(|live| live.attempt).collect::<Vec<_>>(), attempts, "{now}");
    }
    assert!(node.plan(&mut state, 14_100, &[Event::RunEnded(end)]).is_fenced, "another attempt is under way");
}
