//! Who the clients are: one hash for each, with a ttl.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bandog_core::{ClientId, Key, MAX_WAITS, Member, Result};
use redis::{Pipeline, Value};

use crate::{
    leases::Redis,
    names::{REGISTRY, Registered},
    refusal,
    reply::{list, text},
    script,
};

/// What a row has, in the order of `announce.lua`.
const FIELDS: [&str; 6] = ["host", "pid", "program", "since", "prefix", "waits"];

/// The values of a row. No name has a control character, so a line break parts them.
pub(crate) fn fields(member: &Member) -> [String; FIELDS.len()] {
    let since = member.since.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let waits: Vec<&str> = member.waits.iter().take(MAX_WAITS).map(Key::as_str).collect();
    let Member { host, pid, program, prefix, .. } = member;
    [host.clone(), pid.to_string(), program.clone(), since.to_string(), prefix.clone(), waits.join("\n")]
}

impl Redis {
    pub(crate) async fn write_down(&self, member: &Member, ttl: Duration) -> Result<()> {
        match self.ask(|by| script::announce(member, ttl, by)).await? {
            Value::Int(1) => Ok(()),
            reply => Err(refusal::nonsense(&reply)),
        }
    }

    pub(crate) async fn strike_out(&self, client: ClientId) -> Result<()> {
        let mut pipe = Pipeline::with_capacity(1);
        pipe.cmd("DEL").arg(Registered(client).to_string());
        self.ask(|_| pipe.clone()).await.map(|_| ())
    }

    /// Everybody by id: a scan may show a row twice.
    pub(crate) async fn registered(&self) -> Result<Vec<Member>> {
        let mut members = BTreeMap::new();
        let mut cursor = String::from("0");
        loop {
            let (next, names) = self.page(&cursor, &format!("{REGISTRY}*")).await?;
            let ids = names.iter().filter_map(|name| name.strip_prefix(REGISTRY)?.parse().ok()).collect();
            members.extend(self.rows(ids).await?.into_iter().map(|member| (member.id, member)));
            if next == "0" {
                return Ok(members.into_values().collect());
            }
            cursor = next;
        }
    }

    /// Those of these rows that are whole.
    async fn rows(&self, ids: Vec<ClientId>) -> Result<Vec<Member>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipe = Pipeline::with_capacity(ids.len());
        for id in &ids {
            pipe.cmd("HMGET").arg(Registered(*id).to_string()).arg(&FIELDS[..]);
        }
        let replies = self.link.call(|_| pipe).await?;
        let mut members = Vec::new();
        for (id, reply) in ids.into_iter().zip(replies) {
            match reply {
                // What this user may not see is not there for him.
                Value::ServerError(error) if refusal::is_out_of_reach(&error) => {}
                Value::ServerError(error) if refusal::is_denied(&error) => return Err(refusal::refused(&error)),
                reply => members.extend(member(id, &reply)),
            }
        }
        Ok(members)
    }
}

/// A row as it was read, unless it has ended meanwhile or is not as we write them.
fn member(id: ClientId, reply: &Value) -> Option<Member> {
    let values: Vec<String> = list(reply).iter().filter_map(text).collect();
    let [host, pid, program, since, prefix, waits] = values.try_into().ok()?;
    let since = Duration::from_millis(since.parse().ok()?);
    let names = waits.split('\n').filter(|name| !name.is_empty()).take(MAX_WAITS);
    Some(Member {
        id,
        host,
        pid: pid.parse().ok()?,
        program,
        since: SystemTime::UNIX_EPOCH.checked_add(since)?,
        prefix,
        waits: names.map(|name| Key::new(name).ok()).collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests;
