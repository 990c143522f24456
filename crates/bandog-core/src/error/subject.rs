//! The record or the lock of an error in words. The names of bandog's own records and locks mean nothing to users.

use crate::Key;

/// The sign with which a prefix of a client ends.
const PREFIX_END: char = ':';

/// The text that names the key of an error. Jobs, and the sessions of the nodes that run jobs, are named in words. Any
/// other key is written in quotation marks. `verb`: the operation, which shows whether the key names a lock or a record.
pub(super) fn subject(verb: Option<&str>, key: &Key) -> String {
    own(verb, key.as_str()).unwrap_or_else(|| format!("{key:?}"))
}

/// The words for a record or a lock of bandog's own. None for a key of the user.
fn own(verb: Option<&str>, key: &str) -> Option<String> {
    let is_lock = match verb? {
        "lock" | "claim" | "pass" | "renew" | "release" => true,
        "swap" | "read" | "history" | "subscribe" | "complete" => false,
        _ => return None,
    };
    if is_lock {
        let number = after("schedule/node/", key)?;
        return number.bytes().all(|byte| byte.is_ascii_digit()).then(|| "the session of this node".into());
    }
    if let Some(job) = after("job/", key) {
        let what = if verb == Some("complete") { "a run" } else { "the record" };
        return Some(format!("{what} of the job {job:?}"));
    }
    let record = after("schedule/", key)?;
    Some(match record.split('/').next()? {
        "node" => "the session of a node".into(),
        "nodes" | "jobs" => "the record of the nodes".into(),
        "paused" => "the record of pauses".into(),
        "board" | "news" => "the record of changed jobs".into(),
        "done" => "the record of a completed run".into(),
        _ => return None,
    })
}

/// The rest of a name that consists of the prefix of a client, or no prefix, of this part, and of a rest.
fn after<'a>(part: &str, name: &'a str) -> Option<&'a str> {
    let follows_prefix = |at: &usize| *at == 0 || name[..*at].ends_with(PREFIX_END);
    let at = name.match_indices(part).map(|(at, _)| at).find(follows_prefix)?;
    Some(&name[at + part.len()..]).filter(|rest| !rest.is_empty())
}
