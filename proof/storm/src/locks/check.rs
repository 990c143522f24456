//! The laws that each history must obey, under all faults.
//!
//! - `beliefs`: no two clients believe at the same time that they hold what only one of them can hold, no more permits
//!   are held than the limit, and fences increase;
//! - `resource`: no holder is overtaken, which means that no other client writes with a greater fence while the holder
//!   believes that it holds the lock;
//! - `calls`: each call ends, in time, and with a documented result (the laws `never`, `late` and `errors`);
//! - `order`: a fair mutex is granted in the order of its queue;
//! - `latches`: a latch opens only after as many count-downs as it was set to, and each of them counts once;
//! - `barriers`: no party passes before enough parties wait, and each opening has one leader;
//! - `observers`: the leaders of elections are reported in their order, and while they are leaders;
//! - `waits`: no client waits at a free lock, and no client waits forever while others get the lock.

mod barriers;
mod beliefs;
mod calls;
mod excuse;
mod latches;
mod limits;
mod observers;
mod order;
mod resource;
#[cfg(test)]
mod tests;
mod waits;

use self::excuse::Excuses;
use super::history::{Call, History, Name, Observation, Op, Position, StepCall, Verb};
use crate::{
    calls::{Findings, Outcome},
    history::nanos,
    plan::{RECHECK, SLACK},
};

/// An earlier call for a latch or a barrier has ended before the present call began if it began this time earlier. The
/// longest calls are shorter.
const HORIZON: u64 = 60_000_000_000;

/// Checks all laws.
pub(super) fn check(history: &History) -> Findings {
    let excuses = Excuses::of(history);
    let mut findings = Findings::default();
    for name in 0..history.resources.len() {
        beliefs::check(history, &excuses, name, &mut findings);
        resource::check(history, &excuses, name, &mut findings);
        order::check(history, name, &mut findings);
    }
    calls::check(history, &mut findings);
    latches::check(history, &mut findings);
    barriers::check(history, &mut findings);
    observers::check(history, &mut findings);
    waits::check(history, nanos(RECHECK + SLACK), &mut findings);
    waits::check_starved(history, &mut findings);
    findings
}
