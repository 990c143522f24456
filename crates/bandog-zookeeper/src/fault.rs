//! The errors of ZooKeeper's client as errors of bandog.

use bandog_core::{Error, ErrorKind, Family, rounded};
use zookeeper_client::Error as ZkError;

/// A server accepts each user of the scheme `digest`, so the other cause is the usual one.
const NO_LOGIN: &str = "the server refuses the user or the password, or requires a login with SASL \
                        (sessionRequireClientSASLAuth), which bandog does not have: use digest or client certificates";

/// The error of a request that was sent. `store` is the address, for the message.
pub(crate) fn of_request(store: &str, error: ZkError) -> Error {
    let (kind, message, maybe_applied) = match &error {
        ZkError::NoAuth => (
            ErrorKind::Denied,
            "the ACL of a node refuses this user a right that the request needs; name the user of the folder in the URL \
             (user:password@ before the first host), or give this user all rights in the folder and in its nodes",
            false,
        ),
        ZkError::AuthFailed => (ErrorKind::Denied, NO_LOGIN, false),
        ZkError::InvalidAcl => {
            (ErrorKind::Denied, "the server knows no user of this client, so acl=creator is not possible", false)
        }
        ZkError::QuotaExceeded => (ErrorKind::Denied, "the quota of the folder is used up", false),
        ZkError::BadArguments(_) => (ErrorKind::Misused, "the client refuses the request", false),
        ZkError::NotReadOnly => (ErrorKind::Unavailable, "the server has no connection to its ensemble", false),
        ZkError::Throttled => (ErrorKind::Unavailable, "the server has too much load", false),
        ZkError::NoNode | ZkError::NodeExists | ZkError::NotEmpty | ZkError::BadVersion => {
            (ErrorKind::Unavailable, "another client changed the nodes at the same time", false)
        }
        _ => (ErrorKind::Unavailable, "the server did not answer", true),
    };
    let made = made(kind, format!("{store}: {message}"), error);
    if maybe_applied { made.ambiguous() } else { made }
}

/// The error of an attempt to connect.
pub(crate) fn of_connection(store: &str, error: ZkError) -> Error {
    let (kind, message) = match &error {
        ZkError::NoAuth | ZkError::AuthFailed => (ErrorKind::Denied, NO_LOGIN),
        ZkError::BadArguments(_) => (ErrorKind::Misused, "the address is wrong"),
        _ => (ErrorKind::Unavailable, "cannot connect"),
    };
    made(kind, format!("{store}: {message}"), error)
}

fn made(kind: ErrorKind, message: String, error: ZkError) -> Error {
    let made = Error::new(kind, message);
    let made = if matches!(error, ZkError::AuthFailed) { made.about_login() } else { made };
    made.caused_by(error)
}

/// The error of a request that had no answer within the timeout.
pub(crate) fn no_answer(store: &str, timeout: std::time::Duration) -> Error {
    Error::unavailable(format!("{store}: no answer within {}", rounded(timeout))).ambiguous()
}

/// Whether the node was deleted before the request. For a deletion, this is a success.
pub(crate) fn is_gone(error: &ZkError) -> bool {
    matches!(error, ZkError::NoNode)
}

/// The error of a name that a lock of another family has.
pub(crate) fn in_use(held: Family, asked: Family) -> Error {
    Error::new(ErrorKind::Denied, format!("the name is in use as {held}, so it cannot be used as {asked}"))
}
