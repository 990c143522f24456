//! The state of one episode.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet, VecDeque},
    env,
    num::{NonZeroU8, NonZeroU32},
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread::ThreadId,
    time::Duration,
};

use bandog_core::{Answer, ClaimId, ClientId, Fence, Key, Kind, LockState, Renewal, Result, Step};
use fastrand::Rng;
use tokio::sync::oneshot;

use super::{super::*, Sums, TIMEOUT};
use crate::{
    Owner,
    caller::Caller,
    engine::{
        call::{TurnGrant, Wait},
        fair_calls::FairCalls,
        releases::Releases,
    },
    lane::Lane,
    terms::Patience,
    turn::Report,
    turn_status::TurnStatus,
};

/// Number of permits of the semaphore.
pub(super) const PERMITS: NonZeroU32 = NonZeroU32::MIN.saturating_add(3);

/// The family of the key of an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TestFamily {
    Mutex,
    Fair,
    ReadWrite,
    Permits,
}

impl TestFamily {
    pub(super) fn random_kind(self, rng: &mut Rng) -> Kind {
        match self {
            Self::Mutex => Kind::Mutex,
            Self::Fair => Kind::Fair,
            Self::ReadWrite => {
                if rng.u8(..3) == 0 {
                    Kind::Write
                } else {
                    Kind::Read
                }
            }
            Self::Permits => {
                let take = NonZeroU32::MIN.saturating_add(rng.u32(..PERMITS.get()) * u32::from(rng.bool()));
                Kind::Permits { take, of: PERMITS }
            }
        }
    }
}

/// A call in the model.
#[derive(Debug, Clone)]
pub(super) struct TestCall {
    pub(super) ticket: Ticket,
    pub(super) kind: Kind,
    pub(super) is_patient: bool,
    /// The ticket of the writer's turn, if the call wants to downgrade that turn.
    pub(super) downgrades: Option<Ticket>,
    pub(super) max_hold: Option<Duration>,
    pub(super) owner: Option<usize>,
}

/// A call that has no answer yet.
pub(super) struct OpenCall {
    pub(super) call: TestCall,
    pub(super) came: Moment,
    /// A number that is greater for calls that the slot has received later. `None` if the slot has not received the call.
    pub(super) arrived: Option<u64>,
    /// When it times out.
    pub(super) limit: Option<Moment>,
}

/// A turn (the use of a hold by one call) that still has guards.
pub(super) struct OpenTurn {
    pub(super) kind: Kind,
    pub(super) hold: HoldId,
    pub(super) ticket: Ticket,
    pub(super) fence: Fence,
    pub(super) status: Arc<TurnStatus>,
    pub(super) owner: Option<usize>,
    pub(super) guards: u32,
    /// When the turn reaches its `max_hold`.
    pub(super) ends: Option<Moment>,
    pub(super) max_hold: Option<Duration>,
    /// Whether a call waits for the downgrade of this turn. The caller keeps the turn until the answer.
    pub(super) is_downgrading: bool,
}

impl OpenTurn {
    pub(super) fn lane(&self) -> Lane {
        Lane::of(self.kind, self.hold)
    }
}

/// A message of a user to the engine. Messages arrive in their order.
pub(super) enum Message {
    Lock(Box<Call>),
    Downgrade { hold: HoldId, turn: Ticket, call: Box<Call> },
    Cancel { lane: Lane, ticket: Ticket },
    TurnEnded { lane: Lane, hold: HoldId, ticket: Ticket, report: Option<Report> },
    WarnBefore { lane: Lane, hold: HoldId, ticket: Ticket, grace: Duration },
}

#[derive(Debug, Clone)]
pub(super) enum Request {
    Step(Step),
    Renew(Claim),
}

/// The answer to a request, on its way to the engine.
pub(super) enum Reply {
    Step(Step, Result<Answer>),
    Renewal(Claim, Result<Renewal>),
}

/// A request without an answer that the store may still apply.
pub(super) struct LateRequest {
    pub(super) request: Request,
    /// The store no longer applies the request after this moment: one request timeout after its error has arrived.
    pub(super) until: Option<Moment>,
    pub(super) id: u64,
}

pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) family: TestFamily,
    /// Whether this episode has no faults: no answer is lost, and the process never stops. Then no hold may be lost,
    /// either.
    pub(super) is_calm: bool,
    pub(super) has_faults: bool,
    /// Number of fences that a grant reserves.
    pub(super) fences: NonZeroU8,
    pub(super) now: Moment,
    pub(super) key: Key,
    pub(super) slots: BTreeMap<Lane, Slot>,
    pub(super) fair_calls: FairCalls,
    pub(super) cx: SlotContext,
    pub(super) releases: Releases,
    pub(super) store: LockState,
    pub(super) callers: [ThreadId; 2],
    pub(super) mailbox: VecDeque<Message>,
    pub(super) outbox: VecDeque<Request>,
    /// Requests that were sent and that the store has not applied yet. Steps are applied in their order, renewals in
    /// any order.
    pub(super) steps: VecDeque<(Step, Moment)>,
    pub(super) renewals: Vec<(Claim, Moment)>,
    pub(super) late: Vec<LateRequest>,
    pub(super) replies: VecDeque<(Reply, Moment, Option<u64>)>,
    pub(super) subscribing: VecDeque<Lane>,
    pub(super) subscribed: Arc<Mutex<BTreeSet<Lane>>>,
    pub(super) notifications: VecDeque<Lane>,
    /// The claim in flight of each slot, and whether a notification has arrived since it was sent.
    pub(super) in_flight: BTreeMap<Lane, (HoldId, bool)>,
    /// The further claims of a semaphore's slot that are in flight.
    pub(super) further: BTreeSet<HoldId>,
    /// The claim of the reader, for each claim of a writer that is downgraded.
    pub(super) downgraded_to: BTreeMap<HoldId, HoldId>,
    pub(super) other: Option<Claim>,
    /// Holds that an operator has taken.
    pub(super) evicted: BTreeSet<ClaimId>,
    /// Whether the store has refused a release. The hold then expires after its ttl.
    pub(super) has_refused_release: bool,
    /// Claims with a fixed lease.
    pub(super) fixed: BTreeSet<HoldId>,
    pub(super) numbers: Arc<AtomicU64>,
    pub(super) owners: [Owner; 2],
    /// All calls that were ever made.
    pub(super) made: BTreeMap<Ticket, TestCall>,
    /// The futures of the calls that wait.
    pub(super) answers: BTreeMap<Ticket, oneshot::Receiver<Result<Option<TurnGrant>>>>,
    pub(super) calls: BTreeMap<Ticket, OpenCall>,
    pub(super) turns: Vec<OpenTurn>,
    pub(super) reports: Vec<(oneshot::Receiver<Result<()>>, bool)>,
    pub(super) last_fence: u64,
    /// The fences of all turns that do not share their fence.
    pub(super) used_fences: BTreeSet<u64>,
    /// The last time at which the lock was held, or this client did not claim it so that others could.
    pub(super) busy_at: Moment,
    pub(super) turns_since_release: u32,
    pub(super) streak_since: Moment,
    /// When the first turn of each hold began.
    pub(super) began: BTreeMap<HoldId, Moment>,
    pub(super) sums: Sums,
    pub(super) trace: Rc<Cell<Vec<(u64, &'static str)>>>,
    pub(super) prints: bool,
}

impl World {
    /// Makes a call, and returns what its caller sends.
    pub(super) fn make_call(&mut self, test: TestCall, caller: Caller, terms: Terms, patience: Patience) -> Box<Call> {
        let (reply, answer) = oneshot::channel();
        let (ticket, owner) = (test.ticket, test.owner.map(|owner| self.owners[owner].clone()));
        self.answers.insert(ticket, answer);
        self.made.insert(ticket, test.clone());
        self.calls.insert(ticket, OpenCall { call: test, came: self.now, arrived: None, limit: None });
        let (can_deadlock, max_waiters, wait) = (false, None, Wait::default());
        Box::new(Call { ticket, owner, caller, terms, patience, can_deadlock, max_waiters, reply, wait })
    }

    /// Whether the caller has dropped its future.
    pub(super) fn has_gone(&self, ticket: Ticket) -> bool {
        !self.answers.contains_key(&ticket)
    }
}

impl World {
    pub(super) fn new(family: TestFamily, seed: u64, callers: [ThreadId; 2], sums: Sums) -> Self {
        let mut rng = Rng::with_seed(seed);
        let now = Moment::from_nanos(3_600_000_000_000);
        let is_calm = rng.u8(..4) == 0;
        let (numbers, client) = (Arc::new(AtomicU64::new(1)), ClientId::random());
        Self {
            family,
            is_calm,
            has_faults: !is_calm,
            fences: NonZeroU8::MIN.saturating_add([0, 2, 63][rng.usize(..3)]),
            now,
            key: Key::new("key").unwrap(),
            slots: BTreeMap::new(),
            fair_calls: FairCalls::default(),
            cx: SlotContext::new(client, TIMEOUT, now, Arc::clone(&numbers)),
            releases: Releases::new(TIMEOUT, Duration::ZERO),
            store: LockState::default(),
            callers,
            mailbox: VecDeque::new(),
            outbox: VecDeque::new(),
            steps: VecDeque::new(),
            renewals: Vec::new(),
            late: Vec::new(),
            replies: VecDeque::new(),
            subscribing: VecDeque::new(),
            subscribed: Arc::default(),
            notifications: VecDeque::new(),
            in_flight: BTreeMap::new(),
            further: BTreeSet::new(),
            downgraded_to: BTreeMap::new(),
            other: None,
            evicted: BTreeSet::new(),
            has_refused_release: false,
            fixed: BTreeSet::new(),
            numbers,
            owners: [(); 2].map(|()| Owner::new(client)),
            made: BTreeMap::new(),
            answers: BTreeMap::new(),
            calls: BTreeMap::new(),
            turns: Vec::new(),
            reports: Vec::new(),
            last_fence: 0,
            used_fences: BTreeSet::new(),
            busy_at: now,
            turns_since_release: 0,
            streak_since: now,
            began: BTreeMap::new(),
            sums,
            trace: Rc::default(),
            prints: env::var_os("BANDOG_MODEL_EPISODE").is_some(),
            rng,
        }
    }

    pub(super) fn note(&self, step: &'static str) {
        self.detail(|| step.to_owned());
        let mut steps = self.trace.take();
        steps.push((self.now.as_nanos() / 1_000_000, step));
        self.trace.set(steps);
    }

    /// Prints the details of a step, if only one episode runs.
    pub(super) fn detail(&self, step: impl FnOnce() -> String) {
        if self.prints {
            println!("{:>8} ms    {}", self.now.as_nanos() / 1_000_000, step());
        }
    }

    pub(super) fn chance(&mut self, one_in: u32) -> bool {
        self.rng.u32(..one_in) == 0
    }

    pub(super) fn number(&mut self) -> u64 {
        self.numbers.fetch_add(1, SeqCst)
    }

    /// Does one random step: of a user, the engine, the store, another client or the clock.
    pub(super) fn step(&mut self) {
        match self.rng.u8(..40) {
            0..=3 => self.call(),
            4 => self.drop_call(),
            5..=8 => self.drop_guard(),
            9 => self.downgrade(),
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
}
