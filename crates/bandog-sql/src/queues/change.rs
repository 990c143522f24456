//! Changes by operators.

use std::{collections::HashMap, num::NonZeroU32};

use async_trait::async_trait;
use bandog_core::{
    Error, Key,
    queues::{Change, ElementId, Phase, Rate, WorkerRow, write_worker_row},
};

use super::{
    elements::{id_text, phase_number, read_id},
    locked::{self, Locked, lock_all},
    read::count_workers,
    tables,
    time::micros,
};
use crate::{
    channel::Channel, client::Statement, context::Context, fault::Fault, job::Query, session::Link, value::Parameter,
};

/// Maximum number of rows that a report of workers removes because they need not be kept any more.
const MAX_OLD: i64 = 5000;
/// Maximum number of elements that `work_first` returns.
const PART: usize = 1000;

/// Changes a queue.
pub(super) struct Changing {
    pub(super) queue: Key,
    pub(super) change: Change,
}

#[async_trait]
impl Query for Changing {
    type Output = u64;

    async fn run(&self, link: &Link, context: &Context) -> Result<u64, Fault> {
        match self.apply(link, context).await {
            Err(fault) if fault.is_lock_timeout() => {
                link.roll_back().await?;
                let message = "a transaction that is still open has locked an element";
                let error = Error::unavailable(format!("{}: {message}", context.options.store()));
                Err(Fault::Described(error.about_locked_rows()))
            }
            changed => changed,
        }
    }
}

impl Changing {
    async fn apply(&self, link: &Link, context: &Context) -> Result<u64, Fault> {
        tables::ensure(link, context).await?;
        let _reset = context.work.hints.reset_after(&self.queue);
        #[cfg(feature = "mysql")]
        if context.options.dialect == crate::options::Dialect::MySql {
            return super::mysql::change(link, context, &self.queue, &self.change).await;
        }
        let call = Call { link, context, queue: &self.queue };
        match &self.change {
            Change::Pause(is_paused) => call.set(Some(*is_paused), None, None).await,
            Change::Concurrency(limit) => call.set(None, Some(*limit), None).await,
            Change::Rate(limit) => call.set(None, None, Some(*limit)).await,
            Change::Retry(ids) => call.retry(ids).await,
            Change::Remove(ids) => call.remove(ids).await,
            Change::Withdraw(ids) => call.withdraw(ids).await,
            Change::Purge(phase) => call.purge(*phase).await,
            Change::Worker(worker, keep) => call.keep_worker(worker, micros(*keep)).await,
        }
    }
}

/// A change of a queue.
struct Call<'c> {
    link: &'c Link,
    context: &'c Context,
    queue: &'c Key,
}

impl Call<'_> {
    async fn create(&self) -> Result<(), Fault> {
        self.link.query(&self.context.work.of(self.link).shared.create, &[&self.queue.as_str()]).await.map(drop)
    }

    /// Changes the settings that are given.
    async fn set(
        &self,
        is_paused: Option<bool>,
        concurrency: Option<Option<NonZeroU32>>,
        rate: Option<Option<Rate>>,
    ) -> Result<u64, Fault> {
        self.create().await?;
        let (has_concurrency, has_rate) = (concurrency.is_some(), rate.is_some());
        let concurrency = concurrency.flatten().map(|limit| i64::from(limit.get()));
        let rate = rate.flatten();
        let (deliveries, period) =
            (rate.map(|rate| i64::from(rate.deliveries.get())), rate.map(|rate| micros(rate.per)));
        let channel = Channel::of_queue(self.queue).to_string();
        let parameters: [Parameter<'_>; 8] = [
            &self.queue.as_str(),
            &is_paused,
            &has_concurrency,
            &concurrency,
            &has_rate,
            &deliveries,
            &period,
            &channel,
        ];
        self.link.query(&self.context.work.of(self.link).postgres.settings, &parameters).await?;
        Ok(0)
    }

    /// The first elements of a phase.
    async fn first(&self, phase: Phase) -> Result<Vec<ElementId>, Fault> {
        let parameters: [Parameter<'_>; 2] = [&self.queue.as_str(), &phase_number(phase)];
        let rows = self.link.query(&self.context.work.of(self.link).postgres.first, &parameters).await?;
        rows.iter().map(|row| read_id(row.try_get(0)?)).collect()
    }

    async fn retry(&self, ids: &[ElementId]) -> Result<u64, Fault> {
        let first;
        let ids = if ids.is_empty() {
            first = self.first(Phase::Dead).await?;
            &first[..]
        } else {
            ids
        };
        let elements = lock_all(self.link, self.context, self.queue, ids).await?;
        let dead: HashMap<_, _> = elements.iter().filter(|e| e.phase == Phase::Dead).map(|e| (e.id, e)).collect();
        let mut chosen: Vec<ElementId> = Vec::new();
        for id in ids {
            if dead.contains_key(id) && !chosen.contains(id) {
                chosen.push(*id);
            }
        }
        let texts: Vec<_> = chosen.iter().map(|id| id_text(*id)).collect();
        let channel = Channel::of_queue(self.queue).to_string();
        let parameters: [Parameter<'_>; 3] = [&self.queue.as_str(), &texts, &channel];
        let retry: [Statement<'_>; 1] = [(&self.context.work.of(self.link).postgres.retry, &parameters)];
        self.link.end(&retry).await?;
        Ok(chosen.len() as u64)
    }

    async fn remove(&self, ids: &[ElementId]) -> Result<u64, Fault> {
        let elements = lock_all(self.link, self.context, self.queue, ids).await?;
        let (taken, others): (Vec<_>, Vec<_>) =
            elements.iter().partition::<Vec<&Locked>, _>(|element| element.phase == Phase::Taken);
        let cancelled: Vec<_> = taken.iter().map(|element| id_text(element.id)).collect();
        let cancel: [Parameter<'_>; 2] = [&self.queue.as_str(), &cancelled];
        if !cancelled.is_empty() {
            self.link.query(&self.context.work.of(self.link).postgres.cancel, &cancel).await?;
        }
        locked::remove(self.link, self.context, self.queue, &others).await?;
        // An element that is taken stays, so it counts each time.
        let counted = ids.iter().filter(|id| taken.iter().any(|element| element.id == **id)).count();
        Ok((counted + others.len()) as u64)
    }

    async fn withdraw(&self, ids: &[ElementId]) -> Result<u64, Fault> {
        let elements = lock_all(self.link, self.context, self.queue, ids).await?;
        let is_new = |element: &&Locked| element.attempt == 0 && element.phase != Phase::Taken;
        let chosen: Vec<_> = elements.iter().filter(is_new).collect();
        locked::remove(self.link, self.context, self.queue, &chosen).await?;
        Ok(chosen.len() as u64)
    }

    async fn purge(&self, phase: Phase) -> Result<u64, Fault> {
        if matches!(phase, Phase::Taken | Phase::Ended) {
            return Ok(0);
        }
        let mut removed = 0;
        loop {
            let ids = self.first(phase).await?;
            let elements = lock_all(self.link, self.context, self.queue, &ids).await?;
            let chosen: Vec<_> = elements.iter().filter(|element| element.phase == phase).collect();
            locked::remove(self.link, self.context, self.queue, &chosen).await?;
            removed += chosen.len();
            // Some may have left the phase meanwhile, and others may follow.
            if ids.len() < PART || removed >= PART {
                return Ok(removed as u64);
            }
        }
    }

    async fn keep_worker(&self, worker: &WorkerRow, keep: i64) -> Result<u64, Fault> {
        self.create().await?;
        let texts = &self.context.work.of(self.link).postgres;
        let queue = self.queue.as_str();
        self.link.query(&texts.forget, &[&queue, &0_i64, &MAX_OLD]).await?;
        let (id, text) = (format!("{:016x}", worker.id), write_worker_row(worker));
        self.link.query(&texts.worker, &[&queue, &id, &text.as_bytes(), &keep]).await?;
        count_workers(self.link, self.context, self.queue).await
    }
}
