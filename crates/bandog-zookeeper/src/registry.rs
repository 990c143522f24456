//! The registry of clients. It is for queries of operators, and for the search for deadlocks: no grant of a lock depends
//! on it.
//!
//! The row of a client is an ephemeral node. Its ttl counts from the last write, by the clock of the leader.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bandog_core::{BlockedCalls, ClientId, Key, MAX_WAITS, Member, Result};
use futures_util::future::join_all;
use zookeeper_client::{CreateMode, Error as ZkError};

use crate::{
    host::Shared,
    session::{Session, time_of},
};

/// Maximum number of attempts to write a row whose folder others delete.
const ATTEMPTS: usize = 8;
/// Maximum number of rows that are read at the same time.
const ROWS: usize = 64;

impl Shared {
    /// Writes the row of a client.
    pub(crate) async fn register(&self, session: &Session, member: &Member, ttl: Duration) -> Result<(), ZkError> {
        let (path, data) = (self.member_path(member.id), text(member, ttl).into_bytes());
        let options = CreateMode::Ephemeral.with_acls(self.options.acl.acls());
        let mut last = ZkError::NoNode;
        for _ in 0..ATTEMPTS {
            match session.client.set_data(&path, &data, None).await {
                Ok(_) => return Ok(()),
                Err(ZkError::NoNode) => {}
                Err(error) => return Err(error),
            }
            match session.client.create(&path, &data, &options).await {
                Ok(_) => return Ok(()),
                Err(error @ ZkError::NodeExists) => last = error,
                Err(ZkError::NoNode) => session.make_folder(&self.own_folder("clients")).await?,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    /// Removes the row of a client.
    pub(crate) async fn deregister(&self, session: &Session, client: ClientId) -> Result<(), ZkError> {
        match session.client.delete(&self.member_path(client), None).await {
            Ok(()) | Err(ZkError::NoNode) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The rows of all clients.
    pub(crate) async fn registered(&self, session: &Session) -> Result<Vec<Member>, ZkError> {
        let ids = match session.client.list_children(&self.own_folder("clients")).await {
            Ok(ids) => ids,
            Err(ZkError::NoNode) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        self.rows_of(session, &ids.iter().filter_map(|id| id.parse().ok()).collect::<Vec<_>>()).await
    }

    /// The rows of these clients. Rows that have expired are left out.
    pub(crate) async fn rows_of(&self, session: &Session, clients: &[ClientId]) -> Result<Vec<Member>, ZkError> {
        if clients.is_empty() {
            return Ok(Vec::new());
        }
        // After its own write, a session reads what was committed before.
        let now = session.prove().await?;
        let mut rows = Vec::with_capacity(clients.len());
        for some in clients.chunks(ROWS) {
            let read = some.iter().map(async |id| match session.client.get_data(&self.member_path(*id)).await {
                Ok((data, stat)) => Ok(read(*id, &data).filter(|(_, ttl)| time_of(&stat) + *ttl > now)),
                Err(ZkError::NoNode) => Ok(None),
                Err(error) => Err(error),
            });
            for row in join_all(read).await {
                rows.extend(row?.map(|(member, _)| member));
            }
        }
        Ok(rows)
    }

    fn member_path(&self, client: ClientId) -> String {
        format!("{}/{client}", self.own_folder("clients"))
    }
}

/// The row as text: a line for each field, then a line with a tab for each line of [`BlockedCalls`], and a line with a
/// hyphen for each name that the client waits for.
fn text(member: &Member, ttl: Duration) -> String {
    let since = member.since.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let line = |text: &str| text.replace(char::is_control, " ");
    let mut lines = vec![
        ttl.as_millis().to_string(),
        line(&member.host),
        member.pid.to_string(),
        line(&member.program),
        since.to_string(),
        line(&member.prefix),
    ];
    lines.extend(member.waits.iter().take(MAX_WAITS).map(|name| format!("-{name}")));
    lines.extend(member.blocked.to_text().lines().map(|line| format!("\t{line}")));
    lines.join("\n")
}

/// Reads a row and its ttl. None if it was not written by bandog.
fn read(id: ClientId, data: &[u8]) -> Option<(Member, Duration)> {
    let text = std::str::from_utf8(data).ok()?;
    let mut lines = text.split('\n');
    let ttl = Duration::from_millis(lines.next()?.parse().ok()?);
    let (host, pid, program) = (lines.next()?.to_owned(), lines.next()?.parse().ok()?, lines.next()?.to_owned());
    let since = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(lines.next()?.parse().ok()?))?;
    let prefix = lines.next()?.to_owned();
    let rest: Vec<_> = lines.collect();
    let waits = rest.iter().filter_map(|line| Key::new(line.strip_prefix('-')?).ok()).collect();
    let blocked: Vec<_> = rest.iter().filter_map(|line| line.strip_prefix('\t')).collect();
    let blocked = BlockedCalls::from_text(&blocked.join("\n"));
    Some((Member { id, host, pid, program, since, prefix, waits, blocked }, ttl))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let (id, since) = (ClientId::random(), UNIX_EPOCH + Duration::from_millis(1_795_000_000_123));
        let waits = ["a", "-b", " c d"].map(|name| Key::new(name).unwrap()).to_vec();
        let blocked = BlockedCalls { lends: true, ..BlockedCalls::default() };
        let member = Member { since, prefix: "shop:".into(), waits, blocked, ..Member::here(id) };
        let ttl = Duration::from_millis(1500);
        assert_eq!(read(id, text(&member, ttl).as_bytes()), Some((member, ttl)));
        for data in [&b""[..], b"5\nhost", b"x\nhost\n1\nprogram\n2\n", &[0xff]] {
            assert_eq!(read(id, data), None);
        }
    }
}
