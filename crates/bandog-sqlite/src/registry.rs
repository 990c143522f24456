//! The registry of clients. It is for queries of operators, and for the search for deadlocks: no grant of a lock depends
//! on it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bandog_core::{BlockedCalls, ClientId, Key, Member};
use rusqlite::params;

use crate::{fault::Fault, rules::nanos, sql, table::Table};

impl Table<'_> {
    /// Registers a client, and deletes the rows of expired clients.
    pub(crate) fn register(&mut self, member: &Member, ttl: Duration) -> Result<(), Fault> {
        let host = self.host();
        let (boot, now_ns, wall_ns) = (host.boot(), host.now_ns(), host.wall_nanos());
        self.write(sql::PRUNE, params![boot, now_ns, wall_ns])?;
        let waits = waits_text(member);
        let (ttl_ns, since_ns) = (nanos(ttl), nanos(member.since.duration_since(UNIX_EPOCH).unwrap_or_default()));
        let (id, until_ns) = (member.id.to_string(), now_ns.saturating_add(ttl_ns));
        let Member { host, pid, program, prefix, .. } = member;
        let row = params![id, host, pid, program, since_ns, waits, ttl_ns, until_ns, boot, wall_ns, prefix];
        self.write(sql::REGISTER, row)?;
        Ok(())
    }

    /// Deregisters a client.
    pub(crate) fn deregister(&mut self, client: ClientId) -> Result<(), Fault> {
        self.write(sql::DEREGISTER, [client.to_string()])?;
        Ok(())
    }

    /// The registered clients.
    pub(crate) fn members(&mut self) -> Result<Vec<Member>, Fault> {
        if !self.has_registry() {
            return Ok(Vec::new());
        }
        let host = self.host();
        let params = params![host.boot(), host.now_ns(), host.wall_nanos()];
        let rows = self.statement(sql::MEMBERS)?.query_map(params, read_member)?;
        Ok(rows.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }
}

/// Reads the row of a client. None if the row contains an id that bandog never writes.
fn read_member(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<Member>> {
    let id: String = row.get(0)?;
    let Ok(id) = id.parse() else {
        return Ok(None);
    };
    let (since_ns, waits): (i64, String) = (row.get(4)?, row.get(5)?);
    let since = Duration::from_nanos(since_ns.max(0).unsigned_abs());
    let blocked: Vec<&str> = waits.lines().filter_map(|line| line.strip_prefix('\t')).collect();
    Ok(Some(Member {
        id,
        host: row.get(1)?,
        pid: row.get(2)?,
        program: row.get(3)?,
        since: UNIX_EPOCH.checked_add(since).unwrap_or(SystemTime::UNIX_EPOCH),
        prefix: row.get(6)?,
        waits: waits.lines().filter_map(|name| Key::new(name).ok()).collect(),
        blocked: BlockedCalls::from_text(&blocked.join("\n")),
    }))
}

/// The value of the column `waits`: one line for each name that the client waits for, and then the lines of
/// [`BlockedCalls`], each after a tab. No name contains a line break or a tab, so earlier versions of bandog, which know
/// names only, leave these lines out.
fn waits_text(member: &Member) -> String {
    let mut text = member.waits.iter().map(Key::as_str).collect::<Vec<_>>().join("\n");
    for line in member.blocked.to_text().lines() {
        text.push_str("\n\t");
        text.push_str(line);
    }
    text
}
