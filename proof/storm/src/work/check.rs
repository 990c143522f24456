//! The laws that each history of work queues must obey. docs/work.md has the promises.
//!
//! - `lost`: an element whose push was acknowledged was done, removed, or was there at the end, dead or waiting for others;
//! - `unknown`: no element was handled that was not pushed;
//! - `once`: each push adds at most one element, and so do all pushes with the same id of `once` together;
//! - `holders`: no handler began while another one of the same element, or of one with the same key, believed that it has it;
//! - `fences`: no two deliveries of an element, or of elements with the same key, have the same fence;
//! - `attempts`: attempts increase by one, unless the element was handed back or retried;
//! - `deliveries`: no attempt is greater than the number of deliveries, and only such elements and given up ones are dead;
//! - `twice`: no element was handled after it was done, or given up and not retried;
//! - `reason`: an element is delivered again only for a reason;
//! - `order`: elements with the same key came in the order of their pushes;
//! - `parts`: an element that waits for others came when all of them were done;
//! - `limit`: the concurrency was not exceeded;
//! - `rate`: in no period were there more deliveries than the rate says;
//! - `paused`: no element was delivered while the queue was paused;
//! - `sizes`: an element or a result that is too large is refused with an error that names the limit, and no other is;
//! - `late`: each call ends in time;
//! - `errors`: no call gets an error that it must not get;
//! - `empty`: at the end, only dead elements and those that wait for others were in the queues;
//! - `left`: no key and no row is left.
//!
//! A fault that loses data of the store excuses what was written shortly before it. These excuses are counted.

mod deliveries;
mod elements;
mod facts;
mod holders;
mod limits;
mod order;

use self::facts::Facts;
use super::history::{History, Queue};
use crate::calls::Findings;

/// Checks all laws.
pub(super) fn check(history: &History) -> Findings {
    let mut findings = Findings::default();
    history.recorded.check_ends(&mut findings);
    let facts = Facts::of(history);
    for queue in Queue::ALL {
        elements::check(&facts, queue, &mut findings);
        order::check(&facts, queue, &mut findings);
    }
    for ((queue, _), handlings) in &facts.elements {
        deliveries::check(&facts, *queue, handlings, &mut findings);
    }
    holders::check(&facts, &mut findings);
    limits::check(&facts, &mut findings);
    for left in &history.left {
        findings.broken("left", left.clone());
    }
    findings
}
