//! Rows that a queue keeps for a time: pushes, ids that are pushed once, results, workers.

use bandog_core::{
    Key,
    queues::{NewElement, Push},
};

use crate::{context::Context, fault::Fault, session::Link};

/// The rows that the queue keeps for a time because of a push: itself, its ids of `once`, and later the results.
pub(super) fn rows_of(push: &Push) -> usize {
    let of = |element: &NewElement| usize::from(element.once.is_some()) + usize::from(element.keep_result.is_some());
    1 + push.elements.iter().map(of).sum::<usize>()
}

/// Removes what the queue need not keep any more, once in a while. `added`: the rows that may be added.
pub(super) async fn forget(link: &Link, context: &Context, queue: &Key, added: usize) -> Result<(), Fault> {
    let Some((from, most)) = context.work.hints.change(queue, |hints| hints.forgets(added)) else { return Ok(()) };
    let rows = link.query(&context.work.of(link).postgres.forget, &[&queue.as_str(), &from, &most]).await?;
    let row = rows.first().ok_or(Fault::Broken(None))?;
    let (now, removed): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    if removed < most {
        context.work.hints.change(queue, |hints| hints.forgot(now));
    }
    Ok(())
}
