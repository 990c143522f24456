//! The task that keeps the connection for subscriptions.

use std::{collections::VecDeque, sync::Arc, time::Instant};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use redis::{RedisError, ServerError, aio::MultiplexedConnection};
use tokio::{sync::mpsc::UnboundedReceiver, task::unconstrained, time::sleep};

use super::{
    Shared,
    table::{Armed, Ask},
};
use crate::{
    dial::{Dialled, Probes, dial, once_met},
    pause::Pause,
    refusal,
};

/// So many requests are under way at once. More would only lie in a queue while their time runs out.
const WINDOW: usize = 64;
/// So many requests in a row without an answer, and the connection is given up.
const SILENT: u32 = 2;

type Flying = FuturesUnordered<BoxFuture<'static, Answer>>;

struct Answer {
    channel: Arc<str>,
    ask: Ask,
    result: Result<(), RedisError>,
}

/// Dials when somebody wants to listen, serves, and dials again, until there are no more orders.
pub(super) async fn run(shared: Arc<Shared>, mut orders: UnboundedReceiver<Arc<str>>) {
    let mut pause = Pause::default();
    let mut met = false;
    loop {
        while !shared.state().table.is_wanted() {
            if orders.recv().await.is_none() {
                return;
            }
        }
        sleep(pause.take()).await;
        let pushes = shared.clone();
        let pushed = Arc::new(move |push| pushes.pushed(&push));
        match dial(&shared.options, Some(pushed), &mut Probes::none()).await {
            Ok(dialled) => {
                met = true;
                let since = Instant::now();
                serve(&shared, dialled, &mut orders).await;
                shared.state().table.lose();
                pause.lived(since.elapsed());
            }
            Err(error) => {
                let error = if met { once_met(error) } else { error };
                shared.state().table.fail(&error);
                // The same login would be refused again, so it takes somebody who asks.
                while !error.is_retryable() && !shared.state().table.is_awaited() {
                    if orders.recv().await.is_none() {
                        return;
                    }
                }
            }
        }
    }
}

/// Follows the table until the connection ends.
async fn serve(shared: &Shared, dialled: Dialled, orders: &mut UnboundedReceiver<Arc<str>>) {
    let Dialled { mux, mut driver, reset } = dialled;
    let mut todo: VecDeque<Arc<str>> = shared.state().table.channels().cloned().collect();
    let mut flying = Flying::new();
    let mut silent = 0;
    loop {
        ask(shared, &mux, &mut todo, &flying);
        tokio::select! {
            () = &mut driver => return,
            order = orders.recv() => match order {
                Some(channel) => todo.push_back(channel),
                None => return,
            },
            Some(answer) = flying.next() => {
                silent = if is_silent(&answer) { silent + 1 } else { 0 };
                if silent >= SILENT {
                    reset.set();
                    return;
                }
                if settle(shared, &answer) {
                    todo.push_back(answer.channel);
                }
            }
        }
    }
}

/// Sends what the table wants, as far as the window allows.
fn ask(shared: &Shared, mux: &MultiplexedConnection, todo: &mut VecDeque<Arc<str>>, flying: &Flying) {
    while flying.len() < WINDOW {
        let Some(channel) = todo.pop_front() else {
            return;
        };
        if let Some(ask) = shared.state().table.next(&channel) {
            flying.push(request(mux.clone(), channel, ask).boxed());
        }
    }
}

async fn request(mut mux: MultiplexedConnection, channel: Arc<str>, ask: Ask) -> Answer {
    let result = match ask {
        Ask::Subscribe => unconstrained(mux.subscribe(&*channel)).await,
        Ask::Unsubscribe => unconstrained(mux.unsubscribe(&*channel)).await,
    };
    Answer { channel, ask, result }
}

fn is_silent(answer: &Answer) -> bool {
    answer.result.as_ref().is_err_and(RedisError::is_timeout)
}

/// Writes an answer into the table, and says whether to look at its channel again.
fn settle(shared: &Shared, answer: &Answer) -> bool {
    let Answer { channel, ask, result } = answer;
    match (ask, result) {
        (Ask::Subscribe, Ok(())) => shared.state().table.subscribed(channel),
        (Ask::Unsubscribe, Ok(())) => shared.state().table.unsubscribed(channel),
        (ask, Err(error)) => match ServerError::try_from(error.clone()) {
            Ok(refused) => return settle_refusal(shared, channel, *ask, &refused),
            Err(error) => shared.state().table.unsure(channel, &refusal::failed(error)),
        },
    }
    true
}

fn settle_refusal(shared: &Shared, channel: &str, ask: Ask, refused: &ServerError) -> bool {
    match ask {
        Ask::Subscribe => {
            let error = refusal::refused(refused);
            let reason = if refusal::is_denied(refused) {
                shared.warn_once(&error);
                Ok(Armed::Denied)
            } else {
                Err(error)
            };
            shared.state().table.refused(channel, &reason);
        }
        Ask::Unsubscribe => shared.state().table.stays(channel),
    }
    // The same request would be refused again; whoever joins later asks anew.
    false
}
