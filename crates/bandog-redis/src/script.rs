//! The Lua scripts, and the commands that call them.

/// A script whose text consists of these files of the folder `lua`.
macro_rules! script {
    ($($file:literal),+) => {
        std::sync::LazyLock::new(|| {
            crate::script::Script::new(concat!($(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/lua/", $file))),+))
        })
    };
}

mod fair;
mod latches;
mod look;
mod plain;
mod read_write;
mod records;
mod semaphore;
mod setnx;

use std::{
    collections::BTreeMap,
    num::NonZeroU32,
    sync::{LazyLock, OnceLock},
    time::Duration,
};

use bandog_core::{Claim, ClientId, IfUnused, Key, Kind, Member, Step};
use redis::{Cmd, Pipeline, RedisWrite};

use crate::{
    names::{CLIENTS, Channel, ClientRowKey, StarvingKey, TokenKey},
    options::{Format, Layout, Semaphores},
    registry,
};

pub(crate) use self::{
    latches::change_latch,
    records::{read, swap},
};

static CLAIM: LazyLock<Script> = script!("claim.lua");
static RELEASE: LazyLock<Script> = script!("release.lua");
static RENEW: LazyLock<Script> = script!("renew.lua");
static ANNOUNCE: LazyLock<Script> = script!("announce.lua");
static ENLIST: LazyLock<Script> = script!("enlist.lua");
static SWAP: LazyLock<Script> = script!("holdings.lua", "swap.lua");
static READ: LazyLock<Script> = script!("holdings.lua", "read.lua");
static LATCH: LazyLock<Script> = script!("latch.lua");

/// Maximum number of expired clients that one registration removes from the index.
const MAX_CLEARED_CLIENTS: usize = 16;

/// The form in which a call sends its script to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScriptForm {
    /// The hash of the script, which was loaded before.
    Hash,
    /// The text of the script. It is sent if the user has no right to load scripts, or to run them by their hash.
    Text,
    /// The hash of the script that publishes its messages with SPUBLISH.
    ShardedHash,
    /// The text of the script that publishes its messages with SPUBLISH.
    ShardedText,
}

impl ScriptForm {
    /// The form of a call. `sends_text`: the text is sent, and not the hash. `sharded`: messages are published with
    /// SPUBLISH.
    pub(crate) fn new(sends_text: bool, sharded: bool) -> Self {
        match (sends_text, sharded) {
            (false, false) => Self::Hash,
            (true, false) => Self::Text,
            (false, true) => Self::ShardedHash,
            (true, true) => Self::ShardedText,
        }
    }

    /// The command that runs a script in this form.
    pub(crate) fn verb(self) -> &'static str {
        if self.is_text() { "EVAL" } else { "EVALSHA" }
    }

    /// Whether the text is sent, and not the hash.
    pub(crate) fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::ShardedText)
    }

    /// Whether messages are published with SPUBLISH.
    pub(crate) fn is_sharded(self) -> bool {
        matches!(self, Self::ShardedHash | Self::ShardedText)
    }
}

/// A Lua script.
struct Script {
    text: &'static str,
    /// The SHA-1 hash of the text. EVALSHA calls the script by this hash.
    hash: String,
    /// The text and the hash of the script that publishes its messages with SPUBLISH.
    sharded: OnceLock<(String, String)>,
}

/// The steps or renewals that one command sends, as positions in the list of all steps or renewals. A group of steps
/// contains releases only, or claims and passes only, or one release of a fair lock and the next claim of this lock. (A
/// pass gives a lock of one claim to another claim.) All claims of a group need the same scripts.
pub(crate) type Group = Vec<usize>;

/// The scripts that a kind of lock needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Scripts {
    Mutex,
    Setnx,
    Fair,
    ReadWrite,
    Semaphore,
    Plain,
}

impl Scripts {
    fn of(kind: Kind, format: Format) -> Self {
        match (kind, format.layout, format.semaphores) {
            (Kind::Mutex, Layout::Redisson, _) => Self::Mutex,
            (Kind::Mutex, Layout::Setnx, _) => Self::Setnx,
            (Kind::Fair, ..) => Self::Fair,
            (Kind::Read | Kind::Write, ..) => Self::ReadWrite,
            (Kind::Permits { .. }, _, Semaphores::Leased) => Self::Semaphore,
            (Kind::Permits { .. }, _, Semaphores::Plain) => Self::Plain,
        }
    }
}

/// For each of these keys two commands: one reads the beginning of a string, the other says whether the key is a hash
/// with the field `mode`. A number fits into the beginning.
pub(crate) fn ask_for_type<'a>(keys: impl Iterator<Item = &'a Key>) -> Pipeline {
    let mut pipe = Pipeline::new();
    for key in keys {
        pipe.cmd("GETRANGE").arg(key.as_str()).arg(0).arg(63);
        pipe.cmd("HEXISTS").arg(key.as_str()).arg("mode");
    }
    pipe
}

/// Groups the steps that have no answer yet into commands: for each set of scripts, one command for all releases, and
/// one command for all claims and passes. This grouping halves the server's work for each step. But the steps run in
/// another order, which is allowed for steps with different keys. If any two steps have the same key, each step of the
/// call gets its own command, in the original order. But one command releases a fair lock and then claims it.
///
/// On a cluster, each step has a command of its own, also if locks have the same slot: while the slot moves, a command
/// that has locks at both nodes is refused.
pub(crate) fn groups<T>(steps: &[Step], answers: &[Option<T>], format: Format) -> Vec<Group> {
    let mut keys: Vec<_> = steps.iter().map(|step| step.key().as_str()).collect();
    keys.sort_unstable();
    let positions = (0..steps.len()).filter(|position| answers[*position].is_none());
    if keys.windows(2).any(|pair| pair[0] == pair[1]) {
        return one_by_one(steps, positions);
    }
    let is_claim = |position: &usize| !matches!(steps[*position], Step::Release(_));
    grouped(positions, |position| {
        let step = &steps[*position];
        (is_claim(position), Scripts::of(step.kind(), format), alone(*position, format))
    })
}

/// A command for each of these positions, or for two of them: a release of a fair lock and the next claim of it.
fn one_by_one(steps: &[Step], positions: impl Iterator<Item = usize>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for position in positions {
        match groups.last_mut() {
            Some(group) if group.len() == 1 && is_next(&steps[group[0]], &steps[position]) => group.push(position),
            _ => groups.push(vec![position]),
        }
    }
    groups
}

/// Whether the first step releases a fair lock, and the second one claims it.
fn is_next(first: &Step, second: &Step) -> bool {
    match (first, second) {
        (Step::Release(from), Step::Claim(to)) => {
            from.kind == Kind::Fair && to.kind == Kind::Fair && from.key == to.key
        }
        _ => false,
    }
}

/// The position, if its lock needs a command of its own.
fn alone(position: usize, format: Format) -> Option<usize> {
    format.in_cluster.then_some(position)
}

/// Groups the renewals of these claims into commands. Each command renews at most `max_per_call` claims.
pub(crate) fn renewal_groups(claims: &[Claim], max_per_call: usize, format: Format) -> Vec<Group> {
    let groups = grouped(0..claims.len(), |position| {
        let claim = &claims[*position];
        (Scripts::of(claim.kind, format), alone(*position, format))
    });
    groups.iter().flat_map(|group| group.chunks(max_per_call)).map(<[usize]>::to_vec).collect()
}

/// Groups the positions by this property.
fn grouped<P: Ord>(positions: impl Iterator<Item = usize>, property: impl Fn(&usize) -> P) -> Vec<Group> {
    let mut groups = BTreeMap::<P, Group>::new();
    for position in positions {
        groups.entry(property(&position)).or_default().push(position);
    }
    groups.into_values().collect()
}

/// One command for each group of steps.
pub(crate) fn steps(steps: &[Step], groups: &[Group], format: Format, form: ScriptForm) -> Pipeline {
    let java_skew = format.java_skew;
    let mut pipe = Pipeline::with_capacity(groups.len());
    for group in groups {
        let steps: Vec<&Step> = group.iter().map(|position| &steps[*position]).collect();
        let Some(first) = steps.first() else { continue };
        pipe.add_command(match (Scripts::of(first.kind(), format), first) {
            (Scripts::Mutex, Step::Release(_)) => release(&steps, form),
            (Scripts::Mutex, Step::Claim(_) | Step::Pass { .. }) => claim(&steps, form),
            (Scripts::Setnx, Step::Release(_)) => setnx::release(&steps, form),
            (Scripts::Setnx, Step::Claim(_) | Step::Pass { .. }) => setnx::claim(&steps, form),
            (Scripts::Fair, Step::Release(released)) => match steps[..] {
                [_, Step::Claim(claimed)] => fair::next(released, claimed, form),
                _ => fair::release(&steps, form),
            },
            (Scripts::Fair, Step::Claim(_) | Step::Pass { .. }) => fair::claim(&steps, form),
            (Scripts::ReadWrite, Step::Release(_)) => read_write::release(&steps, form),
            (Scripts::ReadWrite, Step::Claim(_) | Step::Pass { .. }) => read_write::claim(&steps, form),
            (Scripts::Semaphore, Step::Release(_)) => semaphore::release(&steps, form),
            (Scripts::Semaphore, Step::Claim(_) | Step::Pass { .. }) => semaphore::claim(&steps, java_skew, form),
            (Scripts::Plain, Step::Release(_)) => plain::release(&steps, form),
            (Scripts::Plain, Step::Claim(_) | Step::Pass { .. }) => plain::claim(&steps, form),
        });
    }
    pipe
}

/// One command for each group of renewals.
pub(crate) fn renewals(claims: &[Claim], groups: &[Group], format: Format, form: ScriptForm) -> Pipeline {
    let mut pipe = Pipeline::with_capacity(groups.len());
    for group in groups {
        let claims: Vec<&Claim> = group.iter().map(|position| &claims[*position]).collect();
        let Some(first) = claims.first() else { continue };
        pipe.add_command(match Scripts::of(first.kind, format) {
            Scripts::Mutex => renew(&claims, form),
            Scripts::Setnx => setnx::renew(&claims, form),
            Scripts::Fair => fair::renew(&claims, form),
            Scripts::ReadWrite => read_write::renew(&claims, form),
            Scripts::Semaphore => semaphore::renew(&claims, format.java_skew, form),
            Scripts::Plain => plain::renew(&claims, form),
        });
    }
    pipe
}

/// Shows the holders of each lock. Each lock has a command of its own, because the server refuses a whole command if the
/// user lacks the right for one key.
pub(crate) fn show<'n>(names: impl Iterator<Item = &'n str>, format: Format, form: ScriptForm) -> Pipeline {
    let mut pipe = Pipeline::new();
    for name in names {
        pipe.add_command(match (format.layout, format.semaphores) {
            (Layout::Setnx, _) => setnx::show(name, form),
            (Layout::Redisson, Semaphores::Plain) => plain::show(name, form),
            (Layout::Redisson, Semaphores::Leased) => look::show(name, form),
        });
    }
    pipe
}

/// Frees a lock, no matter which claim holds it.
pub(crate) fn evict(key: &Key, format: Format, form: ScriptForm) -> Pipeline {
    single(match (format.layout, format.semaphores) {
        (Layout::Setnx, _) => setnx::evict(key, form),
        // For a semaphore, see `evict_plain`.
        (Layout::Redisson, Semaphores::Plain | Semaphores::Leased) => look::evict(key, form),
    })
}

/// Deletes all keys of a lock, if it is free. The lock has the layout of Redisson.
pub(crate) fn forget(key: &Key, form: ScriptForm) -> Pipeline {
    single(look::forget(key, form))
}

/// Checks which of these names are unused, and deletes their keys if the caller asks for it. Each has a command of its own, as in [`show`].
pub(crate) fn unused(keys: &[Key], unused_for: Duration, then: IfUnused, form: ScriptForm) -> Pipeline {
    let mut pipe = Pipeline::with_capacity(keys.len());
    keys.iter().for_each(|key| _ = pipe.add_command(look::unused(key, unused_for, then, form)));
    pipe
}

/// Frees the permits of a plain semaphore. The reply is 0 if the key is another kind of lock, or no lock.
pub(crate) fn evict_plain(key: &Key, form: ScriptForm) -> Pipeline {
    single(plain::evict(key, form))
}

/// Changes the number of permits of a semaphore.
pub(crate) fn set_limit(key: &Key, permits: NonZeroU32, format: Format, form: ScriptForm) -> Pipeline {
    single(match format.semaphores {
        Semaphores::Leased => semaphore::set_limit(key, permits, form),
        Semaphores::Plain => plain::set_limit(key, permits, form),
    })
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

/// Loads every script that a client with this format needs.
pub(crate) fn load(format: Format) -> Pipeline {
    let mut pipe = Pipeline::new();
    let scripts = [&CLAIM, &RELEASE, &RENEW, &ANNOUNCE, &ENLIST, &SWAP, &READ, &LATCH];
    let of_kinds = fair::SCRIPTS.into_iter().chain(read_write::SCRIPTS).chain(semaphore::SCRIPTS);
    let of_setnx = setnx::SCRIPTS.into_iter().filter(|_| format.layout == Layout::Setnx);
    let of_plain = plain::SCRIPTS.into_iter().filter(|_| format.semaphores == Semaphores::Plain);
    for script in scripts.into_iter().chain(of_kinds).chain(look::SCRIPTS).chain(of_setnx).chain(of_plain) {
        pipe.cmd("SCRIPT").arg("LOAD").arg(script.text(format.sharded));
    }
    pipe
}

/// The call of `claim.lua` for these steps.
fn claim(steps: &[&Step], form: ScriptForm) -> Cmd {
    claim_with(&CLAIM, steps, form, |cmd, to| offers(cmd, to, steps.len()))
}

/// The call of this script, which has the arguments of `claim.lua`, for these steps. `add_last` adds the last argument for
/// a lock.
fn claim_with(script: &Script, steps: &[&Step], form: ScriptForm, add_last: impl Fn(&mut Cmd, &Claim)) -> Cmd {
    let keys = || steps.iter().map(|step| step.key().as_str());
    let size = keys().map(|key| 3 * key.len() + 180).sum();
    let mut cmd = script.call(form, 2 * steps.len(), 7 * steps.len(), size);
    for key in keys() {
        cmd.arg(key);
        cmd.write_arg_fmt(TokenKey(key));
    }
    for step in steps {
        let to = claim_of(step);
        cmd.write_arg_fmt(to.id);
        cmd.arg(millis(to.ttl));
        fences(&mut cmd, to);
        match step {
            Step::Pass { from, .. } => cmd.write_arg_fmt(from.id),
            Step::Claim(_) | Step::Release(_) => cmd.write_arg(b""),
        }
        add_last(&mut cmd, to);
    }
    cmd
}

/// Adds the number of fences and, if the claim has one, the fence that they must exceed.
fn fences(cmd: &mut Cmd, claim: &Claim) {
    match claim.above {
        Some(above) => cmd.write_arg_fmt(format_args!("{}:{above}", claim.fences)),
        None => {
            cmd.arg(claim.fences.get());
        }
    }
}

/// The call of `release.lua` for these steps.
fn release(steps: &[&Step], form: ScriptForm) -> Cmd {
    let claims = || steps.iter().map(|step| claim_of(step));
    let size = claims().map(|claim| 3 * claim.key.as_str().len() + 110).sum();
    let mut cmd = RELEASE.call(form, steps.len(), 4 * steps.len(), size);
    for claim in claims() {
        cmd.arg(claim.key.as_str());
    }
    for claim in claims() {
        cmd.write_arg_fmt(claim.id);
        cmd.write_arg_fmt(Channel(claim.key.as_str()));
        offers(&mut cmd, claim, steps.len());
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

/// Adds the key that marks a lock with a starving client, if the claim takes part in offers. Otherwise adds an empty
/// text.
fn starving(cmd: &mut Cmd, claim: &Claim) {
    if claim.offers {
        cmd.write_arg_fmt(StarvingKey(claim.key.as_str()));
    } else {
        cmd.write_arg(b"");
    }
}

/// The call of `renew.lua` for these claims.
fn renew(claims: &[&Claim], form: ScriptForm) -> Cmd {
    renew_with(&RENEW, claims, form)
}

/// The call of this script, which has the arguments of `renew.lua`, for these claims.
fn renew_with(script: &Script, claims: &[&Claim], form: ScriptForm) -> Cmd {
    let size = claims.iter().map(|claim| claim.key.as_str().len() + 70).sum();
    let mut cmd = script.call(form, claims.len(), 3 * claims.len(), size);
    for claim in claims {
        cmd.arg(claim.key.as_str());
    }
    for claim in claims {
        cmd.write_arg_fmt(claim.id);
        cmd.arg(millis(claim.ttl));
    }
    cmd
}

/// The claim that this step makes or releases.
pub(crate) fn claim_of(step: &Step) -> &Claim {
    match step {
        Step::Claim(claim) | Step::Release(claim) | Step::Pass { to: claim, .. } => claim,
    }
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
        Self { text, hash: hash(text), sharded: OnceLock::new() }
    }

    /// The text of the script. `sharded`: it publishes its messages with SPUBLISH.
    fn text(&self, sharded: bool) -> &str {
        if sharded { &self.sharded().0 } else { self.text }
    }

    fn sharded(&self) -> &(String, String) {
        self.sharded.get_or_init(|| {
            let text = self.text.replace("'publish'", "'spublish'");
            let hash = hash(&text);
            (text, hash)
        })
    }

    /// The beginning of a call of this script: the verb, the script and the number of keys. The caller adds the keys
    /// and the arguments, and the command has capacity for them. `keys` is the number of keys, `args` is the number of
    /// keys and arguments together, and `size` is their approximate size in bytes.
    fn call(&self, form: ScriptForm, keys: usize, args: usize, size: usize) -> Cmd {
        let verb = form.verb();
        let script = match form {
            ScriptForm::Hash => self.hash.as_str(),
            ScriptForm::ShardedHash => self.sharded().1.as_str(),
            ScriptForm::Text | ScriptForm::ShardedText => self.text(form.is_sharded()),
        };
        let mut cmd = Cmd::with_capacity(3 + args, verb.len() + script.len() + 4 + size);
        cmd.arg(verb).arg(script).arg(keys);
        cmd
    }
}

/// The SHA-1 hash of a script.
fn hash(text: &str) -> String {
    redis::Script::new(text).get_hash().into()
}

#[cfg(test)]
mod tests;
