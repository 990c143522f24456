//! The registry of clients. It is for queries of operators, and for the search for deadlocks: no grant of a lock depends
//! on it.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bandog_core::{BlockedCalls, ClientId, Key, Member};

use crate::{context::Context, decisions::micros, fault::Fault, job::Query, row::Row, session::Link};

/// Registers a client for this time, and deletes the rows of expired clients.
pub(crate) struct Register(pub(crate) Member, pub(crate) Duration);

#[async_trait]
impl Query for Register {
    type Output = ();

    async fn run(&self, link: &Link, _: &Context) -> Result<(), Fault> {
        let Self(member, ttl) = self;
        let (id, waits, ttl) = (member.id.to_string(), waits_text(member), micros(*ttl));
        let [host, program, prefix] = [&member.host, &member.program, &member.prefix].map(|text| storable(text));
        let pid = i64::from(member.pid);
        // Other transactions can be in the way. Then a later call deletes the rows.
        match link.query(&link.statements.prune, &[]).await {
            Err(fault @ Fault::Refused(_)) => {
                tracing::debug!(?fault, "the rows of expired clients were not deleted");
            }
            pruned => drop(pruned?),
        }
        let row: [crate::value::Parameter<'_>; 8] = [&id, &host, &pid, &program, &member.since, &waits, &prefix, &ttl];
        link.query(&link.statements.register, &row).await.map(drop)
    }
}

/// Deregisters a client.
pub(crate) struct Deregister(pub(crate) ClientId);

#[async_trait]
impl Query for Deregister {
    type Output = ();

    async fn run(&self, link: &Link, _: &Context) -> Result<(), Fault> {
        link.query(&link.statements.deregister, &[&self.0.to_string()]).await.map(drop)
    }
}

/// Reads the registered clients.
pub(crate) struct Members;

#[async_trait]
impl Query for Members {
    type Output = Vec<Member>;

    async fn run(&self, link: &Link, _: &Context) -> Result<Vec<Member>, Fault> {
        let rows = link.query(&link.statements.members, &[]).await?;
        let members = rows.iter().map(read_member).collect::<Result<Vec<_>, _>>()?;
        Ok(members.into_iter().flatten().collect())
    }
}

/// Reads the row of a client. None if the row contains an id that bandog never writes.
fn read_member(row: &Row) -> Result<Option<Member>, Fault> {
    let (id, waits): (&str, &str) = (row.try_get(0)?, row.try_get(5)?);
    let (pid, since): (i64, SystemTime) = (row.try_get(2)?, row.try_get(4)?);
    let (Ok(id), Ok(pid)) = (id.parse(), pid.try_into()) else { return Ok(None) };
    let blocked: Vec<&str> = waits.lines().filter_map(|line| line.strip_prefix('\t')).collect();
    Ok(Some(Member {
        id,
        host: row.try_get(1)?,
        pid,
        program: row.try_get(3)?,
        since,
        prefix: row.try_get(6)?,
        waits: waits.lines().filter_map(|name| Key::new(name).ok()).collect(),
        blocked: BlockedCalls::from_text(&blocked.join("\n")),
    }))
}

/// The value of the column `waits`: one line for each name that the client waits for, and then the lines of
/// [`BlockedCalls`], each after a tab. No name contains a line break or a tab.
fn waits_text(member: &Member) -> String {
    let names = member.waits.iter().map(|key| key.as_str().to_owned());
    let blocked = member.blocked.to_text();
    let lines = names.chain(blocked.lines().map(|line| format!("\t{line}")));
    lines.collect::<Vec<_>>().join("\n")
}

/// The text without null characters, which a column cannot keep.
fn storable(text: &str) -> String {
    text.replace('\0', "")
}
