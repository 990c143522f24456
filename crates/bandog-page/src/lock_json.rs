//! Locks as JSON.

use std::time::SystemTime;

use bandog_core::{Fence, Holder, Member, Row};
use serde::Serialize;

/// One lock in JSON, in the format of the page and of `bandog ls --json`. Programs rely on the field names.
#[derive(Debug, Serialize)]
pub struct LockJson<'a> {
    name: &'a str,
    held: bool,
    owner: Option<&'a str>,
    fence: Option<u64>,
    /// The last fence of the holder's grant.
    fence_to: Option<u64>,
    ttl_ms: Option<u64>,
    held_since: Option<String>,
    holder: Option<MemberJson<'a>>,
    waiters: Vec<MemberJson<'a>>,
    store: &'a str,
}

/// A client in JSON: the holder of a lock, or a waiter.
#[derive(Debug, Serialize)]
pub struct MemberJson<'a> {
    host: &'a str,
    pid: u32,
    program: &'a str,
    since: String,
}

impl<'a> LockJson<'a> {
    /// The lock in `row`. `store` is the displayed name of the store, which must not contain a password.
    pub fn new(row: &'a Row, store: &'a str) -> Self {
        let holder = row.holder();
        Self {
            name: &row.name,
            held: row.is_held(),
            owner: row.owner(),
            fence: row.fence().map(Fence::get),
            fence_to: holder.and_then(|holder| holder.last_fence).map(Fence::get),
            ttl_ms: holder.and_then(|holder| holder.ttl).map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)),
            held_since: holder.and_then(Holder::since).map(seconds),
            holder: row.member().map(MemberJson::from),
            waiters: row.waiters.iter().map(MemberJson::from).collect(),
            store,
        }
    }
}

impl<'a> From<&'a Member> for MemberJson<'a> {
    fn from(member: &'a Member) -> Self {
        Self { host: &member.host, pid: member.pid, program: &member.program, since: seconds(member.since) }
    }
}

/// The time in RFC 3339, to the second.
fn seconds(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}
