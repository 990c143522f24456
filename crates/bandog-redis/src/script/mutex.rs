//! The commands for mutexes.

use std::sync::LazyLock;

use bandog_core::{Claim, Step};
use bandog_redis_net::{Script, ScriptForm};
use redis::{Cmd, RedisWrite};

use super::args::{claim_of, claim_with, renew_with};
use crate::names::{Channel, StarvingKey};

pub(super) static CLAIM: LazyLock<Script> = script!("offer.lua", "claim.lua");
pub(super) static RELEASE: LazyLock<Script> = script!("offer.lua", "release.lua");
pub(super) static RENEW: LazyLock<Script> = script!("renew.lua");

/// The scripts of this module.
pub(super) static SCRIPTS: [&LazyLock<Script>; 3] = [&CLAIM, &RELEASE, &RENEW];

/// The call of `claim.lua` for these steps.
pub(super) fn claim(steps: &[&Step], form: ScriptForm) -> Cmd {
    claim_with(&CLAIM, steps, form, |cmd, to| offers(cmd, to, steps.len()))
}

/// The call of `release.lua` for these steps.
pub(super) fn release(steps: &[&Step], form: ScriptForm) -> Cmd {
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

/// The call of `renew.lua` for these claims.
pub(super) fn renew(claims: &[&Claim], form: ScriptForm) -> Cmd {
    renew_with(&RENEW, claims, form)
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
