//! Holders and waiters of a lock as text.

use std::time::SystemTime;

use bandog::{
    admin::{ClientId, Holder, Member, Row, Waiting},
    backend::Kind,
};
use bandog_page::wait_reason;

use crate::console::escaped;

/// `bandog lock` registers itself in the store with a program name. The program name consists of this prefix and the
/// name of the command that `bandog lock` runs.
pub(crate) const UNDER_BANDOG: &str = "bandog lock -- ";

/// A holder as text. If the holder is registered in the store, the text describes the registered client. Otherwise the
/// text contains the owner, which is the id of the holder in the store. If the owner shows the kind of the client, the
/// text begins with this kind. None if nothing is known about the holder.
pub(crate) fn holder(holder: &Holder) -> Option<String> {
    let registered = || {
        let Member { host, pid, program, .. } = holder.member.as_ref()?;
        Some(format!("{} (process {pid} on {})", escaped(program), escaped(host)))
    };
    let since = || held_since(holder).map(|since| format!(", since {since}")).unwrap_or_default();
    let text = registered().or_else(|| holder.owner.as_deref().map(owner))?;
    Some(text + &share(holder) + &since())
}

/// The holders of a lock as text: the first one, and the number of the others. None if the lock is free, or if nothing
/// is known about the first holder.
pub(crate) fn holders(row: &Row) -> Option<String> {
    Some(holder(row.holder()?)? + &others(row))
}

/// The time at which the holder got the lock, to the second. This time is read from the holder's fence. None if the
/// fence contains no time.
fn held_since(holder: &Holder) -> Option<String> {
    holder.since().map(|since| humantime::format_rfc3339_seconds(since).to_string())
}

/// The share of the holder, for the kinds that can have several holders: `, as a reader` or `, 2 of 5 permits`.
fn share(holder: &Holder) -> String {
    match holder.kind {
        Some(Kind::Read) => ", as a reader".into(),
        Some(Kind::Write) => ", as the writer".into(),
        Some(Kind::Permits { take, of }) => format!(", {take} of {of} permits"),
        Some(Kind::Mutex | Kind::Fair) | None => String::new(),
    }
}

/// The number of the holders after the first one, as text. Empty if there is only one holder.
fn others(row: &Row) -> String {
    match row.holders.len() {
        0 | 1 => String::new(),
        2 => ", and 1 other".into(),
        all => format!(", and {} others", all - 1),
    }
}

/// An owner as text.
fn owner(owner: &str) -> String {
    match kind(owner) {
        Some((kind, id)) => format!("{kind} {}", escaped(id)),
        None => escaped(owner),
    }
}

/// A waiter as text, and the reason why it waits.
pub(crate) fn waiter(row: &Row, waiting: Waiting<'_>) -> String {
    let waiter = match (waiting.member, waiting.place) {
        (Some(registered), _) => member(registered),
        (None, Some(place)) => owner(place),
        (None, None) => "an unknown client".into(),
    };
    format!("{waiter}: {}", wait_reason(row, waiting, client))
}

/// A holder or a waiter in the reason of a wait: shorter than the text of the holder or the waiter itself.
fn client(registered: Option<&Member>, place: Option<&str>) -> String {
    match (registered, place) {
        (Some(Member { host, pid, program, .. }), _) => {
            format!("{} (process {pid} on {})", escaped(program), escaped(host))
        }
        (None, Some(place)) => owner(place),
        (None, None) => "an unknown client".into(),
    }
}

/// A short form of [`holders`] for a status line. If the holder got the lock today, the text contains only the time of
/// day.
pub(crate) fn brief_holders(row: &Row) -> Option<String> {
    let (Some(first), Some(member)) = (row.holder(), row.member()) else { return holders(row) };
    let Member { host, pid, program, .. } = member;
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let since = held_since(first).map(|since| match since.split_once('T') {
        Some((day, time)) if now.starts_with(day) => format!(" since {time}"),
        _ => format!(" since {since}"),
    });
    let program = program.strip_prefix(UNDER_BANDOG).unwrap_or(program);
    let (since, share, others) = (since.unwrap_or_default(), share(first), others(row));
    Some(format!("{} ({pid} on {}){share}{since}{others}", escaped(program), escaped(host)))
}

/// A registered client as text.
fn member(member: &Member) -> String {
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
