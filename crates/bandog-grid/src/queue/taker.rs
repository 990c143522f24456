//! The taker of a queue: one task that makes all requests of the queue.
//!
//! While a request is on its way, further calls wait, and share the next request. Elements that are done are reported with
//! the next request, or [`DONE_DELAY`] later.

mod requests;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use bandog_core::{
    Error, Moment, Portions, Result, Subscription,
    structures::{Source, TakeEnd, millis},
};
use futures_util::future::{BoxFuture, OptionFuture};
use tokio::{
    runtime::Handle,
    sync::{
        Notify,
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
        oneshot, watch,
    },
    task::consume_budget,
    time::{sleep, timeout},
};

use super::message::{Called, Caller, Contact, End, Message, Popped, Status, TakerId};
use crate::{object::Object, store::Exact};

/// The lease of elements that are popped: the time for which a caller may leave its result unread without a renewal.
const POP_LEASE: Duration = Duration::from_secs(30);
/// The allowed leases of taken elements.
const LEASES: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);

/// The time for which a popped element waits for the next request, to be reported with it.
const DONE_DELAY: Duration = Duration::from_millis(2);
/// The interval of polls while calls wait and changes are reported: expired leases of other programs are not.
const POLL: Duration = Duration::from_secs(1);
/// The interval of polls if the store does not report changes.
const SILENT_POLL: Duration = Duration::from_millis(250);
/// The time after which a taker without work ends.
const LINGER: Duration = Duration::from_secs(1);

/// Takes an element, if there is one.
pub(crate) async fn pop(object: &Object, from: Source) -> Result<Option<Popped>> {
    call(object, from, POP_LEASE, None).await
}

/// Takes an element. Waits for one for at most this time.
pub(crate) async fn pop_wait(object: &Object, from: Source, at_most: Duration) -> Result<Option<Popped>> {
    call(object, from, POP_LEASE, Some(at_most)).await
}

/// Takes an element with this lease. Waits for one for at most this time.
pub(crate) async fn take(object: &Object, from: Source, lease: Duration, at_most: Duration) -> Result<Option<Popped>> {
    if !LEASES.contains(&lease) {
        let error = Error::misused(format!("the lease is {lease:?}; it must be between 1 s and 1 day"));
        return Err(error.at(&object.key));
    }
    call(object, from, lease, Some(at_most)).await
}

async fn call(object: &Object, from: Source, lease: Duration, wait: Option<Duration>) -> Result<Option<Popped>> {
    let begin = object.store.clock().now();
    loop {
        let popped = call_from(begin, object, (&from, lease), wait).await?;
        // After a stop of this process, another program may have the element.
        if popped.as_ref().is_none_or(|popped| !popped.is_lost()) {
            return Ok(popped);
        }
    }
}

/// Makes a call that began at this time.
async fn call_from(
    begin: Moment,
    object: &Object,
    (from, lease): (&Source, Duration),
    wait: Option<Duration>,
) -> Result<Option<Popped>> {
    let (reply, mut answer) = oneshot::channel();
    let called = send(object, (from, lease), Caller { reply, waits: wait.is_some() })?;
    let ended = || Error::unavailable("the runtime of the queue has ended").at(&object.key);
    let Some(at_most) = wait else { return answer.await.map_err(|_| ended())? };
    let left = at_most.saturating_sub(object.store.clock().now().since(begin));
    if let Ok(answer) = timeout(left, &mut answer).await {
        return answer.map_err(|_| ended())?;
    }
    // Without an answer to a request that began after this call, the queue may have elements.
    let mut status = called.status.clone();
    let first_answer = status.wait_for(|status| called.is_answered(status));
    tokio::select! {
        biased;
        answer = &mut answer => return answer.map_err(|_| ended())?,
        _ = timeout(object.store.timeout() * 2, first_answer) => {}
    }
    // An element that has arrived in this moment.
    if let Ok(answer) = answer.try_recv() {
        return answer;
    }
    let status = called.status.borrow().clone();
    if called.is_answered(&status) {
        return Ok(None);
    }
    let no_answer = || Error::unavailable("the store has not answered in time").at(&object.key);
    Err(status.error.unwrap_or_else(no_answer))
}

/// The id of the taker for these calls.
fn taker_id(object: &Object, (from, lease): (&Source, Duration)) -> TakerId {
    (object.key.clone(), from.clone(), millis(lease))
}

/// Sends a call to the taker of this object, which is started if there is none.
fn send(object: &Object, (from, lease): (&Source, Duration), caller: Caller) -> Result<Called> {
    object.store.takers.call(taker_id(object, (from, lease)), caller, || {
        let runtime = Handle::try_current()
            .map_err(|_| Error::misused("queues need a Tokio runtime; call this in one").at(&object.key))?;
        let (messages, inbox) = unbounded_channel();
        let (status_sender, status) = watch::channel(Status::default());
        let now = object.store.clock().now();
        let taker = Taker {
            object: object.clone(),
            from: from.clone(),
            lease,
            own: messages.clone(),
            inbox,
            status: status_sender,
            callers: VecDeque::new(),
            must_ask: false,
            done: Vec::new(),
            ends: Vec::new(),
            flushes: Vec::new(),
            held: BTreeMap::new(),
            unanswered: None,
            portions: Portions::default(),
            takes: 0,
            subscription: None,
            subscribing: None,
            changed: Arc::default(),
            failures: 0,
            retry_at: now,
            poll_at: now,
            renew_at: now + lease / 3,
            done_at: now,
            idle_since: now,
        };
        drop(runtime.spawn(taker.run()));
        Ok(Contact { messages, status })
    })
}

/// The task of one queue.
struct Taker {
    object: Object,
    from: Source,
    lease: Duration,
    own: UnboundedSender<Message>,
    inbox: UnboundedReceiver<Message>,
    status: watch::Sender<Status>,
    /// The calls that want an element, in their order.
    callers: VecDeque<Caller>,
    /// Whether the callers need a request now.
    must_ask: bool,
    /// Elements that are done, and that nobody waits for.
    done: Vec<u64>,
    /// Other elements that have ended.
    ends: Vec<End>,
    /// The calls that wait until the store has confirmed all ends.
    flushes: Vec<oneshot::Sender<()>>,
    /// The elements that are taken: the end of the lease of each.
    held: BTreeMap<u64, watch::Sender<Option<Moment>>>,
    /// A request for elements without an answer. It is repeated as long as the store remembers it, because the store may have
    /// elements for it, and forgotten afterwards.
    unanswered: Option<Exact>,
    portions: Portions,
    /// The number of requests for elements.
    takes: u64,
    subscription: Option<Subscription>,
    subscribing: Option<BoxFuture<'static, Result<Subscription>>>,
    /// Notified when the store has more elements.
    changed: Arc<Notify>,
    failures: u32,
    retry_at: Moment,
    poll_at: Moment,
    renew_at: Moment,
    done_at: Moment,
    idle_since: Moment,
}

impl Taker {
    async fn run(mut self) {
        loop {
            // A pass without a pause must not keep the runtime from its timers and sockets.
            consume_budget().await;
            while let Ok(message) = self.inbox.try_recv() {
                self.receive(message);
            }
            self.callers.retain(|caller| !caller.reply.is_closed());
            if self.done.is_empty() && self.ends.is_empty() {
                for flushed in self.flushes.drain(..) {
                    let _ = flushed.send(());
                }
            }
            let now = self.now();
            if self.has_request(now) {
                self.request().await;
                self.idle_since = self.now();
                continue;
            }
            if self.has_work() {
                self.idle_since = now;
            } else if now.since(self.idle_since) >= LINGER {
                if self.leaves() {
                    return;
                }
                continue; // A call has come.
            }
            let wake = self.wake_at().since(now).max(Duration::from_millis(1));
            let mut subscribing = OptionFuture::from(self.subscribing.as_mut());
            tokio::select! {
                biased;
                Some(subscribed) = &mut subscribing => self.subscribed(subscribed),
                Some(message) = self.inbox.recv() => self.receive(message),
                () = self.changed.notified() => self.must_ask = true,
                () = sleep(wake) => {}
            }
        }
    }

    fn now(&self) -> Moment {
        self.object.store.clock().now()
    }

    /// Leaves the takers of the grid, unless a message has come.
    fn leaves(&self) -> bool {
        let id = taker_id(&self.object, (&self.from, self.lease));
        self.object.store.takers.leave(&id, || self.inbox.is_empty())
    }

    fn receive(&mut self, message: Message) {
        match message {
            Message::Call(caller) => {
                self.must_ask = true;
                self.callers.push_back(caller);
            }
            Message::Flush(reply) => {
                self.done_at = self.now();
                self.flushes.push(reply);
            }
            Message::End(end) => {
                let is_renewed = self.held.remove(&end.id).is_some();
                if end.end == TakeEnd::Done && end.reply.is_none() {
                    if self.done.is_empty() && self.flushes.is_empty() {
                        self.done_at = self.now() + DONE_DELAY;
                    }
                    self.done.push(end.id);
                } else if is_renewed || end.reply.is_some() {
                    self.ends.push(end);
                }
            }
        }
    }

    /// Whether calls or elements need this taker.
    fn has_work(&self) -> bool {
        let has_ends = !self.done.is_empty() || !self.ends.is_empty();
        has_ends || !self.callers.is_empty() || !self.held.is_empty() || self.unanswered.is_some()
    }

    /// Whether there is something to ask or to report now.
    fn has_request(&self, now: Moment) -> bool {
        if now < self.retry_at {
            return false;
        }
        let reports = !self.ends.is_empty() || !self.done.is_empty() && now >= self.done_at;
        let renews = !self.held.is_empty() && now >= self.renew_at;
        self.asks(now) || reports || renews || self.unanswered.is_some()
    }

    /// Whether callers need a request for elements now.
    fn asks(&self, now: Moment) -> bool {
        !self.callers.is_empty() && (self.must_ask || now >= self.poll_at)
    }

    /// When the taker must look again, if nothing happens before.
    fn wake_at(&self) -> Moment {
        let mut wake = self.idle_since + LINGER;
        let mut until = |moment: Moment| wake = if moment < wake { moment } else { wake };
        if !self.callers.is_empty() {
            until(self.poll_at);
        }
        if !self.done.is_empty() {
            until(self.done_at);
        }
        if !self.held.is_empty() {
            until(self.renew_at);
        }
        if wake < self.retry_at { self.retry_at } else { wake }
    }
}
