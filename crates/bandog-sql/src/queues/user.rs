//! Statements that push and settle in a transaction of the user.

use async_trait::async_trait;
use bandog_core::{
    Error, Key, Result, SqlStatement,
    queues::{NewElement, Push, Settle, SettleEnd, envelope::is_envelope},
};

use super::{
    elements::{check, distinct, fence_number, hexadecimal, id_text, to_json},
    tables,
};
use crate::{channel::Channel, context::Context, fault::Fault, fence, job::Query, options::Dialect, session::Link};

/// Creates the row of a queue, and makes the statements that push. No transaction of a user creates the row, because others
/// would wait for it.
pub(super) struct PushSql(pub(super) Push);

#[async_trait]
impl Query for PushSql {
    type Output = Result<Vec<SqlStatement>>;

    async fn run(&self, link: &Link, context: &Context) -> Result<Self::Output, Fault> {
        let Push { queue, elements } = &self.0;
        let elements = match check(elements) {
            Ok(()) => distinct(elements),
            Err(error) => return Ok(Err(error)),
        };
        if elements.is_empty() {
            return Ok(Ok(Vec::new()));
        }
        tables::ensure(link, context).await?;
        let has_envelope = elements.iter().any(|element| is_envelope(&element.payload));
        if has_envelope && !tables::keep_envelopes(link, context).await? {
            return Ok(Err(tables::too_old(context)));
        }
        link.query(&context.work.of(link).shared.create, &[&queue.as_str()]).await?;
        match context.options.dialect {
            Dialect::Postgres => Ok(push_on_postgres(link, context, queue, &elements)),
            #[cfg(feature = "mysql")]
            Dialect::MySql => {
                let number = number(link, context, queue).await?;
                Ok(super::mysql::push_statements(link, context, queue, number, &elements))
            }
        }
    }
}

/// Makes the statements that settle a delivery as done.
pub(super) struct SettleSql {
    pub(super) queue: Key,
    pub(super) settle: Settle,
}

#[async_trait]
impl Query for SettleSql {
    type Output = Result<Vec<SqlStatement>>;

    async fn run(&self, link: &Link, context: &Context) -> Result<Self::Output, Fault> {
        let SettleEnd::Done(result) = &self.settle.end else {
            return Ok(Err(Error::misused("in a transaction, a delivery can only be settled as done")));
        };
        tables::ensure(link, context).await?;
        match context.options.dialect {
            Dialect::Postgres => Ok(settle_on_postgres(link, context, &self.queue, &self.settle, result)),
            #[cfg(feature = "mysql")]
            Dialect::MySql => {
                let (id, fence) = (self.settle.delivery.id, fence_number(self.settle.delivery.fence));
                let (number, id) = (number(link, context, &self.queue).await?, super::elements::id_bytes(id));
                Ok(super::mysql::settle_statements(link, context, &self.queue, number, (&id, fence, result)))
            }
        }
    }
}

fn push_on_postgres(
    link: &Link,
    context: &Context,
    queue: &Key,
    elements: &[&NewElement],
) -> Result<Vec<SqlStatement>> {
    let channel = Channel::of_queue(queue).to_string();
    let values = [queue.as_str().to_owned(), to_json(elements, true), channel, fence::id(context)?];
    Ok(vec![fence::statement(context, queue, &context.work.of(link).postgres.pushed_user, &values)])
}

fn settle_on_postgres(
    link: &Link,
    context: &Context,
    queue: &Key,
    settle: &Settle,
    result: &[u8],
) -> Result<Vec<SqlStatement>> {
    let (id, fence) = (id_text(settle.delivery.id), fence_number(settle.delivery.fence).to_string());
    let channels = [Channel::of_results(queue, settle.delivery.id.client), Channel::of_queue(queue)];
    let [results, ready] = channels.map(|channel| channel.to_string());
    let values = [queue.as_str().to_owned(), id, fence, hexadecimal(result), results, ready, fence::id(context)?];
    Ok(vec![fence::statement(context, queue, &context.work.of(link).postgres.done_user, &values)])
}

/// Reads the number of a queue. A queue that does not exist has one that no queue has.
#[cfg(feature = "mysql")]
async fn number(link: &Link, context: &Context, queue: &Key) -> Result<i64, Fault> {
    let rows = link.query(&context.work.of(link).mysql.user_number, &[&queue.as_str()]).await?;
    rows.first().map_or(Ok(-1), |row| row.try_get(0))
}
