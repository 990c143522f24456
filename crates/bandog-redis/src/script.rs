//! The scripts, and the commands that call them.

use std::{sync::LazyLock, time::Duration};

use bandog_core::{Claim, Kind, Step};
use redis::{Cmd, Pipeline, RedisWrite};

use crate::names::{Channel, Token};

static CLAIM: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/claim.lua")));
static RELEASE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/release.lua")));
static RENEW: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/renew.lua")));

/// How a script is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// By its hash, once it is loaded.
    Hash,
    /// By its text, where loading is denied.
    Text,
}

struct Script {
    text: &'static str,
    hash: String,
}

/// All steps, one command each.
pub(crate) fn steps(steps: &[Step], by: By) -> Pipeline {
    let mut pipe = Pipeline::with_capacity(steps.len());
    for step in steps {
        pipe.add_command(match step {
            Step::Claim(claim) => self::claim(claim, None, by),
            Step::Pass { from, to } => claim(to, Some(from), by),
            Step::Release(claim) => release(claim, by),
        });
    }
    pipe
}

/// Renewals, so many in one command.
pub(crate) fn renewals(claims: &[Claim], each: usize, by: By) -> Pipeline {
    let mut pipe = Pipeline::with_capacity(claims.len().div_ceil(each));
    for claims in claims.chunks(each) {
        pipe.add_command(renew(claims, by));
    }
    pipe
}

/// Loads every script.
pub(crate) fn load() -> Pipeline {
    let mut pipe = Pipeline::new();
    for script in [&CLAIM, &RELEASE, &RENEW] {
        pipe.cmd("SCRIPT").arg("LOAD").arg(script.text);
    }
    pipe
}

fn claim(claim: &Claim, from: Option<&Claim>, by: By) -> Cmd {
    let script = match claim.kind {
        Kind::Mutex => &CLAIM,
    };
    let key = claim.key.as_str();
    let mut cmd = script.call(by, 2, 6, 2 * key.len() + 160);
    cmd.arg(key);
    cmd.write_arg_fmt(Token(key));
    cmd.write_arg_fmt(claim.id);
    cmd.arg(millis(claim.ttl)).arg(claim.fences.get());
    match from {
        Some(from) => cmd.write_arg_fmt(from.id),
        None => cmd.write_arg(b""),
    }
    cmd
}

fn release(claim: &Claim, by: By) -> Cmd {
    let script = match claim.kind {
        Kind::Mutex => &RELEASE,
    };
    let key = claim.key.as_str();
    let mut cmd = script.call(by, 1, 3, 2 * key.len() + 90);
    cmd.arg(key);
    cmd.write_arg_fmt(claim.id);
    cmd.write_arg_fmt(Channel(key));
    cmd
}

fn renew(claims: &[Claim], by: By) -> Cmd {
    let size = claims.iter().map(|claim| claim.key.as_str().len() + 70).sum();
    let mut cmd = RENEW.call(by, claims.len(), 3 * claims.len(), size);
    for claim in claims {
        cmd.arg(claim.key.as_str());
    }
    for claim in claims {
        cmd.write_arg_fmt(claim.id);
        cmd.arg(millis(claim.ttl));
    }
    cmd
}

/// Whole milliseconds, rounded up: the store may keep a hold longer than we believe in it, never shorter.
fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

impl Script {
    fn new(text: &'static str) -> Self {
        Self { text, hash: redis::Script::new(text).get_hash().into() }
    }

    /// The start of a call, with room for its keys and arguments.
    fn call(&self, by: By, keys: usize, args: usize, size: usize) -> Cmd {
        let (verb, script) = match by {
            By::Hash => ("EVALSHA", self.hash.as_str()),
            By::Text => ("EVAL", self.text),
        };
        let mut cmd = Cmd::with_capacity(3 + args, verb.len() + script.len() + 4 + size);
        cmd.arg(verb).arg(script).arg(keys);
        cmd
    }
}

#[cfg(test)]
mod tests;
