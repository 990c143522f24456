//! Settlements, and extensions of leases.

use std::collections::HashMap;

use async_trait::async_trait;
use bandog_core::{
    Key,
    queues::{Extend, Extended, Settle, SettleEnd, Settled},
};

use super::{
    elements::{fence_number, id_text, read_id},
    locked::{Freed, lock},
    tables,
    time::micros,
};
use crate::{
    channel::Channel, client::Statement, context::Context, fault::Fault, job::Query, row::Row, session::Link,
    value::Parameter,
};

/// Extends leases.
pub(super) struct Extension(pub(super) Extend);

#[async_trait]
impl Query for Extension {
    type Output = Vec<Extended>;

    async fn run(&self, link: &Link, context: &Context) -> Result<Vec<Extended>, Fault> {
        tables::ensure(link, context).await?;
        #[cfg(feature = "mysql")]
        if context.options.dialect == crate::options::Dialect::MySql {
            return super::mysql::extend(link, context, &self.0).await;
        }
        let Extend { queue, deliveries, lease } = &self.0;
        let ids: Vec<_> = deliveries.iter().map(|(delivery, _)| id_text(delivery.id)).collect();
        let fences: Vec<_> = deliveries.iter().map(|(delivery, _)| fence_number(delivery.fence)).collect();
        let texts: Vec<_> = deliveries.iter().map(|(_, text)| text.as_ref().map(String::as_bytes)).collect();
        let parameters: [Parameter<'_>; 5] = [&queue.as_str(), &ids, &fences, &texts, &micros(*lease)];
        let rows = link.query(&context.work.of(link).postgres.extend, &parameters).await?;
        let mut held = HashMap::new();
        for row in &rows {
            let (is_cancelled, is_extended) = (row.try_get(1)?, row.try_get(2)?);
            let extended = match (is_cancelled, is_extended) {
                (true, _) => Extended::Cancelled,
                (false, true) => Extended::Held,
                (false, false) => Extended::Busy,
            };
            held.insert(read_id(row.try_get(0)?)?, extended);
        }
        let answer = |id| match held.get(id) {
            Some(extended) => *extended,
            None => Extended::Lost,
        };
        Ok(deliveries.iter().map(|(delivery, _)| answer(&delivery.id)).collect())
    }
}

/// Ends deliveries.
pub(super) struct Settlement {
    pub(super) queue: Key,
    pub(super) settles: Vec<Settle>,
}

/// The columns of deliveries that end.
pub(super) struct Columns<'s> {
    pub(super) ids: Vec<String>,
    pub(super) fences: Vec<i64>,
    pub(super) ends: Vec<i64>,
    pub(super) delays: Vec<i64>,
    pub(super) bodies: Vec<&'s [u8]>,
    pub(super) channels: Vec<String>,
}

impl<'s> Columns<'s> {
    pub(super) fn of(queue: &Key, settles: &'s [Settle]) -> Self {
        let part = |settle: &'s Settle| match &settle.end {
            SettleEnd::Done(result) => (0, 0, result.as_slice()),
            SettleEnd::Retry(after, error) => (1, micros(*after), error.as_bytes()),
            SettleEnd::Fail(error) => (2, 0, error.as_bytes()),
            SettleEnd::HandBack(after) => (3, micros(*after), &[][..]),
        };
        let channel = |settle: &Settle| Channel::of_results(queue, settle.delivery.id.client).to_string();
        Self {
            ids: settles.iter().map(|settle| id_text(settle.delivery.id)).collect(),
            fences: settles.iter().map(|settle| fence_number(settle.delivery.fence)).collect(),
            ends: settles.iter().map(|settle| part(settle).0).collect(),
            delays: settles.iter().map(|settle| part(settle).1).collect(),
            bodies: settles.iter().map(|settle| part(settle).2).collect(),
            channels: settles.iter().map(channel).collect(),
        }
    }
}

#[async_trait]
impl Query for Settlement {
    type Output = Vec<Settled>;

    async fn run(&self, link: &Link, context: &Context) -> Result<Vec<Settled>, Fault> {
        if self.settles.is_empty() {
            return Ok(Vec::new());
        }
        tables::ensure(link, context).await?;
        let gives_back = |settle: &Settle| matches!(settle.end, SettleEnd::Retry(..) | SettleEnd::HandBack(_));
        let _reset = self.settles.iter().any(gives_back).then(|| context.work.hints.reset_after(&self.queue));
        #[cfg(feature = "mysql")]
        if context.options.dialect == crate::options::Dialect::MySql {
            return super::mysql::settle(link, context, &self.queue, &self.settles).await;
        }
        // Each element was pushed, maybe in a transaction of the program, which removes nothing.
        super::kept::forget(link, context, &self.queue, self.settles.len()).await?;
        // A queue whose elements had keys needs the second way. If the other way finds keys, it changes nothing.
        if !context.work.hints.get(&self.queue).has_keys {
            let rows = self.end(link, context, None).await?;
            if let Some(answer) = self.read(&rows)? {
                return Ok(answer);
            }
            context.work.hints.change(&self.queue, |hints| hints.has_keys = true);
        }
        let ids: Vec<_> = self.settles.iter().map(|settle| settle.delivery.id).collect();
        let elements = lock(link, context, &self.queue, &ids).await?;
        let (mut freed, mut has_keys, mut locked) = (Freed::default(), false, Vec::new());
        for element in &elements {
            locked.push(id_text(element.id));
            has_keys |= element.order_key.is_some() || element.before.is_some();
            let is_meant =
                |settle: &&Settle| settle.delivery.id == element.id && settle.delivery.fence == element.fence;
            let Some(settle) = self.settles.iter().find(is_meant) else { continue };
            if let (SettleEnd::Done(_), Some(before)) = (&settle.end, element.before) {
                freed.add_before(before, element.before_key.as_deref());
            }
            // If the element is still the head of its key, nothing is decided.
            freed.add_ended(element);
        }
        if !has_keys {
            context.work.hints.change(&self.queue, |hints| hints.has_keys = false);
        }
        let rows = self.end(link, context, Some((freed, locked))).await?;
        self.read(&rows)?.ok_or(Fault::Broken(None))
    }
}

impl Settlement {
    /// Ends the deliveries. `locked`: what becomes ready by that, and the ids of the elements that the transaction has locked.
    async fn end(
        &self,
        link: &Link,
        context: &Context,
        locked: Option<(Freed, Vec<String>)>,
    ) -> Result<Vec<Row>, Fault> {
        let (queue, channel) = (self.queue.as_str(), Channel::of_queue(&self.queue).to_string());
        let Columns { ids, fences, ends, delays, bodies, channels } = Columns::of(&self.queue, &self.settles);
        let (freed, locked) = locked.unzip();
        let parameters: [Parameter<'_>; 9] =
            [&queue, &ids, &fences, &ends, &delays, &bodies, &channels, &channel, &locked];
        let text = &context.work.of(link).postgres.settle;
        match freed {
            None => link.query(text, &parameters).await,
            Some(freed) => {
                let settle: [Statement<'_>; 1] = [(text, &parameters)];
                freed.end(link, context, &self.queue, &settle).await
            }
        }
    }

    /// Reads the answers. None: nothing was changed, because keys must be locked first.
    fn read(&self, rows: &[Row]) -> Result<Option<Vec<Settled>>, Fault> {
        let mut answers = vec![Settled::Absent; self.settles.len()];
        for row in rows {
            if !row.try_get::<bool>(0)? {
                return Ok(None);
            }
            let number = usize::try_from(row.try_get::<i64>(1)?).unwrap_or(0);
            let answer = match row.try_get(2)? {
                "absent" => Settled::Absent,
                "busy" => Settled::Busy,
                "lost" => Settled::Lost,
                _ => Settled::Applied,
            };
            if let Some(place) = number.checked_sub(1).and_then(|at| answers.get_mut(at)) {
                *place = answer;
            }
        }
        Ok(Some(answers))
    }
}
