//! What a refusal of Redis means in our words.

use bandog_core::{
    Error,
    ErrorKind::{self, Corrupt, Denied, Unavailable, Unsupported},
};
use redis::{RedisError, ServerError, ServerErrorKind, Value};

/// What a server's error reply means. Nothing was applied, unless the error says otherwise.
pub(crate) fn refused(error: &ServerError) -> Error {
    let (kind, message) = meaning(error);
    match kind {
        Some(kind) => Error::new(kind, message).caused_by(error.clone()),
        // An answer that nobody foresaw, perhaps of a proxy, says nothing about what was done.
        None => Error::unavailable(message).ambiguous().caused_by(error.clone()),
    }
}

/// What a server's error reply means that ended a handshake, during which nothing was asked.
pub(crate) fn turned_away(store: &str, error: &ServerError) -> Error {
    let (kind, message) = meaning(error);
    Error::new(kind.unwrap_or(Unavailable), format!("{store}: {message}")).caused_by(error.clone())
}

/// What a failed request means: whatever was sent may have been applied.
pub(crate) fn failed(error: RedisError) -> Error {
    let message = if error.is_timeout() { "Redis did not answer in time" } else { "the connection to Redis broke" };
    Error::unavailable(message).ambiguous().caused_by(error)
}

/// Whether the user lacks a right, for the keys or for the command.
pub(crate) fn is_denied(error: &ServerError) -> bool {
    code(error) == "NOPERM"
}

/// Whether the user lacks the right for a key, although he may ask.
pub(crate) fn is_out_of_reach(error: &ServerError) -> bool {
    is_denied(error) && details(error).contains("keys")
}

/// Whether the same command will be refused again, by this server to this user.
pub(crate) fn is_lasting(error: &ServerError) -> bool {
    is_denied(error) || details(error).starts_with("unknown ")
}

/// Whether the server does not know a script, and so did nothing.
pub(crate) fn is_no_script(value: &Value) -> bool {
    matches!(value, Value::ServerError(error) if error.kind() == Some(ServerErrorKind::NoScript))
}

/// What an answer means that no script gives.
pub(crate) fn nonsense(value: &Value) -> Error {
    Error::unavailable(format!("Redis answered what nobody expected: {value:?}")).ambiguous()
}

/// The kind of a refusal, if it is known, and what it means.
fn meaning(error: &ServerError) -> (Option<ErrorKind>, &str) {
    let (kind, message) = match code(error) {
        "WRONGTYPE" => {
            (Denied, "the key holds something that is not a lock or a record of ours; bandog never touches it")
        }
        "NOPERM" => (Denied, "Redis refuses this user the right"),
        "NOAUTH" => (Denied, "Redis wants a password"),
        "WRONGPASS" => (Denied, "Redis refuses this user or password"),
        "DENIED" => (Denied, "Redis serves its own machine only"),
        "CORRUPT" => (Corrupt, details(error)),
        "NOSCRIPT" => (Unavailable, "Redis had forgotten our scripts; they are loaded again"),
        "MOVED" | "ASK" | "CROSSSLOT" => (Unsupported, "this server is one node of a cluster"),
        "OOM" => (Unavailable, "Redis has reached its memory limit and takes nothing new"),
        "READONLY" => (Unavailable, "this Redis is a read-only replica; locks live on its master"),
        "LOADING" => (Unavailable, "Redis is still loading its data"),
        "BUSY" => (Unavailable, "Redis is busy with somebody's script"),
        "NOREPLICAS" => (Unavailable, "Redis has fewer replicas than it needs to take writes"),
        "MISCONF" => (Unavailable, "Redis cannot write its data to disk, and takes no writes until it can"),
        "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" => (Unavailable, "Redis cannot serve now"),
        _ if details(error).starts_with("unknown command") => (Denied, "Redis does not know the command"),
        _ => return (None, "Redis refuses"),
    };
    (Some(kind), message)
}

/// The code that counts. What fails inside a script is `ERR` to Redis 6, with the real code in the text, and a right
/// that its user lacks is `ERR` to Redis 7.0 too.
fn code(error: &ServerError) -> &str {
    let (code, details) = (error.code(), details(error));
    if code != "ERR" {
        return code;
    }
    if details.contains("The user executing the script can't") || details.contains("NOPERM") {
        return "NOPERM";
    }
    let inner = details.split_once("@user_script: ").and_then(|(_, at)| at.split_once(": "));
    let inner = inner.and_then(|(_, text)| text.trim_start_matches('-').split_whitespace().next());
    inner.filter(|word| word.bytes().all(|byte| byte.is_ascii_uppercase())).unwrap_or(code)
}

fn details(error: &ServerError) -> &str {
    error.details().unwrap_or_default()
}

#[cfg(test)]
mod tests;
