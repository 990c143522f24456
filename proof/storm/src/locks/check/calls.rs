//! Checks the results of calls.

use super::{Findings, History, Name, Op, Outcome, limits::Limits};

const AGAIN: &str = "an owner gets its own lock again, with the same fence";

/// Checks each call.
pub(super) fn check(history: &History, findings: &mut Findings) {
    history.recorded.check_ends(findings);
    history.recorded.check_all_end(findings);
    for call in &history.calls {
        let Some(grant) = &call.grant else { continue };
        if grant.ended.is_none() && call.killed.is_none() {
            findings.broken_at("never", &Name(call.name), call.asked, format!("{call} never ended"));
        }
        if grant.again.is_some_and(|again| again != grant.fence) {
            let what = format!("{call} locked again, and got {:?}", grant.again);
            findings.broken_at(AGAIN, &Name(call.name), grant.at, what);
        }
    }
    let limits: Vec<_> = (0..history.resources.len()).map(|name| Limits::of(history, name)).collect();
    for call in &history.recorded.calls {
        let is_documented = match (call.op, call.outcome) {
            (Op::Lock { .. } | Op::Release { .. } | Op::Meet, Some(Outcome::Lost)) => true,
            (_, Some(Outcome::Lost)) => false,
            (Op::Lock { .. }, Some(Outcome::OtherLimit)) => limits[call.object.0].may_be_other(call.end),
            (_, Some(Outcome::OtherLimit)) => false,
            _ => true,
        };
        if !is_documented {
            findings.broken_at("errors", &call.object, call.end, call.to_string());
        }
    }
}
