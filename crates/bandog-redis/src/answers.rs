//! Reads the replies of the scripts that claim and renew locks of any kind.

use std::time::Duration;

use bandog_core::{Answer, Claim, Error, Fence, Fences, Kind, Renewal, Result, Step, Verdict, check_pass};
use redis::Value;

use crate::{
    options::{Format, Layout},
    refusal, slots,
};

/// Maximum number of permits that one claim takes. A larger claim would block the server for other clients for too long.
const MAX_PERMITS: u32 = 1024;

/// The error for a step that is refused without a question to the server. None for any other step. `original` is the step
/// of the caller, and `step` has the name of the lock on a cluster.
pub(crate) fn misused(step: &Step, original: &Step, format: Format) -> Option<Result<Answer>> {
    let error = match (step, step.kind()) {
        _ if format.in_cluster && slots::check_lock(original.key().as_str()).is_err() => {
            slots::check_lock(original.key().as_str()).err()?
        }
        _ if format.in_cluster && slots::check(step.key().as_str()).is_err() => {
            slots::check(step.key().as_str()).err()?
        }
        (_, kind) if !format.kinds().contains(kind) => {
            Error::misused(format!("this layout has no locks of the kind {kind}"))
        }
        (Step::Claim(Claim { above: Some(_), .. }) | Step::Pass { to: Claim { above: Some(_), .. }, .. }, kind)
            if !can_raise(kind, format.layout) =>
        {
            Error::misused(format!("this layout cannot raise the fence of a lock of the kind {kind}"))
        }
        (Step::Pass { from, to }, _) if check_pass(from.kind, to.kind).is_err() => {
            check_pass(from.kind, to.kind).err()?
        }
        (_, Kind::Permits { take, .. }) if take.get() > MAX_PERMITS => {
            Error::misused(format!("a claim takes at most {MAX_PERMITS} permits on Redis, and this claim takes {take}"))
        }
        _ => return None,
    };
    Some(Err(error.during(step.verb()).at(original.key())))
}

/// Whether the scripts of this kind know [`Claim::above`]. Only a quorum needs it, and a quorum has no other kinds.
fn can_raise(kind: Kind, layout: Layout) -> bool {
    match kind {
        Kind::Mutex => layout == Layout::Redisson,
        Kind::Read | Kind::Write => true,
        Kind::Fair | Kind::Permits { .. } => false,
    }
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

/// The reply to a renewal.
pub(crate) struct Renewed {
    pub(crate) renewal: Renewal,
    /// Whether the claim holds the lock. A waiting claim may have a place, whose renewal is also extended.
    pub(crate) is_hold: bool,
}

/// Reads one reply of a script that renews.
pub(crate) fn renewal(claim: &Claim, reply: Value) -> Result<Renewed> {
    let (renewal, is_hold) = match reply {
        Value::Int(1) => (Renewal::Extended { valid_for: claim.ttl }, true),
        Value::Int(2) => (Renewal::Waiting { is_next: false }, false),
        Value::Int(3) => (Renewal::Waiting { is_next: true }, false),
        Value::Int(0) => (Renewal::Gone, false),
        Value::ServerError(error) => return Err(not_renewed(claim, refusal::refused(&error))),
        reply => return Err(not_renewed(claim, refusal::unexpected_reply(&reply))),
    };
    Ok(Renewed { renewal, is_hold })
}

/// The error of a renewal.
pub(crate) fn not_renewed(claim: &Claim, error: Error) -> Error {
    error.during("renew").at(&claim.key)
}
