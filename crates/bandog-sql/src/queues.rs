//! Work queues. Their tables are created when they are first used.

mod change;
mod elements;
mod hints;
mod kept;
mod locked;
#[cfg(feature = "mysql")]
mod mysql;
mod push;
mod read;
mod settle;
pub(crate) mod statements;
pub(crate) mod tables;
mod take;
mod time;
mod user;
pub(crate) mod work;

use std::{
    sync::PoisonError,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bandog_core::{
    Error, Key, Notifier, Pattern, Result, SqlStatement, Subscription,
    queues::{
        Bell, Change, ElementId, ElementRow, Extend, Extended, Phase, Push, Pushed, QueueStatus, Queues, Settle,
        Settled, Take, Taken,
    },
    structures::Cursor,
};
use tokio::time::{sleep, timeout_at};

use self::tables::InLayout;
use crate::{channel::Channel, notifications, sql::Sql};

/// The time until a change of locked elements is repeated.
const PAUSE: Duration = Duration::from_millis(50);

#[async_trait]
impl Queues for Sql {
    async fn push(&self, pushes: &[Push]) -> Vec<Result<Vec<Pushed>>> {
        let query = push::Pushes::new(pushes);
        let answers = query.answers.clone();
        let has_once = pushes.iter().flat_map(|push| &push.elements).any(|element| element.once.is_some());
        let failed = if has_once {
            self.wait_in_queues(InLayout(query)).await
        } else {
            self.query_queues(InLayout(query)).await
        }
        .err();
        let failed = failed.unwrap_or_else(|| Error::unavailable("the push was not executed"));
        let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
        let with_context = |(answer, push): (Option<Result<Vec<Pushed>>>, &Push)| -> Result<Vec<Pushed>> {
            answer.unwrap_or_else(|| Err(failed.clone())).map_err(|error| error.during("push").at(&push.queue))
        };
        std::mem::take(&mut *answers).into_iter().zip(pushes).map(with_context).collect()
    }

    async fn take(&self, takes: &[Take]) -> Vec<Result<Taken>> {
        match self.query_queues(InLayout(take::Takes::new(takes))).await {
            Ok(taken) => taken.into_iter().map(Ok).collect(),
            Err(error) => takes.iter().map(|take| Err(error.clone().during("take").at(&take.queue))).collect(),
        }
    }

    async fn extend(&self, extend: &Extend) -> Result<Vec<Extended>> {
        let query = settle::Extension(extend.clone());
        self.extend_in_queues(InLayout(query)).await.map_err(|error| error.during("extend").at(&extend.queue))
    }

    async fn settle(&self, queue: &Key, settles: &[Settle]) -> Result<Vec<Settled>> {
        let query = settle::Settlement { queue: queue.clone(), settles: settles.to_vec() };
        self.query_queues(InLayout(query)).await.map_err(|error| error.during("settle").at(queue))
    }

    async fn find(&self, queue: &Key, ids: &[ElementId], payload: usize) -> Result<Vec<Option<ElementRow>>> {
        let query = read::Find { queue: queue.clone(), ids: ids.to_vec(), payload };
        self.query_queues(InLayout(query)).await.map_err(|error| error.during("find").at(queue))
    }

    async fn status(&self, queue: &Key) -> Result<QueueStatus> {
        self.query_queues(InLayout(read::Status(queue.clone()))).await.map_err(|error| error.during("status").at(queue))
    }

    async fn elements(
        &self,
        queue: &Key,
        phase: Phase,
        from: &Cursor,
        about: usize,
        payload: usize,
    ) -> Result<(Vec<ElementRow>, Option<Cursor>)> {
        let query = read::Page { queue: queue.clone(), phase, from: from.clone(), about, payload };
        self.query_queues(InLayout(query)).await.map_err(|error| error.during("elements").at(queue))
    }

    async fn change(&self, queue: &Key, change: &Change) -> Result<u64> {
        let query = || change::Changing { queue: queue.clone(), change: change.clone() };
        let changed = match change {
            Change::Retry(_) | Change::Remove(_) | Change::Withdraw(_) | Change::Purge(_) => {
                let end = Instant::now() + self.context().options.timeout;
                loop {
                    // Each attempt ends soon, so that it delays no other request for long.
                    match timeout_at(end.into(), self.wait_in_queues(InLayout(query()))).await {
                        Ok(Err(error)) if error.is_about_locked_rows() && Instant::now() + PAUSE < end => {
                            sleep(PAUSE).await;
                        }
                        Ok(changed) => break changed,
                        Err(_) => break Err(Error::unavailable("the change was not executed in time").ambiguous()),
                    }
                }
            }
            Change::Pause(_) | Change::Concurrency(_) | Change::Rate(_) | Change::Worker(..) => {
                self.query_queues(InLayout(query())).await
            }
        };
        changed.map_err(|error| error.during("change").at(queue))
    }

    async fn queues(&self, pattern: &Pattern, from: &Cursor, about: usize) -> Result<(Vec<Key>, Option<Cursor>)> {
        let query = read::Names { pattern: pattern.clone(), from: from.clone(), about };
        self.query_queues(InLayout(query)).await.map_err(|error| error.during("queues"))
    }

    async fn subscribe_bell(&self, bell: &Bell, notifier: Notifier) -> Result<Subscription> {
        #[cfg(feature = "mysql")]
        if self.context().options.dialect == crate::options::Dialect::MySql {
            return Ok(Subscription::silent());
        }
        let (queue, channel) = match bell {
            Bell::Ready { queue, .. } => (queue, Channel::of_queue(queue)),
            Bell::Results { queue, client } => (queue, Channel::of_results(queue, *client)),
        };
        let subscribed = notifications::subscribe(self.context(), channel, None, notifier).await;
        subscribed.map_err(|error| error.during("subscribe").at(queue))
    }

    async fn push_sql(&self, push: &Push) -> Result<Vec<SqlStatement>> {
        let made = self.query_queues(InLayout(user::PushSql(push.clone()))).await.flatten();
        made.map_err(|error| error.during("push").at(&push.queue))
    }

    async fn upgrade(&self) -> Result<u8> {
        self.wait_in_queues(InLayout(tables::Upgrade)).await.map_err(|error| error.during("upgrade"))
    }

    async fn settle_sql(&self, queue: &Key, settle: &Settle) -> Result<Vec<SqlStatement>> {
        let query = user::SettleSql { queue: queue.clone(), settle: settle.clone() };
        self.query_queues(InLayout(query)).await.flatten().map_err(|error| error.during("settle").at(queue))
    }
}
