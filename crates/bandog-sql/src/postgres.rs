//! The client of a PostgreSQL server.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use futures_util::{
    StreamExt,
    future::{join, join_all},
};
use tokio_postgres::{AsyncMessage, SimpleQueryMessage, Statement};

use crate::{
    client::{self, Client, Connection, Messages, View},
    dial::{self, BackendPid},
    fault::Fault,
    row::Row,
    value::Parameter,
};

/// A connection and its prepared statements.
struct Postgres {
    client: tokio_postgres::Client,
    /// The number of the server's process, as the other end of the connection reports it.
    pid: BackendPid,
    prepared: Mutex<HashMap<String, Statement>>,
}

/// The parts of an open connection.
pub(crate) fn connection(opened: dial::Connection) -> Connection {
    let dial::Connection { client, messages, reset, pid } = opened;
    let messages: Messages = Box::pin(messages.map(|message| match message {
        Ok(AsyncMessage::Notification(notification)) => Ok(Some(notification.channel().to_owned())),
        Ok(_) => Ok(None),
        Err(error) => Err(Fault::broken(&error)),
    }));
    let client = Box::new(Postgres { client, pid, prepared: Mutex::default() });
    Connection { client, messages, discard: Box::new(move || reset.set()) }
}

#[async_trait]
impl Client for Postgres {
    async fn query(&self, text: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Fault> {
        let statement = self.prepared(text).await?;
        let parameters: Vec<_> = parameters.iter().map(|parameter| parameter.postgres()).collect();
        let rows = self.client.query(&statement, &parameters).await?;
        Ok(rows.into_iter().map(Row::Postgres).collect())
    }

    async fn prepare(&self, text: &str) -> Result<(), Fault> {
        self.prepared(text).await.map(drop)
    }

    async fn execute(&self, text: &str) -> Result<(), Fault> {
        Ok(self.client.batch_execute(text).await?)
    }

    async fn has_pooler(&self) -> Result<bool, Fault> {
        let messages = self.client.simple_query("select pg_backend_pid()").await?;
        let row = messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        Ok(row.and_then(|text| text.parse().ok()) != self.pid.get())
    }

    async fn begin(&self, view: View, statements: &[client::Statement<'_>]) -> Result<Vec<Vec<Row>>, Fault> {
        let begin = match view {
            View::Latest => "begin",
            View::Snapshot => "begin isolation level repeatable read read only",
        };
        self.prepare_all(statements).await?;
        let (begun, queried) = join(self.execute(begin), self.query_all(statements)).await;
        begun?;
        queried
    }

    async fn transaction(&self, text: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Fault> {
        self.query(text, parameters).await
    }

    #[cfg(feature = "mysql")]
    async fn change(&self, text: &str, parameters: &[Parameter<'_>]) -> Result<u64, Fault> {
        let statement = self.prepared(text).await?;
        let parameters: Vec<_> = parameters.iter().map(|parameter| parameter.postgres()).collect();
        Ok(self.client.execute(&statement, &parameters).await?)
    }

    async fn end(&self, statements: &[client::Statement<'_>]) -> Result<Vec<Row>, Fault> {
        self.prepare_all(statements).await?;
        // If a statement was refused, the server rolls the transaction back at the commit.
        let (queried, committed) = join(self.query_all(statements), self.execute("commit")).await;
        let mut rows = queried?;
        committed?;
        Ok(if rows.is_empty() { Vec::new() } else { rows.swap_remove(0) })
    }
}

impl Postgres {
    /// Prepares statements, so that the first poll of [`Postgres::query_all`] sends them.
    async fn prepare_all(&self, statements: &[client::Statement<'_>]) -> Result<(), Fault> {
        for (text, _) in statements {
            self.prepared(text).await?;
        }
        Ok(())
    }

    /// Executes statements of a transaction, in one round trip. If one of them is refused, the server refuses the next ones.
    async fn query_all(&self, statements: &[client::Statement<'_>]) -> Result<Vec<Vec<Row>>, Fault> {
        let queries = statements.iter().map(|(text, parameters)| self.query(text, parameters));
        join_all(queries).await.into_iter().collect()
    }

    /// The statement with this text. It is prepared when it is first used.
    async fn prepared(&self, text: &str) -> Result<Statement, Fault> {
        let known = self.cache().get(text).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = self.client.prepare(text).await?;
        self.cache().insert(text.to_owned(), statement.clone());
        Ok(statement)
    }

    fn cache(&self) -> MutexGuard<'_, HashMap<String, Statement>> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
