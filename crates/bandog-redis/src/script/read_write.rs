//! The commands for read-write locks.

use std::sync::LazyLock;

use bandog_core::{Claim, Kind, Step};
use bandog_redis_net::{Script, ScriptForm};
use redis::{Cmd, RedisWrite};

use super::args::{claim_of, fences, millis, starving};
use crate::names::{HELD, HoldPrefix, READ_WRITE_CHANNEL, Satellite, TokenKey, WRITERS};

pub(super) static CLAIM: LazyLock<Script> = script!("offer.lua", "common.lua", "rw.lua", "rw_claim.lua");
pub(super) static RELEASE: LazyLock<Script> = script!("offer.lua", "common.lua", "rw.lua", "rw_release.lua");
pub(super) static RENEW: LazyLock<Script> = script!("offer.lua", "common.lua", "rw.lua", "rw_renew.lua");

/// The scripts of this module.
pub(super) static SCRIPTS: [&LazyLock<Script>; 3] = [&CLAIM, &RELEASE, &RENEW];

/// The call of `rw_claim.lua` for these steps.
pub(super) fn claim(steps: &[&Step], form: ScriptForm) -> Cmd {
    let keys = || steps.iter().map(|step| step.key().as_str());
    let size = keys().map(|key| 7 * key.len() + 320).sum();
    let mut cmd = CLAIM.call(form, 4 * steps.len(), 13 * steps.len(), size);
    for key in keys() {
        cmd.arg(key);
        cmd.write_arg_fmt(TokenKey(key));
        cmd.write_arg_fmt(Satellite(HELD, key));
        cmd.write_arg_fmt(Satellite(WRITERS, key));
    }
    for step in steps {
        let (to, name) = (claim_of(step), step.key().as_str());
        cmd.arg(mode(to.kind));
        cmd.write_arg_fmt(to.id);
        cmd.arg(millis(to.ttl));
        fences(&mut cmd, to);
        match step {
            Step::Pass { from, .. } if matches!(from.kind, Kind::Write) => {
                cmd.write_arg_fmt(format_args!("{}:write", from.id));
            }
            Step::Pass { from, .. } => cmd.write_arg_fmt(from.id),
            Step::Claim(_) | Step::Release(_) => cmd.write_arg(b""),
        }
        cmd.arg(if to.joins { "1" } else { "" });
        starving(&mut cmd, to);
        cmd.write_arg_fmt(HoldPrefix(name));
        cmd.write_arg_fmt(Satellite(READ_WRITE_CHANNEL, name));
    }
    cmd
}

/// The call of `rw_release.lua` for these steps.
pub(super) fn release(steps: &[&Step], form: ScriptForm) -> Cmd {
    let claims = || steps.iter().map(|step| claim_of(step));
    let size = claims().map(|claim| 6 * claim.key.as_str().len() + 240).sum();
    let mut cmd = RELEASE.call(form, 3 * steps.len(), 8 * steps.len(), size);
    for claim in claims() {
        keys(&mut cmd, claim);
    }
    for claim in claims() {
        let name = claim.key.as_str();
        cmd.arg(mode(claim.kind));
        cmd.write_arg_fmt(claim.id);
        cmd.write_arg_fmt(Satellite(READ_WRITE_CHANNEL, name));
        starving(&mut cmd, claim);
        cmd.write_arg_fmt(HoldPrefix(name));
    }
    cmd
}

/// The call of `rw_renew.lua` for these claims.
pub(super) fn renew(claims: &[&Claim], form: ScriptForm) -> Cmd {
    let size = claims.iter().map(|claim| 4 * claim.key.as_str().len() + 150).sum();
    let mut cmd = RENEW.call(form, 3 * claims.len(), 7 * claims.len(), size);
    for claim in claims {
        keys(&mut cmd, claim);
    }
    for claim in claims {
        cmd.arg(mode(claim.kind));
        cmd.write_arg_fmt(claim.id);
        cmd.arg(millis(claim.ttl));
        cmd.write_arg_fmt(HoldPrefix(claim.key.as_str()));
    }
    cmd
}

/// Adds the keys of a release or a renewal.
fn keys(cmd: &mut Cmd, claim: &Claim) {
    let name = claim.key.as_str();
    cmd.arg(name);
    cmd.write_arg_fmt(Satellite(HELD, name));
    cmd.write_arg_fmt(Satellite(WRITERS, name));
}

/// The mode of the claim, as the scripts name it.
fn mode(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "read",
        Kind::Mutex | Kind::Fair | Kind::Write | Kind::Permits { .. } => "write",
    }
}
