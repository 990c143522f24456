//! An open connection: sends requests, and notices when it should be closed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Instant,
};

use bandog_core::{Error, Result};
use futures_util::FutureExt;
use redis::{Cmd, Pipeline, Value, aio::MultiplexedConnection};
use tokio::{sync::Notify, task::unconstrained, time::timeout_at};

use super::arguments::{self, Known, LongestArgument, Way, length, not_sent, parts};
use crate::{
    refusal,
    script::{ScriptForm, Scripts},
};

/// Maximum number of consecutive requests that are not answered in time. When this number is reached, the connection is
/// closed and opened again. The connection might be half open: the server has ended it, and the client has not noticed.
const MAX_UNANSWERED: u32 = 2;

/// The connection while it is open.
#[derive(Debug)]
pub(super) struct LiveConnection {
    pub(super) mux: MultiplexedConnection,
    /// Whether each call sends the text of its script instead of the hash. It is true if the user has no right to load
    /// scripts, or to run them by their hash.
    pub(super) sends_text: AtomicBool,
    /// Number of consecutive requests without an answer.
    pub(super) unanswered: AtomicU32,
    /// Notified when too many requests had no answer, or when a server that sentinels name is no master now. Then the
    /// connection is closed.
    pub(super) given_up: Notify,
    /// Notified when the server has answered that it is a replica.
    pub(super) is_replica: Notify,
    /// The longest argument that the server accepts.
    pub(super) longest_argument: LongestArgument,
    /// The scripts that the connection loads.
    pub(super) scripts: Scripts,
    /// Whether scripts publish their messages with SPUBLISH.
    pub(super) sharded: bool,
    /// Whether the server is a node of a cluster.
    pub(super) in_cluster: bool,
    /// Whether sentinels name the server. Then the connection is closed when the server answers that it is no master now,
    /// and the sentinels are asked again.
    pub(super) has_sentinels: bool,
}

impl LiveConnection {
    pub(super) fn script_form(&self) -> ScriptForm {
        if self.sends_text.load(Ordering::Relaxed) {
            ScriptForm::text(self.sharded)
        } else {
            ScriptForm::hash(self.sharded)
        }
    }

    /// The commands that load the scripts.
    pub(super) fn load_scripts(&self) -> Pipeline {
        self.scripts.load(self.sharded)
    }

    /// Sends a pipeline in the first poll, and waits for the answers. A command that is more than the server accepts is refused:
    /// its error is its answer. If it is not known whether the server accepts it, the pipeline is sent later.
    pub(super) async fn send(self: &Arc<Self>, pipe: &Pipeline, deadline: Instant) -> Result<Vec<Value>> {
        match arguments::may_be_too_long(pipe) {
            // Boxed, so that the future of the usual case stays small.
            true => self.send_long(pipe, deadline).boxed().await,
            false => self.send_now(pipe, deadline).await,
        }
    }

    /// As [`LiveConnection::send`], for commands that might be more than the server accepts.
    async fn send_long(self: &Arc<Self>, pipe: &Pipeline, deadline: Instant) -> Result<Vec<Value>> {
        let late = |_| Error::unavailable("earlier requests with long arguments had no answer in time");
        let mut known = timeout_at(deadline.into(), self.longest_argument.0.lock()).await.map_err(late)?;
        let longest = pipe.cmd_iter().map(length).max().unwrap_or(0);
        // A limit that has refused a command may be another one now.
        if matches!(*known, Known::Nothing) || matches!(*known, Known::Limit(limit, _) if longest > limit) {
            let silent = |error| Error::unavailable("Redis has not said which arguments it accepts").caused_by(error);
            *known = Known::read(&self.send_now(&arguments::question(), deadline).await.map_err(silent)?);
        }
        let commands: Vec<&Cmd> = pipe.cmd_iter().collect();
        let ways = known.ways(&commands);
        if ways.iter().all(|way| matches!(way, Way::Together)) {
            drop(known);
            return self.send_now(pipe, deadline).await;
        }
        let mut replies: Vec<Option<Value>> = ways.iter().map(Way::reply).collect();
        for part in parts(&ways) {
            let mut request = Pipeline::with_capacity(part.len());
            part.iter().for_each(|at| _ = request.add_command(commands[*at].clone()));
            let values = self.send_now(&request, deadline).await?;
            let is_closed = values.iter().filter_map(refusal::server_error).any(refusal::is_too_long);
            if let (Known::Accepted(accepted), false) = (&mut *known, is_closed) {
                *accepted = part.iter().map(|at| length(commands[*at])).fold(*accepted, usize::max);
            }
            part.into_iter().zip(values).for_each(|(at, value)| replies[at] = Some(value));
            if is_closed {
                self.leave(deadline).await;
                break;
            }
        }
        Ok(replies.into_iter().map(|reply| reply.unwrap_or_else(not_sent)).collect())
    }

    /// Waits until no call can begin on this connection, which the server closes after an error of the protocol. A call that began
    /// before the server has closed it would fail without an answer.
    async fn leave(self: &Arc<Self>, deadline: Instant) {
        self.given_up.notify_one();
        let mut ping = Pipeline::with_capacity(1);
        ping.cmd("PING");
        // It is never answered. It fails after the connection was taken from all calls.
        let _ = self.send_now(&ping, deadline).await;
    }

    /// Sends a pipeline in the first poll, whatever it contains, and waits for the answers.
    pub(super) async fn send_now(self: &Arc<Self>, pipe: &Pipeline, deadline: Instant) -> Result<Vec<Value>> {
        let mut mux = self.mux.clone();
        mux.set_response_timeout(deadline.saturating_duration_since(Instant::now()));
        // Without `unconstrained`, a task that has used up the poll budget of Tokio would not send in its first poll.
        // Then a later call could send before this call.
        let answer = unconstrained(mux.send_packed_commands(pipe, 0, pipe.len())).await;
        let values = answer.map_err(|error| {
            if error.is_timeout() && self.unanswered.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_UNANSWERED {
                self.given_up.notify_one();
            }
            refusal::failed(error)
        })?;
        if self.has_sentinels && values.iter().any(refusal::is_no_master) {
            self.given_up.notify_one();
        } else if !self.in_cluster && values.iter().any(refusal::is_replica) {
            self.is_replica.notify_one();
        }
        if self.unanswered.load(Ordering::Relaxed) != 0 {
            self.unanswered.store(0, Ordering::Relaxed);
        }
        if values.len() == pipe.len() {
            Ok(values)
        } else {
            Err(Error::unavailable("Redis sent fewer answers than commands").ambiguous())
        }
    }
}

/// Loads the scripts. If the user has no right to load scripts, each later call sends the text of its script.
pub(super) async fn load(live: Arc<LiveConnection>) {
    let (mut mux, scripts) = (live.mux.clone(), live.load_scripts());
    let Ok(answers) = unconstrained(mux.send_packed_commands(&scripts, 0, scripts.len())).await else {
        return; // The next call gets NOSCRIPT and loads the scripts again.
    };
    if are_denied(&answers) {
        live.sends_text.store(true, Ordering::Relaxed);
    }
}

/// Whether the user has no right to load scripts.
pub(super) fn are_denied(loads: &[Value]) -> bool {
    loads.iter().any(|answer| refusal::server_error(answer).is_some_and(refusal::is_lasting))
}
