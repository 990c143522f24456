//! Holders and waiters of a lock as text.

use std::time::SystemTime;

use bandog::{ClientId, Member, Row};

use crate::console::escaped;

/// `bandog lock` registers itself in the store with a program name. The program name consists of this prefix and the
/// name of the command that `bandog lock` runs.
pub(crate) const UNDER_BANDOG: &str = "bandog lock -- ";

/// The holder as text. If the holder is registered in the store, the text describes the registered client. Otherwise
/// the text contains the owner, which is the id of the holder in the store. If the owner shows the kind of the client,
/// the text begins with this kind.
pub(crate) fn holder(row: &Row) -> Option<String> {
    let by_owner = || {
        let owner = row.owner()?;
        Some(match kind(owner) {
            Some((kind, id)) => format!("{kind} {}", escaped(id)),
            None => escaped(owner),
        })
    };
    let holder = || {
        let Member { host, pid, program, .. } = row.member()?;
        Some(format!("{} (process {pid} on {})", escaped(program), escaped(host)))
    };
    let since = || held_since(row).map(|since| format!(", since {since}")).unwrap_or_default();
    holder().or_else(by_owner).map(|holder| holder + &since())
}

/// The time at which the holder got the lock, to the second. This time is read from the holder's fence. None if the
/// fence contains no time.
pub(crate) fn held_since(row: &Row) -> Option<String> {
    row.holder()?.since().map(|since| humantime::format_rfc3339_seconds(since).to_string())
}

/// A short form of [`holder`] for a status line. If the holder got the lock today, the text contains only the time of
/// day.
pub(crate) fn brief_holder(row: &Row) -> Option<String> {
    let Some(member) = row.member() else { return holder(row) };
    let Member { host, pid, program, .. } = member;
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let since = held_since(row).map(|since| match since.split_once('T') {
        Some((day, time)) if now.starts_with(day) => format!(" since {time}"),
        _ => format!(" since {since}"),
    });
    let program = program.strip_prefix(UNDER_BANDOG).unwrap_or(program);
    Some(format!("{} ({pid} on {}){}", escaped(program), escaped(host), since.unwrap_or_default()))
}

/// A registered client as text.
pub(crate) fn member(member: &Member) -> String {
    let Member { host, pid, program, .. } = member;
    format!("{} (process {pid} on {}, running since {})", escaped(program), escaped(host), since(member))
}

/// The time at which the client started, to the second.
fn since(member: &Member) -> String {
    humantime::format_rfc3339_seconds(member.since).to_string()
}

/// The kind of the client that has written this owner into the store, and the id to print. None if the kind is unknown.
fn kind(owner: &str) -> Option<(&'static str, &str)> {
    if ClientId::made(owner) {
        return Some(("a bandog client,", owner));
    }
    // A Java client writes a random UUID, whose 15th character is a 4, and the number of a thread.
    let (uuid, thread) = owner.split_once(':')?;
    let is_uuid = uuid.len() == 36 && uuid.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
    let is_java = is_uuid && uuid.as_bytes().get(14) == Some(&b'4') && thread.parse::<u64>().is_ok();
    is_java.then_some(("a Java client,", owner))
}

#[cfg(test)]
mod tests;
