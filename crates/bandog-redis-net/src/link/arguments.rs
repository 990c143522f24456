//! The longest argument that a server accepts. A server that gets a longer one closes the connection, so such a command can never
//! succeed, and disturbs all others. It is refused here if the server says what it accepts. Otherwise each command with a long
//! argument is sent alone, so that an error of the protocol is certainly the answer to it.

use redis::{Arg, Cmd, Pipeline, Value, parse_redis_value};

use crate::reply::{list, text};

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
pub(super) struct LongestArgument(pub(super) tokio::sync::Mutex<Known>);

/// What the server has said of the longest argument.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Known {
    #[default]
    Nothing,
    /// The server accepts this length, and does not say whether it accepts more.
    Accepted(usize),
    /// The server accepts this length, because of this setting.
    Limit(usize, &'static str),
}

/// How a command is sent.
pub(super) enum Way {
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

/// The commands that ask the server for its limits.
pub(super) fn question() -> Pipeline {
    let mut pipe = Pipeline::with_capacity(2);
    for name in [MAX_LENGTH, MAX_BUFFER] {
        pipe.cmd("CONFIG").arg("GET").arg(name);
    }
    pipe
}

impl Known {
    /// Reads the replies to [`question`].
    pub(super) fn read(replies: &[Value]) -> Self {
        let [length, buffer] = [0, 1].map(|at| replies.get(at).and_then(setting));
        let length = length.map(|length| (length, MAX_LENGTH));
        let buffer = buffer.map(|all| (all.saturating_sub(BESIDE), MAX_BUFFER));
        let lowest = [length, buffer].into_iter().flatten().min();
        lowest.map_or(Self::Accepted(ALWAYS_ACCEPTED), |(limit, setting)| Self::Limit(limit, setting))
    }

    /// The ways of commands. ASKING goes with the command that follows it.
    pub(super) fn ways(self, commands: &[&Cmd]) -> Vec<Way> {
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
    pub(super) fn reply(&self) -> Option<Value> {
        match self {
            Self::Together | Self::Alone | Self::Before => None,
            Self::Refused(reply) => Some(reply.clone()),
        }
    }
}

/// The positions of the commands of each request, in their order.
pub(super) fn parts(ways: &[Way]) -> Vec<Vec<usize>> {
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
pub(super) fn length(command: &Cmd) -> usize {
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
pub(super) fn not_sent() -> Value {
    error("UNSENT the server has closed the connection because of an earlier command, so this one was not sent")
}

/// An error reply with this code and this text.
fn error(text: &str) -> Value {
    parse_redis_value(format!("-{text}\r\n").as_bytes()).unwrap_or(Value::Nil)
}

#[cfg(test)]
mod tests;
