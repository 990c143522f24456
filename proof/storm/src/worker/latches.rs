//! Random calls for count-down latches.

use std::time::Duration;

use bandog::Latch;

use super::task::Task;
use crate::{
    plan::{self, LATCHES, MAX_COUNT},
    step::{Reply, Step},
};

/// The client repeats an operation without an answer for three request timeouts. They begin anew if another operation
/// comes first, which seldom happens here more than once.
const REPEATED: u32 = 6;

/// Makes calls until all tasks must end.
pub(super) async fn run(mut task: Task) {
    while !task.must_end() {
        let name = task.random.usize(LATCHES);
        let latch = task.context.client.latch(plan::name(name));
        call(&mut task, name, &latch).await;
        task.rest().await;
    }
}

/// Makes one random call.
async fn call(task: &mut Task, name: usize, latch: &Latch) -> Reply {
    let limit = Some(task.timeout * REPEATED);
    // Some futures are dropped while the operation might be applied.
    let is_dropped = task.random.u8(..20) == 0;
    let patience = is_dropped.then(|| Duration::from_micros(task.random.u64(..4_000)));
    match task.random.u8(..100) {
        0..16 => {
            let count = task.random.u64(1..=MAX_COUNT);
            // The count after a `set` without an answer is unknown for some time. So its future is never dropped.
            task.call((name, Step::Set(count)), (limit, Some(Duration::MAX)), latch.set(count), of_bool).await
        }
        16..56 => {
            let number = if task.random.u8(..4) == 0 { 2 } else { 1 };
            let call = latch.count_down_by(number);
            task.call((name, Step::CountDown(number)), (limit, patience), call, Reply::Count).await
        }
        56..76 => task.call((name, Step::Count), (Some(task.timeout), patience), latch.count(), Reply::Count).await,
        76..92 => {
            let wait = Duration::from_millis(task.random.u64(..100));
            // At the end of the wait, the store has one request timeout to answer.
            let limit = Some(wait + task.timeout);
            task.call((name, Step::Wait), (limit, patience), latch.wait_for(wait), of_bool).await
        }
        92..99 => {
            let patience = Some(Duration::from_millis(task.random.u64(1..400)));
            task.call((name, Step::Wait), (None, patience), latch.wait(), |()| Reply::Yes).await
        }
        _ => task.call((name, Step::Delete), (limit, Some(Duration::MAX)), latch.delete(), of_bool).await,
    }
}

fn of_bool(answer: bool) -> Reply {
    if answer { Reply::Yes } else { Reply::No }
}
