//! Arguments that several scripts have.

use std::time::Duration;

use bandog_core::{Claim, Step};
use bandog_redis_net::{Script, ScriptForm};
use redis::{Cmd, Pipeline, RedisWrite};

use crate::names::{StarvingKey, TokenKey};

/// The call of this script, which has the arguments of `claim.lua`, for these steps. `add_last` adds the last argument for
/// a lock.
pub(super) fn claim_with(
    script: &Script,
    steps: &[&Step],
    form: ScriptForm,
    add_last: impl Fn(&mut Cmd, &Claim),
) -> Cmd {
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
pub(super) fn fences(cmd: &mut Cmd, claim: &Claim) {
    match claim.above {
        Some(above) => cmd.write_arg_fmt(format_args!("{}:{above}", claim.fences)),
        None => {
            cmd.arg(claim.fences.get());
        }
    }
}

/// Adds the key that marks a lock with a starving client, if the claim takes part in offers. Otherwise adds an empty
/// text.
pub(super) fn starving(cmd: &mut Cmd, claim: &Claim) {
    if claim.offers {
        cmd.write_arg_fmt(StarvingKey(claim.key.as_str()));
    } else {
        cmd.write_arg(b"");
    }
}

/// The call of this script, which has the arguments of `renew.lua`, for these claims.
pub(super) fn renew_with(script: &Script, claims: &[&Claim], form: ScriptForm) -> Cmd {
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
pub(super) fn single(cmd: Cmd) -> Pipeline {
    let mut pipe = Pipeline::with_capacity(1);
    pipe.add_command(cmd);
    pipe
}

/// The ttl in whole milliseconds, rounded up. So a hold never expires in the store before it expires for the client.
pub(super) fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
