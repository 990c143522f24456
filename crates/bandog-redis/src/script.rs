//! The Lua scripts, and the commands that call them.

mod latches;
mod records;

use std::{sync::LazyLock, time::Duration};

use bandog_core::{Claim, ClientId, Key, Kind, Member, Step};
use redis::{Cmd, Pipeline, RedisWrite};

use crate::{
    names::{CLIENTS, Channel, ClientRowKey, StarvingKey, TokenKey},
    registry,
};

pub(crate) use self::{
    latches::change_latch,
    records::{read, swap},
};

static CLAIM: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/claim.lua")));
static RELEASE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/release.lua")));
static RENEW: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/renew.lua")));
static ANNOUNCE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/announce.lua")));
static ENLIST: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/enlist.lua")));
static EVICT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/evict.lua")));
static SWAP: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/swap.lua")));
static LATCH: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/latch.lua")));
static READ: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("lua/read.lua")));

/// Maximum number of expired clients that one registration removes from the index.
const MAX_CLEARED_CLIENTS: usize = 16;

/// The form in which a call sends its script to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScriptForm {
    /// The hash of the script, which was loaded before.
    Hash,
    /// The text of the script. It is sent if the user has no right to load scripts.
    Text,
}

/// A Lua script.
struct Script {
    text: &'static str,
    /// The SHA-1 hash of the text. EVALSHA calls the script by this hash.
    hash: String,
}

/// The steps that one command sends, as positions in the list of all steps. A group contains either releases only, or
/// claims and passes only. (A pass gives a lock of one claim to another claim.)
pub(crate) type Group = Vec<usize>;

/// Groups the steps into commands: one command for all releases, and one command for all claims and passes. This
/// grouping halves the server's work for each step. But the steps run in another order, which is allowed for steps with
/// different keys. If any two steps have the same key, each step of the call gets its own command, in the original
/// order.
pub(crate) fn groups(steps: &[Step]) -> Vec<Group> {
    let mut keys: Vec<_> = steps.iter().map(|step| step.key().as_str()).collect();
    keys.sort_unstable();
    if keys.windows(2).any(|pair| pair[0] == pair[1]) {
        return (0..steps.len()).map(|position| vec![position]).collect();
    }
    let (releases, claims): (Group, Group) =
        (0..steps.len()).partition(|position| matches!(steps[*position], Step::Release(_)));
    [releases, claims].into_iter().filter(|group| !group.is_empty()).collect()
}

/// One command for each group of steps.
pub(crate) fn steps(steps: &[Step], groups: &[Group], form: ScriptForm) -> Pipeline {
    let mut pipe = Pipeline::with_capacity(groups.len());
    for group in groups {
        let steps = || group.iter().map(|position| &steps[*position]);
        pipe.add_command(if steps().any(|step| matches!(step, Step::Release(_))) {
            release(steps(), form)
        } else {
            claim(steps(), form)
        });
    }
    pipe
}

/// The commands that renew the claims. Each command renews at most `max_per_call` claims.
pub(crate) fn renewals(claims: &[Claim], max_per_call: usize, form: ScriptForm) -> Pipeline {
    let mut pipe = Pipeline::with_capacity(claims.len().div_ceil(max_per_call));
    for claims in claims.chunks(max_per_call) {
        pipe.add_command(renew(claims, form));
    }
    pipe
}

/// Writes a client's row in the registry.
pub(crate) fn announce(member: &Member, ttl: Duration, form: ScriptForm) -> Pipeline {
    let fields = registry::fields(member);
    let size = fields.iter().map(String::len).sum::<usize>() + 128;
    let mut cmd = ANNOUNCE.call(form, 1, 1 + fields.len(), size);
    cmd.write_arg_fmt(ClientRowKey(member.id));
    cmd.arg(millis(ttl)).arg(&fields[..]);
    single(cmd)
}

/// Adds a client to the index of clients.
pub(crate) fn enlist(client: ClientId, ttl: Duration, form: ScriptForm) -> Pipeline {
    let mut cmd = ENLIST.call(form, 1, 4, CLIENTS.len() + 64);
    cmd.arg(CLIENTS);
    cmd.write_arg_fmt(client);
    cmd.arg(millis(ttl)).arg(MAX_CLEARED_CLIENTS);
    single(cmd)
}

/// Frees a lock, no matter which claim holds it.
pub(crate) fn evict(key: &Key, form: ScriptForm) -> Pipeline {
    let mut cmd = EVICT.call(form, 2, 3, 3 * key.as_str().len() + 96);
    cmd.arg(key.as_str());
    cmd.write_arg_fmt(TokenKey(key.as_str()));
    cmd.write_arg_fmt(Channel(key.as_str()));
    single(cmd)
}

/// Loads every script.
pub(crate) fn load() -> Pipeline {
    let mut pipe = Pipeline::new();
    for script in [&CLAIM, &RELEASE, &RENEW, &ANNOUNCE, &ENLIST, &EVICT, &SWAP, &READ, &LATCH] {
        pipe.cmd("SCRIPT").arg("LOAD").arg(script.text);
    }
    pipe
}

/// The call of `claim.lua` for these steps.
fn claim<'s>(steps: impl Iterator<Item = &'s Step> + Clone, form: ScriptForm) -> Cmd {
    let keys = || steps.clone().map(|step| step.key().as_str());
    let count = keys().count();
    let size = keys().map(|key| 2 * key.len() + 160).sum();
    let mut cmd = CLAIM.call(form, 2 * count, 7 * count, size);
    for key in keys() {
        cmd.arg(key);
        cmd.write_arg_fmt(TokenKey(key));
    }
    for step in steps {
        let (Step::Claim(to) | Step::Pass { to, .. } | Step::Release(to)) = step;
        match to.kind {
            Kind::Mutex | Kind::Fair | Kind::Read | Kind::Write | Kind::Permits { .. } => cmd.write_arg_fmt(to.id),
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

/// The call of `release.lua` for these steps.
fn release<'s>(steps: impl Iterator<Item = &'s Step> + Clone, form: ScriptForm) -> Cmd {
    let claims = || {
        steps.clone().map(|step| match step {
            Step::Release(claim) | Step::Claim(claim) | Step::Pass { from: claim, .. } => claim,
        })
    };
    let count = claims().count();
    let size = claims().map(|claim| 3 * claim.key.as_str().len() + 110).sum();
    let mut cmd = RELEASE.call(form, count, 4 * count, size);
    for claim in claims() {
        cmd.arg(claim.key.as_str());
    }
    for claim in claims() {
        match claim.kind {
            Kind::Mutex | Kind::Fair | Kind::Read | Kind::Write | Kind::Permits { .. } => cmd.write_arg_fmt(claim.id),
        }
        cmd.write_arg_fmt(Channel(claim.key.as_str()));
        offers(&mut cmd, claim, count);
    }
    cmd
}

/// Adds the last argument for a lock. An offer reserves a released lock for a short time for starving clients, which
/// have waited for a second or more. If the claim takes part in offers, the argument is the key that marks a lock with
/// a starving client. Otherwise the argument is an empty text. A call with only one lock omits the empty text. `count`
/// is the number of locks in the call.
fn offers(cmd: &mut Cmd, claim: &Claim, count: usize) {
    if claim.offers {
        cmd.write_arg_fmt(StarvingKey(claim.key.as_str()));
    } else if count > 1 {
        cmd.write_arg(b"");
    }
}

/// The call of `renew.lua` for these claims.
fn renew(claims: &[Claim], form: ScriptForm) -> Cmd {
    let size = claims.iter().map(|claim| claim.key.as_str().len() + 70).sum();
    let mut cmd = RENEW.call(form, claims.len(), 3 * claims.len(), size);
    for claim in claims {
        cmd.arg(claim.key.as_str());
    }
    for claim in claims {
        match claim.kind {
            Kind::Mutex | Kind::Fair | Kind::Read | Kind::Write | Kind::Permits { .. } => cmd.write_arg_fmt(claim.id),
        }
        cmd.arg(millis(claim.ttl));
    }
    cmd
}

/// A pipeline that contains only this command.
fn single(cmd: Cmd) -> Pipeline {
    let mut pipe = Pipeline::with_capacity(1);
    pipe.add_command(cmd);
    pipe
}

/// The ttl in whole milliseconds, rounded up. So a hold never expires in the store before it expires for the client.
fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

impl Script {
    fn new(text: &'static str) -> Self {
        Self { text, hash: redis::Script::new(text).get_hash().into() }
    }

    /// The beginning of a call of this script: the verb, the script and the number of keys. The caller adds the keys
    /// and the arguments, and the command has capacity for them. `keys` is the number of keys, `args` is the number of
    /// keys and arguments together, and `size` is their approximate size in bytes.
    fn call(&self, form: ScriptForm, keys: usize, args: usize, size: usize) -> Cmd {
        let (verb, script) = match form {
            ScriptForm::Hash => ("EVALSHA", self.hash.as_str()),
            ScriptForm::Text => ("EVAL", self.text),
        };
        let mut cmd = Cmd::with_capacity(3 + args, verb.len() + script.len() + 4 + size);
        cmd.arg(verb).arg(script).arg(keys);
        cmd
    }
}

#[cfg(test)]
mod tests;
