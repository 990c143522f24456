//! Random calls for count-down latches.

use std::time::Duration;

use bandog::Latch;

use super::task::Task;
use crate::{
    calls::Outcome,
    locks::history::Op,
    plan::{self, LATCHES, MAX_COUNT, TIMEOUT},
};

/// The client repeats an operation without an answer for three request timeouts. They begin anew if another operation
/// comes first, which seldom happens here more than once.
const REPEATED: u32 = 6;

/// Makes calls until all tasks must end.
pub(super) async fn run(mut task: Task) {
    while !task.must_stop() {
        let name = task.random.usize(LATCHES);
        let latch = task.context.client.latch(plan::name(name));
        call(&mut task, name, &latch).await;
        task.rest().await;
    }
}

/// Makes one random call.
async fn call(task: &mut Task, name: usize, latch: &Latch) -> Outcome {
    let limit = TIMEOUT * REPEATED;
    // Some futures are dropped while the operation might be applied.
    let is_dropped = task.random.u8(..20) == 0;
    let patience = is_dropped.then(|| Duration::from_micros(task.random.u64(..4_000)));
    match task.random.u8(..100) {
        0..16 => {
            let count = task.random.u64(1..=MAX_COUNT);
            // The count after a `set` without an answer is unknown for some time. So its future is never dropped.
            task.step((name, Op::Set(count)), (limit, Some(Duration::MAX)), latch.set(count), of_bool).await
        }
        16..56 => {
            let number = if task.random.u8(..4) == 0 { 2 } else { 1 };
            let call = latch.count_down_by(number);
            task.step((name, Op::CountDown(number)), (limit, patience), call, Outcome::Found).await
        }
        56..76 => task.step((name, Op::Count), (TIMEOUT, patience), latch.count(), Outcome::Found).await,
        76..92 => {
            let wait = Duration::from_millis(task.random.u64(..100));
            // At the end of the wait, the store has one request timeout to answer.
            let limit = wait + TIMEOUT;
            task.step((name, Op::Wait), (limit, patience), latch.wait_for(wait), of_bool).await
        }
        92..99 => {
            let patience = Some(Duration::from_millis(task.random.u64(1..400)));
            task.step((name, Op::Wait), (Duration::MAX, patience), latch.wait(), |()| Outcome::Ok).await
        }
        _ => task.step((name, Op::Delete), (limit, Some(Duration::MAX)), latch.delete(), of_bool).await,
    }
}

fn of_bool(answer: bool) -> Outcome {
    if answer { Outcome::Ok } else { Outcome::No }
}
