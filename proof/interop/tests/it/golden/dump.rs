//! All keys of a server and all messages, as text that does not change from run to run.
//!
//! - The ids of owners become the names of the callers, and the ids of permits become `P1`, `P2` and so on. The id of an
//!   owner contains the id of its client. If it was not seen before, the owner is the caller of the current step.
//! - Times are rounded ([`class`]), so that it does not matter how long a step takes.
//! - Keys that are private to one implementation are left out ([`PRIVATE`]).

use bandog_testkit::{RawRedis, RedisServer, Reply};

use super::script::Caller;

/// The beginnings of keys and channels that are private: bandog's own; Redisson's notes of unlocks, which it deletes a
/// few milliseconds later; and the counter of fences, which Redisson writes for fenced locks only.
const PRIVATE: &[&str] = &["bandog:", "redisson_unlock_latch:", "redisson_lock_token:"];

/// The score of a permit that never expires.
const NEVER: i64 = 922_337_203_685_477;

/// The channel of the message that marks the end of a step.
const END: &str = "bandog:golden:end";

pub(crate) struct Recorder<'a> {
    server: &'a RedisServer,
    messages: RawRedis,
    clients: &'a [(String, &'static str)],
    owners: Vec<(String, Caller)>,
    permits: Vec<Vec<u8>>,
}

impl<'a> Recorder<'a> {
    pub(crate) fn start(server: &'a RedisServer, clients: &'a [(String, &'static str)]) -> Self {
        let mut messages = server.client();
        messages.cmd(&["PSUBSCRIBE", "*"]).expect("subscribed");
        Self { server, messages, clients, owners: Vec::new(), permits: Vec::new() }
    }

    /// The messages since the last call, and then all keys.
    pub(crate) fn lines_after(&mut self, callers: &[Caller]) -> Vec<String> {
        let mut keys: Vec<String> = self.server.keys().into_iter().filter(|key| !is_private(key)).collect();
        keys = keys.iter().filter_map(|key| self.key(key, callers)).collect();
        keys.sort();
        let mut lines = self.messages(callers);
        lines.append(&mut keys);
        lines
    }

    fn messages(&mut self, callers: &[Caller]) -> Vec<String> {
        self.server.cmd(&["PUBLISH", END, ""]);
        let mut lines = Vec::new();
        loop {
            let message = self.messages.read().expect("a message");
            let [_, _, channel, payload] = message.array() else { panic!("{message:?}") };
            match channel.text() {
                END => return lines,
                channel if is_private(channel) => {}
                channel => {
                    lines.push(format!("message {:?} on {}", payload.text(), self.relabel(channel, callers)));
                }
            }
        }
    }

    /// The line of one key, if the key still exists.
    fn key(&mut self, key: &str, callers: &[Caller]) -> Option<String> {
        let server = self.server;
        let kind = server.cmd(&["TYPE", key]).text().to_owned();
        let content = match kind.as_str() {
            "string" => format!("{:?}", server.cmd(&["GET", key]).text()),
            "hash" => {
                let fields = server.hash(key);
                let mut fields: Vec<String> =
                    fields.iter().map(|(field, value)| format!("{}={value}", self.relabel(field, callers))).collect();
                fields.sort();
                fields.join(", ")
            }
            "list" => {
                let members = server.cmd(&["LRANGE", key, "0", "-1"]).texts();
                let members: Vec<String> = members.iter().map(|member| self.relabel(member, callers)).collect();
                members.join(", ")
            }
            "zset" => self.scores(key, callers),
            "none" => return None,
            other => panic!("{key} is a {other}"),
        };
        let ttl = match server.pttl(key) {
            -1 => "no ttl".to_owned(),
            ms => format!("ttl {}", class(ms)),
        };
        Some(format!("{} = {kind}, {ttl}: {content}", self.relabel(key, callers)))
    }

    /// The members of a sorted set with their deadlines. Deadlines of waiters are computed from each other, so only the
    /// first one is rounded, and the others are exact differences to the one before.
    fn scores(&mut self, key: &str, callers: &[Caller]) -> String {
        let now = self.now_ms();
        let reply = self.server.cmd(&["ZRANGE", key, "0", "-1", "WITHSCORES"]);
        let mut members = Vec::new();
        let mut before = None;
        for pair in reply.array().chunks_exact(2) {
            let score: i64 = pair[1].text().parse().expect("an integer score");
            let member = self.member(&pair[0], callers);
            let is_waiter = key.starts_with("redisson_lock_timeout:");
            members.push(match before {
                Some(before) if is_waiter => format!("{member} {} ms later", score - before),
                _ if score == NEVER => format!("{member} never"),
                _ => format!("{member} in {}", class(score - now)),
            });
            before = Some(score);
            // Permits that were taken together have one score and no order.
            if !is_waiter {
                members.sort();
            }
        }
        members.join(", ")
    }

    /// A member of a sorted set: an owner, or the 16 bytes of a permit's id, which can be a text by chance.
    fn member(&mut self, member: &Reply, callers: &[Caller]) -> String {
        let bytes = match member {
            Reply::Text(text) if text.len() == 16 => text.as_bytes(),
            Reply::Text(text) => return self.relabel(text, callers),
            Reply::Bytes(bytes) => bytes,
            other => panic!("a member is {other:?}"),
        };
        assert_eq!(bytes.len(), 16, "the id of a permit has another length");
        let known = self.permits.iter().position(|permit| permit == bytes);
        let number = known.unwrap_or_else(|| {
            self.permits.push(bytes.to_owned());
            self.permits.len() - 1
        });
        format!("P{}", number + 1)
    }

    /// Replaces the ids of owners by the names of their callers.
    fn relabel(&mut self, text: &str, callers: &[Caller]) -> String {
        let mut result = String::new();
        let mut rest = text;
        while let Some((before, id, after)) = split_owner(rest) {
            let known = self.owners.iter().find(|(owner, _)| owner == id).map(|(_, caller)| *caller);
            let caller = known.unwrap_or_else(|| self.new_owner(id, callers));
            result += &format!("{before}{caller}");
            rest = after;
        }
        result + rest
    }

    /// Finds the caller of an owner that was not seen before.
    fn new_owner(&mut self, id: &str, callers: &[Caller]) -> Caller {
        let client = self.clients.iter().find(|(client, _)| client == client_of(id)).map(|(_, name)| *name);
        let caller = callers.iter().find(|caller| Some(caller.client()) == client);
        let caller = *caller.unwrap_or_else(|| panic!("{id} of client {client:?} is not one of {callers:?}"));
        self.owners.push((id.to_owned(), caller));
        caller
    }

    fn now_ms(&self) -> i64 {
        let time = self.server.cmd(&["TIME"]).texts();
        let [seconds, micros] = [&time[0], &time[1]].map(|part| part.parse::<i64>().expect("a number"));
        seconds * 1000 + micros / 1000
    }
}

fn is_private(key: &str) -> bool {
    PRIVATE.iter().any(|head| key.starts_with(head))
}

/// Rounds a remaining time. A time between 16 s below and 4 s above a multiple of 20 s becomes this multiple. So a step
/// can take 16 s, and an implementation can add 4 s.
fn class(ms: i64) -> String {
    const STEP: i64 = 20_000;
    let steps = ((ms - 4_000).max(0) + STEP - 1) / STEP;
    format!("{} s", steps * STEP / 1_000)
}

/// The id of the client of an owner.
pub(crate) fn client_of(owner: &str) -> &str {
    &owner[..CLIENT]
}

/// Length of the id of a client.
const CLIENT: usize = 36;

/// Splits a text at its first owner: the id of a client, a colon and a number.
fn split_owner(text: &str) -> Option<(&str, &str, &str)> {
    let start = (0..text.len()).find(|&start| {
        text.get(start..start + CLIENT).is_some_and(is_uuid) && text[start + CLIENT..].starts_with(':')
    })?;
    let number = &text[start + CLIENT + 1..];
    let digits = number.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'-').count();
    let end = start + CLIENT + 1 + digits;
    (digits > 0).then(|| (&text[..start], &text[start..end], &text[end..]))
}

fn is_uuid(text: &str) -> bool {
    let is_dash = |at: usize| [8, 13, 18, 23].contains(&at);
    text.bytes().enumerate().all(|(at, byte)| if is_dash(at) { byte == b'-' } else { byte.is_ascii_hexdigit() })
}

#[test]
fn times_are_rounded_to_multiples_of_20_s() {
    let classes = [3_000, 43_000, 45_000, 59_000, 60_000, 62_000, 64_000, 65_000].map(class);
    assert_eq!(classes, ["0 s", "40 s", "60 s", "60 s", "60 s", "60 s", "60 s", "80 s"]);
}

#[test]
fn owners_are_found_in_keys_and_channels() {
    let id = "957c1da6-54c9-4017-93c7-a4ef987df61c:19";
    let key = format!("{{orders}}:{id}:rwlock_timeout:1");
    assert_eq!(split_owner(&key), Some(("{orders}:", id, ":rwlock_timeout:1")));
    assert_eq!(split_owner("redisson_lock__channel:{orders}"), None);
}
