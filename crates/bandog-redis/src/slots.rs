//! The names of locks and records on a Redis Cluster, where names in one hash slot are on the same node.
//!
//! A script can use the keys of one slot only. The keys of a lock have the same slot, because Redisson's names contain
//! the name of the lock in braces. But some records and locks must be in one slot although their names differ: the jobs
//! of a scheduler, their index, and the sessions of its nodes; and a barrier and its parties. So on a cluster these
//! names get a common hash tag, see [`placed`].

use std::borrow::Cow;

use bandog_core::{Claim, Error, Holding, Key, Result, Step};
use bandog_redis_net::tag;

/// The parts with which the names of a client's own records and locks continue after the client's prefix.
const OWN_PARTS: [&str; 3] = ["job/", "schedule/", "barrier/"];

/// The sign with which a prefix of a client ends.
const PREFIX_END: char = ':';

/// The text before the first brace and after the second brace of a name with an added hash tag.
const OPEN: &str = "{";
const CLOSE: &str = "/}bandog:";

/// A glob that matches all names with an added hash tag.
pub(crate) const PLACED_GLOB: &str = "{*/}bandog:*";

/// Refuses a name whose keys would be in several slots, such as `a{b` and `a}b`. Redisson cannot release such a lock.
///
/// # Errors
/// `ErrorKind::Misused`.
pub(crate) fn check(name: &str) -> Result<()> {
    let tag = tag(name.as_bytes());
    let is_whole = tag.len() == name.len();
    if is_whole && name.contains(['{', '}']) {
        return Err(Error::misused(
            "on a Redis Cluster, the keys of this name would be on several nodes; a name with a brace needs a part in \
             braces that is not empty, such as {orders}:1",
        ));
    }
    Ok(())
}

/// Refuses the name of a lock that is another lock's name with its hash tag. Both would be one lock.
///
/// # Errors
/// `ErrorKind::Misused`.
pub(crate) fn check_lock(name: &str) -> Result<()> {
    check_untagged(name, placed_lock)
}

/// The same for the name of a record.
///
/// # Errors
/// `ErrorKind::Misused`.
pub(crate) fn check_record(name: &str) -> Result<()> {
    check_untagged(name, placed_record)
}

fn check_untagged(name: &str, place: fn(&str) -> Cow<'_, str>) -> Result<()> {
    match plain(name, place) {
        Cow::Borrowed(_) => Ok(()),
        Cow::Owned(plain) => {
            Err(Error::misused(format!("on a Redis Cluster, {plain:?} is stored under this name; use that name")))
        }
    }
}

/// The name of a record on a cluster. It has a hash tag if the record must be in one slot with others.
pub(crate) fn placed_record(name: &str) -> Cow<'_, str> {
    placed(name)
}

/// The name of a lock on a cluster. It has a hash tag if the lock must be in one slot with records. All other locks keep
/// their names, so that clients of Redisson find them.
pub(crate) fn placed_lock(name: &str) -> Cow<'_, str> {
    if is_own_lock(name) { placed(name) } else { name.into() }
}

/// Whether the name is a prefix or nothing, and then the name of a lock that bandog makes: the session of a node, or a
/// party of a barrier. All clients must find the same answer, so it does not depend on the prefix of this client.
fn is_own_lock(name: &str) -> bool {
    let Some((name, number)) = name.rsplit_once('/') else { return false };
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let follows_prefix = |at: usize| at == 0 || name[..at].ends_with(PREFIX_END);
    let is_session = name.strip_suffix("schedule/node").is_some_and(|prefix| follows_prefix(prefix.len()));
    let is_party = |(at, part): (usize, &str)| follows_prefix(at) && at + part.len() < name.len();
    is_session || name.match_indices("barrier/").any(is_party)
}

/// The name with its prefix in braces, if it has a part of [`OWN_PARTS`] and no braces before this part. So all these
/// names of one prefix are in one slot. The tag ends with a slash, because it must not be empty.
fn placed(name: &str) -> Cow<'_, str> {
    match OWN_PARTS.iter().filter_map(|part| name.find(part)).min() {
        Some(at) if !name[..at].contains('{') => {
            let (prefix, rest) = name.split_at(at);
            format!("{OPEN}{prefix}{CLOSE}{rest}").into()
        }
        Some(_) | None => name.into(),
    }
}

/// The name of a record without the hash tag that [`placed_record`] has added.
pub(crate) fn plain_record(name: &str) -> Cow<'_, str> {
    plain(name, placed_record)
}

/// The name of a lock without the hash tag that [`placed_lock`] has added.
pub(crate) fn plain_lock(name: &str) -> Cow<'_, str> {
    plain(name, placed_lock)
}

/// The name to which `place` has added this hash tag. A name that no name gets from `place` stays as it is, borrowed. A name
/// of a user that looks like one with an added tag is refused: see [`check_lock`].
fn plain(name: &str, place: fn(&str) -> Cow<'_, str>) -> Cow<'_, str> {
    let parts = name.strip_prefix(OPEN).and_then(|name| name.split_once(CLOSE));
    let plain = parts.map(|(prefix, rest)| format!("{prefix}{rest}")).filter(|plain| place(plain) == name);
    plain.map_or(name.into(), Cow::Owned)
}

/// The steps with the names of the locks on a cluster.
pub(crate) fn placed_steps(steps: &[Step]) -> Cow<'_, [Step]> {
    let stays = |key: &Key| matches!(placed_lock(key.as_str()), Cow::Borrowed(_));
    if steps.iter().all(|step| stays(step.key())) {
        return steps.into();
    }
    let each = steps.iter().map(|step| match step {
        Step::Claim(claim) => Step::Claim(placed_claim(claim)),
        Step::Release(claim) => Step::Release(placed_claim(claim)),
        Step::Pass { from, to } => Step::Pass { from: Box::new(placed_claim(from)), to: placed_claim(to) },
    });
    each.collect()
}

/// The claim with the name of the lock on a cluster.
pub(crate) fn placed_claim(claim: &Claim) -> Claim {
    Claim { key: lock_key(&claim.key), ..claim.clone() }
}

/// The holding with the name of the lock on a cluster.
pub(crate) fn placed_holding(held: &Holding) -> Holding {
    Holding { key: lock_key(&held.key), id: held.id }
}

/// The key of a lock on a cluster.
pub(crate) fn lock_key(key: &Key) -> Key {
    renamed(key, placed_lock(key.as_str()))
}

/// The key of a record on a cluster.
pub(crate) fn record_key(key: &Key) -> Key {
    renamed(key, placed_record(key.as_str()))
}

/// A key with this name. A name that is too long with its hash tag stays as it is.
fn renamed(key: &Key, name: Cow<'_, str>) -> Key {
    match name {
        Cow::Borrowed(_) => key.clone(),
        Cow::Owned(name) => Key::new(name).unwrap_or_else(|_| key.clone()),
    }
}

#[cfg(test)]
mod tests;
