//! A connection and its task.
//!
//! The client library cannot drop a statement that was sent, and cannot notice the end of an idle connection. So a task
//! owns the connection: it executes one statement after the other, also if their callers do not wait any more, and sends
//! a ping while there is nothing to do.

use std::{mem, sync::Arc, time::Duration};

use async_trait::async_trait;
use bandog_core::Error;
use futures_util::stream;
use mysql_async::{Conn, Params, QueryResult, Value, prelude::Protocol, prelude::Queryable};
use tokio::{
    sync::{Notify, mpsc, oneshot},
    time::{sleep, timeout},
};

use super::text::{prepared, with_parameters};
use crate::{
    client::{Client, Connection, Discard, Messages, Statement, View},
    fault::Fault,
    row::Row,
    value::Parameter,
};

/// Number of statements that wait for the connection. A session sends one or two at a time.
const CAPACITY: usize = 16;
/// Statements are joined up to this length, if the server takes so much.
const MAX_JOINED: usize = 1024 * 1024;
/// Interval between pings of an idle connection: the time until a client learns that the server has restarted.
const PING_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum time for the last message of a session.
const QUIT_TIMEOUT: Duration = Duration::from_millis(500);

/// The sender of statements. When it is dropped, the task closes the connection.
struct MySql {
    requests: mpsc::Sender<Request>,
    /// The server's `max_allowed_packet`: it ends a connection that sends more.
    max_packet: usize,
}

/// Statements, and the channel for their result.
struct Request {
    text: String,
    /// The parameters of a prepared statement. None: the text has statements with all their parameters.
    values: Option<Vec<Value>>,
    reply: oneshot::Sender<Result<Done, Fault>>,
}

/// The result of statements.
struct Done {
    /// The rows of each query.
    sets: Vec<Vec<Columns>>,
    /// The number of rows that the last statement has changed.
    changed: u64,
}

/// The columns of a row. None is null.
type Columns = Vec<Option<Vec<u8>>>;

/// Starts the task of a connection. An answer to a ping may take as long as `limit`, and one to statements twice as long:
/// their callers have given up by then.
pub(super) fn start(conn: Conn, limit: Duration, max_packet: usize) -> Connection {
    let (requests, received) = mpsc::channel(CAPACITY);
    let (ending, ended) = oneshot::channel();
    let stop = Arc::new(Notify::new());
    tokio::spawn(serve(conn, received, stop.clone(), ending, limit));
    let messages: Messages = Box::pin(stream::once(async move {
        Err(ended.await.unwrap_or(Fault::Broken(None))) // The task has ended without a fault.
    }));
    let discard: Discard = Box::new(move || stop.notify_one());
    Connection { client: Box::new(MySql { requests, max_packet }), messages, discard }
}

async fn serve(
    mut conn: Conn,
    mut requests: mpsc::Receiver<Request>,
    stop: Arc<Notify>,
    ending: oneshot::Sender<Fault>,
    limit: Duration,
) {
    let worked = async {
        tokio::select! {
            biased;
            () = stop.notified() => None,
            fault = work(&mut conn, &mut requests, limit) => Some(fault),
        }
    };
    // After the first poll the library does nothing further with a connection that is dropped.
    let quit = match worked.await {
        Some(Some(fault)) => {
            // If the receiver is dropped, no session waits for the end.
            let _ = ending.send(fault);
            Duration::ZERO
        }
        Some(None) => QUIT_TIMEOUT,
        None => Duration::ZERO,
    };
    let _ = timeout(quit, conn.disconnect()).await;
}

/// Executes requests until there will be no more, or the connection has ended.
async fn work(conn: &mut Conn, requests: &mut mpsc::Receiver<Request>, limit: Duration) -> Option<Fault> {
    loop {
        tokio::select! {
            biased;
            request = requests.recv() => {
                let Request { text, values, reply } = request?;
                let done = timeout(2 * limit, execute(conn, &text, values)).await.unwrap_or(Err(Fault::Broken(None)));
                let ended = match &done {
                    Err(Fault::Broken(said)) => Some(Fault::Broken(said.clone())),
                    Ok(_) | Err(Fault::Refused(_) | Fault::Described(_)) => None,
                };
                // If the receiver is dropped, no caller waits for the rows.
                let _ = reply.send(done);
                if ended.is_some() {
                    return ended;
                }
            }
            () = sleep(PING_INTERVAL) => match timeout(limit, conn.ping()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Some(error.into()),
                Err(_) => return Some(Fault::Broken(None)),
            },
        }
    }
}

impl Done {
    /// The rows of each of the statements. Only the last one can have a second query.
    fn rows_of_each(mut self, statements: usize) -> Vec<Vec<Row>> {
        let last = self.sets.split_off(self.sets.len().min(statements.saturating_sub(1)));
        self.sets.into_iter().map(rows).chain([joined_rows(last)]).collect()
    }
}

/// The rows of the first query. If the second query returns a row, its columns are added to each of them.
fn joined_rows(sets: Vec<Vec<Columns>>) -> Vec<Row> {
    let mut sets = sets.into_iter();
    let (mut first, further) = (sets.next().unwrap_or_default(), sets.next().unwrap_or_default());
    for added in further {
        first.iter_mut().for_each(|row| row.extend(added.iter().cloned()));
    }
    rows(first)
}

fn rows(set: Vec<Columns>) -> Vec<Row> {
    set.into_iter().map(Row::Texts).collect()
}

/// Executes statements.
async fn execute(conn: &mut Conn, text: &str, values: Option<Vec<Value>>) -> Result<Done, Fault> {
    let sets = match values {
        None => all_rows(conn.query_iter(text).await?).await?,
        Some(values) => all_rows(conn.exec_iter(text, Params::Positional(values)).await?).await?,
    };
    Ok(Done { sets, changed: conn.affected_rows() })
}

/// The rows of each query of a request.
async fn all_rows<P: Protocol>(mut result: QueryResult<'_, 'static, P>) -> Result<Vec<Vec<Columns>>, Fault> {
    let sets = rows_of_queries(&mut result).await;
    // The library keeps the error of a later statement, and the next request would fail with it.
    let dropped = result.drop_result().await;
    let sets = sets?;
    dropped?;
    Ok(sets)
}

/// The rows of each query.
async fn rows_of_queries<P: Protocol>(result: &mut QueryResult<'_, 'static, P>) -> Result<Vec<Vec<Columns>>, Fault> {
    let mut sets = Vec::new();
    while !result.is_empty() {
        let has_rows = !result.columns_ref().is_empty();
        let rows: Vec<mysql_async::Row> = result.collect().await?;
        if has_rows {
            sets.push(rows.into_iter().map(columns).collect());
        }
    }
    Ok(sets)
}

/// The columns of a row. The server sends each value as a text, and the numbers of prepared statements as numbers.
fn columns(row: mysql_async::Row) -> Columns {
    let text = |value| match value? {
        Value::Bytes(text) => Some(text),
        Value::Int(number) => Some(number.to_string().into_bytes()),
        Value::UInt(number) => Some(number.to_string().into_bytes()),
        Value::NULL | Value::Float(_) | Value::Double(_) | Value::Date(..) | Value::Time(..) => None,
    };
    row.unwrap_raw().into_iter().map(text).collect()
}

#[async_trait]
impl Client for MySql {
    async fn query(&self, text: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Fault> {
        self.send(with_parameters(text, parameters)).await
    }

    async fn prepare(&self, _: &str) -> Result<(), Fault> {
        Ok(()) // The task sends requests in their order, and the library prepares a statement at its first use.
    }

    async fn has_pooler(&self) -> Result<bool, Fault> {
        Ok(false) // Proxies such as ProxySQL are not detected.
    }

    async fn execute(&self, text: &str) -> Result<(), Fault> {
        self.send(text.to_owned()).await.map(drop)
    }

    async fn begin(&self, view: View, statements: &[Statement<'_>]) -> Result<Vec<Vec<Row>>, Fault> {
        let mut text = match view {
            View::Latest => String::from("start transaction"),
            // The first statement takes the snapshot, so its time is not later than the snapshot. The time of a snapshot
            // that is taken here would not be known.
            View::Snapshot => "set transaction isolation level repeatable read; start transaction read only".into(),
        };
        for (statement, parameters) in statements {
            text.extend(["; ", &with_parameters(statement, parameters)]);
        }
        Ok(self.request(text, None).await?.rows_of_each(statements.len()))
    }

    async fn transaction(&self, text: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Fault> {
        let (text, values) = prepared(text, parameters);
        Ok(joined_rows(self.request(text, Some(values)).await?.sets))
    }

    async fn change(&self, text: &str, parameters: &[Parameter<'_>]) -> Result<u64, Fault> {
        let (text, values) = prepared(text, parameters);
        Ok(self.request(text, Some(values)).await?.changed)
    }

    async fn end(&self, statements: &[Statement<'_>]) -> Result<Vec<Row>, Fault> {
        let mut rows = None;
        let mut text = String::new();
        let texts = statements.iter().map(|(statement, parameters)| with_parameters(statement, parameters));
        let texts: Vec<String> = texts.chain(["commit".into()]).collect();
        // Nothing is sent if one is too long.
        texts.iter().try_for_each(|text| self.check_length(text))?;
        let max_joined = MAX_JOINED.min(self.max_packet / 2);
        // If a statement is refused, the server does not execute the next ones.
        for next in texts {
            if text.len() + next.len() > max_joined && !text.is_empty() {
                let earlier = self.send(mem::take(&mut text)).await?;
                rows.get_or_insert(earlier);
            } else if !text.is_empty() {
                text.push_str("; ");
            }
            text.push_str(&next);
        }
        let last = self.send(text).await?;
        Ok(rows.unwrap_or(last))
    }
}

impl MySql {
    async fn send(&self, text: String) -> Result<Vec<Row>, Fault> {
        Ok(joined_rows(self.request(text, None).await?.sets))
    }

    /// Refuses a text that the server does not take.
    fn check_length(&self, text: &str) -> Result<(), Fault> {
        // A packet has a byte for the command.
        if text.len() < self.max_packet {
            return Ok(());
        }
        let message = format!(
            "a statement has {} bytes, and the server takes {}: raise its setting max_allowed_packet, or write less (each byte of \
             an element or of a result needs two bytes of a statement)",
            text.len(),
            self.max_packet
        );
        Err(Fault::Described(Error::misused(message)))
    }

    async fn request(&self, text: String, values: Option<Vec<Value>>) -> Result<Done, Fault> {
        self.check_length(&text)?;
        let (reply, answer) = oneshot::channel();
        self.requests.send(Request { text, values, reply }).await.map_err(|_| Fault::Broken(None))?;
        answer.await.map_err(|_| Fault::Broken(None))?
    }
}
