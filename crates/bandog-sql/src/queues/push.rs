//! Pushes.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use bandog_core::{
    Error, Result,
    queues::{ElementId, NewElement, Push, Pushed, envelope::is_envelope},
};

use super::{
    elements::{check, distinct, id_text, read_id, to_json},
    kept, tables,
};
use crate::{channel::Channel, context::Context, fault::Fault, job::Query, row::Row, session::Link, value::Parameter};

/// Number of attempts at a push whose queue has no row yet.
const ATTEMPTS: u32 = 3;

/// The answer of each push that is done.
pub(super) type Answers = Arc<Mutex<Vec<Option<Result<Vec<Pushed>>>>>>;

/// Pushes, one after another. One that another transaction disturbs does not delay the others.
pub(super) struct Pushes {
    pub(super) pushes: Vec<Push>,
    pub(super) answers: Answers,
}

impl Pushes {
    pub(super) fn new(pushes: &[Push]) -> Self {
        let answers = pushes.iter().map(|push| check(&push.elements).err().map(Err)).collect();
        Self { pushes: pushes.to_vec(), answers: Arc::new(Mutex::new(answers)) }
    }

    /// Refuses envelopes, if the tables cannot keep them.
    async fn refuse_envelopes(&self, link: &Link, context: &Context) -> Result<(), Fault> {
        let has_envelope = |push: &Push| push.elements.iter().any(|element| is_envelope(&element.payload));
        let with_envelopes =
            self.pushes.iter().zip(0..).filter(|(push, number)| !self.is_done(*number) && has_envelope(push));
        let with_envelopes: Vec<usize> = with_envelopes.map(|(_, number)| number).collect();
        if !with_envelopes.is_empty() && !tables::keep_envelopes(link, context).await? {
            with_envelopes.into_iter().for_each(|number| self.set(number, Err(tables::too_old(context))));
        }
        Ok(())
    }

    fn is_done(&self, number: usize) -> bool {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)[number].is_some()
    }

    fn set(&self, number: usize, answer: Result<Vec<Pushed>>) {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)[number] = Some(answer);
    }
}

#[async_trait]
impl Query for Pushes {
    type Output = ();

    async fn run(&self, link: &Link, context: &Context) -> Result<(), Fault> {
        tables::ensure(link, context).await?;
        self.refuse_envelopes(link, context).await?;
        let mut disturbed = None;
        for (push, number) in self.pushes.iter().zip(0..) {
            if self.is_done(number) {
                continue;
            }
            match push_one(link, context, push).await {
                Ok(pushed) => self.set(number, Ok(pushed)),
                Err(fault) if fault.ends_session() => return Err(fault),
                Err(fault) if tables::was_raised(link, context, &fault).await? => disturbed = Some(Fault::row_locked()),
                Err(fault) if fault.is_lock_timeout() && has_once(push) => {
                    link.roll_back().await?;
                    self.set(number, Err(occupied(&context.options.store())));
                }
                Err(fault) if fault.is_transient() => {
                    link.roll_back().await?;
                    disturbed = Some(fault);
                }
                Err(fault) => {
                    link.roll_back().await?;
                    self.set(number, Err(fault.describe(&context.options.store())));
                }
            }
        }
        disturbed.map_or(Ok(()), Err)
    }
}

fn has_once(push: &Push) -> bool {
    push.elements.iter().any(|element| element.once.is_some())
}

/// The error of a push that waits for another transaction.
fn occupied(store: &str) -> Error {
    let message = "a transaction that is still open has pushed an element with the same id of `once`, or uses its key";
    Error::unavailable(format!("{store}: {message}")).about_locked_rows()
}

async fn push_one(link: &Link, context: &Context, push: &Push) -> Result<Vec<Pushed>, Fault> {
    #[cfg(feature = "mysql")]
    if context.options.dialect == crate::options::Dialect::MySql {
        return super::mysql::push(link, context, push).await;
    }
    let texts = &context.work.of(link).postgres;
    let queue = push.queue.as_str();
    let elements = distinct(&push.elements);
    if elements.is_empty() {
        return Ok(Vec::new());
    }
    kept::forget(link, context, &push.queue, kept::rows_of(push)).await?;
    let (json, channel) = (to_json(&elements, false), Channel::of_queue(&push.queue).to_string());
    let payloads: Vec<&[u8]> = elements.iter().map(|element| element.payload.as_slice()).collect();
    let keys: BTreeSet<&str> = elements.iter().filter_map(|element| element.order_key.as_deref()).collect();
    let keys: Vec<&str> = keys.into_iter().collect();
    let parameters: [Parameter<'_>; 4] = [&queue, &json, &channel, &payloads];
    let mut once = BTreeMap::new();
    for element in &elements {
        if let Some(id) = element.once.as_ref().filter(|id| !id.window.is_zero()) {
            once.entry(&*id.id).or_insert_with(|| id_text(element.id));
        }
    }
    let (names, by): (Vec<&str>, Vec<String>) = once.into_iter().unzip();
    for _ in 0..ATTEMPTS {
        let rows = if keys.is_empty() {
            link.query(&texts.push, &parameters).await?
        } else {
            let lock: [Parameter<'_>; 2] = [&queue, &keys];
            let claim: [Parameter<'_>; 3] = [&queue, &names, &by];
            let [_, _, rows] =
                link.whole([(&texts.claim, &claim[..]), (&texts.lock_keys, &lock), (&texts.push, &parameters)]).await?;
            rows
        };
        let first = rows.first().ok_or(Fault::Broken(None))?;
        if !first.try_get::<bool>(0)? {
            link.query(&context.work.of(link).shared.create, &[&queue]).await?;
            continue;
        }
        let winners = if first.try_get(1)? {
            winners(&rows, &elements)?
        } else {
            let ids: Vec<_> = elements.iter().filter_map(|element| Some(&*element.once.as_ref()?.id)).collect();
            // The push was applied before.
            if ids.is_empty() { HashMap::new() } else { read_once(&link.query(&texts.once, &[&queue, &ids]).await?)? }
        };
        return Ok(answer(&push.elements, &winners));
    }
    Err(Fault::Broken(None))
}

/// The element that was pushed with each id of [`NewElement::once`].
fn winners(rows: &[Row], elements: &[&NewElement]) -> Result<HashMap<String, ElementId>, Fault> {
    let mut winners = HashMap::new();
    for row in rows {
        let number = usize::try_from(row.try_get::<i64>(2)?).unwrap_or(0);
        let element = number.checked_sub(1).and_then(|at| elements.get(at)).ok_or(Fault::Broken(None))?;
        if let Some(once) = &element.once {
            winners.insert(once.id.to_string(), read_id(row.try_get(3)?)?);
        }
    }
    Ok(winners)
}

pub(super) fn read_once(rows: &[Row]) -> Result<HashMap<String, ElementId>, Fault> {
    rows.iter().map(|row| Ok((row.try_get(0)?, read_id(row.try_get(1)?)?))).collect()
}

pub(super) fn answer(elements: &[NewElement], winners: &HashMap<String, ElementId>) -> Vec<Pushed> {
    let answer = |element: &NewElement| {
        let once = element.once.as_ref().filter(|once| !once.window.is_zero());
        let id = once.and_then(|once| winners.get(&*once.id)).copied().unwrap_or(element.id);
        Pushed { id, is_new: id == element.id }
    };
    elements.iter().map(answer).collect()
}
