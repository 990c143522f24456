//! Who holds a lock or waits for it, in words.

use std::time::SystemTime;

use bandog::{ClientId, Member, Row};

use crate::voice::shown;

/// What the program of a `bandog lock` begins with in the registry; its command follows.
pub(crate) const UNDER_BANDOG: &str = "bandog lock -- ";

/// Who holds it, as well as it can be told: its registered client, or what kind of client made such an owner.
pub(crate) fn holder(row: &Row) -> Option<String> {
    let told = || {
        let owner = row.owner.as_deref()?;
        Some(match kind(owner) {
            Some((kind, id)) => format!("{kind} {}", shown(id)),
            None => shown(owner),
        })
    };
    let holder = || {
        let Member { host, pid, program, .. } = row.holder.as_ref()?;
        Some(format!("{} (process {pid} on {})", shown(program), shown(host)))
    };
    let since = || held_since(row).map(|since| format!(", since {since}")).unwrap_or_default();
    holder().or_else(told).filter(|_| row.held).map(|holder| holder + &since())
}

/// Since when a lock is held, to the second, if its fence tells.
pub(crate) fn held_since(row: &Row) -> Option<String> {
    row.held_since().map(|since| humantime::format_rfc3339_seconds(since).to_string())
}

/// The same for a line that has little room: of a hold that began today only the time of day.
pub(crate) fn brief_holder(row: &Row) -> Option<String> {
    let Some(member) = row.holder.as_ref().filter(|_| row.held) else { return holder(row) };
    let Member { host, pid, program, .. } = member;
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let since = held_since(row).map(|since| match since.split_once('T') {
        Some((day, time)) if now.starts_with(day) => format!(" since {time}"),
        _ => format!(" since {since}"),
    });
    let program = program.strip_prefix(UNDER_BANDOG).unwrap_or(program);
    Some(format!("{} ({pid} on {}){}", shown(program), shown(host), since.unwrap_or_default()))
}

/// A registered client in words.
pub(crate) fn member(member: &Member) -> String {
    let Member { host, pid, program, .. } = member;
    format!("{} (process {pid} on {}, running since {})", shown(program), shown(host), since(member))
}

/// When the client began, to the second.
fn since(member: &Member) -> String {
    humantime::format_rfc3339_seconds(member.since).to_string()
}

/// What made an owner `uuid:number`, and what follows from it to tell one from another.
fn kind(owner: &str) -> Option<(&'static str, &str)> {
    if ClientId::made(owner) {
        return Some(("a bandog client,", owner));
    }
    let (uuid, thread) = owner.split_once(':')?;
    let is_uuid = uuid.len() == 36 && uuid.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
    let is_java = is_uuid && uuid.as_bytes().get(14) == Some(&b'4') && thread.parse::<u64>().is_ok();
    is_java.then_some(("a Java client,", owner))
}

#[cfg(test)]
mod tests;
