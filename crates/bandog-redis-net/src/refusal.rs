//! Maps errors of Redis to errors of bandog.

use bandog_core::{
    Error,
    ErrorKind::{self, Corrupt, Denied, Misused, Unavailable, Unsupported},
};
use redis::{RedisError, ServerError, ServerErrorKind, Value};

/// The error for a server's error reply. The command was not applied, unless the error is ambiguous.
pub fn refused(error: &ServerError) -> Error {
    let (kind, message) = meaning(error);
    match kind {
        // The message is the whole text of the error. As the cause, it would be repeated.
        Some(kind) if message == details(error) => Error::new(kind, message),
        Some(kind) => Error::new(kind, message).caused_by(error.clone()),
        // An error with an unknown code, which may come from a proxy, does not show whether the command was applied.
        None => Error::unavailable(message).ambiguous().caused_by(error.clone()),
    }
}

/// The error if the server refuses a command of the Redis handshake, such as the login. The client has sent no other
/// commands yet, so no command was applied. `store` is the server's address, for the message.
pub fn handshake_error(store: &str, error: &ServerError) -> Error {
    let (kind, message) = meaning(error);
    Error::new(kind.unwrap_or(Unavailable), format!("{store}: {message}")).caused_by(error.clone())
}

/// The error for a request without an answer. Its commands might have been applied.
pub fn failed(error: RedisError) -> Error {
    let message = if error.is_timeout() { "Redis did not answer in time" } else { "the connection to Redis broke" };
    Error::unavailable(message).ambiguous().caused_by(error)
}

/// The server error, if the reply is one.
pub fn server_error(value: &Value) -> Option<&ServerError> {
    match value {
        Value::ServerError(error) => Some(error),
        _ => None,
    }
}

/// The text of the server's error: its code and its details.
pub fn server_text(error: &ServerError) -> String {
    format!("{} {}", error.code(), details(error)).trim_end().to_owned()
}

/// Whether the user lacks a right for the command, for a key or for a channel.
pub fn is_denied(error: &ServerError) -> bool {
    code(error) == "NOPERM"
}

/// Whether a node of a cluster answers that another node has the slot. The command was not applied.
pub fn is_redirection(error: &ServerError) -> bool {
    matches!(error.code(), "MOVED" | "ASK")
}

/// Whether a node of a cluster cannot run the command now, and will be able to soon: the slot is being moved, or a replica
/// is taking over. The last text is an error in the middle of a script: such a script must be safe to repeat, as after a
/// lost reply.
pub fn is_passing(error: &ServerError) -> bool {
    matches!(error.code(), "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" | "READONLY" | "MASTERDOWN")
        || details(error).contains("Script attempted to access a non local key")
        || details(error).contains("Script attempted to execute a") && details(error).contains("the cluster is down")
}

/// Whether the user has the right for the command and lacks the right for a key. The text of this error differs between
/// versions of Redis: "one of the keys", "a key", "the 'k' key".
pub fn is_out_of_reach(error: &ServerError) -> bool {
    is_denied(error) && details(error).contains("access") && details(error).contains("key")
}

/// Whether the server refuses the command because of its memory limit.
pub fn is_out_of_memory(error: &ServerError) -> bool {
    code(error) == "OOM"
}

/// Whether the key has another type than the command expects.
pub fn is_wrong_type(error: &ServerError) -> bool {
    code(error) == "WRONGTYPE"
}

/// Whether the server would refuse a repetition of the command, too.
pub fn is_lasting(error: &ServerError) -> bool {
    is_denied(error) || details(error).starts_with("unknown ")
}

/// Whether the server refuses this command because the user has no right to run it, or because the server does not know
/// it. The command did nothing.
pub fn is_command_refused(value: &Value, command: &str) -> bool {
    let Some(error) = server_error(value) else { return false };
    let text = details(error);
    match text.split_once("no permissions to run ") {
        Some((_, rest)) => error.code() == "NOPERM" && names_command(rest, command),
        None => text.starts_with("unknown command") && names_command(text, command),
    }
}

/// Whether the first word in quotes is this command.
fn names_command(text: &str, command: &str) -> bool {
    text.split(['\'', '`']).nth(1).is_some_and(|word| word.eq_ignore_ascii_case(command))
}

/// Whether the server says, in its reply to a command or to one of several steps, that it is no master now or does not
/// serve yet. The command or step did nothing.
pub fn is_no_master(reply: &Value) -> bool {
    is_replica(reply) || server_error(reply).is_some_and(|error| code(error) == "LOADING")
}

/// Whether the server says, in its reply to a command or to one of several steps, that it is a replica. The command or
/// step did nothing.
pub fn is_replica(reply: &Value) -> bool {
    match reply {
        Value::ServerError(error) => matches!(code(error), "READONLY" | "MASTERDOWN"),
        Value::Array(replies) => replies.iter().filter_map(server_error).any(|error| code(error) == "READONLY"),
        _ => false,
    }
}

/// Whether a command is more than the server accepts: it was not sent, or the server has closed the connection. It did nothing.
pub fn is_too_long(error: &ServerError) -> bool {
    error.code() == "TOOLONG" || TOO_LONG_TEXTS.iter().any(|text| details(error).starts_with(text))
}

/// Whether the server does not know this command.
pub fn is_unknown_command(error: &ServerError, command: &str) -> bool {
    code(error) == "UNKNOWN" && is_command_refused(&Value::ServerError(error.clone()), command)
}

/// Whether the server does not have the script. The call did nothing.
pub fn is_no_script(value: &Value) -> bool {
    matches!(value, Value::ServerError(error) if error.kind() == Some(ServerErrorKind::NoScript))
}

/// The error if the nodes of a cluster do not serve a slot before the deadline. `reply` is the last reply.
pub fn not_served(reply: &Value) -> Error {
    let Value::ServerError(error) = reply else { return unexpected_reply(reply) };
    let message = match error.code() {
        "CLUSTERDOWN" => {
            "a master of the cluster has failed, and no replica has taken over yet (with `cluster-require-full-coverage \
             no`, the other masters would serve their keys)"
        }
        _ => "the cluster does not serve this slot now, because it is moving or a replica takes over",
    };
    let refused = Error::unavailable(message).caused_by(error.clone());
    // A script may have been stopped in the middle.
    if error.code() == "ERR" { refused.ambiguous() } else { refused }
}

/// The error if the server of a `redis://` URL says that another node has a slot.
pub fn node_of_a_cluster() -> Error {
    Error::new(Unsupported, NODE_OF_A_CLUSTER)
}

/// The error for a reply that a correct server never sends.
pub fn unexpected_reply(value: &Value) -> Error {
    Error::unavailable(format!("Redis sent an unexpected reply: {value:?}")).ambiguous()
}

/// The kind and the message for this error. The kind is None if the code of the error is unknown.
fn meaning(error: &ServerError) -> (Option<ErrorKind>, &str) {
    let (kind, message) = match code(error) {
        "WRONGTYPE" => (Denied, "the key contains data of another type, so it was not changed"),
        "NOPERM" => (Denied, "this user of Redis lacks a right"),
        "NOAUTH" => (Denied, "Redis requires a password; write it into the URL"),
        "WRONGPASS" => (Denied, "Redis refuses this user or password"),
        "DENIED" => (Denied, "Redis accepts connections only from its own machine"),
        "CORRUPT" => (Corrupt, details(error)),
        "INUSE" => (Denied, details(error)),
        "MISUSED" => (Misused, details(error)),
        "NOSCRIPT" => (Unavailable, "Redis had lost our scripts; they are being loaded again"),
        "MOVED" | "ASK" | "CROSSSLOT" => (Unsupported, NODE_OF_A_CLUSTER),
        "OOM" => (Unavailable, "Redis has reached its memory limit and accepts no new data"),
        "READONLY" => (Unavailable, "this Redis is a read-only replica; only its master accepts writes"),
        "LOADING" => (Unavailable, "Redis is still loading its data"),
        "BUSY" => (Unavailable, "Redis is busy with a script"),
        "NOREPLICAS" => (Unavailable, "Redis has fewer replicas than it needs to accept writes"),
        "MISCONF" => (Unavailable, "Redis cannot write its data to disk, and accepts no writes until it can"),
        "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" => (Unavailable, "Redis cannot serve now"),
        "ERR" if details(error).starts_with(TOO_LONG_TEXTS[0]) => (Misused, ARGUMENT_TOO_LONG),
        "ERR" if details(error).starts_with(TOO_LONG_TEXTS[1]) => {
            (Misused, "the command has more arguments than this server accepts: 1,048,576 before Redis 7")
        }
        "TOOLONG" => (Misused, details(error)),
        "UNSENT" => (Unavailable, details(error)),
        "UNKNOWN" if names_command(details(error), "EVAL") || names_command(details(error), "EVALSHA") => {
            (Denied, NO_SCRIPTS)
        }
        "UNKNOWN" if ["GET", "SET", "CLUSTER"].iter().any(|command| names_command(details(error), command)) => {
            (Denied, NO_DATA)
        }
        "UNKNOWN" if ["SSUBSCRIBE", "SPUBLISH"].iter().any(|command| names_command(details(error), command)) => {
            (Unsupported, "this server has no sharded channels; Redis has them since version 7")
        }
        "UNKNOWN" => (Denied, "Redis does not know the command"),
        _ => return (None, "Redis replied with an error"),
    };
    (Some(kind), message)
}

/// The code of the error. If a command inside a script fails, the code of the error may differ from the code of the
/// server's reply:
///
/// - Before Redis 7, the server puts the position in the script before the error. So the code of the reply is `ERR` or
///   the position, and the code of the error follows in the text.
/// - If the user lacks a right for a command inside a script, no version of the server replies with the code `NOPERM`.
///   So bandog recognizes this error by its text, and treats it as `NOPERM`.
fn code(error: &ServerError) -> &str {
    let (code, details) = (error.code(), details(error));
    let is_script_position = is_script_position(code);
    if code != "ERR" && !is_script_position {
        return code;
    }
    let inner = without_script_positions(if is_script_position { after_number(details) } else { details });
    if RIGHT_MISSING_TEXTS.iter().any(|words| inner.starts_with(words)) {
        return "NOPERM";
    }
    if UNKNOWN_COMMAND_TEXTS.iter().any(|words| inner.starts_with(words)) {
        return "UNKNOWN";
    }
    let word = inner.trim_start_matches('-').split_whitespace().next().unwrap_or_default();
    let is_code = word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase());
    // If the reply has the code `ERR`, a code in the reply's text counts only after a position in a script.
    if is_code && (is_script_position || inner.len() < details.len()) { word } else { code }
}

/// The message for a server that serves only a part of the keys.
const NODE_OF_A_CLUSTER: &str = "this server is one node of a cluster; write redis+cluster:// in the URL";

/// The message for a server that does not know the commands for scripts.
const NO_SCRIPTS: &str = "this server cannot run scripts, which every client needs; if it is a sentinel, write \
                          redis+sentinel://HOST:PORT/MASTER in the URL";

/// The message for a server that does not know the first commands that the nodes of a quorum or of a cluster get.
const NO_DATA: &str = "this server does not know a command that every client needs; if it is a sentinel, name the servers \
                       themselves in the URL, or write redis+sentinel://HOST:PORT/MASTER";

/// The texts for a command with an argument that is too long, and with too many arguments.
const TOO_LONG_TEXTS: [&str; 2] = ["Protocol error: invalid bulk length", "Protocol error: invalid multibulk length"];

/// The message for an argument that is too long.
const ARGUMENT_TOO_LONG: &str = "an argument of the command has more bytes than this server accepts, because of its setting \
                                 proto-max-bulk-len; raise it, or keep large data elsewhere";

/// The texts for a right that is missing inside a script. Redis up to 7.0 sends the first text. Redis 7.2, Redis 8 and
/// Valkey send the second.
const RIGHT_MISSING_TEXTS: [&str; 2] = ["The user executing the script can't", "ACL failure in script"];

/// The texts for an unknown command: outside a script, inside a script on Redis, and inside a script on Valkey.
const UNKNOWN_COMMAND_TEXTS: [&str; 3] = ["unknown command", "Unknown Redis command", "Unknown command"];

/// The text without the positions in a script at its beginning. For example, this text has two positions:
/// `Error running script (call to f_SHA): @user_script:14: @user_script: 14: `.
fn without_script_positions(mut text: &str) -> &str {
    if text.starts_with("Error running script")
        && let Some((_, rest)) = text.split_once("): ")
    {
        text = rest;
    }
    while is_script_position(text)
        && let Some((_, rest)) = text.split_once(':')
    {
        text = after_number(rest);
    }
    text
}

fn is_script_position(text: &str) -> bool {
    text.starts_with("@user_script:")
}

/// The text after a line number and a colon, such as `14: `. A space may precede the number. If the text does not begin
/// in this way, the whole text is returned.
fn after_number(text: &str) -> &str {
    match text.split_once(": ") {
        Some((number, rest)) if number.trim_start().bytes().all(|byte| byte.is_ascii_digit()) => rest,
        Some(_) | None => text,
    }
}

/// The text that follows the code of the error.
fn details(error: &ServerError) -> &str {
    error.details().unwrap_or_default()
}

#[cfg(test)]
mod tests;
