//! A model test: it drives a slot, and the pending releases of its key, through random orders of events. The events are
//! calls, dropped futures, dropped guards, answers, lost answers, requests that the store applies late, notifications,
//! timers, and pauses of the process.
//!
//! The store is [`LockState`], whose rules the conformance laws check. A run consists of episodes; each begins with a
//! new slot. After each step the test checks the promises to users ([`World::check`], and the asserts at the handling
//! of each effect). At the end of an episode all faults stop. Then every call must get an answer, the slot must become
//! unused, and the lock must be free in the store.
//!
//! Three environment variables control the test. `BANDOG_MODEL_STEPS` is the number of steps, 2,000,000 by default.
//! `BANDOG_MODEL_SEED` is the seed, 1 by default; the same seed gives the same steps. If `BANDOG_MODEL_EPISODE` is set
//! to the number that a failure has printed, only that episode runs, and every request and answer is printed.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet, VecDeque},
    env, mem,
    num::NonZeroU32,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread::{self, ThreadId},
    time::Duration,
};

use bandog_core::{
    Answer, ClaimId, ClientId, ErrorKind, Fence, Kind, LockState, Released, Renewal, Result, Step, Verdict,
};
use fastrand::Rng;
use tokio::sync::oneshot;

use super::*;
use crate::{
    caller::Caller,
    engine::{
        msg::{Patience, Terms},
        releases::Releases,
    },
    turn_status::{TurnState, TurnStatus},
};

const TIMEOUT: Duration = Duration::from_millis(300);
const FIXED_LEASE: Duration = Duration::from_millis(400);
/// Maximum number of steps in one episode.
const EPISODE: u64 = 600;
/// Maximum number of calls that wait at the same time.
const MAX_CALLS: usize = 6;

fn number(variable: &str, default: u64) -> u64 {
    env::var(variable).ok().map_or(default, |text| text.parse().unwrap())
}

#[test]
fn random_interleavings_keep_the_promises() {
    let steps = number("BANDOG_MODEL_STEPS", 2_000_000);
    let seed = number("BANDOG_MODEL_SEED", 1);
    let callers = [thread::current().id(), thread::spawn(|| thread::current().id()).join().unwrap()];
    if env::var_os("BANDOG_MODEL_EPISODE").is_some() {
        run_episode(number("BANDOG_MODEL_EPISODE", 0), callers, &mut Sums::default());
        return;
    }
    let (mut done, mut sums, mut episode) = (0, Sums::default(), seed << 32);
    while done < steps {
        done += run_episode(episode, callers, &mut sums);
        episode += 1;
    }
    // If one of these events never happened, the test would prove nothing about it.
    let Sums { turns, passed_on, exchanged, shared, refused, timed_out, lost, late, cancelled, offered } = sums;
    let rare = [turns, passed_on, exchanged, shared, refused, timed_out, lost, late, cancelled, offered];
    assert!(rare.iter().all(|count| *count > steps / 20_000), "{sums:?}");
    println!("{done} steps, {sums:?}");
}

/// Numbers of the events that the test must try.
#[derive(Debug, Default)]
struct Sums {
    turns: u64,
    passed_on: u64,
    exchanged: u64,
    shared: u64,
    refused: u64,
    timed_out: u64,
    lost: u64,
    /// Requests that the store applied after the client had received an error for them.
    late: u64,
    /// Calls that were dropped while they waited.
    cancelled: u64,
    /// Claims that asked for an offer.
    offered: u64,
}

fn run_episode(seed: u64, callers: [ThreadId; 2], sums: &mut Sums) -> u64 {
    fastrand::seed(seed);
    let mut world = World::new(seed, callers);
    let trace = Trace { seed, steps: Rc::clone(&world.trace) };
    let steps = world.rng.u64(EPISODE / 4..EPISODE);
    for _ in 0..steps {
        world.step();
        world.check();
    }
    world.finish();
    drop(trace);
    sums.turns += world.sums.turns;
    sums.passed_on += world.sums.passed_on;
    sums.exchanged += world.sums.exchanged;
    sums.shared += world.sums.shared;
    sums.refused += world.sums.refused;
    sums.timed_out += world.sums.timed_out;
    sums.lost += world.sums.lost;
    sums.late += world.sums.late;
    sums.cancelled += world.sums.cancelled;
    sums.offered += world.sums.offered;
    steps
}

/// Prints the last steps if the episode fails.
struct Trace {
    seed: u64,
    steps: Rc<Cell<Vec<(u64, &'static str)>>>,
}

impl Drop for Trace {
    fn drop(&mut self) {
        if thread::panicking() {
            let steps = self.steps.take();
            println!("episode {}, the last of {} steps:", self.seed, steps.len());
            for (millis, step) in &steps[steps.len().saturating_sub(60)..] {
                println!("{millis:>8} ms  {step}");
            }
        }
    }
}

/// The caller's end of a call.
#[derive(Clone)]
struct TestCall {
    ticket: Ticket,
    max_hold: Option<Duration>,
    owner: Option<u8>,
    has_gone: Rc<Cell<bool>>,
}

impl Call for TestCall {
    fn has_gone(&self) -> bool {
        self.has_gone.get()
    }

    fn shares_with(&self, other: &Self) -> bool {
        self.owner.is_some() && self.owner == other.owner
    }
}

/// A call that has no answer yet.
struct OpenCall {
    call: TestCall,
    came: Moment,
    /// Whether the slot has received the call.
    has_arrived: bool,
    /// When it times out.
    limit: Option<Moment>,
}

/// A turn (the use of a hold by one call) that still has guards.
struct OpenTurn {
    hold: HoldId,
    ticket: Ticket,
    fence: Fence,
    status: Arc<TurnStatus>,
    owner: Option<u8>,
    guards: u32,
    /// When the turn reaches its `max_hold`.
    ends: Option<Moment>,
}

/// A message of a user to the engine. Messages arrive in their order.
enum Message {
    Lock(NewCall<TestCall>),
    Cancel(Ticket),
    TurnEnded { hold: HoldId, ticket: Ticket, report: Option<Report> },
    WarnBefore { hold: HoldId, ticket: Ticket, grace: Duration },
}

#[derive(Debug, Clone)]
enum Request {
    Step(Step),
    Renew(Claim),
}

/// The answer to a request, on its way to the engine.
enum Reply {
    Step(Step, Result<Answer>),
    Renewal(Claim, Result<Renewal>),
}

/// A request without an answer that the store may still apply.
struct LateRequest {
    request: Request,
    /// The store no longer applies the request after this moment: one request timeout after its error has arrived.
    until: Option<Moment>,
    id: u64,
}

struct World {
    rng: Rng,
    /// Whether this episode has no faults: no answer is lost, and the process never stops. Then no hold may be lost,
    /// either.
    is_calm: bool,
    has_faults: bool,
    /// Number of fences that a grant reserves.
    fences: NonZeroU32,
    now: Moment,
    slot: Slot<TestCall>,
    cx: SlotContext<TestCall>,
    releases: Releases,
    store: LockState,
    callers: [ThreadId; 2],
    mailbox: VecDeque<Message>,
    outbox: VecDeque<Request>,
    /// Requests that were sent and that the store has not applied yet. Steps are applied in their order, renewals in
    /// any order.
    steps: VecDeque<(Step, Moment)>,
    renewals: Vec<(Claim, Moment)>,
    late: Vec<LateRequest>,
    replies: VecDeque<(Reply, Moment, Option<u64>)>,
    subscribing: u32,
    is_subscribed: Arc<AtomicBool>,
    notifications: u32,
    claim_in_flight: Option<HoldId>,
    is_notified: bool,
    other: Option<Claim>,
    /// Holds that an operator has taken.
    evicted: BTreeSet<ClaimId>,
    /// Whether the store has refused a release. The hold then expires after its ttl.
    has_refused_release: bool,
    /// Claims with a fixed lease.
    fixed: BTreeSet<HoldId>,
    numbers: u64,
    calls: BTreeMap<Ticket, OpenCall>,
    turns: Vec<OpenTurn>,
    reports: Vec<(oneshot::Receiver<Result<()>>, bool)>,
    last_fence: u64,
    /// The last time at which the lock was held, or this client did not claim it so that others could.
    busy_at: Moment,
    turns_since_release: u32,
    streak_since: Moment,
    sums: Sums,
    trace: Rc<Cell<Vec<(u64, &'static str)>>>,
    prints: bool,
}

impl World {
    fn new(seed: u64, callers: [ThreadId; 2]) -> Self {
        let mut rng = Rng::with_seed(seed);
        let now = Moment::from_nanos(3_600_000_000_000);
        let is_calm = rng.u8(..4) == 0;
        Self {
            is_calm,
            has_faults: !is_calm,
            fences: NonZeroU32::MIN.saturating_add([0, 2, 63][rng.usize(..3)]),
            now,
            slot: Slot::new(SlotId { key: Key::new("key").unwrap(), lane: Lane::Mutex }),
            cx: SlotContext::new(ClientId::random(), TIMEOUT, now, Arc::new(AtomicU64::new(1))),
            releases: Releases::new(TIMEOUT),
            store: LockState::default(),
            callers,
            mailbox: VecDeque::new(),
            outbox: VecDeque::new(),
            steps: VecDeque::new(),
            renewals: Vec::new(),
            late: Vec::new(),
            replies: VecDeque::new(),
            subscribing: 0,
            is_subscribed: Arc::default(),
            notifications: 0,
            claim_in_flight: None,
            is_notified: false,
            other: None,
            evicted: BTreeSet::new(),
            has_refused_release: false,
            fixed: BTreeSet::new(),
            numbers: 0,
            calls: BTreeMap::new(),
            turns: Vec::new(),
            reports: Vec::new(),
            last_fence: 0,
            busy_at: now,
            turns_since_release: 0,
            streak_since: now,
            sums: Sums::default(),
            trace: Rc::default(),
            prints: env::var_os("BANDOG_MODEL_EPISODE").is_some(),
            rng,
        }
    }

    fn note(&self, step: &'static str) {
        self.detail(|| step.to_owned());
        let mut steps = self.trace.take();
        steps.push((self.now.as_nanos() / 1_000_000, step));
        self.trace.set(steps);
    }

    /// Prints the details of a step, if only one episode runs.
    fn detail(&self, step: impl FnOnce() -> String) {
        if self.prints {
            println!("{:>8} ms    {}", self.now.as_nanos() / 1_000_000, step());
        }
    }

    fn chance(&mut self, one_in: u32) -> bool {
        self.rng.u32(..one_in) == 0
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Does one random step: of a user, the engine, the store, another client or the clock.
    fn step(&mut self) {
        match self.rng.u8(..40) {
            0..=3 => self.call(),
            4 => self.drop_call(),
            5..=9 => self.drop_guard(),
            10 => self.warn_before(),
            11..=16 => self.read_mailbox(),
            17..=21 => self.send(),
            22..=26 => self.apply(),
            27..=31 => self.deliver(),
            32 => self.deliver_subscription(),
            33 => self.deliver_notification(),
            34 => self.other_client(),
            35 => self.fault(),
            _ => self.pass_time(),
        }
    }

    // What users do.

    fn call(&mut self) {
        if self.calls.len() >= MAX_CALLS {
            return;
        }
        self.note("a call");
        let ticket = self.number();
        let millis = Duration::from_millis;
        let mut terms = Terms {
            kind: Kind::Mutex,
            ttl: millis(1000),
            watchdog: true,
            fences: self.fences,
            max_hold: None,
            quiet: false,
        };
        match self.rng.u8(..8) {
            0 => (terms.ttl, terms.watchdog) = (FIXED_LEASE, false),
            1 => terms.max_hold = Some(millis(500)),
            _ => {}
        }
        let patience = match self.rng.u8(..4) {
            0 => Patience::Once,
            1 => Patience::For(millis(self.rng.u64(1..3000))),
            _ => Patience::Forever,
        };
        let owner = if self.chance(3) { Some(self.rng.u8(..2)) } else { None };
        let call = TestCall { ticket, max_hold: terms.max_hold, owner, has_gone: Rc::default() };
        self.calls.insert(ticket, OpenCall { call: call.clone(), came: self.now, has_arrived: false, limit: None });
        let caller = Caller::Thread(self.callers[self.rng.usize(..2)]);
        self.mailbox.push_back(Message::Lock(NewCall { ticket, caller, terms, patience, call }));
    }

    fn drop_call(&mut self) {
        let tickets: Vec<_> = self.calls.keys().copied().collect();
        let Some(ticket) = self.rng.choice(tickets) else { return };
        self.note("a call is dropped");
        self.sums.cancelled += 1;
        let open = self.calls.remove(&ticket).unwrap();
        open.call.has_gone.set(true);
        self.mailbox.push_back(Message::Cancel(ticket));
    }

    fn drop_guard(&mut self) {
        if self.turns.is_empty() {
            return;
        }
        self.note("a guard is dropped");
        let at = self.rng.usize(..self.turns.len());
        self.turns[at].guards -= 1;
        if self.turns[at].guards == 0 {
            let turn = self.turns.swap_remove(at);
            let reports = self.rng.bool();
            self.end_turn(&turn, reports);
        }
    }

    fn end_turn(&mut self, turn: &OpenTurn, reports: bool) {
        let was_lost = turn.status.state(self.now) == TurnState::Lost;
        let (report, result) = oneshot::channel();
        let report = reports.then_some(report);
        if reports {
            self.reports.push((result, was_lost));
        }
        self.mailbox.push_back(Message::TurnEnded { hold: turn.hold, ticket: turn.ticket, report });
    }

    fn warn_before(&mut self) {
        let holds: Vec<_> = self.turns.iter().map(|turn| (turn.hold, turn.ticket)).collect();
        let Some((hold, ticket)) = self.rng.choice(holds) else { return };
        let grace = Duration::from_millis(self.rng.u64(1..600));
        self.mailbox.push_back(Message::WarnBefore { hold, ticket, grace });
    }

    // What the engine does.

    fn on(&mut self, event: Event<TestCall>) {
        // The real engine reads the clock only once per round, so its time may be old.
        if self.is_calm || !self.chance(8) {
            self.cx.now = self.now;
        }
        self.slot.on(event, &mut self.cx);
        self.watch_store();
        self.execute_effects();
    }

    fn read_mailbox(&mut self) {
        let Some(message) = self.mailbox.pop_front() else { return };
        match message {
            Message::Lock(call) if self.cx.is_closing => drop(self.calls.remove(&call.ticket)),
            Message::Lock(call) => {
                self.note("the slot gets a call");
                let ticket = call.ticket;
                if let Some(open) = self.calls.get_mut(&ticket) {
                    open.has_arrived = true;
                    open.came = self.now;
                    open.limit = match call.patience {
                        Patience::Once => Some(self.now + TIMEOUT),
                        Patience::For(wait) => Some(self.now + wait),
                        Patience::Forever => None,
                    };
                }
                let shared = self.turns.iter_mut().find(|turn| turn.owner.is_some() && turn.owner == call.call.owner);
                if let Some(turn) = shared.filter(|_| self.slot.is_held()) {
                    if self.calls.remove(&ticket).is_some() {
                        turn.guards += 1;
                        self.sums.shared += 1;
                    }
                    return;
                }
                self.on(Event::Lock(call));
            }
            Message::Cancel(ticket) => {
                self.note("the slot gets a cancel");
                self.on(Event::Cancel(ticket));
            }
            Message::TurnEnded { hold, ticket, report } => {
                self.note("the slot gets the end of a turn");
                self.on(Event::TurnEnded { hold, ticket, report });
            }
            Message::WarnBefore { hold, ticket, grace } => {
                self.on(Event::WarnBefore { hold, ticket, grace });
                let turn = self.turns.iter().find(|turn| turn.ticket == ticket);
                if let Some(TurnState::Held { until }) = turn.map(|turn| turn.status.state(self.now))
                    && until - grace > self.now
                {
                    assert!(self.slot.next_due().unwrap() <= until - grace, "a guard would be warned too late");
                }
            }
        }
    }

    fn execute_effects(&mut self) {
        for effect in mem::take(&mut self.cx.effects) {
            self.execute(effect);
        }
        let now = self.cx.now;
        if self.slot.next_due().is_some_and(|due| due <= now) {
            self.slot.on(Event::Due, &mut self.cx);
            assert!(self.slot.next_due().is_none_or(|due| due > now), "the timer would fire forever");
            for effect in mem::take(&mut self.cx.effects) {
                self.execute(effect);
            }
        }
    }

    fn execute(&mut self, effect: Effect<TestCall>) {
        match effect {
            Effect::Send(step) => {
                let (Step::Claim(claim) | Step::Pass { to: claim, .. }) = &step else { panic!("{step:?}") };
                self.sums.exchanged += u64::from(matches!(step, Step::Pass { .. }));
                self.sums.offered += u64::from(claim.offers);
                if claim.ttl == FIXED_LEASE {
                    self.fixed.insert(claim.id.number);
                }
                assert_eq!(self.claim_in_flight.replace(claim.id.number), None, "two claims are in flight");
                self.is_notified = false;
                self.outbox.push_back(Request::Step(step));
            }
            Effect::Release { claim, unsure, report } => {
                assert_ne!(self.claim_in_flight, Some(claim.id.number), "a release may overtake its claim");
                let is_open =
                    |turn: &OpenTurn| turn.hold == claim.id.number && turn.status.state(self.now) != TurnState::Lost;
                let is_under_guard = self.turns.iter().any(is_open) && !self.cx.is_closing;
                assert!(!is_under_guard, "a hold is released under its guard");
                self.turns_since_release = 0;
                let step = self.releases.start(claim, unsure, report, self.cx.now);
                self.outbox.push_back(Request::Step(step));
            }
            Effect::ReleaseLater(claim) => self.releases.start_later(claim, self.cx.now),
            Effect::Renew(hold) => {
                self.cx.now = self.now;
                if let Some(claim) = self.slot.renewal_sent(hold, &self.cx) {
                    self.renewals.push((claim, self.now));
                }
            }
            Effect::Subscribe(_) => self.subscribing += 1,
            Effect::StartTurn { call, turn } => self.start_turn(&call, turn),
            Effect::Refuse(call) => {
                self.sums.refused += 1;
                if let Some(open) = self.calls.remove(&call.ticket) {
                    assert!(self.busy_at >= open.came, "a call was refused although nobody had the lock since it came");
                }
            }
            Effect::Fail(call, error) => {
                self.sums.timed_out += 1;
                let is_expected = match error.kind() {
                    ErrorKind::Denied => !self.is_calm,
                    ErrorKind::Closed => self.cx.is_closing,
                    _ => error.is_retryable(),
                };
                assert!(is_expected, "{error}");
                self.calls.remove(&call.ticket);
            }
            Effect::Report(report, result) => drop(report.send(result)),
            Effect::Lost { by_max_hold, .. } => {
                self.sums.lost += 1;
                self.turns_since_release = 0;
                let now = self.now;
                let is_lost = |turn: &&OpenTurn| turn.status.state(now) == TurnState::Lost;
                let lost = self.turns.iter().filter(is_lost).max_by_key(|turn| turn.fence);
                let in_time = by_max_hold || lost.is_none_or(|turn| self.fixed.contains(&turn.hold));
                assert!(in_time || !self.is_calm, "a hold was lost although the store has answered in time");
            }
            Effect::HoldBegan => self.busy_at = self.now,
            Effect::WaitBegan
            | Effect::TurnEnded { .. }
            | Effect::TurnReleased { .. }
            | Effect::CheckForDeadlock { .. }
            | Effect::Renewed
            | Effect::RenewalFailed(_)
            | Effect::SubscriptionDenied(_) => {}
        }
    }

    fn start_turn(&mut self, call: &TestCall, turn: NewTurn) {
        let NewTurn { hold, ticket, fence, status, is_passed_on, .. } = turn;
        self.sums.turns += 1;
        self.sums.passed_on += u64::from(is_passed_on);
        assert!(matches!(status.state(self.cx.now), TurnState::Held { .. }), "a turn begins that is lost already");
        if self.turns_since_release == 0 {
            self.streak_since = self.cx.now;
        }
        let streak = self.cx.now.since(self.streak_since);
        assert!(!is_passed_on || streak < Duration::from_millis(20), "a streak lasts too long");
        self.turns_since_release += 1;
        assert!(self.turns_since_release <= MAX_TURNS.get(), "a streak does not end");
        let is_evicted = self.evicted.contains(&ClaimId { client: self.cx.client, number: hold });
        // If the engine's reading of the clock is old, it may start a turn whose guard already sees that the deadline
        // has passed.
        let is_lost = status.state(self.now) == TurnState::Lost;
        assert!(is_evicted || is_lost || fence.get() > self.last_fence, "a fence did not rise");
        self.last_fence = self.last_fence.max(fence.get());
        let first = self.calls.values().filter(|open| open.has_arrived).map(|open| open.call.ticket).min();
        assert!(call.has_gone() || first == Some(call.ticket), "a call was passed over");
        if self.calls.remove(&call.ticket).is_none() {
            // The caller has dropped its future, so the turn is dropped.
            return self.mailbox.push_back(Message::TurnEnded { hold, ticket, report: None });
        }
        let owner = call.owner;
        let ends = call.max_hold.map(|longest| self.now + longest);
        let mut turn = OpenTurn { hold, ticket, fence, status, owner, guards: 1, ends };
        let waiting = self.calls.values().filter(|open| open.has_arrived && open.call.shares_with(call));
        let same: Vec<_> = waiting.map(|open| open.call.ticket).collect();
        for ticket in same {
            let Some(shared) = self.slot.take_call(ticket, &mut self.cx) else { continue };
            if self.calls.remove(&shared.ticket).is_some() {
                turn.guards += 1;
                self.sums.shared += 1;
            }
        }
        self.turns.push(turn);
    }

    fn send(&mut self) {
        self.cx.now = self.now;
        if !self.outbox.is_empty() {
            self.note("requests are sent");
        }
        for request in self.outbox.drain(..) {
            match request {
                Request::Step(step) => self.steps.push_back((step, self.now)),
                Request::Renew(claim) => self.renewals.push((claim, self.now)),
            }
        }
    }

    fn deliver(&mut self) {
        let Some((reply, asked_at, late)) = self.replies.pop_front() else { return };
        if let Some(late) = late.and_then(|id| self.late.iter_mut().find(|late| late.id == id)) {
            late.until = Some(self.now + TIMEOUT);
        }
        match reply {
            Reply::Step(step, answer) => self.deliver_step(&step, asked_at, answer),
            Reply::Renewal(claim, answer) => {
                self.note("a renewal's answer");
                self.cx.answered |= answer.is_ok();
                let is_gone = matches!(answer, Ok(Renewal::Gone));
                self.on(Event::Renewed { hold: claim.id.number, asked_at, answer });
                let is_held = |turn: &OpenTurn| matches!(turn.status.state(self.now), TurnState::Held { .. });
                let stays = self.turns.iter().any(|turn| turn.hold == claim.id.number && is_held(turn));
                assert!(!(is_gone && stays), "a guard survives the answer that its hold is gone");
            }
        }
    }

    fn deliver_step(&mut self, step: &Step, asked_at: Moment, answer: Result<Answer>) {
        self.cx.answered |= answer.is_ok();
        match step {
            Step::Claim(claim) | Step::Pass { to: claim, .. } => {
                self.note(match &answer {
                    Ok(Answer::Claimed(Verdict::Granted { .. })) => "a claim is granted",
                    Ok(_) => "a claim is refused",
                    Err(_) => "a claim has no answer",
                });
                assert_eq!(self.claim_in_flight.take(), Some(claim.id.number));
                let answer = answer.map(|answer| match answer {
                    Answer::Claimed(verdict) => verdict,
                    Answer::Released(_) => panic!("{answer:?}"),
                });
                let was_refused = matches!(answer, Ok(Verdict::Busy { .. }));
                if was_refused {
                    self.turns_since_release = 0;
                }
                let was_notified = self.is_notified;
                self.on(Event::Claimed { claim: claim.id.number, asked_at, answer });
                if was_refused && was_notified && self.slot.is_waiting() {
                    assert!(self.claim_in_flight.is_some(), "a notification was forgotten");
                }
            }
            Step::Release(claim) => {
                self.note(if answer.is_ok() { "a release's answer" } else { "a release has no answer" });
                let id = claim.id.number;
                let woke_no_client = self.rng.bool();
                self.cx.now = self.now;
                let (event, answer) = match answer {
                    Ok(Answer::Released(released)) => {
                        (Event::Released { woke_no_client }, self.releases.answered(id, released, self.now))
                    }
                    Ok(Answer::Claimed(verdict)) => panic!("{verdict:?}"),
                    Err(error) => (Event::ReleaseFailed, self.releases.failed(id, error, self.now)),
                };
                let Some(answer) = answer else { return };
                self.has_refused_release |= answer.refused.is_some();
                if let Some((report, result)) = answer.report {
                    // The caller may have dropped its future.
                    let _ = report.send(result);
                }
                self.on(event);
            }
        }
    }

    fn deliver_subscription(&mut self) {
        if self.subscribing == 0 {
            return;
        }
        self.note("a subscription's answer");
        self.subscribing -= 1;
        let answer = match self.rng.u8(..8) {
            0 if self.has_faults => Err(Error::unavailable("no answer")),
            1 if self.has_faults => Err(Error::new(ErrorKind::Denied, "denied")),
            2 => Ok(Subscription::silent()),
            _ => {
                let flag = Arc::clone(&self.is_subscribed);
                flag.store(true, SeqCst);
                Ok(Subscription::new(move || flag.store(false, SeqCst)))
            }
        };
        let is_subscribed = answer.is_ok();
        self.on(Event::Subscribed(answer));
        if is_subscribed && self.slot.is_waiting() {
            assert!(self.claim_in_flight.is_some(), "a release before the subscription may be missed");
        }
    }

    fn deliver_notification(&mut self) {
        if self.notifications == 0 && !self.chance(16) {
            return;
        }
        self.note("a notification");
        self.notifications = self.notifications.saturating_sub(1);
        self.is_notified = self.claim_in_flight.is_some();
        self.on(Event::Notified);
        if self.slot.is_waiting() {
            assert!(self.claim_in_flight.is_some(), "a notification was ignored");
        }
    }

    // What the store does.

    fn apply(&mut self) {
        if !self.renewals.is_empty() && self.rng.bool() {
            let (claim, asked_at) = self.renewals.swap_remove(self.rng.usize(..self.renewals.len()));
            self.apply_request(Request::Renew(claim), asked_at);
        } else if let Some((step, asked_at)) = self.steps.pop_front() {
            self.apply_request(Request::Step(step), asked_at);
        }
    }

    /// Applies a request. In some cases the request or its answer is lost, or the request is applied late.
    fn apply_request(&mut self, request: Request, asked_at: Moment) {
        let fate = if self.has_faults { self.rng.u8(..32) } else { 31 };
        let (error, late) = match fate {
            // The answer is lost.
            0 => {
                self.detail(|| "the next answer is lost".to_owned());
                self.apply_now(&request);
                (Some(Error::unavailable("no answer").ambiguous()), None)
            }
            // The request is lost.
            1 => (Some(Error::unavailable("no answer").ambiguous()), None),
            // The request arrives after its error.
            2 => {
                let id = self.number();
                self.detail(|| format!("late: {request:?}"));
                self.late.push(LateRequest { request: request.clone(), until: None, id });
                (Some(Error::unavailable("no answer").ambiguous()), Some(id))
            }
            3 => (Some(Error::unavailable("no connection")), None),
            4 if self.chance(8) => (Some(Error::new(ErrorKind::Denied, "denied")), None),
            _ => (None, None),
        };
        let reply = match (request, error) {
            (Request::Step(step), Some(error)) => Reply::Step(step, Err(error)),
            (Request::Renew(claim), Some(error)) => Reply::Renewal(claim, Err(error)),
            (Request::Step(step), None) => {
                let answer = self.apply_step(&step);
                Reply::Step(step, Ok(answer))
            }
            (Request::Renew(claim), None) => {
                let answer = self.store.renew(&claim, self.now);
                self.detail(|| format!("renew {}: {answer:?}", claim.id.number));
                Reply::Renewal(claim, Ok(answer))
            }
        };
        self.replies.push_back((reply, asked_at, late));
    }

    fn apply_now(&mut self, request: &Request) {
        match request {
            Request::Step(step) => drop(self.apply_step(step)),
            Request::Renew(claim) => {
                let answer = self.store.renew(claim, self.now);
                self.detail(|| format!("renew {}: {answer:?}", claim.id.number));
            }
        }
    }

    fn apply_step(&mut self, step: &Step) -> Answer {
        let answer = self.store.apply(step, self.now).unwrap();
        self.detail(|| format!("{} {}: {answer:?}", step.verb(), claim_number(step)));
        if matches!(answer, Answer::Released(Released::Freed { .. })) {
            self.notify();
        }
        answer
    }

    fn notify(&mut self) {
        self.notifications += u32::from(self.is_subscribed.load(SeqCst));
    }

    fn other_client(&mut self) {
        self.note("another client");
        if let Some(claim) = self.other.take() {
            if self.store.apply(&Step::Release(claim), self.now).unwrap() != Answer::Released(Released::NotHeld) {
                self.notify();
            }
            return;
        }
        let id = ClaimId { client: ClientId::random(), number: self.number() };
        let ttl = Duration::from_millis(if self.chance(8) { self.rng.u64(50..2000) } else { 20 });
        let (key, kind, fences, offers) = (self.slot.id.key.clone(), Kind::Mutex, NonZeroU32::MIN, false);
        let claim = Claim { key, id, kind, ttl, fences, joins: false, offers };
        if let Answer::Claimed(Verdict::Granted { mut fences, .. }) =
            self.store.apply(&Step::Claim(claim.clone()), self.now).unwrap()
        {
            let fence = fences.take().unwrap().get();
            assert!(fence > self.last_fence, "the fence of another client did not rise");
            self.last_fence = fence;
            self.other = Some(claim);
        }
    }

    fn fault(&mut self) {
        if !self.late.is_empty() {
            let at = self.rng.usize(..self.late.len());
            let late = self.late.swap_remove(at);
            if late.until.is_none_or(|until| self.now < until) && self.rng.bool() {
                self.note("a late request is applied");
                self.sums.late += 1;
                self.apply_now(&late.request);
            }
        } else if self.has_faults && self.chance(4) {
            self.note("an operator takes the lock");
            let holder = self
                .store
                .row(&self.slot.id.key, self.now)
                .and_then(|row| row.holders.into_iter().next())
                .map(|holder| holder.owner);
            self.evicted.extend(holder.flatten().and_then(|owner| owner.parse::<ClaimId>().ok()));
            self.store.evict(self.now);
            self.notify();
            self.on(Event::Recheck);
        } else if self.has_faults && self.chance(4) {
            self.note("the store is reached again");
            self.on(Event::Reconnected);
        }
    }

    // Time.

    fn pass_time(&mut self) {
        let millis = match self.rng.u8(..8) {
            0 if self.has_faults => self.rng.u64(..3000),
            1 | 2 => self.rng.u64(..50),
            _ => self.rng.u64(..4),
        };
        let until = self.now + Duration::from_millis(millis);
        if self.has_faults && self.chance(4) {
            self.note("the process stops for a while");
            self.move_to(until);
            return;
        }
        // The process does not stop, so the engine's timers fire in time. In episodes without faults, answers come
        // within milliseconds.
        self.run_timers(until);
        if self.is_calm {
            self.answer_all();
        }
    }

    fn run_timers(&mut self, until: Moment) {
        while let Some(due) = self.next_due().filter(|due| *due <= until) {
            self.move_to(due.max(self.now));
            self.fire();
        }
        self.move_to(until);
    }

    fn next_due(&self) -> Option<Moment> {
        [self.slot.next_due(), self.releases.next_due()].into_iter().flatten().min()
    }

    fn fire(&mut self) {
        self.cx.now = self.now;
        if self.slot.next_due().is_some_and(|due| due <= self.now) {
            self.slot.on(Event::Due, &mut self.cx);
            self.execute_effects();
        }
        while let Some(step) = self.releases.take_due(self.now) {
            self.outbox.push_back(Request::Step(step));
        }
        if self.is_calm {
            self.answer_all();
        }
    }

    /// Sends and applies all requests, and delivers all answers.
    fn answer_all(&mut self) {
        self.send();
        while !(self.steps.is_empty() && self.renewals.is_empty() && self.replies.is_empty()) {
            self.apply();
            self.deliver();
            self.send();
        }
    }

    fn move_to(&mut self, moment: Moment) {
        self.watch_store();
        self.now = moment;
        self.late.retain(|late| late.until.is_none_or(|until| moment < until));
    }

    fn watch_store(&mut self) {
        let is_resting = matches!(self.slot.stage, Stage::Resting { .. });
        let probe = ClaimId { client: ClientId::random(), number: 0 };
        let claim = Claim {
            key: self.slot.id.key.clone(),
            id: probe,
            kind: Kind::Mutex,
            ttl: Duration::from_millis(1),
            fences: NonZeroU32::MIN,
            joins: false,
            offers: false,
        };
        let answer = self.store.clone().apply(&Step::Claim(claim), self.now).unwrap();
        let is_free = matches!(answer, Answer::Claimed(Verdict::Granted { .. }));
        if !is_free || is_resting || self.slot.is_held() {
            self.busy_at = self.now;
        }
    }

    /// Checks the promises that must be true at every moment.
    fn check(&mut self) {
        self.watch_store();
        let now = self.now;
        let until = |turn: &OpenTurn| match turn.status.state(now) {
            TurnState::Held { until } => Some(until),
            TurnState::Lost | TurnState::Closed | TurnState::Released => None,
        };
        let held: Vec<_> = self.turns.iter().filter_map(|turn| Some((turn, until(turn)?))).collect();
        assert!(held.len() <= 1, "two guards hold the lock");
        for (turn, until) in held {
            let id = ClaimId { client: self.cx.client, number: turn.hold };
            if self.evicted.contains(&id) {
                continue; // The client learns that an operator took the lock at the next renewal.
            }
            assert!(turn.ends.is_none_or(|end| until <= end), "a guard would hold the lock beyond its max_hold");
            let is_renewed = turn.ends.is_none() && !self.fixed.contains(&turn.hold);
            if is_renewed && until.since(now) > Duration::from_millis(400) {
                let due = self.slot.next_due().unwrap();
                assert!(due + Duration::from_millis(200) < until, "no renewal is planned before the deadline");
            }
            assert!(self.store.is_held_by(id, until), "a guard would hold what the store has given up");
            assert_eq!(turn.fence.get(), self.last_fence, "a guard holds the lock after a later grant");
        }
        let mut limits = self.calls.values().filter(|open| open.has_arrived).filter_map(|open| open.limit);
        let due = self.slot.next_due();
        assert!(limits.all(|limit| due.is_some_and(|due| due <= limit)), "a call would not time out");
        self.check_note();
        for (result, was_lost) in &mut self.reports {
            if let Ok(result) = result.try_recv() {
                assert!(!(*was_lost && result.is_ok()), "the release of a lost lock reports success");
            }
        }
    }

    /// Checks that no note about a starving waiter stays in the store after this client has stopped waiting. Otherwise
    /// the store would reserve the lock for a client that does not want it. Only this client writes such notes in this
    /// test.
    fn check_note(&self) {
        let is_over = self.slot.is_unused() && self.releases.is_empty() && self.outbox.is_empty();
        let is_quiet = self.steps.is_empty() && self.late.is_empty() && self.replies.is_empty();
        let is_held = self.store.row(&self.slot.id.key, self.now).is_some();
        if is_over && is_quiet && is_held && !self.has_refused_release && self.store.to_string().ends_with(" starving")
        {
            panic!("a note stays behind that a waiter starves");
        }
    }

    /// Stops all faults. Then checks that every call gets its answer, and that nothing remains in the store.
    fn finish(&mut self) {
        self.note("all faults stop");
        self.has_faults = false;
        if self.chance(4) {
            self.close();
        }
        for _ in 0..10_000 {
            while let Some(turn) = self.turns.pop() {
                self.end_turn(&turn, false);
            }
            while !self.mailbox.is_empty() {
                self.read_mailbox();
            }
            while self.subscribing > 0 {
                self.deliver_subscription();
            }
            self.answer_all();
            for late in mem::take(&mut self.late) {
                if late.until.is_none_or(|until| self.now < until) && self.rng.bool() {
                    self.note("a late request is applied");
                    self.sums.late += 1;
                    self.apply_now(&late.request);
                } else {
                    self.late.push(late);
                }
            }
            if self.other.is_some() {
                self.other_client();
            }
            self.check();
            let is_over = self.slot.is_unused() && self.releases.is_empty();
            if is_over && self.mailbox.is_empty() && self.turns.is_empty() {
                self.check_end();
                return;
            }
            if let Some(due) = self.next_due() {
                self.move_to(due.max(self.now));
                self.fire();
            }
        }
        panic!("calls or releases remain: {} calls, {} releases", self.calls.len(), self.releases.len());
    }

    fn close(&mut self) {
        self.note("the client closes");
        self.cx.is_closing = true;
        self.on(Event::Close);
        for turn in &self.turns {
            let state = turn.status.state(self.now);
            assert!(matches!(state, TurnState::Closed | TurnState::Lost), "a guard survives its client: {state:?}");
        }
        assert!(!self.calls.values().any(|open| open.has_arrived), "a call survives its client");
    }

    fn check_end(&mut self) {
        assert!(self.calls.is_empty(), "a call has no answer");
        // What may still be applied now, is applied.
        for late in mem::take(&mut self.late) {
            if late.until.is_none_or(|until| self.now < until) {
                self.apply_now(&late.request);
            }
        }
        if self.has_refused_release {
            self.move_to(self.now + Duration::from_secs(2));
        }
        let row = self.store.row(&self.slot.id.key, self.now);
        assert_eq!(row, None, "a lock stays behind");
        assert!(!self.is_subscribed.load(SeqCst), "a subscription stays behind");
    }
}

fn claim_number(step: &Step) -> HoldId {
    match step {
        Step::Claim(claim) | Step::Release(claim) | Step::Pass { to: claim, .. } => claim.id.number,
    }
}
