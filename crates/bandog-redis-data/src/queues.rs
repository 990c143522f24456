//! The work queues of a Redis store.
//!
//! An operation is one script, so it is atomic. The scripts follow the rules of [`bandog_core::queues::rules`], and read the
//! time of the server. The keys of the queue `N` are `bandog:work:{N}:…`, all in one slot of a cluster; `lua/work/rows.lua`
//! says what they contain. No script reads a number of elements that depends on how many the queue has.
//!
//! A take that gets fewer elements than it has asked for registers its taker as idle for 2 s. A script that makes elements
//! ready sends a message to the idle taker that has asked last, and a take after which more elements are ready does so too.

mod answers;
mod calls;

use async_trait::async_trait;
use bandog_core::{
    Error, Key, Notifier, Pattern, Result, Subscription,
    messages::Sink,
    queues::{
        Bell, Change, ElementId, ElementRow, Extend, Extended, Phase, Push, Pushed, QueueStatus, Queues, Settle,
        Settled, Take, Taken,
    },
    structures::Cursor,
};
use bandog_redis_net::{Keys, ScriptForm, Servers, slot};
use redis::{Pipeline, Value};

use crate::{RedisObjects, command::Command, layouts, names, objects, pages, read};

/// Maximum number of elements on a page.
const MAX_PAGE: usize = 1000;

#[async_trait]
impl Queues for RedisObjects {
    async fn push(&self, pushes: &[Push]) -> Vec<Result<Vec<Pushed>>> {
        let tries = tries(&self.servers);
        let replies = self.send(pushes.iter().map(|push| (&push.queue, calls::push(push, tries)))).await;
        let answer = |(push, reply): (&Push, Result<Value>)| {
            reply.and_then(|reply| answers::pushed(push, reply)).map_err(|error| error.at(&push.queue))
        };
        pushes.iter().zip(replies).map(answer).collect()
    }

    async fn take(&self, takes: &[Take]) -> Vec<Result<Taken>> {
        let tries = tries(&self.servers);
        let replies = self.send(takes.iter().map(|take| (&take.queue, Ok(calls::take(take, tries))))).await;
        let answer = |(take, reply): (&Take, Result<Value>)| {
            reply.and_then(answers::taken).map_err(|error| error.at(&take.queue))
        };
        takes.iter().zip(replies).map(answer).collect()
    }

    async fn extend(&self, extend: &Extend) -> Result<Vec<Extended>> {
        self.ask_at(&self.leases, &extend.queue, calls::extend(extend), answers::extended).await
    }

    async fn settle(&self, queue: &Key, settles: &[Settle]) -> Result<Vec<Settled>> {
        let call = calls::settle(queue, settles, tries(&self.servers));
        self.ask(queue, call, answers::settled).await
    }

    async fn find(&self, queue: &Key, ids: &[ElementId], payload: usize) -> Result<Vec<Option<ElementRow>>> {
        self.ask(queue, calls::find(queue, ids, payload), answers::rows).await
    }

    async fn status(&self, queue: &Key) -> Result<QueueStatus> {
        self.ask(queue, calls::status(queue), answers::status).await
    }

    async fn elements(
        &self,
        queue: &Key,
        phase: Phase,
        Cursor(from): &Cursor,
        about: usize,
        payload: usize,
    ) -> Result<(Vec<ElementRow>, Option<Cursor>)> {
        let about = about.clamp(1, MAX_PAGE);
        let Some(call) = calls::page(queue, phase, from, about, payload) else { return Ok((Vec::new(), None)) };
        self.ask(queue, call, |reply| answers::page(phase, reply)).await
    }

    async fn change(&self, queue: &Key, change: &Change) -> Result<u64> {
        let Some(call) = calls::change(queue, change, tries(&self.servers)) else { return Ok(0) };
        self.ask(queue, call, |reply| read::unsigned(&reply)).await
    }

    async fn queues(&self, pattern: &Pattern, from: &Cursor, about: usize) -> Result<(Vec<Key>, Option<Cursor>)> {
        pages::queues(&self.servers, pattern, from, about).await
    }

    async fn subscribe_bell(&self, bell: &Bell, notifier: Notifier) -> Result<Subscription> {
        let (queue, channel) = match bell {
            Bell::Ready { queue, taker } => (queue, names::work_taker(queue.as_str(), *taker)),
            Bell::Results { queue, client } => (queue, names::work_results(queue.as_str(), *client)),
        };
        self.servers.subscribe(&channel, Sink::of(notifier)).await.map_err(|error| error.at(queue))
    }
}

impl RedisObjects {
    /// The answer to one call.
    async fn ask<T>(&self, queue: &Key, call: Command, read: impl FnOnce(Value) -> Result<T> + Send) -> Result<T> {
        self.ask_at(&self.servers, queue, call, read).await
    }

    /// The answer to one call on connections to these servers.
    async fn ask_at<T>(
        &self,
        servers: &Servers,
        queue: &Key,
        call: Command,
        read: impl FnOnce(Value) -> Result<T> + Send,
    ) -> Result<T> {
        let calls = [(queue, Ok(call))].into_iter();
        let reply = self.send_to(servers, calls).await.pop().unwrap_or_else(|| Err(missing()));
        reply.and_then(read).map_err(|error| error.at(queue))
    }

    async fn send<'k>(&self, calls: impl Iterator<Item = (&'k Key, Result<Command>)>) -> Vec<Result<Value>> {
        self.send_to(&self.servers, calls).await
    }

    /// The replies to these calls of scripts, in one round trip to each server, and one more for those whose queue has a layout that
    /// was not expected.
    async fn send_to<'k>(
        &self,
        servers: &Servers,
        calls: impl Iterator<Item = (&'k Key, Result<Command>)>,
    ) -> Vec<Result<Value>> {
        let fit = |(queue, call): (&'k Key, Result<Command>)| {
            (queue, call.and_then(|call| in_one_slot(servers, queue, call)).map(|call| self.layouts.fit(queue, call)))
        };
        let calls: Vec<(&Key, Result<Command>)> = calls.map(fit).collect();
        let sent: Vec<(&Key, &Command)> =
            calls.iter().filter_map(|(queue, call)| Some((*queue, call.as_ref().ok()?))).collect();
        let mut replies = execute(servers, sent.iter().map(|(_, call)| *call)).await;
        let is_raised = |at: &usize| self.layouts.is_raised(sent[*at].0, &replies[*at]);
        let raised: Vec<usize> = (0..sent.len()).filter(is_raised).collect();
        let again = raised.iter().map(|at| (sent[*at].0.as_str(), sent[*at].1));
        let again: Vec<_> = again.map(|(name, call)| call.clone().with_keys(names::newer_work(name))).collect();
        for (at, reply) in raised.into_iter().zip(execute(servers, again.iter()).await) {
            replies[at] = reply;
        }
        let mut replies = replies.into_iter();
        let mut reply = || replies.next().unwrap_or_else(|| Err(missing())).and_then(layouts::checked);
        calls.into_iter().map(|(_, call)| call.and_then(|_| reply())).collect()
    }
}

/// The number of takers to which a script may send a message until one of them receives it.
fn tries(servers: &Servers) -> u8 {
    if servers.counts_all_receivers() { 8 } else { 1 }
}

/// Refuses a queue whose keys would be in several slots of a cluster.
fn in_one_slot(servers: &Servers, queue: &Key, call: Command) -> Result<Command> {
    if servers.is_cluster() {
        let [first, second, ..] = names::work(queue.as_str());
        if slot(first.as_bytes()) != slot(second.as_bytes()) {
            return Err(objects::several_slots());
        }
    }
    Ok(call)
}

/// The replies to these calls, one for each.
async fn execute<'c>(servers: &Servers, calls: impl Iterator<Item = &'c Command>) -> Vec<Result<Value>> {
    let calls: Vec<&Command> = calls.collect();
    if calls.is_empty() {
        return Vec::new();
    }
    let pack = |form: ScriptForm| {
        let mut pipe = Pipeline::with_capacity(calls.len());
        calls.iter().for_each(|call| _ = pipe.add_command(call.in_form(form)));
        pipe
    };
    let mut replies: Vec<Result<Value>> = match servers.call_scripts(servers.deadline(), Keys::OfScripts, pack).await {
        Ok(replies) => replies.into_iter().collect(),
        Err(error) => vec![Err(error); calls.len()],
    };
    replies.resize_with(calls.len(), || Err(missing()));
    replies
}

fn missing() -> Error {
    Error::unavailable("Redis has not answered each operation").ambiguous()
}
