//! A session: a connection that is ready for statements of locks.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU8, Ordering},
};
use std::time::Duration;

use futures_util::{StreamExt, future::join};
use tokio::time::timeout;

use crate::{
    client::{Client, Connection, Discard, Messages, Statement, View},
    fault::Fault,
    options::Address,
    row::Row,
    shared_table::Table,
    statements::Statements,
    value::Parameter,
};

/// Maximum time for which a connection that is no longer needed closes.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// A connection whose settings are made and whose tables exist.
pub(crate) struct Session {
    pub(crate) link: Link,
    messages: Messages,
    discard: Discard,
}

/// The statements of a session. A future that uses it makes progress only inside [`Session::drive`].
pub(crate) struct Link {
    client: Box<dyn Client>,
    pub(crate) address: Address,
    pub(crate) statements: Arc<Statements>,
    /// The table that other programs write, too, if there is one.
    pub(crate) table: Option<Table>,
    /// Which steps the statements for mutexes decide.
    pub(crate) decides: Decides,
    /// The layout of the tables of work queues; 0 if it was not read.
    work_layout: AtomicU8,
    /// Whether a transaction may be open.
    in_transaction: AtomicBool,
}

/// Which steps of mutexes are decided by statements, and not by [`LockState`](bandog_core::LockState).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decides {
    /// The claims, passes and releases of many names.
    AllSteps,
    /// Claims of free mutexes, releases for which no client waits, and a pass that is executed alone. Each statement
    /// answers all of its steps or none.
    #[cfg_attr(not(feature = "mysql"), allow(dead_code, reason = "only MariaDB needs it"))]
    UsualSteps,
    Nothing,
}

impl Session {
    /// A session over a new connection to this address.
    pub(crate) fn new(connection: Connection, address: Address, statements: Arc<Statements>) -> Self {
        let Connection { client, messages, discard } = connection;
        let in_transaction = AtomicBool::new(false);
        let work_layout = AtomicU8::new(0);
        let (table, decides) = (None, Decides::Nothing);
        let link = Link { client, address, statements, table, decides, work_layout, in_transaction };
        Self { link, messages, discard }
    }

    /// Executes statements. Fails if the connection ends first.
    pub(crate) async fn drive<'s, T, F: Future<Output = Result<T, Fault>>>(
        &'s mut self,
        work: impl FnOnce(&'s Link) -> F,
    ) -> Result<T, Fault> {
        let Self { link, messages, .. } = self;
        tokio::select! {
            biased;
            fault = ended(messages) => Err(fault),
            done = work(link) => done,
        }
    }

    /// Waits until the connection ends.
    pub(crate) async fn ended(&mut self) -> Fault {
        ended(&mut self.messages).await
    }

    /// Rolls back the open transaction, if there is one.
    pub(crate) async fn roll_back(&mut self) -> Result<(), Fault> {
        if !self.link.in_transaction.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.drive(Link::roll_back).await
    }

    /// Discards the requests that have not reached the server, and closes the connection.
    pub(crate) fn discard(self) {
        (self.discard)();
    }

    /// Closes the connection after the requests that were sent.
    pub(crate) async fn close(self) {
        let Self { link, mut messages, discard } = self;
        drop(discard);
        drop(link);
        // After the timeout, the connection is closed without the message that ends the session.
        let _ = timeout(CLOSE_TIMEOUT, ended(&mut messages)).await;
    }

    /// The parts of a session that receives notifications.
    pub(crate) fn into_parts(self) -> (Link, Messages) {
        (self.link, self.messages)
    }
}

impl Link {
    /// The layout of the tables of work queues, if it was read.
    pub(crate) fn work_layout(&self) -> Option<u8> {
        Some(self.work_layout.load(Ordering::Relaxed)).filter(|layout| *layout > 0)
    }

    /// Sets it. None: it is read again.
    pub(crate) fn set_work_layout(&self, layout: Option<u8>) {
        self.work_layout.store(layout.unwrap_or(0), Ordering::Relaxed);
    }

    /// Whether a pooler is between the client and the server.
    pub(crate) async fn has_pooler(&self) -> Result<bool, Fault> {
        self.client.has_pooler().await
    }

    /// Executes a prepared statement. The first poll of the future sends it, if it is prepared already.
    pub(crate) async fn query(&self, text: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Fault> {
        self.client.query(text, parameters).await
    }

    /// Prepares a statement, so that the first poll of [`Link::query`] sends it.
    pub(crate) async fn prepare(&self, text: &str) -> Result<(), Fault> {
        self.client.prepare(text).await
    }

    /// Executes statements without parameters. The first poll of the future sends them.
    pub(crate) async fn execute(&self, text: &str) -> Result<(), Fault> {
        self.client.execute(text).await
    }

    /// Begins a transaction and executes its first statement, in one round trip.
    pub(crate) async fn begin(&self, text: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Fault> {
        let [rows] = self.begin_with(View::Latest, [(text, parameters)]).await?;
        Ok(rows)
    }

    /// Begins a transaction and executes its first statements, in one round trip. Only the last one may have several queries.
    /// If one of them is refused, the next ones are not executed. Returns the rows of each.
    pub(crate) async fn begin_with<const N: usize>(
        &self,
        view: View,
        statements: [Statement<'_>; N],
    ) -> Result<[Vec<Row>; N], Fault> {
        self.in_transaction.store(true, Ordering::Relaxed);
        let rows = self.client.begin(view, &statements).await?;
        rows.try_into().map_err(|_| Fault::Broken(None))
    }

    /// Begins a transaction and executes its first queries, in one round trip, as [`Link::begin_with`] does.
    #[cfg(feature = "mysql")]
    pub(crate) async fn begin_all(&self, statements: &[Statement<'_>]) -> Result<Vec<Vec<Row>>, Fault> {
        self.in_transaction.store(true, Ordering::Relaxed);
        self.client.begin(View::Latest, statements).await
    }

    /// Executes statements in a transaction of their own on PostgreSQL, in one round trip. If one of them is refused, none is
    /// applied. Returns the rows of each.
    pub(crate) async fn whole<const N: usize>(&self, statements: [Statement<'_>; N]) -> Result<[Vec<Row>; N], Fault> {
        // Then the first poll of each future sends it, so the commit comes last.
        for (text, _) in &statements {
            self.prepare(text).await?;
        }
        let (rows, committed) = join(self.begin_with(View::Latest, statements), self.commit()).await;
        let rows = rows?;
        committed?;
        Ok(rows)
    }

    /// Executes statements in one transaction, in one round trip. If a statement is refused, the transaction may still be open.
    pub(crate) async fn transaction(&self, text: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Fault> {
        self.in_transaction.store(true, Ordering::Relaxed);
        let rows = self.client.transaction(text, parameters).await?;
        self.in_transaction.store(false, Ordering::Relaxed);
        Ok(rows)
    }

    /// Executes one prepared statement that returns no rows, in a transaction of its own. Returns how many rows it has changed.
    #[cfg(feature = "mysql")]
    pub(crate) async fn change(&self, text: &str, parameters: &[Parameter<'_>]) -> Result<u64, Fault> {
        self.client.change(text, parameters).await
    }

    /// Executes the last statements of a transaction and commits, in one round trip; on MySQL, long ones need more. If one of
    /// them is refused, nothing is committed, and the transaction may still be open. Returns the rows of the first statement;
    /// the others return none.
    pub(crate) async fn end(&self, statements: &[Statement<'_>]) -> Result<Vec<Row>, Fault> {
        let rows = self.client.end(statements).await?;
        self.in_transaction.store(false, Ordering::Relaxed);
        Ok(rows)
    }

    /// Commits the transaction.
    pub(crate) async fn commit(&self) -> Result<(), Fault> {
        self.execute("commit").await?;
        self.in_transaction.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Rolls the transaction back.
    pub(crate) async fn roll_back(&self) -> Result<(), Fault> {
        self.execute("rollback").await?;
        self.in_transaction.store(false, Ordering::Relaxed);
        Ok(())
    }
}

/// Polls the messages until the connection ends.
async fn ended(messages: &mut Messages) -> Fault {
    loop {
        match messages.next().await {
            Some(Ok(_)) => {} // A notice. These sessions have no subscriptions.
            Some(Err(fault)) => return fault,
            None => return Fault::Broken(None),
        }
    }
}
