//! The acknowledgements of the replicas of one node.
//!
//! All calls that wait for the same node when a round begins share the round: their writes, and one WAIT.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bandog_core::{Error, ErrorKind, Result, rounded};
use redis::{Pipeline, Value};
use tokio::time::timeout_at;

use crate::{
    dialler::Dialler,
    link::Link,
    options::Host,
    refusal,
    replicas::{Repeat, Request, RoundTasks, Rounds, wait_limit},
    script::ScriptForm,
};

/// The acknowledgements of the replicas of one node. Their connections are opened when they are first needed.
#[derive(Debug)]
pub(super) struct Acknowledgements {
    dialler: Dialler,
    host: Arc<Host>,
    tasks: RoundTasks<NodeRounds>,
}

/// The writes of a call that a node and its replicas must have.
pub(super) struct Writes {
    pub(super) repeat: Repeat,
    /// The positions of the writes in the call.
    pub(super) positions: Vec<usize>,
    /// Whether the slots of their keys are being moved to the node.
    pub(super) moves: bool,
}

/// The connection of a task, on which it makes the rounds of a node.
struct NodeRounds {
    replicas: u8,
    limit: Duration,
    sharded: bool,
    host: Arc<Host>,
    link: Link,
}

impl Acknowledgements {
    /// This does no I/O.
    pub(super) fn new(dialler: Dialler, host: Host) -> Self {
        Self { dialler, host: host.into(), tasks: RoundTasks::default() }
    }

    /// Repeats these writes at the node, and waits for its replicas. Returns the reply to each write.
    pub(super) async fn ask(&self, writes: Writes, deadline: Instant) -> Result<Vec<Value>> {
        let connect = || {
            let options = &self.dialler.options;
            NodeRounds {
                replicas: options.replicas,
                limit: wait_limit(options),
                sharded: options.sharded,
                host: self.host.clone(),
                // The connection for commands has loaded the scripts, unless the user has no right to load them.
                link: Link::without_scripts(self.dialler.clone()),
            }
        };
        let acknowledged = self.tasks.ask(writes, connect);
        let late = |_| {
            let (required, host) = (self.dialler.options.replicas, &self.host);
            let message = format!("it is unknown whether {required} replicas of {host} have the write");
            Error::new(ErrorKind::NotReplicated, message)
        };
        timeout_at(deadline.into(), acknowledged).await.map_err(late)?
    }
}

impl Rounds for NodeRounds {
    type Subject = Writes;
    type Answer = Vec<Value>;

    async fn answer(&mut self, requests: Vec<Request<Self>>) -> bool {
        let (writes, callers): (Vec<_>, Vec<_>) =
            requests.into_iter().map(|Request { subject, answer }| (subject, answer)).unzip();
        let replies = self.round(&writes).await;
        let is_ok = replies.is_ok();
        let mut replies = replies.map(Vec::into_iter);
        for (writes, answer) in writes.iter().zip(callers) {
            let own = match &mut replies {
                Ok(replies) => Ok(replies.by_ref().take(writes.positions.len()).collect()),
                Err(error) => Err(error.clone()),
            };
            // The caller may have dropped its future.
            let _ = answer.send(own);
        }
        is_ok
    }
}

impl NodeRounds {
    /// Repeats these writes, and waits until enough replicas have acknowledged them. Returns the reply to each write.
    async fn round(&self, writes: &[Writes]) -> Result<Vec<Value>> {
        for form in [ScriptForm::hash(self.sharded), ScriptForm::text(self.sharded)] {
            // Whether each reply belongs to a write. The others belong to ASKING.
            let (mut pipe, mut is_write) = (Pipeline::new(), Vec::new());
            for Writes { repeat, positions, moves } in writes {
                for position in positions {
                    if *moves {
                        pipe.cmd("ASKING");
                        is_write.push(false);
                    }
                    pipe.add_command(repeat(*position, form));
                    is_write.push(true);
                }
            }
            let limit = u64::try_from(self.limit.as_millis()).unwrap_or(u64::MAX);
            pipe.cmd("WAIT").arg(self.replicas).arg(limit);
            let mut replies = self.link.call(pipe).await?;
            let is_refused =
                |reply: &Value| refusal::is_no_script(reply) || refusal::is_command_refused(reply, form.verb());
            if !form.is_text() && replies.iter().any(is_refused) {
                continue;
            }
            self.acknowledged(replies.pop())?;
            return Ok(replies
                .into_iter()
                .zip(is_write)
                .filter_map(|(reply, is_write)| is_write.then_some(reply))
                .collect());
        }
        Err(Error::new(ErrorKind::Denied, "this user may not run scripts"))
    }

    /// Reads the reply to WAIT.
    fn acknowledged(&self, reply: Option<Value>) -> Result<()> {
        let (required, host) = (self.replicas, &self.host);
        match reply {
            Some(Value::Int(number)) if number >= required.into() => Ok(()),
            Some(Value::Int(number)) => {
                let message = format!(
                    "{number} of {required} replicas of {host} have acknowledged the write within {}",
                    rounded(self.limit)
                );
                Err(Error::new(ErrorKind::NotReplicated, message))
            }
            Some(Value::ServerError(error)) if refusal::is_lasting(&error) => {
                let message = "on a Redis Cluster, replicas= needs the command WAIT";
                Err(Error::new(ErrorKind::Denied, message).caused_by(error))
            }
            Some(Value::ServerError(error)) => Err(refusal::refused(&error)),
            reply => Err(refusal::unexpected_reply(&reply.unwrap_or(Value::Nil))),
        }
    }
}
