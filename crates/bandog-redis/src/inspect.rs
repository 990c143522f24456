//! Who holds what.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use bandog_core::{ClientId, Fence, Finding, Inspect, Key, Member, Pattern, Released, Result, Row};
use redis::{Pipeline, ServerError, Value};

use crate::{
    leases::Redis,
    names::{self, Token},
    refusal,
    reply::{list, text},
    script,
};

/// So many names are looked through at a time.
const PAGE: usize = 512;
/// So many fields of a hash are looked at; a lock has one, or one for each of its readers.
const FIELDS: usize = 16;

#[async_trait]
impl Inspect for Redis {
    async fn list(&self, pattern: &Pattern) -> Result<Vec<Row>> {
        let rows = self.all(pattern).await.map_err(|error| error.during("list"))?;
        Ok(rows.into_values().collect())
    }

    async fn show(&self, key: &Key) -> Result<Row> {
        let row = self.one(key).await.map_err(|error| error.during("show").at(key))?;
        Ok(row.unwrap_or_else(|| Row::free(key)))
    }

    async fn members(&self) -> Result<Vec<Member>> {
        self.registered().await.map_err(|error| error.during("members"))
    }

    async fn evict(&self, key: &Key) -> Result<Released> {
        let evicted = async { self.released(key, self.ask(|by| script::evict(key, by)).await?) };
        evicted.await.map_err(|error| error.during("evict").at(key))
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        self.findings().await.map_err(|error| error.during("check"))
    }
}

impl Redis {
    async fn one(&self, key: &Key) -> Result<Option<Row>> {
        let mut pipe = Pipeline::with_capacity(3);
        look(&mut pipe, key.as_str());
        let replies = self.link.call(|_| pipe).await?;
        row(key.as_str(), &replies).map_err(|error| refusal::refused(&error))
    }

    /// The rows by name: a scan may show a name twice.
    async fn all(&self, pattern: &Pattern) -> Result<BTreeMap<String, Row>> {
        let glob = redis_glob(pattern);
        let mut rows = BTreeMap::new();
        let mut cursor = String::from("0");
        loop {
            let (next, names) = self.page(&cursor, &glob).await?;
            let is_wanted = |name: &String| pattern.matches(name) && !names::is_of_records(name);
            let names: Vec<String> = names.into_iter().filter(is_wanted).collect();
            rows.extend(self.locks(names).await?);
            if next == "0" {
                return Ok(rows);
            }
            cursor = next;
        }
    }

    /// The next cursor and some names of hashes; a name that is no text is no lock of ours.
    pub(crate) async fn page(&self, cursor: &str, glob: &str) -> Result<(String, Vec<String>)> {
        let mut pipe = Pipeline::with_capacity(1);
        pipe.cmd("SCAN").arg(cursor).arg("MATCH").arg(glob).arg("COUNT").arg(PAGE).arg("TYPE").arg("hash");
        self.scanned(pipe).await
    }

    /// Sends a command that scans, and gives the next cursor and the names that are texts.
    pub(crate) async fn scanned(&self, pipe: Pipeline) -> Result<(String, Vec<String>)> {
        let replies = self.link.call(|_| pipe).await?;
        match replies.first() {
            Some(Value::ServerError(error)) => Err(refusal::refused(error)),
            Some(Value::Array(parts)) if parts.len() == 2 => {
                let cursor = text(&parts[0]).ok_or_else(|| refusal::nonsense(&parts[0]))?;
                let names = match &parts[1] {
                    Value::Set(names) => names,
                    names => list(names),
                };
                Ok((cursor, names.iter().filter_map(text).collect()))
            }
            Some(_) | None => Err(refusal::nonsense(&Value::Array(replies))),
        }
    }

    /// Those of these hashes that are locks.
    async fn locks(&self, names: Vec<String>) -> Result<Vec<(String, Row)>> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipe = Pipeline::with_capacity(3 * names.len());
        for name in &names {
            look(&mut pipe, name);
        }
        let replies = self.link.call(|_| pipe).await?;
        let mut rows = Vec::new();
        for (name, replies) in names.into_iter().zip(replies.chunks(3)) {
            match row(&name, replies) {
                Ok(Some(row)) if row.owner.as_deref().is_some_and(is_owner) => rows.push((name, row)),
                // It is no lock, or it is gone by now.
                Ok(Some(_) | None) => {}
                // What this user may not see is not there for him.
                Err(error) if refusal::is_out_of_reach(&error) => {}
                Err(error) => return Err(refusal::refused(&error)),
            }
        }
        Ok(rows)
    }
}

/// The three questions of which [`row`] reads the answers.
fn look(pipe: &mut Pipeline, name: &str) {
    // Some fields are enough, and any hash of somebody else may have millions.
    pipe.cmd("HSCAN").arg(name).arg(0).arg("COUNT").arg(FIELDS);
    pipe.cmd("PTTL").arg(name);
    pipe.cmd("GET").arg(Token(name).to_string());
}

/// A lock as the replies tell it, if there is one.
fn row(name: &str, replies: &[Value]) -> Result<Option<Row>, ServerError> {
    if let Some(Value::ServerError(error)) = replies.iter().take(2).find(|reply| matches!(reply, Value::ServerError(_)))
    {
        return Err(error.clone());
    }
    let fields = match replies.first() {
        Some(Value::Array(parts)) if parts.len() == 2 => list(&parts[1]),
        Some(_) | None => &[],
    };
    let left = match replies.get(1) {
        Some(Value::Int(left)) => *left,
        Some(_) | None => -2,
    };
    // It may expire between the questions.
    if fields.is_empty() || left == -2 {
        return Ok(None);
    }
    let names: Vec<String> = fields.iter().step_by(2).filter_map(text).collect();
    let owner = names.iter().find(|name| is_owner(name)).or(names.first());
    let ours = owner.is_some_and(|owner| ClientId::made(owner));
    let token = replies.get(2).filter(|_| ours).and_then(text).and_then(|token| token.parse().ok());
    Ok(Some(Row {
        name: name.into(),
        held: true,
        owner: owner.cloned(),
        fence: token.map(Fence::new),
        ttl: u64::try_from(left).ok().map(Duration::from_millis),
        holder: None,
        waiters: Vec::new(),
    }))
}

/// Whether this names an owner as Redisson and we do: a UUID of 36 characters, a colon and a number.
fn is_owner(field: &str) -> bool {
    let Some((uuid, number)) = field.split_once(':') else {
        return false;
    };
    let dashes = [8, 13, 18, 23];
    let is_uuid = |(at, byte): (usize, u8)| if dashes.contains(&at) { byte == b'-' } else { byte.is_ascii_hexdigit() };
    uuid.len() == 36 && uuid.bytes().enumerate().all(is_uuid) && number.parse::<i64>().is_ok()
}

/// A glob of Redis that matches at least what the pattern does. Redis counts bytes where we count characters, so `?`
/// becomes `*`; and it gives more characters a meaning, so all of them are escaped.
pub(crate) fn redis_glob(pattern: &Pattern) -> String {
    let mut glob = String::new();
    let mut chars = pattern.as_str().chars();
    while let Some(c) = chars.next() {
        let literal = match c {
            '*' | '?' => {
                // Each further star would cost the server time and match the same.
                if !glob.ends_with('*') || glob.ends_with("\\*") {
                    glob.push('*');
                }
                continue;
            }
            '\\' => chars.next().unwrap_or('\\'),
            c => c,
        };
        if "*?[]^-\\".contains(literal) {
            glob.push('\\');
        }
        glob.push(literal);
    }
    glob
}

#[cfg(test)]
mod tests;
