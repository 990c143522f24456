//! Reads the replies of the scripts that claim and renew locks of any kind.

use std::time::Duration;

use bandog_core::{
    Answer, Claim, Error, Fence, Fences, Kind, Kinds, PLACE, Renewal, Result, Step, Verdict, check_pass,
};
use redis::Value;

use crate::refusal;

/// Maximum number of permits that one claim takes. A larger claim would block the server for other clients for too long.
const MAX_PERMITS: u32 = 1024;

/// The error for a step that is refused without a question to the server. None for any other step. `kinds` are the kinds of
/// locks that the layout has.
pub(crate) fn misused(step: &Step, kinds: Kinds) -> Option<Result<Answer>> {
    let error = match (step, step.kind()) {
        (_, kind) if !kinds.contains(kind) => Error::misused(format!("this layout has no locks of the kind {kind}")),
        (Step::Pass { from, to }, _) if check_pass(from.kind, to.kind).is_err() => {
            check_pass(from.kind, to.kind).err()?
        }
        (_, Kind::Permits { take, .. }) if take.get() > MAX_PERMITS => {
            Error::misused(format!("a claim takes at most {MAX_PERMITS} permits on Redis, and this claim takes {take}"))
        }
        _ => return None,
    };
    Some(Err(error.during(step.verb()).at(step.key())))
}

/// Reads the reply to a claim for a fair mutex with a queue: the reply of a script that claims, and the number of claims
/// before a refused claim, or the numbers of the claims that follow a granted claim.
pub(crate) fn queued(claim: &Claim, parts: &[Value]) -> Result<Verdict> {
    let unexpected = || refusal::unexpected_reply(&Value::Array(parts.to_vec()));
    let number = |value: &Value| match value {
        Value::Int(number) => u64::try_from(*number).map_err(|_| unexpected()),
        _ => Err(unexpected()),
    };
    match parts {
        [Value::Int(reply @ 1..), rest @ ..] => {
            let numbers = rest.iter().map(number).collect::<Result<_>>()?;
            Ok(granted(claim, reply.unsigned_abs(), numbers))
        }
        [Value::Int(reply), ahead] => verdict(claim, *reply, u32::try_from(number(ahead)?).ok()),
        _ => Err(unexpected()),
    }
}

fn granted(claim: &Claim, last_fence: u64, followers: Vec<u64>) -> Verdict {
    let fences = Fences::ending(Fence::new(last_fence), claim.fences);
    Verdict::Granted { fences, valid_for: claim.ttl, followers }
}

/// Reads the reply of a script that claims. A positive number is the last fence that was granted. A negative number is the time
/// in milliseconds until the present hold of the lock expires, with a minus sign.
pub(crate) fn verdict(claim: &Claim, reply: i64, ahead: Option<u32>) -> Result<Verdict> {
    let number = reply.unsigned_abs();
    match reply {
        1.. => Ok(granted(claim, number, Vec::new())),
        0 => Err(refusal::unexpected_reply(&Value::Int(reply))),
        _ => Ok(Verdict::Busy { retry_after: Duration::from_millis(number), ahead }),
    }
}

/// Reads one reply of a script that renews.
pub(crate) fn renewal(claim: &Claim, reply: Value) -> Result<Renewal> {
    match reply {
        Value::Int(1) => Ok(Renewal::Extended { valid_for: claim.ttl }),
        Value::Int(2) => Ok(Renewal::Extended { valid_for: PLACE }),
        Value::Int(3) => Ok(Renewal::Next),
        Value::Int(0) => Ok(Renewal::Gone),
        Value::ServerError(error) => not_renewed(claim, refusal::refused(&error)),
        reply => not_renewed(claim, refusal::unexpected_reply(&reply)),
    }
}

pub(crate) fn not_renewed(claim: &Claim, error: Error) -> Result<Renewal> {
    Err(error.during("renew").at(&claim.key))
}
