//! The commands for fair mutexes.

use std::sync::LazyLock;

use bandog_core::{Claim, Step};
use bandog_redis_net::{Script, ScriptForm};
use redis::{Cmd, RedisWrite};

use super::args::{claim_of, millis, starving};
use crate::names::{Channel, DEADLINES, HELD, QUEUE, STAYED, Satellite, TokenKey, WAITING};

pub(super) static CLAIM: LazyLock<Script> =
    script!("offer.lua", "common.lua", "queue.lua", "fair_take.lua", "fair_claim.lua");
pub(super) static RELEASE: LazyLock<Script> =
    script!("offer.lua", "common.lua", "queue.lua", "fair_free.lua", "fair_release.lua");
pub(super) static NEXT: LazyLock<Script> =
    script!("offer.lua", "common.lua", "queue.lua", "fair_free.lua", "fair_take.lua", "fair_next.lua");
pub(super) static RENEW: LazyLock<Script> = script!("offer.lua", "common.lua", "queue.lua", "fair_renew.lua");

/// The scripts of this module.
pub(super) static SCRIPTS: [&LazyLock<Script>; 4] = [&CLAIM, &RELEASE, &NEXT, &RENEW];

/// The call of `fair_claim.lua` for these steps.
pub(super) fn claim(steps: &[&Step], form: ScriptForm) -> Cmd {
    let claims = || steps.iter().map(|step| claim_of(step));
    let size = claims().map(|claim| 7 * claim.key.as_str().len() + 290).sum();
    let mut cmd = CLAIM.call(form, 7 * steps.len(), 12 * steps.len(), size);
    for claim in claims() {
        let name = claim.key.as_str();
        cmd.write_arg_fmt(TokenKey(name));
        cmd.arg(name);
        satellites(&mut cmd, name, &[HELD, QUEUE, DEADLINES, WAITING, STAYED]);
    }
    claims().for_each(|claim| claim_arguments(&mut cmd, claim));
    cmd
}

/// The call of `fair_next.lua`, which releases a claim and then makes another claim for the same name.
pub(super) fn next(released: &Claim, claimed: &Claim, form: ScriptForm) -> Cmd {
    let name = claimed.key.as_str();
    let mut cmd = NEXT.call(form, 7, 15, 8 * name.len() + 400);
    cmd.write_arg_fmt(TokenKey(name));
    cmd.arg(name);
    satellites(&mut cmd, name, &[HELD, QUEUE, DEADLINES, WAITING, STAYED]);
    release_arguments(&mut cmd, released);
    claim_arguments(&mut cmd, claimed);
    cmd
}

fn claim_arguments(cmd: &mut Cmd, claim: &Claim) {
    cmd.write_arg_fmt(claim.id);
    cmd.arg(millis(claim.ttl)).arg(claim.fences.get()).arg(if claim.joins { "1" } else { "" });
    starving(cmd, claim);
}

fn release_arguments(cmd: &mut Cmd, claim: &Claim) {
    cmd.write_arg_fmt(claim.id);
    cmd.write_arg_fmt(Channel(claim.key.as_str()));
    starving(cmd, claim);
}

/// The call of `fair_release.lua` for these steps.
pub(super) fn release(steps: &[&Step], form: ScriptForm) -> Cmd {
    let claims = || steps.iter().map(|step| claim_of(step));
    let size = claims().map(|claim| 7 * claim.key.as_str().len() + 270).sum();
    let mut cmd = RELEASE.call(form, 6 * steps.len(), 9 * steps.len(), size);
    for claim in claims() {
        let name = claim.key.as_str();
        cmd.arg(name);
        satellites(&mut cmd, name, &[HELD, QUEUE, DEADLINES, WAITING, STAYED]);
    }
    claims().for_each(|claim| release_arguments(&mut cmd, claim));
    cmd
}

/// The call of `fair_renew.lua` for these claims.
pub(super) fn renew(claims: &[&Claim], form: ScriptForm) -> Cmd {
    let size = claims.iter().map(|claim| 5 * claim.key.as_str().len() + 210).sum();
    let mut cmd = RENEW.call(form, 5 * claims.len(), 7 * claims.len(), size);
    for claim in claims {
        let name = claim.key.as_str();
        cmd.arg(name);
        satellites(&mut cmd, name, &[HELD, QUEUE, DEADLINES, WAITING]);
    }
    for claim in claims {
        cmd.write_arg_fmt(claim.id);
        cmd.arg(millis(claim.ttl));
    }
    cmd
}

/// Adds the further keys of the lock with this name.
fn satellites(cmd: &mut Cmd, name: &str, prefixes: &[&'static str]) {
    for prefix in prefixes {
        cmd.write_arg_fmt(Satellite(prefix, name));
    }
}
