//! The connection for notifications: one LISTEN for each channel that has subscribers, or polls on MySQL.
//!
//! One task keeps the connection open as long as there are subscribers. It compares the channels that have subscribers
//! with the channels that the session listens to, and sends the LISTEN and UNLISTEN commands that are missing. After a
//! broken connection, it listens to all channels again and notifies all subscribers.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bandog_core::{Claim, ClaimId, Error, Key, Kind, Notifier, Result, Subscription, rounded};
use futures_util::StreamExt;
use tokio::{
    sync::{Notify, oneshot},
    task::AbortHandle,
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use crate::{
    backoff::Backoff,
    client::Messages,
    fault::Fault,
    lane::retryable,
    leases::Context,
    options::Dialect,
    polled::PolledLease,
    session::{Link, Session},
};

/// The prefix of the names of channels.
const PREFIX: &str = "bandog_";

/// Interval between two polls of a PostgreSQL server. Engines repeat their claims at a similar interval.
const POLL_INTERVAL: Duration = Duration::from_millis(800);

/// A channel. Different names can have the same channel. Then some notifications are unnecessary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Channel(u64);

impl Channel {
    /// The channel of a lock: a release notifies it if a subscriber waits.
    pub(crate) fn of_lock(key: &Key) -> Self {
        Self::of(&["lock", key.as_str()])
    }

    /// The channel of a place in the queue of a fair mutex: notified when the claim is next.
    pub(crate) fn of_place(key: &Key, id: ClaimId) -> Self {
        Self::of(&["place", &id.to_string(), key.as_str()])
    }

    /// The channel that a waiting claim needs.
    pub(crate) fn of_claim(claim: &Claim) -> Self {
        match claim.kind {
            Kind::Fair => Self::of_place(&claim.key, claim.id),
            Kind::Mutex | Kind::Read | Kind::Write | Kind::Permits { .. } => Self::of_lock(&claim.key),
        }
    }

    /// The channel of a record.
    pub(crate) fn of_record(key: &Key) -> Self {
        Self::of(&["record", key.as_str()])
    }

    /// FNV-1a over the words. All versions of bandog must agree on it, so it is no hash of a library.
    fn of(words: &[&str]) -> Self {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in words.iter().flat_map(|word| word.bytes().chain([0])) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Self(hash)
    }

    fn parse(name: &str) -> Option<Self> {
        u64::from_str_radix(name.strip_prefix(PREFIX)?, 16).ok().map(Self)
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{:016x}", self.0)
    }
}

/// The subscribers of a backend.
#[derive(Debug, Default)]
pub(crate) struct Listener {
    state: Mutex<State>,
    /// Notified when the subscribers have changed.
    changed: Notify,
    /// Notified when a lane needs the connection.
    yielding: Notify,
}

#[derive(Debug, Default)]
struct State {
    channels: HashMap<Channel, Subscribers>,
    last_number: u64,
    /// The task. None before the first subscriber.
    task: Option<AbortHandle>,
}

/// The subscribers of a channel.
#[derive(Debug, Default)]
struct Subscribers {
    notifiers: Vec<(u64, Notifier)>,
    /// The claims of mutexes that wait for this channel, with the numbers of their subscriptions.
    claims: Vec<(u64, Key, ClaimId)>,
    /// The lease of the lock, as the last poll has seen it.
    lease: Option<PolledLease>,
    /// When this client has changed the lease, or was notified that another client has. Polls that were sent before it say
    /// nothing.
    forgotten_at: Option<Instant>,
    /// Whether the session listens to the channel.
    is_active: bool,
    /// The callers that wait until the session listens.
    callers: Vec<oneshot::Sender<Result<()>>>,
}

impl Listener {
    /// Subscribes to a channel, and returns when the session listens to it. `claim` is the claim that waits, if there is
    /// one.
    ///
    /// # Errors
    /// As the connection: see [`Session::open`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the subscriber is removed.
    pub(crate) async fn subscribe(
        context: &Arc<Context>,
        channel: Channel,
        claim: Option<&Claim>,
        notifier: Notifier,
    ) -> Result<Subscription> {
        let (number, confirmed) = context.listener.add(context, channel, claim, notifier);
        let owner = context.clone();
        let subscription = Subscription::new(move || owner.listener.remove(channel, number));
        let Some(confirmed) = confirmed else { return Ok(subscription) };
        let limit = context.options.timeout;
        match timeout(limit, confirmed).await {
            Ok(Ok(confirmed)) => confirmed.map(|()| subscription),
            Ok(Err(_)) => Err(Error::unavailable("the Tokio runtime of the subscriptions has ended")),
            Err(_) => Err(Error::unavailable(format!(
                "the server did not confirm the subscription within {}",
                rounded(limit)
            ))),
        }
    }

    /// Whether a channel has a subscriber.
    pub(crate) fn has(&self, channel: Channel) -> bool {
        self.state().channels.get(&channel).is_some_and(|subscribers| !subscribers.notifiers.is_empty())
    }

    /// Adds a subscriber. Returns its number, and a receiver if the session does not listen to the channel yet.
    fn add(
        &self,
        context: &Arc<Context>,
        channel: Channel,
        claim: Option<&Claim>,
        notifier: Notifier,
    ) -> (u64, Option<oneshot::Receiver<Result<()>>>) {
        let mut state = self.state();
        state.last_number += 1;
        let number = state.last_number;
        if state.task.as_ref().is_none_or(AbortHandle::is_finished) {
            state.channels.values_mut().for_each(|subscribers| subscribers.is_active = false);
            state.task = Some(tokio::spawn(run(context.clone())).abort_handle());
        }
        let subscribers = state.channels.entry(channel).or_default();
        subscribers.notifiers.push((number, notifier));
        let claim = claim.filter(|claim| matches!(claim.kind, Kind::Mutex));
        subscribers.claims.extend(claim.map(|claim| (number, claim.key.clone(), claim.id)));
        if subscribers.is_active {
            return (number, None);
        }
        let (caller, confirmed) = oneshot::channel();
        subscribers.callers.push(caller);
        self.changed.notify_one();
        (number, Some(confirmed))
    }

    fn remove(&self, channel: Channel, number: u64) {
        let mut state = self.state();
        let Some(subscribers) = state.channels.get_mut(&channel) else { return };
        subscribers.notifiers.retain(|(other, _)| *other != number);
        subscribers.claims.retain(|(other, ..)| *other != number);
        if subscribers.notifiers.is_empty() {
            state.channels.remove(&channel);
            self.changed.notify_one();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The channels that have subscribers.
    #[cfg(feature = "mysql")]
    pub(crate) fn channels(&self) -> Vec<Channel> {
        self.state().channels.keys().copied().collect()
    }

    /// The names for whose mutexes claims wait, and their channels.
    pub(crate) fn waited_for(&self) -> HashMap<Key, Channel> {
        let state = self.state();
        let claims = state.channels.iter().flat_map(|(channel, found)| found.claims.iter().map(move |c| (c, channel)));
        claims.map(|((_, key, _), channel)| (key.clone(), *channel)).collect()
    }

    /// Records what a poll has seen of the leases of these names. A channel with several names says nothing.
    pub(crate) fn polled(&self, names: &HashMap<Key, Channel>, leases: &HashMap<String, PolledLease>) {
        let mut state = self.state();
        for (key, channel) in names {
            let Some(found) = state.channels.get_mut(channel) else { continue };
            let is_only = found.claims.iter().all(|(_, other, _)| other == key);
            let lease = leases.get(key.as_str()).filter(|_| is_only).cloned();
            found.lease = lease.map(|lease| lease.after(found.lease.as_ref()).unless_asked_before(found.forgotten_at));
        }
    }

    /// Forgets what a poll has seen of this lock: this client changes it.
    pub(crate) fn forget_lease(&self, key: &Key) {
        self.forget(Channel::of_lock(key));
    }

    fn forget(&self, channel: Channel) {
        if let Some(found) = self.state().channels.get_mut(&channel) {
            found.forgotten_at = Some(Instant::now());
            if let Some(lease) = &mut found.lease {
                lease.asked_at = None;
            }
        }
    }

    /// The time for which a claim that the store has refused before is still busy, as far as a poll has seen. The release of
    /// the lock notifies the subscriber of the claim.
    pub(crate) fn busy_for(&self, claim: &Claim) -> Option<Duration> {
        let state = self.state();
        let found = state.channels.get(&Channel::of_lock(&claim.key))?;
        let is_subscribed = found.claims.iter().any(|(_, key, id)| *key == claim.key && *id == claim.id);
        found.lease.as_ref().filter(|_| is_subscribed && found.is_active)?.busy_for(claim)
    }

    /// Waits until the subscribers have changed.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Whether claims wait for mutexes.
    fn has_claims(&self) -> bool {
        self.state().channels.values().any(|found| !found.claims.is_empty())
    }

    fn is_needed(&self) -> bool {
        !self.state().channels.is_empty()
    }

    pub(crate) fn notify(&self, channel: Channel) {
        for (_, notifier) in self.state().channels.get(&channel).into_iter().flat_map(|found| &found.notifiers) {
            notifier.notify();
        }
    }

    /// Records that the session listens to this channel. The subscribers of an earlier session are notified, because they
    /// may have missed a notification.
    pub(crate) fn confirm(&self, channel: Channel, is_new_session: bool) {
        let mut state = self.state();
        let Some(subscribers) = state.channels.get_mut(&channel) else { return };
        subscribers.is_active = true;
        subscribers.callers.drain(..).for_each(|caller| drop(caller.send(Ok(()))));
        if is_new_session {
            subscribers.notifiers.iter().for_each(|(_, notifier)| notifier.notify());
        }
    }

    /// Confirms the channels to which the session listens already: their last subscriber left and another one came before
    /// the session stopped listening.
    pub(crate) fn confirm_known(&self, listening: &HashSet<Channel>) {
        let known = |(channel, found): (&Channel, &Subscribers)| {
            (!found.is_active && listening.contains(channel)).then_some(*channel)
        };
        let known: Vec<_> = self.state().channels.iter().filter_map(known).collect();
        known.into_iter().for_each(|channel| self.confirm(channel, false));
    }

    /// Closes the connection, if there is one, and leaves it to a lane.
    pub(crate) fn yield_connection(&self) {
        self.yielding.notify_waiters();
    }

    /// Ends the task.
    pub(crate) fn close(&self) {
        if let Some(task) = self.state().task.take() {
            task.abort();
        }
    }

    /// Records that the session has ended.
    fn session_ended(&self) {
        for subscribers in self.state().channels.values_mut() {
            (subscribers.is_active, subscribers.lease) = (false, None);
        }
    }

    /// Sends this error to the callers that wait.
    fn refuse(&self, error: &Error) {
        for subscribers in self.state().channels.values_mut() {
            subscribers.callers.drain(..).for_each(|caller| drop(caller.send(Err(error.clone()))));
        }
    }

    /// The commands that make the session listen to exactly the channels that have subscribers.
    fn difference(&self, listening: &HashSet<Channel>) -> (Vec<Channel>, Vec<Channel>) {
        let state = self.state();
        let missing = state.channels.keys().filter(|channel| !listening.contains(channel)).copied().collect();
        let needless = listening.iter().filter(|channel| !state.channels.contains_key(channel)).copied().collect();
        (missing, needless)
    }
}

/// The task. It ends when the backend is dropped ([`Listener::close`]).
async fn run(context: Arc<Context>) {
    let (mut backoff, mut sessions) = (Backoff::default(), 0_u32);
    let listener = &context.listener;
    loop {
        while !listener.is_needed() {
            listener.changed().await;
        }
        sleep(backoff.next_delay()).await;
        match open(&context).await {
            Ok(session) => {
                context.connected(sessions > 0);
                let opened = Instant::now();
                let fault = tokio::select! {
                    fault = attend(&context, session, sessions > 0) => Some(fault),
                    () = listener.yielding.notified() => None,
                };
                sessions += 1;
                listener.session_ended();
                backoff.connection_lasted(opened.elapsed());
                let store = context.options.store();
                match fault {
                    Some(fault) => {
                        let error = fault.describe(&store);
                        tracing::debug!(%store, %error, "the connection for notifications has ended");
                    }
                    None => {
                        tracing::debug!(%store, "the connection for notifications was closed: the claims need it");
                        context.lane_connected().await;
                    }
                }
            }
            Err(error) => {
                let error = if sessions > 0 { retryable(error) } else { error };
                listener.refuse(&error);
                if !error.is_retryable() {
                    // The server would refuse the same login again. The next attempt follows the next call.
                    listener.changed().await;
                }
            }
        }
    }
}

/// Opens a session. A server that stops answering during the login is given up after the timeout.
async fn open(context: &Context) -> Result<Session> {
    let limit = context.options.timeout;
    let late = |_| Error::unavailable(format!("no session on {} within {}", context.options.store(), rounded(limit)));
    timeout(limit, Session::open(context)).await.unwrap_or_else(|elapsed| Err(late(elapsed)))
}

/// Notifies the subscribers until the connection ends.
async fn attend(context: &Context, session: Session, is_new_session: bool) -> Fault {
    match context.options.dialect {
        Dialect::Postgres => {
            let (link, messages) = session.into_parts();
            listen(context, &link, messages, is_new_session).await
        }
        #[cfg(feature = "mysql")]
        Dialect::MySql => {
            let mut session = session;
            let fault = crate::mysql::poll(context, &mut session, is_new_session).await;
            session.discard();
            fault
        }
    }
}

/// Listens until the connection ends, or the server does not answer in time. While claims wait for mutexes, the leases of
/// all of them are polled together, so that these claims need not be sent again one by one.
async fn listen(context: &Context, link: &Link, mut messages: Messages, is_new_session: bool) -> Fault {
    let (listener, limit) = (&context.listener, context.options.timeout);
    let mut listening = HashSet::new();
    let mut polls = interval(POLL_INTERVAL);
    polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        listener.confirm_known(&listening);
        let (missing, needless) = listener.difference(&listening);
        if !missing.is_empty() || !needless.is_empty() {
            let commands = missing.iter().map(|channel| format!("listen {channel};"));
            let commands: String =
                commands.chain(needless.iter().map(|channel| format!("unlisten {channel};"))).collect();
            if let Err(fault) = while_receiving(listener, &mut messages, limit, link.execute(&commands)).await {
                return fault;
            }
            listening.retain(|channel| !needless.contains(channel));
            for channel in missing {
                listening.insert(channel);
                listener.confirm(channel, is_new_session);
            }
            continue;
        }
        let is_polling = link.statements.decide_mutexes() && listener.has_claims();
        tokio::select! {
            fault = receive(listener, &mut messages) => return fault,
            () = listener.changed() => {}
            _ = polls.tick(), if is_polling => {
                if let Err(fault) = while_receiving(listener, &mut messages, limit, poll(listener, link)).await {
                    return fault;
                }
            }
        }
    }
}

/// Reads the leases of the mutexes for which claims wait.
async fn poll(listener: &Listener, link: &Link) -> Result<(), Fault> {
    let (asked_at, waited_for) = (Instant::now(), listener.waited_for());
    let names: Vec<_> = waited_for.keys().map(Key::as_str).collect();
    let rows = link.query(&link.statements.polled_leases, &[&names]).await?;
    let answered_at = Instant::now();
    let leases = rows.iter().map(|row| Ok((row.try_get(0)?, PolledLease::read(row, 1, asked_at, answered_at)?)));
    listener.polled(&waited_for, &leases.collect::<Result<_, Fault>>()?);
    Ok(())
}

/// Sends a request, and calls the notifiers meanwhile.
async fn while_receiving(
    listener: &Listener,
    messages: &mut Messages,
    limit: Duration,
    request: impl Future<Output = Result<(), Fault>>,
) -> Result<(), Fault> {
    tokio::select! {
        biased;
        fault = receive(listener, messages) => Err(fault),
        answered = timeout(limit, request) => answered.unwrap_or(Err(Fault::Broken(None))),
    }
}

/// Calls the notifiers of each notification, until the connection ends.
async fn receive(listener: &Listener, messages: &mut Messages) -> Fault {
    loop {
        match messages.next().await {
            Some(Ok(channel)) => {
                if let Some(channel) = channel.and_then(|name| Channel::parse(&name)) {
                    // The claims that follow must not be answered with what an earlier poll has seen.
                    listener.forget(channel);
                    listener.notify(channel);
                }
            }
            Some(Err(fault)) => return fault,
            None => return Fault::Broken(None),
        }
    }
}

#[cfg(test)]
mod tests;
