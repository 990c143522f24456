//! The client of a database server, as sessions use it.

use std::pin::Pin;

use async_trait::async_trait;
use futures_util::Stream;

use crate::{fault::Fault, row::Row, value::Parameter};

/// The isolation of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// Each statement sees what was committed before it.
    Latest,
    /// All statements see one state of the database. The transaction writes nothing.
    Snapshot,
}

/// The text of a statement, and its parameters.
pub(crate) type Statement<'a> = (&'a str, &'a [Parameter<'a>]);

/// A connection to a server. If a future of it is dropped, the server may still execute the statement.
#[async_trait]
pub(crate) trait Client: Send + Sync {
    /// Executes a statement. The first poll of the future sends it, if it is prepared already.
    async fn query(&self, text: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Fault>;

    /// Prepares a statement, so that the first poll of [`Client::query`] sends it.
    async fn prepare(&self, text: &str) -> Result<(), Fault>;

    /// Executes statements without parameters. The first poll of the future sends them.
    async fn execute(&self, text: &str) -> Result<(), Fault>;

    /// Whether a pooler is between the client and the server. The request needs no prepared statement.
    async fn has_pooler(&self) -> Result<bool, Fault>;

    /// Begins a transaction and executes its first statements, in one round trip. If one of them is refused, the next ones are
    /// not executed. Returns the rows of each. Only the last one may have several queries.
    async fn begin(&self, view: View, statements: &[Statement<'_>]) -> Result<Vec<Vec<Row>>, Fault>;

    /// Executes statements in a transaction of their own, in one round trip. The text is one prepared statement; on
    /// MariaDB, it is a block that begins and ends the transaction. If it is refused, the transaction may still be open.
    async fn transaction(&self, text: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Fault>;

    /// Executes one prepared statement that returns no rows, in a transaction of its own. Returns how many rows it has changed.
    #[cfg(feature = "mysql")]
    async fn change(&self, text: &str, parameters: &[Parameter<'_>]) -> Result<u64, Fault>;

    /// Executes the last statements of a transaction and commits, in one round trip; on MySQL, long ones need more. If one of
    /// them is refused, nothing is committed, and the transaction may still be open. Returns the rows of the first statement;
    /// the others return none.
    async fn end(&self, statements: &[Statement<'_>]) -> Result<Vec<Row>, Fault>;
}

/// An open connection.
pub(crate) struct Connection {
    pub(crate) client: Box<dyn Client>,
    pub(crate) messages: Messages,
    pub(crate) discard: Discard,
}

/// The messages of the server without a request: the name of a channel, or something that sessions do not use. The
/// stream ends with the connection. It may do the input and output of the connection, so it must be polled while a
/// query runs.
pub(crate) type Messages = Pin<Box<dyn Stream<Item = Result<Option<String>, Fault>> + Send>>;

/// Closes the connection so that it discards the requests that have not reached the server. To be called before the other
/// parts are dropped.
pub(crate) type Discard = Box<dyn FnOnce() + Send>;
