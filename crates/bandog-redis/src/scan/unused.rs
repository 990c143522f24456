//! Names that are not used any more. Their tokens are found by a scan.

use std::time::Duration;

use bandog_core::{Fence, IfUnused, Key, NamesPage, Pattern, Result, Usage};
use bandog_redis_net::{
    Keys,
    reply::{text, time},
};
use redis::{Pipeline, Value};
use tokio::time::sleep;

use super::{FIRST_COUNT, Pace, is_skipped};
use crate::{
    leases::Redis,
    names::{self, TokenKey},
    refusal, script, slots,
};

/// Number of unused names with which a part of all names ends.
const PAGE: usize = 256;
/// Maximum number of steps of the scan in a part.
const STEPS: usize = 64;

impl Redis {
    /// A part of the names that have a token. `after` is the position of a server in the list of all servers, and the
    /// cursor of its scan.
    pub(crate) async fn unused_page(
        &self,
        pattern: &Pattern,
        unused_for: Duration,
        after: Option<&str>,
    ) -> Result<NamesPage> {
        let masters = self.servers.masters().await?;
        let position = after.and_then(|after| after.split_once(' '));
        let (server, cursor) = position.unwrap_or(("0", "0"));
        let (mut server, mut cursor) = (server.parse::<usize>().unwrap_or_default(), cursor.to_owned());
        let (mut page, mut pace) = (NamesPage::default(), Pace { count: FIRST_COUNT });
        let glob = format!("{}*", names::TOKEN);
        for _ in 0..STEPS {
            // A node can have left the cluster meanwhile.
            let Some(master) = masters.get(server) else { return Ok(page) };
            let (next, tokens, scanning) = self.step(master, &cursor, &glob, "string", pace.count).await?;
            page.seen += tokens.len() as u64;
            let names = tokens.iter().filter_map(|token| self.name_of_token(token, pattern)).collect();
            let (old, reading) = self.with_old_tokens(names, unused_for).await?;
            page.keys.extend(old);
            cursor = next;
            if cursor == "0" {
                server += 1;
                if server == masters.len() {
                    return Ok(page);
                }
            }
            sleep(pace.pause_after(scanning + reading)).await;
            if page.keys.len() >= PAGE {
                break;
            }
        }
        page.next = Some(format!("{server} {cursor}"));
        Ok(page)
    }

    /// Whether these names are unused, as `unused.lua` decides.
    pub(crate) async fn usage_of(&self, keys: &[Key], unused_for: Duration, then: IfUnused) -> Result<Vec<Usage>> {
        let mut usages = Vec::with_capacity(keys.len());
        for keys in keys.chunks(FIRST_COUNT) {
            let placed: Vec<_> = keys.iter().map(|key| self.lock_key(key)).collect();
            let (replies, _) =
                self.timed(Keys::OfScripts, |form| script::unused(&placed, unused_for, then, form)).await?;
            for (key, reply) in keys.iter().zip(replies) {
                usages.push(match reply {
                    Value::Int(0) => Usage::Absent,
                    Value::Int(1) => Usage::Used,
                    Value::Int(2) => Usage::Unused,
                    Value::ServerError(error) if is_skipped(&error) => Usage::Used,
                    Value::ServerError(error) => return Err(refusal::refused(&error).at(key)),
                    reply => return Err(refusal::unexpected_reply(&reply).at(key)),
                });
            }
        }
        Ok(usages)
    }

    /// The name of the lock that has this token. If two names have it, the one without braces comes first.
    fn name_of_token(&self, token: &str, pattern: &Pattern) -> Option<Key> {
        let names = names::names_of(names::TOKEN, token).into_iter().rev();
        let mut plain = names.map(|name| match self.format.in_cluster {
            true => slots::plain_lock(&name).into_owned(),
            false => name,
        });
        let name = plain.find(|name| pattern.matches(name) && !names::is_private(name))?;
        Key::new(name).ok().filter(|key| self.check_name(key).is_ok())
    }

    /// The names whose tokens may be old enough, and the time that the server needed.
    async fn with_old_tokens(&self, names: Vec<Key>, unused_for: Duration) -> Result<(Vec<Key>, Duration)> {
        if names.is_empty() {
            return Ok((names, Duration::ZERO));
        }
        let mut pipe = Pipeline::with_capacity(names.len() + 1);
        pipe.cmd("TIME");
        names.iter().for_each(|name| _ = pipe.cmd("GET").arg(TokenKey(self.lock_key(name).as_str()).to_string()));
        let (replies, took) = self.timed(Keys::FirstArguments, |_| pipe.clone()).await?;
        // If the server refuses TIME, all names are checked one by one.
        let now = replies.first().and_then(time);
        let now = now.map_or(u64::MAX, |now| u64::try_from(now.as_micros()).unwrap_or(u64::MAX));
        let is_old = |reply: &Value| {
            let token = text(reply).and_then(|token| token.parse().ok());
            token.is_some_and(|token| Usage::of_fence(Fence::new(token), now, unused_for) == Usage::Unused)
        };
        let old = names.into_iter().zip(replies.iter().skip(1)).filter(|(_, reply)| is_old(reply));
        Ok((old.map(|(name, _)| name).collect(), took))
    }
}
