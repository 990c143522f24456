//! The errors of Redis, as errors of locks.

use bandog_core::{Error, ErrorKind::Denied, Family, Key};
pub(crate) use bandog_redis_net::refusal::{
    is_denied, is_lasting, is_no_script, is_out_of_reach, is_too_long, is_wrong_type, server_error, server_text,
    unexpected_reply,
};
use redis::{ServerError, Value};

use crate::options::Layout;

/// The error for a server's error reply. The command was not applied, unless the error is ambiguous.
pub(crate) fn refused(error: &ServerError) -> Error {
    if is_wrong_type(error) {
        return Error::new(Denied, NOT_OURS).caused_by(error.clone());
    }
    bandog_redis_net::refusal::refused(error)
}

/// The error for a key with a text that is not the count of a latch.
pub(crate) fn not_a_latch() -> Error {
    Error::new(Denied, NOT_OURS)
}

/// Whether the key of this step has another type than the step expects.
pub(crate) fn is_of_wrong_type(error: &Error) -> bool {
    error.cause().and_then(|cause| cause.downcast_ref()).is_some_and(is_wrong_type)
}

/// The error for a claim whose key has another type than a lock of this family. `text` is the beginning of the key's
/// string, and `mode` says whether the key is a hash with the field `mode`: the replies to [`ask_for_type`].
///
/// [`ask_for_type`]: crate::script::ask_for_type
pub(crate) fn other_kind(
    key: &Key,
    family: Family,
    layout: Layout,
    text: Option<&Value>,
    mode: Option<&Value>,
) -> Error {
    let is_hash = matches!(text, Some(Value::ServerError(error)) if is_wrong_type(error));
    let is_text = matches!(text, Some(Value::BulkString(text)) if !text.is_empty());
    let found = match (text, mode) {
        (Some(Value::BulkString(text)), _) if is_number(text) => {
            "a semaphore or a latch (or the key has a number of another program)"
        }
        (_, Some(Value::Int(1))) if family != Family::ReadWrite => "a read-write lock",
        (_, Some(Value::Int(0))) if is_hash && family == Family::Semaphore => {
            "a mutex (or the key has a hash of another program)"
        }
        _ => {
            let hint = match layout {
                Layout::Redisson if is_text && family == Family::Mutex => {
                    "if it is a string that SET NX PX has written, use ?layout=setnx"
                }
                Layout::Redisson => "use another name",
                Layout::Setnx => {
                    "with ?layout=setnx a lock is a string; the locks of Redisson are hashes and need ?layout=redisson"
                }
            };
            return Error::new(Denied, format!("{NOT_OURS}; {hint}"));
        }
    };
    let key = key.as_str();
    Error::new(
        Denied,
        format!(
            "the name is in use as {found}, so it cannot be used as {family}; use another name, or delete the key if no \
             program needs it: redis-cli DEL {key:?}"
        ),
    )
}

fn is_number(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

/// The message for a key with other data.
const NOT_OURS: &str = "the key contains data that is not a lock of this kind, so it was not changed; it can be another kind of lock, a \
                        latch, or the data of another program";
