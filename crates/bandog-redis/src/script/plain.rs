//! The commands for semaphores of the layout [`Semaphores::Plain`](crate::Semaphores::Plain).

use std::{num::NonZeroU32, sync::LazyLock};

use bandog_core::{Claim, Key, Step};
use bandog_redis_net::{Script, ScriptForm};
use redis::{Cmd, RedisWrite};

use super::{
    args::{claim_of, millis},
    inspect,
    semaphore::permits,
};
use crate::names::{
    FORMER_LIMIT, LEASES, OperationsKey, PLAIN, PermitsKey, SEMAPHORE_CHANNEL, STARVING_ORDER, Satellite, TokenKey,
    WAITING,
};

pub(super) static CLAIM: LazyLock<Script> =
    script!("offer.lua", "common.lua", "permits.lua", "plain.lua", "plain_claim.lua");
pub(super) static RELEASE: LazyLock<Script> =
    script!("offer.lua", "common.lua", "permits.lua", "plain.lua", "plain_release.lua");
pub(super) static RENEW: LazyLock<Script> =
    script!("offer.lua", "common.lua", "permits.lua", "plain.lua", "plain_renew.lua");
pub(super) static LIMIT: LazyLock<Script> =
    script!("offer.lua", "common.lua", "permits.lua", "plain.lua", "plain_limit.lua");
pub(super) static SHOW: LazyLock<Script> =
    script!("offer.lua", "common.lua", "queue.lua", "rw.lua", "inspect.lua", "plain_inspect.lua", "plain_show.lua");
pub(super) static EVICT: LazyLock<Script> = script!(
    "offer.lua",
    "common.lua",
    "queue.lua",
    "rw.lua",
    "inspect.lua",
    "permits.lua",
    "plain.lua",
    "plain_inspect.lua",
    "plain_evict.lua"
);

/// The scripts of this module.
pub(super) static SCRIPTS: [&LazyLock<Script>; 6] = [&CLAIM, &RELEASE, &RENEW, &LIMIT, &SHOW, &EVICT];

/// The call of `plain_claim.lua` for these steps.
pub(super) fn claim(steps: &[&Step], form: ScriptForm) -> Cmd {
    let size = steps.iter().map(|step| 10 * step.key().as_str().len() + 380).sum();
    let mut cmd = CLAIM.call(form, 8 * steps.len(), 18 * steps.len(), size);
    for step in steps {
        let name = step.key().as_str();
        cmd.arg(name);
        cmd.write_arg_fmt(TokenKey(name));
        satellites(&mut cmd, name, &[PLAIN, LEASES, FORMER_LIMIT, WAITING, STARVING_ORDER]);
        cmd.write_arg_fmt(PermitsKey(name));
    }
    for step in steps {
        let to = claim_of(step);
        let (take, limit) = permits(to);
        cmd.write_arg_fmt(to.id);
        cmd.arg(take).arg(millis(to.ttl)).arg(to.fences.get()).arg(limit);
        match step {
            Step::Pass { from, .. } => cmd.write_arg_fmt(from.id),
            Step::Claim(_) | Step::Release(_) => cmd.write_arg(b""),
        }
        cmd.arg(if to.offers { "1" } else { "" }).arg(if to.joins { "1" } else { "" });
        satellites(&mut cmd, to.key.as_str(), &[SEMAPHORE_CHANNEL]);
        cmd.write_arg_fmt(OperationsKey(to.key.as_str()));
    }
    cmd
}

/// The call of `plain_release.lua` for these steps.
pub(super) fn release(steps: &[&Step], form: ScriptForm) -> Cmd {
    let claims = || steps.iter().map(|step| claim_of(step));
    let size = claims().map(|claim| 6 * claim.key.as_str().len() + 200).sum();
    let mut cmd = RELEASE.call(form, 5 * steps.len(), 7 * steps.len(), size);
    for claim in claims() {
        cmd.arg(claim.key.as_str());
        satellites(&mut cmd, claim.key.as_str(), &[PLAIN, LEASES, WAITING, STARVING_ORDER]);
    }
    for claim in claims() {
        cmd.write_arg_fmt(claim.id);
        satellites(&mut cmd, claim.key.as_str(), &[SEMAPHORE_CHANNEL]);
    }
    cmd
}

/// The call of `plain_renew.lua` for these claims.
pub(super) fn renew(claims: &[&Claim], form: ScriptForm) -> Cmd {
    let size = claims.iter().map(|claim| 3 * claim.key.as_str().len() + 120).sum();
    let mut cmd = RENEW.call(form, 3 * claims.len(), 5 * claims.len(), size);
    for claim in claims {
        satellites(&mut cmd, claim.key.as_str(), &[LEASES, WAITING, STARVING_ORDER]);
    }
    for claim in claims {
        cmd.write_arg_fmt(claim.id);
        cmd.arg(millis(claim.ttl));
    }
    cmd
}

/// Changes the number of permits of a semaphore.
pub(super) fn set_limit(key: &Key, permits: NonZeroU32, form: ScriptForm) -> Cmd {
    let name = key.as_str();
    let mut cmd = LIMIT.call(form, 5, 7, 6 * name.len() + 140);
    cmd.arg(name);
    satellites(&mut cmd, name, &[PLAIN, LEASES, FORMER_LIMIT]);
    cmd.write_arg_fmt(PermitsKey(name));
    cmd.arg(permits.get());
    satellites(&mut cmd, name, &[SEMAPHORE_CHANNEL]);
    cmd
}

/// Shows the holders of a lock of any kind.
pub(super) fn show(name: &str, form: ScriptForm) -> Cmd {
    let mut cmd = SHOW.call(form, 1, 13, 13 * name.len() + 280);
    inspect::lock(&mut cmd, name);
    inspect::free_semaphore(&mut cmd, name);
    satellites(&mut cmd, name, &[LEASES]);
    cmd
}

/// Returns the permits of all our claims.
pub(super) fn evict(key: &Key, form: ScriptForm) -> Cmd {
    let name = key.as_str();
    let mut cmd = EVICT.call(form, 1, 6, 6 * name.len() + 140);
    cmd.arg(name);
    satellites(&mut cmd, name, &[PLAIN, LEASES, WAITING, STARVING_ORDER, SEMAPHORE_CHANNEL]);
    cmd
}

/// Adds the keys or channels of this lock with these prefixes.
fn satellites(cmd: &mut Cmd, name: &str, prefixes: &[&'static str]) {
    for prefix in prefixes {
        cmd.write_arg_fmt(Satellite(prefix, name));
    }
}
