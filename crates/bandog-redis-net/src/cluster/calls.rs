//! Splits the commands of a call by node, and repeats those that another node must run.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use bandog_core::{Error, Result};
use futures_util::{StreamExt, stream::FuturesUnordered};
use redis::{Cmd, Pipeline, Value};
use tokio::time::{sleep, sleep_until};

use super::{map::Node, redirection::Redirection, shared::SharedCluster};
use crate::{keys::Keys, refusal, replies::Replies, script::ScriptForm};

/// The pause before commands are repeated. Each further pause is twice the previous pause.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(2);
pub(super) const MAX_PAUSE: Duration = Duration::from_millis(100);
/// Number of redirections that are followed without a pause.
const QUICK_ROUNDS: u32 = 3;
/// After all other nodes of a call have answered, the last nodes have at least this time.
const MIN_PATIENCE: Duration = Duration::from_millis(500);

/// A command without a reply.
struct Pending {
    /// The position of the command in the call.
    at: usize,
    slot: u16,
    /// The node that must be asked next, although it does not have the slot yet.
    ask: Option<Arc<Node>>,
    /// Whether a node may have applied it before. A script can be stopped in the middle.
    maybe_applied: bool,
}

impl Pending {
    /// The error of this command if it is not repeated any more.
    fn failed(&self, error: Error) -> Error {
        if self.maybe_applied { error.ambiguous() } else { error }
    }
}

/// The replies of one node to its commands.
type Part = (Arc<Node>, Vec<Pending>, Result<Vec<Value>>);

/// The commands of one call.
pub(super) struct Call<'a> {
    pub(super) deadline: Instant,
    pack: &'a (dyn Fn(ScriptForm) -> Pipeline + Send + Sync),
    /// The commands, with their scripts in this form.
    form: ScriptForm,
    commands: Pipeline,
}

impl SharedCluster {
    /// Sends each command to its node, and returns the replies.
    pub(super) async fn call(
        self: &Arc<Self>,
        deadline: Instant,
        keys: Keys<'_>,
        pack: &(dyn Fn(ScriptForm) -> Pipeline + Send + Sync),
    ) -> Replies {
        let form = ScriptForm::hash(self.map().is_sharded());
        let call = Call { deadline, pack, form, commands: pack(form) };
        let mut replies: Vec<Option<Result<Value>>> = vec![None; call.commands.len()];
        let slots: Vec<_> = call.commands().enumerate().map(|(at, command)| keys.slot_of(at, command)).collect();
        let Some(first) = slots.iter().flatten().next().copied() else {
            return if slots.is_empty() { Replies::default() } else { self.call_any(&call).await };
        };
        // A command without a key goes to the node of the first key.
        let slots = slots.into_iter().map(|slot| slot.unwrap_or(first)).enumerate();
        let mut pending: Vec<_> =
            slots.map(|(at, slot)| Pending { at, slot, ask: None, maybe_applied: false }).collect();
        let (mut rounds, mut pause) = (0, FIRST_PAUSE);
        // The end of the repetitions.
        let mut end = deadline;
        loop {
            let (mut again, is_quick) = self.round(&call, pending, end, &mut replies).await;
            rounds += 1;
            if again.is_empty() {
                break;
            }
            if again.len() < replies.len() {
                // The others have been answered, and wait for these.
                end = end.min(Instant::now() + MIN_PATIENCE);
            }
            if !is_quick || rounds > QUICK_ROUNDS {
                if Instant::now() + pause >= end {
                    break; // The replies have the reasons.
                }
                sleep(pause).await;
                pause = (pause * 2).min(MAX_PAUSE);
            }
            again.sort_unstable_by_key(|command| command.at);
            pending = again;
        }
        let missing = || Err(refusal::unexpected_reply(&Value::Nil));
        Replies::new(replies.into_iter().map(|reply| reply.unwrap_or_else(missing)))
    }

    /// Sends the commands once, and waits for their replies until `end`. Returns the commands that must be repeated, and
    /// whether this can be done without a pause. Their replies say why they must be repeated.
    async fn round(
        self: &Arc<Self>,
        call: &Call<'_>,
        pending: Vec<Pending>,
        end: Instant,
        replies: &mut [Option<Result<Value>>],
    ) -> (Vec<Pending>, bool) {
        let (mut again, mut is_quick) = (Vec::new(), true);
        let mut parts = BTreeMap::<_, (Arc<Node>, Vec<Pending>)>::new();
        for command in pending {
            let node = command.ask.clone().or_else(|| self.map().owner(command.slot));
            replies[command.at] = None;
            match node {
                Some(node) => {
                    parts.entry(Arc::as_ptr(&node).addr()).or_insert_with(|| (node, Vec::new())).1.push(command);
                }
                None => {
                    let error = Error::unavailable("no node of the cluster has the slot now");
                    replies[command.at] = Some(Err(command.failed(error)));
                    again.push(command);
                    is_quick = false;
                    self.refresh_soon();
                }
            }
        }
        // The nodes that have not answered yet.
        let mut silent: Vec<_> = parts.values().map(|(node, _)| node.clone()).collect();
        let mut sent: FuturesUnordered<_> = parts.into_values().map(|(node, part)| call.send(node, part)).collect();
        let started = Instant::now();
        // The time after which the remaining nodes are not waited for.
        let mut patience = end + MAX_PAUSE;
        while !sent.is_empty() {
            let part = tokio::select! {
                part = sent.next() => part,
                () = sleep_until(patience.into()) => None,
            };
            let Some((node, part, values)) = part else { break };
            silent.retain(|other| !Arc::ptr_eq(other, &node));
            match values {
                Ok(values) => {
                    for (command, value) in part.into_iter().zip(values) {
                        is_quick &= self.take(&node, command, value, replies, &mut again);
                    }
                }
                Err(error) => {
                    // The node might be down, so its slots might move soon.
                    self.refresh_soon();
                    part.iter().for_each(|command| replies[command.at] = Some(Err(command.failed(error.clone()))));
                }
            }
            patience = patience.min(Instant::now() + MIN_PATIENCE.max(started.elapsed() * 4));
        }
        if !sent.is_empty() {
            self.refresh_soon();
            silent.iter().for_each(Node::check);
            let late = || Error::unavailable("this node of the cluster did not answer in time").ambiguous();
            replies.iter_mut().filter(|reply| reply.is_none()).for_each(|reply| *reply = Some(Err(late())));
        }
        (again, is_quick)
    }

    /// Takes the reply to one command. If the command must be repeated, adds it to `again`. Returns whether it can be
    /// repeated without a pause.
    fn take(
        self: &Arc<Self>,
        node: &Arc<Node>,
        mut command: Pending,
        value: Value,
        replies: &mut [Option<Result<Value>>],
        again: &mut Vec<Pending>,
    ) -> bool {
        let Some(redirection) = Redirection::read(&value, &node.host) else {
            replies[command.at] = Some(Ok(value));
            return true;
        };
        let error = refusal::not_served(&value);
        command.maybe_applied |= error.maybe_applied();
        replies[command.at] = Some(Err(command.failed(error)));
        let (ask, is_quick) = match redirection {
            Redirection::Moved(slot, host) => {
                self.slot_moved(slot, &host);
                (None, true)
            }
            Redirection::Ask(host) => (Some(self.node_at(&host)), true),
            Redirection::Later => {
                self.refresh_soon();
                (None, false)
            }
        };
        again.push(Pending { ask, ..command });
        is_quick
    }
}

impl Call<'_> {
    /// The commands.
    pub(super) fn commands(&self) -> impl Iterator<Item = &Cmd> {
        self.commands.cmd_iter()
    }

    /// Sends all commands to this node.
    pub(super) async fn send_whole(&self, node: &Node) -> Result<Vec<Value>> {
        let select = |form| if form == self.form { self.commands.clone() } else { (self.pack)(form) };
        node.server.link.call_scripts(self.deadline, select).await
    }

    /// Sends these commands to this node. The first poll sends them, if the connection is open.
    async fn send(&self, node: Arc<Node>, part: Vec<Pending>) -> Part {
        let is_whole = part.len() == self.commands.len() && part.iter().all(|command| command.ask.is_none());
        let select = |form| {
            let other_form = (form != self.form).then(|| (self.pack)(form));
            let all = other_form.as_ref().unwrap_or(&self.commands);
            if is_whole {
                return all.clone();
            }
            let all: Vec<&Cmd> = all.cmd_iter().collect();
            let mut pipe = Pipeline::with_capacity(2 * part.len());
            for command in &part {
                if command.ask.is_some() {
                    pipe.cmd("ASKING");
                }
                pipe.add_command(all[command.at].clone());
            }
            pipe
        };
        let values = node.server.link.call_scripts(self.deadline, select).await;
        let values = values.map(|values| {
            let mut values = values.into_iter();
            let reply = |command: &Pending| {
                let asking = command.ask.is_some().then(|| values.next()).flatten();
                let value = values.next().unwrap_or(Value::Nil);
                // For example, the user has no right for ASKING.
                asking.filter(|asking| matches!(asking, Value::ServerError(_))).unwrap_or(value)
            };
            part.iter().map(reply).collect()
        });
        (node, part, values)
    }
}
