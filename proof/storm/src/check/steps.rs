//! Calls for latches and barriers, from their beginning to their end.

use super::{Findings, History, pauses::Pauses};
use crate::{
    history::Nanos,
    step::{Reply, Step},
};

const NEVER: &str = "every call ends";
const ANSWER: &str = "a correct call gets a documented answer";

/// An earlier call has ended before the present call began if it began this time earlier. The longest calls are shorter.
pub(super) const HORIZON: Nanos = 60_000_000_000;

/// Checks that each of these calls ended in time, with a documented result.
pub(super) fn check(history: &History, pauses: &Pauses, findings: &mut Findings) {
    for call in &history.steps {
        let Some((at, reply)) = call.answer else {
            if call.killed.is_none() {
                findings.broken(NEVER, call.name, call.began, format!("{call} never ended"));
            }
            continue;
        };
        pauses.in_time(&call, (call.name, call.process), (call.began, at), call.limit, findings);
        let is_documented = match reply {
            Reply::Refused => false,
            Reply::Lost => call.step == Step::Meet,
            _ => true,
        };
        if !is_documented {
            findings.broken(ANSWER, call.name, at, format!("{call} is wrong"));
        }
    }
}
