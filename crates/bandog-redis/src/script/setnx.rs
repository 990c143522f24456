//! The commands for mutexes of the layout [`Layout::Setnx`](crate::Layout::Setnx).

use std::sync::LazyLock;

use bandog_core::{Claim, Key, Step};
use bandog_redis_net::{Script, ScriptForm};
use redis::{Cmd, RedisWrite};

use super::args::{claim_of, claim_with, renew_with, starving};
use crate::names::{Channel, TokenKey};

pub(super) static CLAIM: LazyLock<Script> = script!("offer.lua", "common.lua", "setnx.lua", "setnx_claim.lua");
pub(super) static RELEASE: LazyLock<Script> = script!("offer.lua", "common.lua", "setnx.lua", "setnx_release.lua");
pub(super) static RENEW: LazyLock<Script> = script!("offer.lua", "common.lua", "setnx.lua", "setnx_renew.lua");
pub(super) static SHOW: LazyLock<Script> =
    script!("offer.lua", "common.lua", "setnx.lua", "setnx_inspect.lua", "setnx_show.lua");
pub(super) static EVICT: LazyLock<Script> =
    script!("offer.lua", "common.lua", "setnx.lua", "setnx_inspect.lua", "setnx_evict.lua");

/// The scripts of records.
pub(super) static SWAP: LazyLock<Script> = script!("offer.lua", "setnx.lua", "setnx_holdings.lua", "swap.lua");
pub(super) static READ: LazyLock<Script> = script!("offer.lua", "setnx.lua", "setnx_holdings.lua", "read.lua");

/// The scripts of this module.
pub(super) static SCRIPTS: [&LazyLock<Script>; 7] = [&CLAIM, &RELEASE, &RENEW, &SHOW, &EVICT, &SWAP, &READ];

/// The call of `setnx_claim.lua` for these steps.
pub(super) fn claim(steps: &[&Step], form: ScriptForm) -> Cmd {
    claim_with(&CLAIM, steps, form, starving)
}

/// The call of `setnx_release.lua` for these steps.
pub(super) fn release(steps: &[&Step], form: ScriptForm) -> Cmd {
    let claims = || steps.iter().map(|step| claim_of(step));
    let size = claims().map(|claim| 3 * claim.key.as_str().len() + 130).sum();
    let mut cmd = RELEASE.call(form, steps.len(), 4 * steps.len(), size);
    for claim in claims() {
        cmd.arg(claim.key.as_str());
    }
    for claim in claims() {
        cmd.write_arg_fmt(claim.id);
        cmd.write_arg_fmt(Channel(claim.key.as_str()));
        starving(&mut cmd, claim);
    }
    cmd
}

/// The call of `setnx_renew.lua` for these claims.
pub(super) fn renew(claims: &[&Claim], form: ScriptForm) -> Cmd {
    renew_with(&RENEW, claims, form)
}

/// Shows the holder of a lock.
pub(super) fn show(name: &str, form: ScriptForm) -> Cmd {
    let mut cmd = SHOW.call(form, 1, 2, 2 * name.len() + 80);
    cmd.arg(name);
    cmd.write_arg_fmt(TokenKey(name));
    cmd
}

/// Frees a lock, no matter which client holds it.
pub(super) fn evict(key: &Key, form: ScriptForm) -> Cmd {
    let name = key.as_str();
    let mut cmd = EVICT.call(form, 1, 3, 3 * name.len() + 120);
    cmd.arg(name);
    cmd.write_arg_fmt(TokenKey(name));
    cmd.write_arg_fmt(Channel(name));
    cmd
}
