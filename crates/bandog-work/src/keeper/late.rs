//! Takes that may arrive after their repetition.

use std::{sync::Arc, time::Duration};

use bandog_core::queues::{Queues, Take};
use tokio::{task::JoinSet, time::sleep};

/// Maximum number of takes that are looked after.
const MAX_TAKES: usize = 16;
/// The time until a store is asked for the first time. It doubles with each further one.
const FIRST: Duration = Duration::from_millis(500);

/// Takes whose first request may still arrive, although nothing waits for its answer. A task for each gives back what it gets, so
/// that its elements do not wait for the end of their leases, and their deliveries do not count. They end with this.
#[derive(Debug, Default)]
pub(super) struct Late {
    tasks: JoinSet<()>,
    takes: Vec<Take>,
}

impl Late {
    /// Looks after a take that has got nothing until now.
    pub(super) fn add(&mut self, queues: &Arc<dyn Queues>, take: Take) {
        while self.tasks.try_join_next().is_some() {}
        if self.tasks.len() >= MAX_TAKES {
            return; // Its elements come again when their leases end.
        }
        let (queues, take) =
            (queues.clone(), Take { is_repeated: true, at_most: 0, rest_after: Duration::ZERO, ..take });
        self.takes.retain(|other| other.id.number + MAX_TAKES as u64 > take.id.number);
        self.takes.push(take.clone());
        self.tasks.spawn(async move {
            let (mut pause, mut waited) = (FIRST, Duration::ZERO);
            while waited < take.lease * 2 {
                sleep(pause).await;
                waited += pause;
                if let Some(Ok(taken)) = queues.take(std::slice::from_ref(&take)).await.pop()
                    && taken.has_more
                {
                    return; // A request arrives once.
                }
                pause = (pause * 2).min(take.lease / 3).max(FIRST);
            }
        });
    }

    /// The takes that were added last, to be given back once more.
    pub(super) fn end(&mut self) -> Vec<Take> {
        self.tasks.abort_all();
        std::mem::take(&mut self.takes)
    }
}
