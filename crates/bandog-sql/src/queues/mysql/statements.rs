//! Statements that push and settle in a transaction of the user. Their values are parts of the texts: hexadecimal numbers.

use bandog_core::{
    Key, Result, SqlDialect, SqlStatement,
    queues::{NewElement, When},
};

use super::super::{elements::id_bytes, time::micros};
use crate::{context::Context, fence, mysql::with_parameters, session::Link, value::Parameter};

/// The statements that push. The elements are distinct, and there is at least one.
pub(crate) fn push(
    link: &Link,
    context: &Context,
    queue: &Key,
    number: i64,
    elements: &[&NewElement],
) -> Result<Vec<SqlStatement>> {
    let texts = &context.work.of(link).mysql;
    let store = fence::id(context)?;
    let ids: Vec<_> = elements.iter().map(|element| id_bytes(element.id)).collect();
    let ids: Vec<&[u8]> = ids.iter().map(<[u8; 16]>::as_slice).collect();
    let Some(first) = ids.first() else { return Ok(Vec::new()) };
    let payloads: Vec<&[u8]> = elements.iter().map(|element| element.payload.as_slice()).collect();
    let once_of = |element: &NewElement| element.once.clone().filter(|once| !once.window.is_zero());
    let once: Vec<_> = elements.iter().map(|element| once_of(element)).collect();
    let has_once: Vec<i64> = once.iter().map(|once| i64::from(once.is_some())).collect();
    let with_once = || once.iter().zip(&ids).filter_map(|(once, id)| Some((once.as_ref()?, *id)));
    let names: Vec<&str> = with_once().map(|(once, _)| &*once.id).collect();
    let by: Vec<&[u8]> = with_once().map(|(_, id)| id).collect();
    let windows: Vec<i64> = with_once().map(|(once, _)| micros(once.window)).collect();
    let priorities: Vec<i64> = elements.iter().map(|element| i64::from(element.priority.get())).collect();
    let delay = |element: &&NewElement| match element.when {
        When::After(delay) => micros(delay),
        When::Now | When::At(_) => 0,
    };
    let due = |element: &&NewElement| match element.when {
        When::At(time) => micros(time.duration_since(std::time::UNIX_EPOCH).unwrap_or_default()),
        When::Now | When::After(_) => 0,
    };
    let (delays, dues): (Vec<i64>, Vec<i64>) = elements.iter().map(|element| (delay(element), due(element))).unzip();
    let keeps: Vec<Option<i64>> = elements.iter().map(|element| element.keep_result.map(micros)).collect();
    let befores: Vec<_> = elements.iter().map(|element| element.before.map(id_bytes)).collect();
    let befores: Vec<Option<&[u8]>> = befores.iter().map(|id| id.as_ref().map(<[u8; 16]>::as_slice)).collect();
    let waits: Vec<i64> = elements.iter().map(|element| i64::from(element.waits_for)).collect();
    let keys: Vec<Option<&str>> = elements.iter().map(|element| element.order_key.as_deref()).collect();

    let queues = vec![number; ids.len()];
    let with_signal = || elements.iter().zip(&ids).filter(|(e, _)| e.order_key.is_some() && e.waits_for == 0);
    let signals: Vec<&[u8]> = with_signal().map(|(_, id)| *id).collect();
    let signal_keys: Vec<Option<&str>> = with_signal().map(|(element, _)| element.order_key.as_deref()).collect();
    let signal_once: Vec<i64> = with_signal().map(|(element, _)| i64::from(once_of(element).is_some())).collect();
    let (once_queues, signal_queues) = (vec![number; names.len()], vec![number; signals.len()]);

    let remember: [Parameter<'_>; 3] = [&number, first, &store];
    let of_push: [Parameter<'_>; 2] = [&number, first];
    let put_once: [Parameter<'_>; 4] = [&once_queues, &names, &by, &windows];
    let mine: [Parameter<'_>; 2] = [&number, &names];
    let put_body: [Parameter<'_>; 4] = [&queues, &ids, &payloads, &has_once];
    let put: [Parameter<'_>; 10] =
        [&queues, &ids, &priorities, &delays, &dues, &keeps, &befores, &waits, &keys, &has_once];
    let signal: [Parameter<'_>; 4] = [&signal_queues, &signals, &signal_keys, &signal_once];
    let mut all: Vec<(&str, &[Parameter<'_>])> = vec![(&texts.user_remember, &remember), (&texts.user_new, &of_push)];
    if !names.is_empty() {
        all.extend([(texts.user_once.as_str(), &put_once[..]), (&texts.user_mine, &mine)]);
    }
    all.extend([(texts.user_body.as_str(), &put_body[..]), (&texts.user_push, &put)]);
    if !signals.is_empty() {
        all.push((&texts.user_signal, &signal));
    }
    all.push((&texts.user_pushed, &of_push));
    Ok(all.into_iter().map(|(text, parameters)| statement(context, queue, text, parameters)).collect())
}

/// The statements that settle a delivery as done.
pub(crate) fn settle(
    link: &Link,
    context: &Context,
    queue: &Key,
    number: i64,
    (id, fence, result): (&[u8], i64, &[u8]),
) -> Result<Vec<SqlStatement>> {
    let texts = &context.work.of(link).mysql;
    let store = fence::id(context)?;
    let held: [Parameter<'_>; 4] = [&number, &id, &fence, &store];
    let keep: [Parameter<'_>; 3] = [&number, &id, &result];
    let of_element: [Parameter<'_>; 2] = [&number, &id];
    let all: [(&str, &[Parameter<'_>]); 4] = [
        (&texts.user_held, &held),
        (&texts.user_result, &keep),
        (&texts.user_done, &of_element),
        (&texts.user_removed, &of_element),
    ];
    Ok(all.into_iter().map(|(text, parameters)| statement(context, queue, text, parameters)).collect())
}

fn statement(context: &Context, queue: &Key, text: &str, parameters: &[Parameter<'_>]) -> SqlStatement {
    let schema = format!("`{}`", context.options.schema.replace('`', "``"));
    let text = with_parameters(text, parameters).replace("$schema", &schema);
    SqlStatement { key: queue.clone(), dialect: SqlDialect::MySql, text, values: Vec::new() }
}
