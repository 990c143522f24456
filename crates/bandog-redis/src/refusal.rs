//! What a refusal of Redis means in our words.

use bandog_core::{Error, ErrorKind};
use redis::{RedisError, ServerError, Value};

/// What a server's error reply means. Nothing was applied, unless the error says otherwise.
pub(crate) fn refused(error: &ServerError) -> Error {
    let details = error.details().unwrap_or_default();
    meaning(code(error.code(), details), details).caused_by(error.clone())
}

/// What a failed request means: whatever was sent may have been applied.
pub(crate) fn failed(error: RedisError) -> Error {
    let message = if error.is_timeout() { "Redis did not answer in time" } else { "the connection to Redis broke" };
    Error::unavailable(message).ambiguous().caused_by(error)
}

/// Whether the user lacks a right, for the keys or for the command.
pub(crate) fn is_denied(error: &ServerError) -> bool {
    let details = error.details().unwrap_or_default();
    matches!(code(error.code(), details), "NOPERM")
}

/// Whether the same command will be refused again, by this server to this user.
pub(crate) fn is_lasting(error: &ServerError) -> bool {
    is_denied(error) || error.details().is_some_and(|details| details.starts_with("unknown "))
}

/// What an answer means that no script gives.
pub(crate) fn nonsense(value: &Value) -> Error {
    Error::unavailable(format!("Redis answered what nobody expected: {value:?}")).ambiguous()
}

fn meaning(code: &str, details: &str) -> Error {
    match code {
        "WRONGTYPE" => denied("the key holds something that is not a lock; bandog never touches it"),
        "NOPERM" => denied("Redis refuses this user the right"),
        "NOAUTH" => denied("Redis wants a password"),
        "WRONGPASS" => denied("Redis refuses this user or password"),
        "CORRUPT" => Error::new(ErrorKind::Corrupt, details),
        "NOSCRIPT" => Error::unavailable("Redis had forgotten our scripts; they are loaded again"),
        "MOVED" | "ASK" | "CROSSSLOT" => Error::new(ErrorKind::Unsupported, "this server is one node of a cluster"),
        "LOADING" | "BUSY" | "READONLY" | "OOM" | "MASTERDOWN" | "NOREPLICAS" | "MISCONF" | "CLUSTERDOWN"
        | "TRYAGAIN" => Error::unavailable("Redis cannot serve now"),
        _ if details.starts_with("unknown command") => denied("Redis does not know the command"),
        // An answer that nobody foresaw, perhaps of a proxy: it says nothing about what was done.
        _ => Error::unavailable("Redis refuses").ambiguous(),
    }
}

/// The code that counts. What fails inside a script is `ERR` to Redis 6, with the real code in the text, and a right
/// that its user lacks is `ERR` to Redis 7.0 too.
fn code<'a>(code: &'a str, details: &'a str) -> &'a str {
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

fn denied(message: &str) -> Error {
    Error::new(ErrorKind::Denied, message)
}

#[cfg(test)]
mod tests;
