//! The commands for semaphores.

use std::{num::NonZeroU32, sync::LazyLock, time::Duration};

use bandog_core::{Claim, ClaimId, Key, Kind, Step};
use bandog_redis_net::{Script, ScriptForm};
use redis::{Cmd, RedisWrite};
use ring::digest::{SHA256, digest};

use super::args::{claim_of, millis};
use crate::names::{
    FORMER_LIMIT, HELD, OperationsKey, PermitsKey, SEMAPHORE_CHANNEL, STARVING_ORDER, Satellite, TokenKey, WAITING,
};

/// Number of bytes of a permit's id.
const ID_LEN: usize = 16;

pub(super) static CLAIM: LazyLock<Script> = script!("offer.lua", "common.lua", "permits.lua", "permits_claim.lua");
pub(super) static RELEASE: LazyLock<Script> = script!("offer.lua", "common.lua", "permits.lua", "permits_release.lua");
pub(super) static RENEW: LazyLock<Script> = script!("offer.lua", "common.lua", "permits.lua", "permits_renew.lua");
pub(super) static LIMIT: LazyLock<Script> = script!("offer.lua", "common.lua", "permits.lua", "limit.lua");

/// The scripts of this module.
pub(super) static SCRIPTS: [&LazyLock<Script>; 4] = [&CLAIM, &RELEASE, &RENEW, &LIMIT];

/// The call of `permits_claim.lua` for these steps. `java_skew`: see [`crate::RedisOptions::java_skew`].
pub(super) fn claim(steps: &[&Step], java_skew: Duration, form: ScriptForm) -> Cmd {
    let size = steps.iter().map(|step| 9 * step.key().as_str().len() + 2 * ID_LEN * permits(claim_of(step)).0 + 320);
    let mut cmd = CLAIM.call(form, 7 * steps.len(), 18 * steps.len(), size.sum());
    for step in steps {
        let name = step.key().as_str();
        cmd.arg(name);
        cmd.write_arg_fmt(TokenKey(name));
        cmd.write_arg_fmt(PermitsKey(name));
        for prefix in [HELD, FORMER_LIMIT, WAITING, STARVING_ORDER] {
            cmd.write_arg_fmt(Satellite(prefix, name));
        }
    }
    for step in steps {
        let to = claim_of(step);
        cmd.write_arg_fmt(to.id);
        cmd.arg(ids(to)).arg(millis(to.ttl + java_skew)).arg(to.fences.get()).arg(permits(to).1);
        match step {
            Step::Pass { from, .. } => {
                cmd.write_arg_fmt(from.id);
                cmd.arg(ids(from));
            }
            Step::Claim(_) | Step::Release(_) => _ = cmd.arg("").arg(""),
        }
        cmd.arg(if to.offers { "1" } else { "" }).arg(if to.joins { "1" } else { "" });
        cmd.write_arg_fmt(Satellite(SEMAPHORE_CHANNEL, to.key.as_str()));
        cmd.write_arg_fmt(OperationsKey(to.key.as_str()));
    }
    cmd
}

/// The call of `permits_release.lua` for these steps.
pub(super) fn release(steps: &[&Step], form: ScriptForm) -> Cmd {
    let claims = || steps.iter().map(|step| claim_of(step));
    let size = claims().map(|claim| 6 * claim.key.as_str().len() + ID_LEN * permits(claim).0 + 200).sum();
    let mut cmd = RELEASE.call(form, 5 * steps.len(), 8 * steps.len(), size);
    for claim in claims() {
        cmd.arg(claim.key.as_str());
        keys(&mut cmd, claim);
    }
    for claim in claims() {
        cmd.write_arg_fmt(claim.id);
        cmd.arg(ids(claim));
        cmd.write_arg_fmt(Satellite(SEMAPHORE_CHANNEL, claim.key.as_str()));
    }
    cmd
}

/// The call of `permits_renew.lua` for these claims.
pub(super) fn renew(claims: &[&Claim], java_skew: Duration, form: ScriptForm) -> Cmd {
    let size = claims.iter().map(|claim| 4 * claim.key.as_str().len() + ID_LEN * permits(claim).0 + 180).sum();
    let mut cmd = RENEW.call(form, 4 * claims.len(), 7 * claims.len(), size);
    for claim in claims {
        keys(&mut cmd, claim);
    }
    for claim in claims {
        cmd.write_arg_fmt(claim.id);
        cmd.arg(ids(claim)).arg(millis(claim.ttl + java_skew));
    }
    cmd
}

/// Changes the number of permits of a semaphore.
pub(super) fn set_limit(key: &Key, permits: NonZeroU32, form: ScriptForm) -> Cmd {
    let name = key.as_str();
    let mut cmd = LIMIT.call(form, 5, 8, 7 * name.len() + 180);
    cmd.arg(name);
    cmd.write_arg_fmt(PermitsKey(name));
    cmd.write_arg_fmt(Satellite(HELD, name));
    cmd.write_arg_fmt(Satellite(FORMER_LIMIT, name));
    cmd.write_arg_fmt(TokenKey(name));
    cmd.arg(permits.get());
    cmd.write_arg_fmt(Satellite(SEMAPHORE_CHANNEL, name));
    cmd.write_arg_fmt(OperationsKey(name));
    cmd
}

/// Adds the keys that a release and a renewal have in common.
fn keys(cmd: &mut Cmd, claim: &Claim) {
    let name = claim.key.as_str();
    cmd.write_arg_fmt(PermitsKey(name));
    for prefix in [HELD, WAITING, STARVING_ORDER] {
        cmd.write_arg_fmt(Satellite(prefix, name));
    }
}

/// The number of permits that the claim takes, and the limit that it expects.
pub(super) fn permits(claim: &Claim) -> (usize, u32) {
    match claim.kind {
        Kind::Permits { take, of } => (usize::try_from(take.get()).unwrap_or(usize::MAX), of.get()),
        Kind::Mutex | Kind::Fair | Kind::Read | Kind::Write => (0, 0),
    }
}

/// The ids of the permits of this claim, one after the other.
fn ids(claim: &Claim) -> Vec<u8> {
    (0..permits(claim).0).flat_map(|index| permit_id(claim.id, index)).collect()
}

/// The id of one permit of a claim. It is computed from the claim, so a claim that is sent again finds its permits.
fn permit_id(claim: ClaimId, index: usize) -> [u8; ID_LEN] {
    let hash = digest(&SHA256, format!("{claim}:{index}").as_bytes());
    let mut id = [0; ID_LEN];
    id.copy_from_slice(&hash.as_ref()[..ID_LEN]);
    id
}
