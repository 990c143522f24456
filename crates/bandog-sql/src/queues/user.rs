//! Statements that push and settle in a transaction of the user.

use async_trait::async_trait;
use bandog_core::{
    Error, Key, Result, SqlStatement,
    queues::{Push, Settle, SettleEnd},
};

use super::{
    elements::{check, distinct, fence_number, hexadecimal, id_text, to_json},
    tables,
};
use crate::{channel::Channel, context::Context, fault::Fault, fence, job::Query, options::Dialect, session::Link};

/// Creates the row of a queue, so that no transaction of a user does so: others would wait for it.
pub(super) struct Create(pub(super) Key);

#[async_trait]
impl Query for Create {
    type Output = Number;

    async fn run(&self, link: &Link, context: &Context) -> Result<Number, Fault> {
        tables::ensure(link, context).await?;
        link.query(&context.work.shared.create, &[&self.0.as_str()]).await?;
        number(link, context, &self.0).await
    }
}

/// The number of a queue, if the statements of its server need it. None: there is no such queue.
pub(super) type Number = Option<i64>;

/// Reads the number of a queue.
pub(super) struct Find(pub(super) Key);

#[async_trait]
impl Query for Find {
    type Output = Number;

    async fn run(&self, link: &Link, context: &Context) -> Result<Number, Fault> {
        tables::ensure(link, context).await?;
        number(link, context, &self.0).await
    }
}

async fn number(link: &Link, context: &Context, queue: &Key) -> Result<Number, Fault> {
    match context.options.dialect {
        Dialect::Postgres => Ok(None),
        #[cfg(feature = "mysql")]
        Dialect::MySql => {
            let rows = link.query(&context.work.mysql.user_number, &[&queue.as_str()]).await?;
            rows.first().map(|row| row.try_get(0)).transpose()
        }
    }
}

/// The statements that push.
pub(super) fn push(context: &Context, push: &Push, number: Number) -> Result<Vec<SqlStatement>> {
    check(&push.elements)?;
    let elements = distinct(&push.elements);
    if elements.is_empty() {
        return Ok(Vec::new());
    }
    #[cfg(feature = "mysql")]
    if let Some(number) = number_on_mysql(context, number) {
        return super::mysql::push_statements(context, &push.queue, number, &elements);
    }
    let (queue, json) = (push.queue.as_str().to_owned(), to_json(&elements, true));
    let values = [queue, json, Channel::of_queue(&push.queue).to_string(), fence::id(context)?];
    Ok(vec![fence::statement(context, &push.queue, &context.work.postgres.pushed_user, &values)])
}

/// The statements that settle a delivery as done.
pub(super) fn settle(context: &Context, queue: &Key, settle: &Settle, number: Number) -> Result<Vec<SqlStatement>> {
    let SettleEnd::Done(result) = &settle.end else {
        return Err(Error::misused("in a transaction, a delivery can only be settled as done"));
    };
    #[cfg(feature = "mysql")]
    if let Some(number) = number_on_mysql(context, number) {
        let (id, fence) = (super::elements::id_bytes(settle.delivery.id), fence_number(settle.delivery.fence));
        return super::mysql::settle_statements(context, queue, number, (&id, fence, result));
    }
    let (id, fence) = (id_text(settle.delivery.id), fence_number(settle.delivery.fence).to_string());
    let result = hexadecimal(result);
    let channels = [Channel::of_results(queue, settle.delivery.id.client), Channel::of_queue(queue)];
    let [results, ready] = channels.map(|channel| channel.to_string());
    let values = [queue.as_str().to_owned(), id, fence, result, results, ready, fence::id(context)?];
    Ok(vec![fence::statement(context, queue, &context.work.postgres.done_user, &values)])
}

/// The number of a queue on MySQL. A queue that does not exist has one that no queue has. None: the server is another one.
#[cfg(feature = "mysql")]
fn number_on_mysql(context: &Context, number: Number) -> Option<i64> {
    (context.options.dialect == Dialect::MySql).then_some(number.unwrap_or(-1))
}
