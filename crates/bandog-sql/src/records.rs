//! Records: small texts that are replaced as a whole.

use std::sync::Arc;

use async_trait::async_trait;
use bandog_core::{
    Backend, Error, Holding, Key, Latches, Line, Mark, Notifier, Pattern, Reading, Records, Result, SqlStatement,
    Subscription, Swap, Swaps, queues::Queues,
};

use crate::{
    channel::Channel,
    client::{Statement, View},
    context::Context,
    fault::Fault,
    fence,
    job::Query,
    notifications,
    record_rows::{is_held, read_locks, read_records, text},
    session::Link,
    sql::Sql,
    states::{self, server_time},
    value::Parameter,
};

/// The column of a lock that has the time at which the state of the database was read, or an earlier time.
const READ_AT_COLUMN: usize = 7;

#[async_trait]
impl Records for Sql {
    async fn swap(&self, swaps: &[Swap]) -> Result<Swaps> {
        let mut answer = self.swap_records(swaps).await.map_err(|error| error.during("swap"))?;
        answer.each = with_context("swap", answer.each, swaps.iter().map(|swap| &swap.key));
        Ok(answer)
    }

    async fn read(&self, keys: &[Key], holdings: &[Holding]) -> Result<Reading> {
        let query = Read { keys: keys.to_vec(), holdings: holdings.to_vec() };
        let mut answer = self.query(query).await.map_err(|error| error.during("read"))?;
        answer.records = with_context("read", answer.records, keys);
        answer.held = with_context("read", answer.held, holdings.iter().map(|holding| &holding.key));
        Ok(answer)
    }

    async fn names(&self, pattern: &Pattern) -> Result<Vec<Key>> {
        self.query(Names(pattern.clone())).await.map_err(|error| error.during("names"))
    }

    async fn history(&self, key: &Key) -> Result<Vec<Line>> {
        self.query(History(key.clone())).await.flatten().map_err(|error| error.during("history").at(key))
    }

    async fn subscribe_record(&self, key: &Key, notifier: Notifier) -> Result<Subscription> {
        let subscribed = notifications::subscribe(self.context(), Channel::of_record(key), None, notifier).await;
        subscribed.map_err(|error| error.during("subscribe").at(key))
    }

    async fn mark_sql(&self, mark: &Mark) -> Result<SqlStatement> {
        #[cfg(feature = "mysql")]
        if self.context().options.dialect == crate::options::Dialect::MySql {
            // If this fails, a later completion removes them.
            let _ = self.query(RemoveMarks(mark.clone())).await;
        }
        fence::mark(self.context(), mark).map_err(|error| error.during("complete").at(&mark.within.0))
    }
}

impl Latches for Sql {}

impl Backend for Sql {
    fn queues(&self) -> Option<Arc<dyn Queues>> {
        Some(Arc::new(self.clone()))
    }
}

/// Adds the verb and the key to each error.
fn with_context<'k, T>(
    verb: &'static str,
    each: Vec<Result<T>>,
    keys: impl IntoIterator<Item = &'k Key>,
) -> Vec<Result<T>> {
    let add = |(answer, key): (Result<T>, &Key)| answer.map_err(|error: Error| error.during(verb).at(key));
    each.into_iter().zip(keys).map(add).collect()
}

/// Reads records, and checks holdings, in one step.
///
/// All statements see one state of the database. A lease is judged by the time at which this state was read, because a
/// renewal that came later is not in it: the process or the server can be stopped between the statements.
pub(crate) struct Read {
    pub(crate) keys: Vec<Key>,
    pub(crate) holdings: Vec<Holding>,
}

#[async_trait]
impl Query for Read {
    type Output = Reading;

    async fn run(&self, link: &Link, _: &Context) -> Result<Reading, Fault> {
        let names: Vec<_> = self.keys.iter().map(Key::as_str).collect();
        let leases: Vec<_> = self.holdings.iter().map(|holding| holding.key.as_str()).collect();
        if names.is_empty() && leases.is_empty() {
            return Ok(Reading { now: server_time(link).await?, records: Vec::new(), held: Vec::new() });
        }
        let parameters: [Parameter<'_>; 1] = [&names];
        let records: Statement<'_> = (&link.statements.records, &parameters);
        // Without leases, the table of another library is not needed.
        let (locks, rows) = if leases.is_empty() {
            let [rows] = link.begin_with(View::Snapshot, [records]).await?;
            (Vec::new(), rows)
        } else {
            let first: [Statement<'_>; 2] = [(&link.statements.show, &[&leases]), records];
            let [locks, rows] = link.begin_with(View::Snapshot, first).await?;
            (locks, rows)
        };
        let ended = link.end(&[(&link.statements.time, &[])]).await?;
        let now = ended.first().ok_or(Fault::Broken(None))?.try_get(0)?;
        let read_at = locks.first().map(|row| row.try_get(READ_AT_COLUMN)).transpose()?.unwrap_or(now);
        let (found, locks) = (read_records(&rows)?, read_locks(&locks)?);
        let record = |key: &Key| found.get(key.as_str()).cloned().transpose();
        let held = |holding| is_held(&locks, holding, states::moment(read_at));
        Ok(Reading {
            now,
            records: self.keys.iter().map(record).collect(),
            held: self.holdings.iter().map(held).collect(),
        })
    }
}

/// The names of all matching records.
struct Names(Pattern);

#[async_trait]
impl Query for Names {
    type Output = Vec<Key>;

    async fn run(&self, link: &Link, _: &Context) -> Result<Vec<Key>, Fault> {
        let rows = link.query(&link.statements.names, &[&literal_prefix(&self.0)]).await?;
        let mut found = Vec::new();
        for row in &rows {
            let name: &str = row.try_get(0)?;
            found.extend(Key::new(name).ok().filter(|_| self.0.matches(name)));
        }
        Ok(found)
    }
}

/// The text with which each matching name begins.
fn literal_prefix(pattern: &Pattern) -> String {
    let (mut prefix, mut rest) = (String::new(), pattern.as_str().chars());
    while let Some(c) = rest.next() {
        match c {
            '*' | '?' => break,
            '\\' => prefix.extend(rest.next()),
            c => prefix.push(c),
        }
    }
    prefix
}

/// The history of one record.
struct History(Key);

#[async_trait]
impl Query for History {
    type Output = Result<Vec<Line>>;

    async fn run(&self, link: &Link, _: &Context) -> Result<Self::Output, Fault> {
        let rows = link.query(&link.statements.history, &[&self.0.as_str()]).await?;
        let mut lines = Vec::new();
        for row in &rows {
            match text(row.try_get(1)?) {
                Ok(value) => lines.push(Line { slot: row.try_get(0)?, value }),
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(lines))
    }
}

/// Removes marks that nothing needs any more. On MySQL, the transaction that creates a mark cannot do this without waiting for
/// others.
#[cfg(feature = "mysql")]
struct RemoveMarks(Mark);

#[cfg(feature = "mysql")]
#[async_trait]
impl Query for RemoveMarks {
    type Output = ();

    async fn run(&self, link: &Link, _: &Context) -> Result<(), Fault> {
        let Mark { key, obsolete: (from, until), .. } = &self.0;
        let length = i64::try_from(key.as_str().len()).unwrap_or(i64::MAX);
        let rows = link.begin(&link.statements.old_marks, &[&from.as_str(), &until.as_str(), &length]).await?;
        let names: Vec<&str> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        if !names.is_empty() {
            link.query(&link.statements.delete_records, &[&names]).await?;
        }
        link.commit().await
    }
}
