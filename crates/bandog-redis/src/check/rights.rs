//! What this user may do, asked of the server without doing it.

use bandog_core::{Finding, Result};
use redis::{Pipeline, Value};

use super::told;
use crate::{leases::Redis, names, reply::text};

/// A name that stands for any other, behind the prefix of our names.
const NAME: &str = "bandog:probe";
const HASH: &str = "0000000000000000000000000000000000000000";
/// So many commands run scripts; one of them is enough.
const SCRIPTS: usize = 2;

/// What it is needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum For {
    /// Running a script, one way or the other.
    Scripts,
    /// Taking, renewing and giving back.
    Locks,
    /// Waking those who wait.
    Subscriptions,
    /// Going first after a long wait.
    Offers,
    /// Being found among those who wait.
    Index,
    /// `show`, `ls` and `release --force`.
    Looks,
    /// What schedules are made of.
    Records,
}

/// What the server said to one of the commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Right {
    Granted,
    /// The command itself is denied.
    NoCommand,
    /// The key or the channel is out of reach.
    NoName,
}

struct Probe {
    wanted: For,
    command: Vec<String>,
}

impl Redis {
    pub(super) async fn rights(&self, prefix: &str) -> Result<Finding> {
        // Without a user in the URL, or with a password alone, this is who we are.
        let user = self.options.user.as_deref().unwrap_or("default");
        let probes = probes(&format!("{prefix}{NAME}"));
        let mut pipe = Pipeline::with_capacity(probes.len());
        for probe in &probes {
            pipe.cmd("ACL").arg("DRYRUN").arg(user).arg(&probe.command[..]);
        }
        let replies = self.link.call(|_| pipe).await?;
        if let Some(error) = replies.iter().find_map(refused) {
            return Ok(Finding::advice(
                "rights",
                format!("what the user {user:?} may do could not be looked at: {error}"),
                "compare `ACL GETUSER` with docs/redis.md, or let this user run ACL DRYRUN (Redis 7)",
            ));
        }
        let answers = probes.into_iter().zip(&replies).map(|(probe, reply)| (probe, right(reply)));
        Ok(verdict(user, &answers.collect::<Vec<_>>()))
    }
}

fn verdict(user: &str, answers: &[(Probe, Right)]) -> Finding {
    let denied = |wanted: For| {
        let denied = answers.iter().filter(|(probe, right)| probe.wanted == wanted && *right == Right::NoCommand);
        let mut names: Vec<String> = denied.map(|(probe, _)| probe.name()).collect();
        names.dedup();
        names
    };
    let grant = |names: &[String]| {
        let rules: Vec<String> = names.iter().map(|name| format!("+{}", name.to_lowercase())).collect();
        format!("ACL SETUSER {user} {}", rules.join(" "))
    };
    let mut locks = denied(For::Locks);
    if denied(For::Scripts).len() == SCRIPTS {
        locks.insert(0, "EVALSHA".into());
    }
    if !locks.is_empty() {
        let says = format!("the user {user:?} may not run {}, which every lock needs", locks.join(", "));
        return Finding::danger("rights", says, grant(&locks));
    }
    let bells = denied(For::Subscriptions);
    if !bells.is_empty() {
        let says = format!("the user {user:?} may not run {}, so those who wait poll every second", bells.join(", "));
        return Finding::advice("rights", says, grant(&bells));
    }
    let out_of_reach = |(probe, right): &&(Probe, Right)| probe.wanted != For::Offers && *right == Right::NoName;
    if let Some((probe, _)) = answers.iter().find(out_of_reach) {
        return Finding::advice(
            "rights",
            format!(
                "the user {user:?} may not use every name: {} is refused, and so are locks whose names, tokens, \
                 channels or registry are out of its reach, and schedules whose records are",
                probe.command.join(" ")
            ),
            "see docs/redis.md for the patterns of keys and channels that a user needs",
        );
    }
    if answers.iter().any(|(probe, right)| probe.wanted == For::Offers && *right == Right::NoName) {
        let says = format!(
            "the user {user:?} may not use the keys {}*, so a client that waits beside several busy clients may wait for \
             very long",
            names::STARVING
        );
        return Finding::advice("rights", says, format!("ACL SETUSER {user} '~{}*'", names::STARVING));
    }
    let index = denied(For::Index);
    if !index.is_empty() {
        let says = format!(
            "the user {user:?} may not run {}, so operators see what a client holds and not what it waits for",
            index.join(", ")
        );
        return Finding::advice("rights", says, grant(&index));
    }
    let looks = denied(For::Looks);
    if !looks.is_empty() {
        let says = format!(
            "the user {user:?} may run all that locks need, but not {}, which show, ls and release --force need",
            looks.join(", ")
        );
        return Finding::advice("rights", says, grant(&looks));
    }
    let records = denied(For::Records);
    if !records.is_empty() {
        let says = format!(
            "the user {user:?} may run all that locks need, but not {}, which schedules need",
            records.join(", ")
        );
        return Finding::advice("rights", says, grant(&records));
    }
    Finding::fine("rights", format!("the user {user:?} may run all that locks need, and all that schedules do"))
}

fn probes(name: &str) -> Vec<Probe> {
    let (token, channel) = (names::Token(name).to_string(), names::Channel(name).to_string());
    let member = format!("{}probe", names::REGISTRY);
    let probe = |wanted, command: &[&str]| Probe { wanted, command: command.iter().map(ToString::to_string).collect() };
    let scripts: [&[&str]; SCRIPTS] = [&["EVALSHA", HASH, "1", name], &["EVAL", "return 0", "1", name]];
    let locks: [&[&str]; 10] = [
        &["PTTL", name],
        &["HEXISTS", name, "x"],
        &["GET", &token],
        &["TIME"],
        &["SET", name, "x"],
        &["SET", &token, "x"],
        &["HSET", name, "x", "1"],
        &["HSET", &member, "x", "1"],
        &["DEL", name],
        &["PEXPIRE", name, "1"],
    ];
    let bells: [&[&str]; 3] = [&["PUBLISH", &channel, "0"], &["SUBSCRIBE", &channel], &["UNSUBSCRIBE", &channel]];
    let starving = names::Starving(name).to_string();
    let offers: [&[&str]; 2] = [&["SET", &starving, "x"], &["DEL", &starving]];
    let index: [&[&str]; 3] = [
        &["ZADD", names::CLIENTS, "1", "x"],
        &["ZRANGEBYSCORE", names::CLIENTS, "0", "1"],
        &["ZREM", names::CLIENTS, "x"],
    ];
    let looks: [&[&str]; 4] =
        [&["SCAN", "0"], &["HSCAN", name, "0"], &["HMGET", &member, "x"], &["ZRANGE", names::CLIENTS, "0", "-1"]];
    let (record, history) = (names::Recorded(name).to_string(), names::History(name).to_string());
    let records: [&[&str]; 9] = [
        &["HGET", &record, "v"],
        &["HMGET", &record, "v", "b"],
        &["HSET", &record, "v", "1"],
        &["HSET", &history, "x", "1"],
        &["DEL", &record, &history],
        &["HGETALL", &history],
        &["SADD", names::INDEX, name],
        &["SREM", names::INDEX, name],
        &["SSCAN", names::INDEX, "0"],
    ];
    let scripts = scripts.into_iter().map(|command| probe(For::Scripts, command));
    let locks = locks.into_iter().map(|command| probe(For::Locks, command));
    let bells = bells.into_iter().map(|command| probe(For::Subscriptions, command));
    let offers = offers.into_iter().map(|command| probe(For::Offers, command));
    let index = index.into_iter().map(|command| probe(For::Index, command));
    let looks = looks.into_iter().map(|command| probe(For::Looks, command));
    let records = records.into_iter().map(|command| probe(For::Records, command));
    scripts.chain(locks).chain(bells).chain(offers).chain(index).chain(looks).chain(records).collect()
}

impl Probe {
    fn name(&self) -> String {
        self.command.first().cloned().unwrap_or_default()
    }
}

fn right(reply: &Value) -> Right {
    match text(reply).as_deref() {
        Some("OK") => Right::Granted,
        Some(refusal) if refusal.contains(" to run ") => Right::NoCommand,
        Some(_) | None => Right::NoName,
    }
}

fn refused(reply: &Value) -> Option<String> {
    match reply {
        Value::ServerError(error) => Some(told(error)),
        _ => None,
    }
}
