//! Random calls for barriers. Each client has one task for each barrier.

use std::time::Duration;

use tokio::time;

use super::task::Task;
use crate::{
    calls::Outcome,
    locks::history::Op,
    plan::{self, BARRIERS},
};

/// Makes calls for the barrier with this index, until all tasks must end.
pub(super) async fn run(mut task: Task, index: u32) {
    let name = BARRIERS.start + index as usize;
    let barrier = task.context.client.barrier(plan::name(name), plan::parties(name));
    while !task.must_stop() {
        let patience = match task.random.u8(..10) {
            0 => Some(Duration::from_micros(task.random.u64(..5_000))),
            1..4 => Some(Duration::from_millis(task.random.u64(5..300))),
            // Most parties wait until the barrier opens.
            _ => None,
        };
        let outcome = |arrival: bandog::Arrival| if arrival.is_leader() { Outcome::Opened } else { Outcome::Ok };
        task.step((name, Op::Meet), (Duration::MAX, patience), barrier.wait(), outcome).await;
        task.rest().await;
        // A party that rests for a long time is missing when the others have arrived.
        match task.random.u8(..20) {
            0 => time::sleep(Duration::from_millis(task.random.u64(200..600))).await,
            1..6 => time::sleep(Duration::from_millis(task.random.u64(..20))).await,
            _ => {}
        }
    }
}
