//! The Lua scripts, and the commands that call them.

mod records;

use std::{sync::LazyLock, time::Duration};

use bandog_core::{Claim, ClientId, Key, Kind, Member, Step};
use redis::{Cmd, Pipeline, RedisWrite};

use crate::{
    names::{CLIENTS, Channel, ClientRowKey, StarvingKey, TokenKey},
    registry,
};

pub(crate) use self::records::{read, swap};

static CLAIM: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/claim.lua")));
static RELEASE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/release.lua")));
static RENEW: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/renew.lua")));
static ANNOUNCE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/announce.lua")));
static ENLIST: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/enlist.lua")));
static EVICT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/evict.lua")));
static SWAP: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/swap.lua")));
static READ: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/read.lua")));

/// Maximum number of expired clients that one registration removes from the index.
const MAX_CLEARED_CLIENTS: usize = 16;

/// The way in which a script is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// By its hash, after it was loaded.
    Hash,
    /// By its text, if the user may not load scripts.
    Text,
}

struct Script {
    text: &'static str,
    hash: String,
}

/// The positions of the steps that one command sends. They are either claims and passes, or releases.
pub(crate) type Group = Vec<usize>;

/// Groups the steps into commands: one command for all releases, and one for all claims and passes. This halves the
/// server's work for each step. It may change the order of steps of different keys. If two steps have the same key,
/// each step gets its own command.
pub(crate) fn groups(steps: &[Step]) -> Vec<Group> {
    let mut keys: Vec<_> = steps.iter().map(|step| step.key().as_str()).collect();
    keys.sort_unstable();
    if keys.windows(2).any(|pair| pair[0] == pair[1]) {
        return (0..steps.len()).map(|place| vec![place]).collect();
    }
    let (releases, claims): (Group, Group) =
        (0..steps.len()).partition(|place| matches!(steps[*place], Step::Release(_)));
    [releases, claims].into_iter().filter(|group| !group.is_empty()).collect()
}

/// One command for each group of steps.
pub(crate) fn steps(steps: &[Step], groups: &[Group], by: By) -> Pipeline {
    let mut pipe = Pipeline::with_capacity(groups.len());
    for group in groups {
        let steps = || group.iter().map(|place| &steps[*place]);
        pipe.add_command(if steps().any(|step| matches!(step, Step::Release(_))) {
            release(steps(), by)
        } else {
            claim(steps(), by)
        });
    }
    pipe
}

/// The commands that renew the claims, at most `each` claims in one command.
pub(crate) fn renewals(claims: &[Claim], each: usize, by: By) -> Pipeline {
    let mut pipe = Pipeline::with_capacity(claims.len().div_ceil(each));
    for claims in claims.chunks(each) {
        pipe.add_command(renew(claims, by));
    }
    pipe
}

/// Writes a client's row in the registry.
pub(crate) fn announce(member: &Member, ttl: Duration, by: By) -> Pipeline {
    let fields = registry::fields(member);
    let size = fields.iter().map(String::len).sum::<usize>() + 128;
    let mut cmd = ANNOUNCE.call(by, 1, 1 + fields.len(), size);
    cmd.write_arg_fmt(ClientRowKey(member.id));
    cmd.arg(millis(ttl)).arg(&fields[..]);
    single(cmd)
}

/// Adds a client to the index of clients.
pub(crate) fn enlist(client: ClientId, ttl: Duration, by: By) -> Pipeline {
    let mut cmd = ENLIST.call(by, 1, 4, CLIENTS.len() + 64);
    cmd.arg(CLIENTS);
    cmd.write_arg_fmt(client);
    cmd.arg(millis(ttl)).arg(MAX_CLEARED_CLIENTS);
    single(cmd)
}

/// Frees a lock, no matter which claim holds it.
pub(crate) fn evict(key: &Key, by: By) -> Pipeline {
    let mut cmd = EVICT.call(by, 2, 3, 3 * key.as_str().len() + 96);
    cmd.arg(key.as_str());
    cmd.write_arg_fmt(TokenKey(key.as_str()));
    cmd.write_arg_fmt(Channel(key.as_str()));
    single(cmd)
}

/// Loads every script.
pub(crate) fn load() -> Pipeline {
    let mut pipe = Pipeline::new();
    for script in [&CLAIM, &RELEASE, &RENEW, &ANNOUNCE, &ENLIST, &EVICT, &SWAP, &READ] {
        pipe.cmd("SCRIPT").arg("LOAD").arg(script.text);
    }
    pipe
}

fn claim<'s>(steps: impl Iterator<Item = &'s Step> + Clone, by: By) -> Cmd {
    let keys = || steps.clone().map(|step| step.key().as_str());
    let count = keys().count();
    let size = keys().map(|key| 2 * key.len() + 160).sum();
    let mut cmd = CLAIM.call(by, 2 * count, 7 * count, size);
    for key in keys() {
        cmd.arg(key);
        cmd.write_arg_fmt(TokenKey(key));
    }
    for step in steps {
        let (Step::Claim(to) | Step::Pass { to, .. } | Step::Release(to)) = step;
        match to.kind {
            Kind::Mutex => cmd.write_arg_fmt(to.id),
        }
        cmd.arg(millis(to.ttl)).arg(to.fences.get());
        match step {
            Step::Pass { from, .. } => cmd.write_arg_fmt(from.id),
            Step::Claim(_) | Step::Release(_) => cmd.write_arg(b""),
        }
        offers(&mut cmd, to, count);
    }
    cmd
}

fn release<'s>(steps: impl Iterator<Item = &'s Step> + Clone, by: By) -> Cmd {
    let claims = || {
        steps.clone().map(|step| match step {
            Step::Release(claim) | Step::Claim(claim) | Step::Pass { from: claim, .. } => claim,
        })
    };
    let count = claims().count();
    let size = claims().map(|claim| 3 * claim.key.as_str().len() + 110).sum();
    let mut cmd = RELEASE.call(by, count, 4 * count, size);
    for claim in claims() {
        cmd.arg(claim.key.as_str());
    }
    for claim in claims() {
        match claim.kind {
            Kind::Mutex => cmd.write_arg_fmt(claim.id),
        }
        cmd.write_arg_fmt(Channel(claim.key.as_str()));
        offers(&mut cmd, claim, count);
    }
    cmd
}

/// Adds the last argument for a lock: the key that shows that a client starves, or an empty text if the claim does not
/// take part in offers. A call with one lock leaves the empty text out.
fn offers(cmd: &mut Cmd, claim: &Claim, count: usize) {
    if claim.offers {
        cmd.write_arg_fmt(StarvingKey(claim.key.as_str()));
    } else if count > 1 {
        cmd.write_arg(b"");
    }
}

fn renew(claims: &[Claim], by: By) -> Cmd {
    let size = claims.iter().map(|claim| claim.key.as_str().len() + 70).sum();
    let mut cmd = RENEW.call(by, claims.len(), 3 * claims.len(), size);
    for claim in claims {
        cmd.arg(claim.key.as_str());
    }
    for claim in claims {
        match claim.kind {
            Kind::Mutex => cmd.write_arg_fmt(claim.id),
        }
        cmd.arg(millis(claim.ttl));
    }
    cmd
}

fn single(cmd: Cmd) -> Pipeline {
    let mut pipe = Pipeline::with_capacity(1);
    pipe.add_command(cmd);
    pipe
}

/// Whole milliseconds, rounded up. So a hold never expires in the store before the client assumes that it does.
fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

impl Script {
    fn new(text: &'static str) -> Self {
        Self { text, hash: redis::Script::new(text).get_hash().into() }
    }

    /// The start of a call, with capacity for its keys and arguments.
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
