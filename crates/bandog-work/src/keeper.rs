//! The task of workers: it takes elements, starts handlers, extends leases and settles.
//!
//! At most one take, one settlement and one extension are on their way at the same time. What ends meanwhile shares the next
//! request. Dropping the task drops the handlers; their elements come again when their leases end.

mod endings;
mod held;
mod late;
mod requests;

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use bandog_core::{
    Error, ErrorKind, Moment, Portions, Result, Subscription,
    queues::{Delivered, DeliveryId, Extended, Headers, SettleEnd, Settled, Take, Taken, envelope},
};
use futures_util::future::{BoxFuture, OptionFuture};
use tokio::{
    sync::{
        Notify,
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
        watch,
    },
    task::{self, JoinSet},
    time::sleep,
};

use self::{
    held::{Ending, Held},
    late::Late,
};
use crate::{
    delivery::{Event, HandlerEnd, Link, lost},
    ids,
    meters::Meters,
    options::{Options, Slots},
    shared::Shared,
};

/// Calls the handler for the payload of an element. Returns how the element is settled; None: it is settled or lost.
pub(crate) type Start = Arc<dyn Fn(Vec<u8>, Link) -> BoxFuture<'static, Option<HandlerEnd>> + Send + Sync>;

/// A request that is on its way.
type InFlight<T> = BoxFuture<'static, T>;
/// The endings of a request, and its answer.
type Settling = (Vec<Ending>, InFlight<Result<Vec<Settled>>>);
/// When extensions began, and for each request its deliveries with the texts about their progress, and its answer.
type Extensions = (Moment, Vec<(Vec<(DeliveryId, Option<String>)>, Result<Vec<Extended>>)>);

/// Whether the workers stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    No,
    /// When the handlers have ended.
    Drain,
    /// Now.
    Abort,
}

/// The interval of polls while the store notifies: leases of other programs that end are not notified.
const POLL: Duration = Duration::from_secs(1);
/// The interval of polls if the store does not notify.
const SILENT_POLL: Duration = Duration::from_millis(250);
/// If more workers of a queue than this have a free slot, they share the polls: the interval of each grows with their number.
const CROWD: u32 = 10;
/// The longest interval of polls while the store notifies, and if it does not.
const MAX_POLL: Duration = Duration::from_secs(10);
const MAX_SILENT_POLL: Duration = Duration::from_secs(1);
/// The longest time until the progress of a handler is written.
const PROGRESS: Duration = Duration::from_millis(200);
/// The interval of the rows for operators; each is kept for three.
const REPORT: Duration = Duration::from_secs(20);
/// Elements wait in this program for a free slot if handlers take less than this on average.
const SHORT_RUN: Duration = Duration::from_millis(50);
/// The time after which an element that waits for a slot is handed back.
const MAX_WAIT: Duration = Duration::from_millis(500);
/// The minimum interval of two lines about dead elements.
const DEAD_LINES: Duration = Duration::from_secs(10);
/// The time for which an aborted handler may run on until its next await.
const ABORT: Duration = Duration::from_secs(1);

/// The task of one set of workers.
struct Keeper {
    shared: Arc<Shared>,
    options: Options,
    start: Start,
    meters: Arc<Meters>,
    /// The random number of this set.
    taker: u64,
    events: UnboundedSender<Event>,
    inbox: UnboundedReceiver<Event>,
    stop: watch::Receiver<Stop>,
    /// The deliveries that wait for a slot, or run. A later one of the same element can begin while the handler of an earlier
    /// one, which was settled or lost, still runs.
    held: HashMap<DeliveryId, Held>,
    /// Those that wait, with the time of their arrival.
    waiting: VecDeque<(Delivered, Moment)>,
    running: JoinSet<Option<HandlerEnd>>,
    /// The delivery of each task that runs, and when it began.
    tasks: HashMap<task::Id, (DeliveryId, Moment)>,
    /// The average duration of handlers.
    average: Option<Duration>,
    endings: Vec<Ending>,
    /// A request, and when it began.
    taking: Option<InFlight<(Moment, Result<Taken>)>>,
    settling: Option<Settling>,
    extending: Option<InFlight<Extensions>>,
    takes_portions: Portions,
    settles_portions: Portions,
    subscribing: Option<InFlight<Result<Subscription>>>,
    subscription: Option<Subscription>,
    bell: Arc<Notify>,
    /// A take without an answer, which is repeated, and when it was sent first: the leases of its elements may have begun then.
    unanswered: Option<(Take, Moment)>,
    /// Takes whose first request may still arrive, although nothing waits for its answer.
    late: Late,
    takes: u64,
    /// Whether a take was answered before.
    has_begun: bool,
    take_at: Moment,
    settle_at: Moment,
    extend_at: Moment,
    report_at: Moment,
    log_dead_at: Moment,
    /// The number of workers of the queue that have a free slot, also in other programs. Zero: it is unknown.
    crowd: u32,
    /// Takes that failed since the last answer.
    failures: u32,
    done: u64,
    failed: u64,
}

/// Runs workers until they are stopped.
///
/// # Cancel safety
/// If the future is dropped, the handlers are dropped, and their elements come again when their leases end.
pub(crate) async fn run(
    shared: Arc<Shared>,
    options: Options,
    start: Start,
    meters: Arc<Meters>,
    mut stop: watch::Receiver<Stop>,
) -> Result<()> {
    let (events, inbox) = unbounded_channel();
    let now = shared.clock().now();
    stop.mark_unchanged();
    let mut keeper = Keeper {
        shared,
        options,
        start,
        meters,
        taker: ids::random(),
        events,
        inbox,
        stop,
        held: HashMap::new(),
        waiting: VecDeque::new(),
        running: JoinSet::new(),
        tasks: HashMap::new(),
        average: None,
        endings: Vec::new(),
        taking: None,
        settling: None,
        extending: None,
        takes_portions: Portions::default(),
        settles_portions: Portions::default(),
        subscribing: None,
        subscription: None,
        bell: Arc::default(),
        unanswered: None,
        late: Late::default(),
        takes: 0,
        has_begun: false,
        take_at: now,
        settle_at: now,
        extend_at: now,
        report_at: now,
        log_dead_at: now,
        crowd: 0,
        failures: 0,
        done: 0,
        failed: 0,
    };
    let ended = keeper.work().await;
    keeper.hand_all_back().await;
    ended
}

impl Keeper {
    fn now(&self) -> Moment {
        self.shared.clock().now()
    }

    /// The number of elements that this program should have. Some wait in it for a free slot if handlers are short: none while one of
    /// them runs for longer than that, because another program may have a free slot.
    fn wanted(&self, now: Moment) -> u32 {
        let own = self.options.slots;
        let slots = match &self.options.shared {
            // Those that it has, and the free ones.
            Some(shared) => u32::try_from(self.running.len() + shared.free()).unwrap_or(u32::MAX).min(own),
            None => own,
        };
        let is_short = |run: Duration| run < SHORT_RUN;
        let are_running_short = || self.tasks.values().all(|(_, begun)| is_short(now.since(*begun)));
        match self.average.is_some_and(is_short) && are_running_short() {
            true => slots.saturating_mul(2),
            false => slots,
        }
    }

    /// Works until the workers are stopped, or until the first take is refused.
    async fn work(&mut self) -> Result<()> {
        let mut drain_until = None;
        loop {
            let now = self.now();
            let stop = *self.stop.borrow_and_update();
            match stop {
                Stop::No => self.begin_requests(now),
                Stop::Abort => return Ok(()),
                Stop::Drain => {
                    self.hand_waiting_back(|_| true);
                    let until = *drain_until.get_or_insert(now + self.options.drain);
                    // A handler may go on after its settlement.
                    let is_idle = self.held.is_empty() && self.running.is_empty() && self.taking.is_none();
                    if is_idle || until <= now {
                        return Ok(());
                    }
                    self.begin_settling(now);
                    self.begin_extending(now);
                }
            }
            let mut wake = self.wake_at(stop);
            if let Some(until) = drain_until {
                wake = wake.min(until);
            }
            let wake = wake.since(now).max(Duration::from_millis(1));
            let shared = self.options.shared.clone();
            let freed = OptionFuture::from(shared.as_ref().map(|slots| slots.freed.notified()));
            let (mut taking, mut settling) = (
                OptionFuture::from(self.taking.as_mut()),
                OptionFuture::from(self.settling.as_mut().map(|(_, answer)| answer)),
            );
            let (mut extending, mut subscribing) =
                (OptionFuture::from(self.extending.as_mut()), OptionFuture::from(self.subscribing.as_mut()));
            tokio::select! {
                biased;
                Some((begun, taken)) = &mut taking => self.taken(begun, taken)?,
                Some(answer) = &mut settling => self.settled(answer),
                Some(answers) = &mut extending => self.extended(answers),
                Some(subscribed) = &mut subscribing => self.subscribed(subscribed),
                Some(ended) = self.running.join_next_with_id() => {
                    self.joined(ended);
                    self.start_waiting();
                }
                // The keeper has a sender of its own.
                Some(event) = self.inbox.recv() => self.receive(event),
                Ok(()) = self.stop.changed() => {}
                () = self.bell.notified() => self.take_at = self.now(),
                Some(()) = freed => self.start_waiting(),
                () = sleep(wake) => {}
            }
        }
    }

    /// When something is due, if nothing happens before.
    fn wake_at(&self, stop: Stop) -> Moment {
        let far = self.now() + POLL;
        let mut wake = far.min(self.extend_at);
        if stop == Stop::No && self.taking.is_none() {
            wake = wake.min(self.take_at);
        }
        if self.settling.is_none()
            && let Some(at) = self.endings.iter().map(|ending| ending.at).min()
        {
            wake = wake.min(at.max(self.settle_at));
        }
        if let Some((_, since)) = self.waiting.front() {
            wake = wake.min(*since + MAX_WAIT);
        }
        wake
    }

    /// Starts handlers in free slots.
    fn start_waiting(&mut self) {
        while self.running.len() < self.options.slots as usize && !self.waiting.is_empty() {
            let slot = match self.options.shared.as_ref().map(Slots::take) {
                Some(None) => return, // All are in use elsewhere.
                Some(slot) => slot,
                None => None,
            };
            let Some((mut delivered, since)) = self.waiting.pop_front() else { return };
            let now = self.now();
            delivered.age += now.since(since);
            let delivery = delivered.delivery();
            let Some(held) = self.held.get_mut(&delivery) else { continue };
            if held.is_over(now) {
                self.handled(delivery, None); // Lost while it was waiting.
                continue;
            }
            held.begun = Some(now);
            let until = held.until.subscribe();
            let (headers, payload) = match envelope::opened(std::mem::take(&mut delivered.payload)) {
                Ok((headers, payload)) => (headers, Ok(payload)),
                Err(error) => (Headers::default(), Err(error)),
            };
            let link = Link::new(&delivered, headers, &self.shared, until, self.events.clone());
            let waited = (delivered.attempt == 1).then_some(delivered.age);
            let run = self.meters.began(waited);
            let handler = match payload {
                Ok(payload) => (self.start)(payload, link),
                Err(error) => {
                    let end = link.end(self.not_opened(delivery, &error));
                    Box::pin(std::future::ready(end))
                }
            };
            let task = self.running.spawn(async move {
                let end = handler.await;
                drop((slot, run));
                end
            });
            self.tasks.insert(task.id(), (delivery, now));
        }
    }

    /// How an element ends whose content cannot be opened. A newer program may work on it.
    fn not_opened(&self, delivery: DeliveryId, error: &Error) -> SettleEnd {
        let name = self.shared.name();
        tracing::warn!(queue = name, id = %delivery.id, %error, "workers of this version cannot work on an element");
        match error.kind() {
            ErrorKind::Unsupported => SettleEnd::HandBack(self.options.lease),
            _ => SettleEnd::Fail(error.to_string()),
        }
    }

    /// Receives what handlers have sent until now, so the end of a handler does not overtake its calls.
    fn receive_all(&mut self) {
        while let Ok(event) = self.inbox.try_recv() {
            self.receive(event);
        }
    }

    fn receive(&mut self, event: Event) {
        match event {
            Event::Progress(id, text) => {
                if let Some(held) = self.held.get_mut(&id) {
                    held.progress = Some(text);
                    self.extend_at = self.extend_at.min(self.now() + PROGRESS);
                }
            }
            Event::InTransaction(id) => {
                if let Some(held) = self.held.get_mut(&id) {
                    held.is_in_transaction = true;
                }
            }
            Event::Workers(count) => self.crowd = u32::try_from(count).unwrap_or(u32::MAX),
            Event::Settle(delivery, end, reply) => {
                let end = match (end, self.held.get(&delivery)) {
                    (SettleEnd::Retry(_, error), Some(held)) if held.attempt >= self.options.deliveries => {
                        SettleEnd::Fail(error)
                    }
                    (end, _) => end,
                };
                let count = self.endings.len();
                self.end(delivery, end.into());
                match self.endings.get_mut(count) {
                    Some(ending) => ending.reply = Some(reply),
                    None => _ = reply.send(Err(lost())),
                }
            }
        }
    }
}

/// The error of a take that does not end by waiting.
fn is_final(error: &Error) -> bool {
    use bandog_core::ErrorKind::{Corrupt, Denied, Misused, Unsupported};
    matches!(error.kind(), Corrupt | Denied | Misused | Unsupported)
}
