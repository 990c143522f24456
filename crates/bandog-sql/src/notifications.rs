//! The connection for notifications: one LISTEN for each channel that has subscribers, or polls on MySQL.
//!
//! One task keeps the connection open as long as there are subscribers. It compares the channels that have subscribers
//! with the channels of the session, and sends the LISTEN and UNLISTEN commands that are missing. After a broken
//! connection, it sends LISTEN for all channels again, and notifies all subscribers.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use bandog_core::{Claim, Error, Key, Notifier, Result, Subscription, rounded};
use bandog_net::{Backoff, retryable};
use futures_util::StreamExt;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::{
    channel::Channel,
    client::Messages,
    context::Context,
    fault::Fault,
    options::Dialect,
    polled::PolledLease,
    session::{Link, Session},
    subscriptions::Subscriptions,
};

/// Interval between two polls of a PostgreSQL server. Engines repeat their claims at a similar interval.
const POLL_INTERVAL: Duration = Duration::from_millis(800);

/// Subscribes to a channel, and returns when the session is subscribed to it. `claim` is the claim that waits, if there
/// is one.
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
    let start = || tokio::spawn(run(context.clone())).abort_handle();
    let (number, confirmed) = context.subscriptions.add(start, channel, claim, notifier);
    let owner = context.clone();
    let subscription = Subscription::new(move || owner.subscriptions.remove(channel, number));
    let Some(confirmed) = confirmed else { return Ok(subscription) };
    let limit = context.options.timeout;
    match timeout(limit, confirmed).await {
        Ok(Ok(confirmed)) => confirmed.map(|()| subscription),
        Ok(Err(_)) => Err(Error::unavailable("the Tokio runtime of the subscriptions has ended")),
        Err(_) => {
            Err(Error::unavailable(format!("the server did not confirm the subscription within {}", rounded(limit))))
        }
    }
}

/// The task. It ends when the backend is dropped ([`Subscriptions::close`]).
async fn run(context: Arc<Context>) {
    let (mut backoff, mut sessions) = (Backoff::default(), 0_u32);
    let subscriptions = &context.subscriptions;
    loop {
        while !subscriptions.is_needed() {
            subscriptions.changed().await;
        }
        sleep(backoff.next_delay()).await;
        match open(&context).await {
            Ok(session) => {
                context.connected(sessions > 0);
                let opened = Instant::now();
                let fault = tokio::select! {
                    fault = attend(&context, session, sessions > 0) => Some(fault),
                    () = subscriptions.yielding() => None,
                };
                sessions += 1;
                subscriptions.session_ended();
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
                subscriptions.refuse(&error);
                if !error.is_retryable() {
                    // The server would refuse the same login again. The next attempt follows the next call.
                    subscriptions.changed().await;
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
            receive_and_poll(context, &link, messages, is_new_session).await
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

/// Receives notifications until the connection ends, or the server does not answer in time. While claims wait for
/// mutexes, the leases of all of them are polled together, so that these claims need not be sent again one by one.
async fn receive_and_poll(context: &Context, link: &Link, mut messages: Messages, is_new_session: bool) -> Fault {
    let (subscriptions, limit) = (&context.subscriptions, context.options.timeout);
    let mut active = HashSet::new();
    let mut polls = interval(POLL_INTERVAL);
    polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        subscriptions.confirm_known(&active);
        let (missing, needless) = subscriptions.difference(&active);
        if !missing.is_empty() || !needless.is_empty() {
            let commands = missing.iter().map(|channel| format!("listen {channel};"));
            let commands: String =
                commands.chain(needless.iter().map(|channel| format!("unlisten {channel};"))).collect();
            if let Err(fault) = while_receiving(subscriptions, &mut messages, limit, link.execute(&commands)).await {
                return fault;
            }
            active.retain(|channel| !needless.contains(channel));
            for channel in missing {
                active.insert(channel);
                subscriptions.confirm(channel, is_new_session);
            }
            continue;
        }
        let is_polling = link.statements.decide_mutexes() && subscriptions.has_claims();
        tokio::select! {
            fault = receive(subscriptions, &mut messages) => return fault,
            () = subscriptions.changed() => {}
            _ = polls.tick(), if is_polling => {
                let polled = poll(subscriptions, link);
                if let Err(fault) = while_receiving(subscriptions, &mut messages, limit, polled).await {
                    return fault;
                }
            }
        }
    }
}

/// Reads the leases of the mutexes for which claims wait.
async fn poll(subscriptions: &Subscriptions, link: &Link) -> Result<(), Fault> {
    let (asked_at, waited_for) = (Instant::now(), subscriptions.waited_for());
    let names: Vec<_> = waited_for.keys().map(Key::as_str).collect();
    let rows = link.query(&link.statements.polled_leases, &[&names]).await?;
    let answered_at = Instant::now();
    let leases = rows.iter().map(|row| Ok((row.try_get(0)?, PolledLease::read(row, 1, asked_at, answered_at)?)));
    subscriptions.polled(&waited_for, &leases.collect::<Result<_, Fault>>()?);
    Ok(())
}

/// Sends a request, and calls the notifiers meanwhile.
async fn while_receiving(
    subscriptions: &Subscriptions,
    messages: &mut Messages,
    limit: Duration,
    request: impl Future<Output = Result<(), Fault>>,
) -> Result<(), Fault> {
    tokio::select! {
        biased;
        fault = receive(subscriptions, messages) => Err(fault),
        answered = timeout(limit, request) => answered.unwrap_or(Err(Fault::Broken(None))),
    }
}

/// Calls the notifiers of each notification, until the connection ends.
async fn receive(subscriptions: &Subscriptions, messages: &mut Messages) -> Fault {
    loop {
        match messages.next().await {
            Some(Ok(channel)) => {
                if let Some(channel) = channel.and_then(|name| Channel::parse(&name)) {
                    // The claims that follow must not be answered with what an earlier poll has seen.
                    subscriptions.forget(channel);
                    subscriptions.notify(channel);
                }
            }
            Some(Err(fault)) => return fault,
            None => return Fault::Broken(None),
        }
    }
}
