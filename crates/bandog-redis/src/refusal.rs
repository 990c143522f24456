//! Maps errors of Redis to errors of bandog.

use bandog_core::{
    Error,
    ErrorKind::{self, Corrupt, Denied, Unavailable, Unsupported},
};
use redis::{RedisError, ServerError, ServerErrorKind, Value};

/// The error for a server's error reply. The command was not applied, unless the error is ambiguous.
pub(crate) fn refused(error: &ServerError) -> Error {
    let (kind, message) = meaning(error);
    match kind {
        Some(kind) => Error::new(kind, message).caused_by(error.clone()),
        // An unknown error, perhaps of a proxy, does not show whether the command was applied.
        None => Error::unavailable(message).ambiguous().caused_by(error.clone()),
    }
}

/// The error for a server's error reply that ended a handshake. No command was sent, so none was applied.
pub(crate) fn handshake_error(store: &str, error: &ServerError) -> Error {
    let (kind, message) = meaning(error);
    Error::new(kind.unwrap_or(Unavailable), format!("{store}: {message}")).caused_by(error.clone())
}

/// The error for a failed request: the commands that were sent may have been applied.
pub(crate) fn failed(error: RedisError) -> Error {
    let message = if error.is_timeout() { "Redis did not answer in time" } else { "the connection to Redis broke" };
    Error::unavailable(message).ambiguous().caused_by(error)
}

/// The server error in a reply, if it is one.
pub(crate) fn server_error(value: &Value) -> Option<&ServerError> {
    match value {
        Value::ServerError(error) => Some(error),
        _ => None,
    }
}

/// Whether the user lacks a right, for the keys or for the command.
pub(crate) fn is_denied(error: &ServerError) -> bool {
    code(error) == "NOPERM"
}

/// Whether the user may run the command but lacks the right for a key. The text differs between versions: "one of the
/// keys", "a key", "the 'k' key".
pub(crate) fn is_out_of_reach(error: &ServerError) -> bool {
    is_denied(error) && details(error).contains("access") && details(error).contains("key")
}

/// Whether this server will refuse the same command to this user again.
pub(crate) fn is_lasting(error: &ServerError) -> bool {
    is_denied(error) || details(error).starts_with("unknown ")
}

/// Whether the server does not have the script. The call did nothing.
pub(crate) fn is_no_script(value: &Value) -> bool {
    matches!(value, Value::ServerError(error) if error.kind() == Some(ServerErrorKind::NoScript))
}

/// The error for a reply that the script never sends.
pub(crate) fn unexpected_reply(value: &Value) -> Error {
    Error::unavailable(format!("Redis sent an unexpected reply: {value:?}")).ambiguous()
}

/// The kind of an error, if it is known, and its message.
fn meaning(error: &ServerError) -> (Option<ErrorKind>, &str) {
    let (kind, message) = match code(error) {
        "WRONGTYPE" => {
            (Denied, "the key holds something that is not a lock or a record of ours; bandog never touches it")
        }
        "NOPERM" => (Denied, "Redis refuses this user the right"),
        "NOAUTH" => (Denied, "Redis wants a password; write it into the URL"),
        "WRONGPASS" => (Denied, "Redis refuses this user or password"),
        "DENIED" => (Denied, "Redis serves its own machine only"),
        "CORRUPT" => (Corrupt, details(error)),
        "NOSCRIPT" => (Unavailable, "Redis had forgotten our scripts; they are loaded again"),
        "MOVED" | "ASK" | "CROSSSLOT" => (Unsupported, "this server is one node of a cluster"),
        "OOM" => (Unavailable, "Redis has reached its memory limit and takes nothing new"),
        "READONLY" => (Unavailable, "this Redis is a read-only replica; locks live on its master"),
        "LOADING" => (Unavailable, "Redis is still loading its data"),
        "BUSY" => (Unavailable, "Redis is busy with a script"),
        "NOREPLICAS" => (Unavailable, "Redis has fewer replicas than it needs to take writes"),
        "MISCONF" => (Unavailable, "Redis cannot write its data to disk, and takes no writes until it can"),
        "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" => (Unavailable, "Redis cannot serve now"),
        "UNKNOWN" => (Denied, "Redis does not know the command"),
        _ => return (None, "Redis refuses"),
    };
    (Some(kind), message)
}

/// The code of the underlying error. Servers before Redis 7 put the position in a script before the error of a command
/// in it, so the code of the reply is `ERR` or the position. And no server uses the code `NOPERM` for a right that is
/// missing inside a script.
fn code(error: &ServerError) -> &str {
    let (code, details) = (error.code(), details(error));
    let is_place = is_place(code);
    if code != "ERR" && !is_place {
        return code;
    }
    let inner = without_places(if is_place { after_number(details) } else { details });
    if NO_RIGHT.iter().any(|words| inner.starts_with(words)) {
        return "NOPERM";
    }
    if UNKNOWN.iter().any(|words| inner.starts_with(words)) {
        return "UNKNOWN";
    }
    let word = inner.trim_start_matches('-').split_whitespace().next().unwrap_or_default();
    let is_code = word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase());
    // A code in the text of a plain `ERR` is valid only after a position in a script.
    if is_code && (is_place || inner.len() < details.len()) { word } else { code }
}

/// The texts for a right that is missing inside a script: of Redis up to 7.0, and of Redis 7.2, Redis 8 and Valkey.
const NO_RIGHT: [&str; 2] = ["The user executing the script can't", "ACL failure in script"];

/// The texts for an unknown command: outside scripts, inside scripts of Redis, and inside scripts of Valkey.
const UNKNOWN: [&str; 3] = ["unknown command", "Unknown Redis command", "Unknown command"];

/// The message without the positions in a script before it, such as
/// `Error running script (call to f_SHA): @user_script:14: @user_script: 14: `.
fn without_places(mut text: &str) -> &str {
    if text.starts_with("Error running script")
        && let Some((_, rest)) = text.split_once("): ")
    {
        text = rest;
    }
    while is_place(text)
        && let Some((_, rest)) = text.split_once(':')
    {
        text = after_number(rest);
    }
    text
}

fn is_place(text: &str) -> bool {
    text.starts_with("@user_script:")
}

/// The text after `14: `, with or without a space before it.
fn after_number(text: &str) -> &str {
    match text.split_once(": ") {
        Some((number, rest)) if number.trim_start().bytes().all(|byte| byte.is_ascii_digit()) => rest,
        Some(_) | None => text,
    }
}

fn details(error: &ServerError) -> &str {
    error.details().unwrap_or_default()
}

#[cfg(test)]
mod tests;
