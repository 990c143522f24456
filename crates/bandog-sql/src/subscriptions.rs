//! The subscriptions of a backend, and the leases that its polls have read.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bandog_core::{Claim, ClaimId, Error, Key, Kind, Notifier, Result};
use tokio::{
    sync::{Notify, oneshot},
    task::AbortHandle,
};

use crate::{channel::Channel, polled::PolledLease};

/// The subscriptions of a backend.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
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
    /// Whether the session is subscribed to the channel.
    is_active: bool,
    /// The callers that wait until the session is subscribed.
    callers: Vec<oneshot::Sender<Result<()>>>,
}

impl Subscribers {
    fn notifiers(&self) -> Vec<Notifier> {
        self.notifiers.iter().map(|(_, notifier)| notifier.clone()).collect()
    }
}

impl Subscriptions {
    /// Whether a channel has a subscriber.
    pub(crate) fn has(&self, channel: Channel) -> bool {
        self.state().channels.get(&channel).is_some_and(|subscribers| !subscribers.notifiers.is_empty())
    }

    /// Adds a subscriber. If no task runs, `start` starts one. Returns the number of the subscriber, and a receiver if the
    /// session is not subscribed to the channel yet.
    pub(crate) fn add(
        &self,
        start: impl FnOnce() -> AbortHandle,
        channel: Channel,
        claim: Option<&Claim>,
        notifier: Notifier,
    ) -> (u64, Option<oneshot::Receiver<Result<()>>>) {
        let mut state = self.state();
        state.last_number += 1;
        let number = state.last_number;
        if state.task.as_ref().is_none_or(AbortHandle::is_finished) {
            state.channels.values_mut().for_each(|subscribers| subscribers.is_active = false);
            state.task = Some(start());
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

    pub(crate) fn remove(&self, channel: Channel, number: u64) {
        let mut state = self.state();
        let Some(subscribers) = state.channels.get_mut(&channel) else { return };
        let removed: Vec<_> = subscribers.notifiers.extract_if(.., |(other, _)| *other == number).collect();
        subscribers.claims.retain(|(other, ..)| *other != number);
        if subscribers.notifiers.is_empty() {
            state.channels.remove(&channel);
            self.changed.notify_one();
        }
        drop(state);
        drop(removed); // Not under the lock: what it owns may take it again.
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

    pub(crate) fn forget(&self, channel: Channel) {
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
    pub(crate) fn has_claims(&self) -> bool {
        self.state().channels.values().any(|found| !found.claims.is_empty())
    }

    pub(crate) fn is_needed(&self) -> bool {
        !self.state().channels.is_empty()
    }

    pub(crate) fn notify(&self, channel: Channel) {
        let notifiers = self.state().channels.get(&channel).map(Subscribers::notifiers);
        notifiers.iter().flatten().for_each(Notifier::notify); // Not under the lock.
    }

    /// Records that the session is subscribed to this channel. The subscribers of an earlier session are notified,
    /// because they may have missed a notification.
    pub(crate) fn confirm(&self, channel: Channel, is_new_session: bool) {
        let mut state = self.state();
        let Some(subscribers) = state.channels.get_mut(&channel) else { return };
        subscribers.is_active = true;
        subscribers.callers.drain(..).for_each(|caller| drop(caller.send(Ok(()))));
        let missed = is_new_session.then(|| subscribers.notifiers());
        drop(state);
        missed.iter().flatten().for_each(Notifier::notify);
    }

    /// Confirms the channels to which the session is subscribed already: their last subscriber left, and another one
    /// came before the session has unsubscribed.
    pub(crate) fn confirm_known(&self, active: &HashSet<Channel>) {
        let known = |(channel, found): (&Channel, &Subscribers)| {
            (!found.is_active && active.contains(channel)).then_some(*channel)
        };
        let known: Vec<_> = self.state().channels.iter().filter_map(known).collect();
        known.into_iter().for_each(|channel| self.confirm(channel, false));
    }

    /// Closes the connection, if there is one, and leaves it to a lane.
    pub(crate) fn yield_connection(&self) {
        self.yielding.notify_waiters();
    }

    /// Waits until a lane needs the connection.
    pub(crate) async fn yielding(&self) {
        self.yielding.notified().await;
    }

    /// Ends the task.
    pub(crate) fn close(&self) {
        if let Some(task) = self.state().task.take() {
            task.abort();
        }
    }

    /// Records that the session has ended.
    pub(crate) fn session_ended(&self) {
        for subscribers in self.state().channels.values_mut() {
            (subscribers.is_active, subscribers.lease) = (false, None);
        }
    }

    /// Sends this error to the callers that wait.
    pub(crate) fn refuse(&self, error: &Error) {
        for subscribers in self.state().channels.values_mut() {
            subscribers.callers.drain(..).for_each(|caller| drop(caller.send(Err(error.clone()))));
        }
    }

    /// The channels to subscribe to, and those to unsubscribe from. Then the session is subscribed to exactly the
    /// channels that have subscribers.
    pub(crate) fn difference(&self, active: &HashSet<Channel>) -> (Vec<Channel>, Vec<Channel>) {
        let state = self.state();
        let missing = state.channels.keys().filter(|channel| !active.contains(channel)).copied().collect();
        let needless = active.iter().filter(|channel| !state.channels.contains_key(channel)).copied().collect();
        (missing, needless)
    }
}

#[cfg(test)]
mod tests;
