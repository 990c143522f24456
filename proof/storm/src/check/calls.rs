//! Checks the results of calls, and how long the calls took.

use super::{Call, Findings, History, limits::Limits, pauses::Pauses, steps};
use crate::{
    history::{Outcome, nanos},
    plan::TIMEOUT,
};

const NEVER: &str = "every call ends";
const ANSWER: &str = "a correct call gets a documented answer";
const AGAIN: &str = "an owner gets its own lock again, with the same fence";

/// Checks each call.
pub(super) fn check(history: &History, findings: &mut Findings) {
    let pauses = Pauses::of(history);
    let limits: Vec<_> = (0..history.resources.len()).map(|name| Limits::of(history, name)).collect();
    steps::check(history, &pauses, findings);
    for call in &history.calls {
        ends(call, findings);
        let of = (call.name, call.process);
        if let Some(answered) = call.answered_at() {
            pauses.in_time(call, of, (call.asked, answered), call.limit, findings);
        }
        if let Some(grant) = &call.grant {
            // The release of the lock must end within the request timeout.
            if let (Some((from, _)), Some((to, _))) = (grant.ended, call.answer) {
                pauses.in_time(call, of, (from, to), nanos(TIMEOUT), findings);
            }
            if grant.again.is_some_and(|again| again != grant.fence) {
                findings.broken(AGAIN, call.name, grant.at, format!("{call} locked again, and got {:?}", grant.again));
            }
        }
        let Some((at, outcome)) = call.answer else { continue };
        let is_documented = match outcome {
            Outcome::Refused | Outcome::Closed => false,
            Outcome::OtherLimit => limits[call.name].may_be_other(at),
            _ => true,
        };
        if !is_documented {
            findings.broken(ANSWER, call.name, at, format!("{call} was answered: {}", outcome.word()));
        }
    }
}

/// Checks that the call has ended, unless its process was killed.
fn ends(call: &Call, findings: &mut Findings) {
    let has_ended = match &call.grant {
        Some(grant) => grant.ended.is_some(),
        None => call.answer.is_some(),
    };
    if !has_ended && call.killed.is_none() {
        findings.broken(NEVER, call.name, call.asked, format!("{call} never ended"));
    }
}
