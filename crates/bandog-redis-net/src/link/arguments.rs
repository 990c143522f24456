//! The longest argument that a server accepts. A server that gets a longer one closes the connection, so such a command can never
//! succeed, and disturbs all others. It is refused here if the server says what it accepts. Otherwise each command with a long
//! argument is sent alone, so that an error of the protocol is certainly the answer to it.

use std::{sync::Arc, time::Instant};

use bandog_core::{Error, Result};
use redis::{Arg, Cmd, Pipeline, Value, parse_redis_value};
use tokio::time::timeout_at;

use super::live::LiveConnection;
use crate::{
    refusal,
    reply::{list, text},
};

/// The setting that limits the length of an argument. Its lowest value is 1 MiB.
const MAX_LENGTH: &str = "proto-max-bulk-len";
/// The setting that limits what the server keeps of a request that is not complete. Its lowest value is 1 MiB.
const MAX_BUFFER: &str = "client-query-buffer-limit";
/// Maximum number of bytes that the server keeps beside an argument: its end, and what was read together with it.
const BESIDE: usize = 64 * 1024;
/// An argument that is not longer needs no check.
const ALWAYS_ACCEPTED: usize = (1 << 20) - BESIDE;
/// Maximum number of arguments of a command before Redis 7.
const MAX_NUMBER: usize = 1 << 20;

/// What is known of the longest argument. Held by a call as long as its answer may say more.
#[derive(Debug, Default)]
pub(super) struct LongestArgument(tokio::sync::Mutex<Known>);

#[derive(Debug, Clone, Copy, Default)]
enum Known {
    #[default]
    Nothing,
    /// The server accepts this length, and does not say whether it accepts more.
    Accepted(usize),
    /// The server accepts this length, because of this setting.
    Limit(usize, &'static str),
}

/// How a command is sent.
enum Way {
    /// Together with others.
    Together,
    /// In a request of its own.
    Alone,
    /// Directly before the next command, which is sent alone.
    Before,
    /// Not at all. This is the reply.
    Refused(Value),
}

/// Whether one of the commands might be more than the server accepts.
pub(super) fn may_be_too_long(pipe: &Pipeline) -> bool {
    pipe.cmd_iter().any(|command| length(command) > ALWAYS_ACCEPTED || has_many(command))
}

impl LiveConnection {
    /// As [`LiveConnection::send`], for commands that might be more than the server accepts.
    pub(super) async fn send_long(self: &Arc<Self>, pipe: &Pipeline, deadline: Instant) -> Result<Vec<Value>> {
        let late = |_| Error::unavailable("earlier requests with long arguments had no answer in time");
        let mut known = timeout_at(deadline.into(), self.longest_argument.0.lock()).await.map_err(late)?;
        let longest = pipe.cmd_iter().map(length).max().unwrap_or(0);
        // A limit that has refused a command may be another one now.
        if matches!(*known, Known::Nothing) || matches!(*known, Known::Limit(limit, _) if longest > limit) {
            *known = self.ask(deadline).await?;
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
                break;
            }
        }
        Ok(replies.into_iter().map(|reply| reply.unwrap_or_else(not_sent)).collect())
    }

    /// Asks the server for its limits.
    async fn ask(self: &Arc<Self>, deadline: Instant) -> Result<Known> {
        let mut pipe = Pipeline::with_capacity(2);
        for name in [MAX_LENGTH, MAX_BUFFER] {
            pipe.cmd("CONFIG").arg("GET").arg(name);
        }
        let values = self.send_now(&pipe, deadline).await.map_err(|error| {
            Error::unavailable("Redis has not said in time which arguments it accepts").caused_by(error)
        })?;
        let [length, buffer] = [0, 1].map(|at| values.get(at).and_then(setting));
        let limits =
            [length.map(|length| (length, MAX_LENGTH)), buffer.map(|all| (all.saturating_sub(BESIDE), MAX_BUFFER))];
        let lowest = limits.into_iter().flatten().min();
        Ok(lowest.map_or(Known::Accepted(ALWAYS_ACCEPTED), |(limit, name)| Known::Limit(limit, name)))
    }
}

impl Known {
    /// The ways of commands. ASKING goes with the command that follows it.
    fn ways(self, commands: &[&Cmd]) -> Vec<Way> {
        let mut ways: Vec<Way> = commands.iter().map(|command| self.way(command)).collect();
        for at in (1..ways.len()).filter(|at| is_asking(commands[at - 1])) {
            match ways[at] {
                Way::Alone => ways[at - 1] = Way::Before,
                Way::Refused(_) => ways[at - 1] = Way::Refused(Value::Okay),
                Way::Together | Way::Before => {}
            }
        }
        ways
    }

    fn way(self, command: &Cmd) -> Way {
        let length = length(command);
        match self {
            Self::Limit(limit, setting) if length > limit => Way::Refused(too_long(length, limit, setting)),
            Self::Accepted(accepted) if length > accepted => Way::Alone,
            _ if has_many(command) => Way::Alone,
            Self::Nothing | Self::Accepted(_) | Self::Limit(..) => Way::Together,
        }
    }
}

impl Way {
    fn reply(&self) -> Option<Value> {
        match self {
            Self::Together | Self::Alone | Self::Before => None,
            Self::Refused(reply) => Some(reply.clone()),
        }
    }
}

/// The positions of the commands of each request, in their order.
fn parts(ways: &[Way]) -> Vec<Vec<usize>> {
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut last = &Way::Alone;
    for (at, way) in ways.iter().enumerate() {
        match (last, way, parts.last_mut()) {
            (_, Way::Refused(_), _) => continue,
            (Way::Together, Way::Together, Some(part)) | (Way::Before, Way::Alone, Some(part)) => part.push(at),
            (_, Way::Together | Way::Alone | Way::Before, _) => parts.push(vec![at]),
        }
        last = way;
    }
    parts
}

/// The bytes of the longest argument.
fn length(command: &Cmd) -> usize {
    let length = |arg| match arg {
        Arg::Simple(bytes) => <[u8]>::len(bytes),
        _ => 0,
    };
    command.args_iter().map(length).max().unwrap_or(0)
}

fn is_asking(command: &Cmd) -> bool {
    matches!(command.args_iter().next(), Some(Arg::Simple(b"ASKING")))
}

fn has_many(command: &Cmd) -> bool {
    command.args_iter().len() > MAX_NUMBER
}

/// The value of a setting in bytes.
fn setting(reply: &Value) -> Option<usize> {
    match reply {
        Value::Map(pairs) => pairs.first().and_then(|(_, value)| text(value)),
        reply => list(reply).get(1).and_then(text),
    }?
    .parse()
    .ok()
}

/// The reply to a command that is refused here.
fn too_long(length: usize, limit: usize, setting: &str) -> Value {
    error(&format!(
        "TOOLONG an argument of a command has {length} bytes, and this server accepts at most {limit}, because of its setting \
         {setting}; raise it, or keep large data elsewhere"
    ))
}

/// The reply to a command that was not sent.
fn not_sent() -> Value {
    error("UNSENT the server has closed the connection because of an earlier command, so this one was not sent")
}

/// An error reply with this code and this text.
fn error(text: &str) -> Value {
    parse_redis_value(format!("-{text}\r\n").as_bytes()).unwrap_or(Value::Nil)
}

#[cfg(test)]
mod tests;
