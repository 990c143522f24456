//! The task that keeps the connection for subscriptions open.

use std::{collections::VecDeque, sync::Arc, time::Instant};

use bandog_net::{Backoff, retryable};
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use redis::{RedisError, ServerError, aio::MultiplexedConnection};
use tokio::{sync::mpsc::UnboundedReceiver, task::unconstrained};

use super::{
    channels::{ChannelRequest, SubscribeOutcome},
    shared::SharedSubscriptions,
    source::Source,
    watched,
};
use crate::{
    dial::{Connection, TlsProbeBudget},
    refusal,
};

/// Maximum number of requests that are sent and not answered yet. Further requests would only wait in the server's
/// queue while their timeouts run.
const MAX_IN_FLIGHT: usize = 64;
/// Maximum number of consecutive requests that are not answered in time. When this number is reached, the connection is
/// closed and opened again.
const MAX_UNANSWERED: u32 = 2;

/// The requests that are sent and not answered yet.
type RequestsInFlight = FuturesUnordered<BoxFuture<'static, ChannelReply>>;

/// The result of one request for a source.
struct ChannelReply {
    source: Source,
    request: ChannelRequest,
    /// Whether the subscribers of a watched key must be notified.
    result: Result<bool, RedisError>,
}

/// Connects when there is a subscriber, keeps the subscriptions, and reconnects when the connection breaks. Returns
/// when the sender of changes is dropped.
pub(super) async fn run(shared: Arc<SharedSubscriptions>, mut changes: UnboundedReceiver<Source>) {
    let mut backoff = Backoff::default();
    // Whether a connection was opened before.
    let mut was_reached = false;
    loop {
        while !shared.state().channels.is_needed() {
            if changes.recv().await.is_none() {
                return;
            }
        }
        shared.dialler.wait(backoff.next_delay()).await;
        let pushes = shared.clone();
        let pushed = Arc::new(move |push| pushes.pushed(&push));
        match shared.dialler.dial(Some(pushed), &mut TlsProbeBudget::none()).await {
            Ok(connection) => {
                was_reached = true;
                let since = Instant::now();
                serve(&shared, connection, &mut changes).await;
                shared.state().channels.connection_lost();
                backoff.connection_lasted(since.elapsed());
            }
            Err(error) => {
                let error = if was_reached { retryable(error) } else { error };
                (shared.moved.0)(); // Another node may have taken over.
                shared.state().channels.connection_failed(&error);
                // After an error that is not retryable, such as a refused login, the next attempt would fail in the
                // same way. So the next attempt is delayed until a new caller subscribes.
                while !error.is_retryable() && !shared.state().channels.has_waiting_caller() {
                    if changes.recv().await.is_none() {
                        return;
                    }
                }
            }
        }
    }
}

/// Sends the requests for all sources until the connection ends.
async fn serve(shared: &SharedSubscriptions, connection: Connection, changes: &mut UnboundedReceiver<Source>) {
    let Connection { mux, mut driver, tcp_reset, mut moved } = connection;
    // The sources for which a request might be needed.
    let mut todo: VecDeque<Source> = shared.state().channels.sources().cloned().collect();
    let mut in_flight = RequestsInFlight::new();
    let mut unanswered = 0;
    // Only earlier connections had a reason to be left.
    let _ = shared.leave.notified().now_or_never();
    loop {
        send_requests(shared, &mux, &mut todo, &in_flight);
        tokio::select! {
            () = &mut driver => return,
            () = shared.leave.notified() => return,
            () = &mut moved => {
                tcp_reset.set();
                return;
            }
            change = changes.recv() => match change {
                Some(source) => todo.push_back(source),
                None => return,
            },
            Some(reply) = in_flight.next() => {
                unanswered = if is_timeout(&reply) { unanswered + 1 } else { 0 };
                if unanswered >= MAX_UNANSWERED {
                    tcp_reset.set();
                    return;
                }
                if apply_reply(shared, &reply) {
                    todo.push_back(reply.source);
                }
            }
        }
    }
}

/// Sends the next request of each source in `todo`, up to [`MAX_IN_FLIGHT`].
fn send_requests(
    shared: &SharedSubscriptions,
    mux: &MultiplexedConnection,
    todo: &mut VecDeque<Source>,
    in_flight: &RequestsInFlight,
) {
    while in_flight.len() < MAX_IN_FLIGHT {
        let Some(source) = todo.pop_front() else {
            return;
        };
        if let Some(request) = shared.state().channels.next_request(&source) {
            in_flight.push(send(mux.clone(), source, request).boxed());
        }
    }
}

async fn send(mut mux: MultiplexedConnection, source: Source, request: ChannelRequest) -> ChannelReply {
    let (verb, name) = match (&source, request) {
        (Source::Key(key), ChannelRequest::Subscribe) => {
            let result = watched::read(&mut mux, key).await;
            return ChannelReply { source, request, result };
        }
        (Source::Key(_), ChannelRequest::Unsubscribe) => return ChannelReply { source, request, result: Ok(false) },
        (Source::Plain(name), ChannelRequest::Subscribe) => ("SUBSCRIBE", name),
        (Source::Plain(name), ChannelRequest::Unsubscribe) => ("UNSUBSCRIBE", name),
        (Source::Sharded(name), ChannelRequest::Subscribe) => ("SSUBSCRIBE", name),
        (Source::Sharded(name), ChannelRequest::Unsubscribe) => ("SUNSUBSCRIBE", name),
        (Source::Glob(glob), ChannelRequest::Subscribe) => ("PSUBSCRIBE", glob),
        (Source::Glob(glob), ChannelRequest::Unsubscribe) => ("PUNSUBSCRIBE", glob),
    };
    let mut command = redis::cmd(verb);
    let sent = unconstrained(command.arg(&**name).exec_async(&mut mux)).await;
    ChannelReply { source, request, result: sent.map(|()| false) }
}

fn is_timeout(reply: &ChannelReply) -> bool {
    reply.result.as_ref().is_err_and(RedisError::is_timeout)
}

/// Applies a reply to the state of its source. Returns whether the source may need another request.
fn apply_reply(shared: &SharedSubscriptions, reply: &ChannelReply) -> bool {
    let ChannelReply { source, request, result } = reply;
    match (request, result) {
        (ChannelRequest::Subscribe, Ok(must_notify)) => {
            shared.change(|state| {
                state.channels.subscribed(source);
                if *must_notify {
                    state.channels.message(source, None, &[]);
                }
            });
        }
        (ChannelRequest::Unsubscribe, Ok(_)) => shared.state().channels.unsubscribed(source),
        (request, Err(error)) => match ServerError::try_from(error.clone()) {
            Ok(refused) => return apply_refusal(shared, source, *request, &refused),
            Err(error) => shared.state().channels.unsure(source, &refusal::failed(error)),
        },
    }
    true
}

/// Applies the refusal of a request to the state of its source. Returns false: the source needs no other request now.
fn apply_refusal(
    shared: &SharedSubscriptions,
    source: &Source,
    request: ChannelRequest,
    refused: &ServerError,
) -> bool {
    match request {
        ChannelRequest::Subscribe => {
            let error = refusal::refused(refused);
            let reason = if refusal::is_denied(refused) || refusal::is_unknown_command(refused, "client") {
                Ok(SubscribeOutcome::Denied(error))
            } else if shared.dialler.options.in_cluster
                && (refusal::is_redirection(refused) || refusal::is_passing(refused))
            {
                (shared.moved.0)();
                Ok(SubscribeOutcome::Moved)
            } else {
                Err(error)
            };
            shared.change(|state| state.channels.refused(source, &reason));
        }
        ChannelRequest::Unsubscribe => shared.change(|state| state.channels.unsubscribe_refused(source)),
    }
    // The server would refuse the same request again. So no request follows until the subscribers of the source change.
    false
}
