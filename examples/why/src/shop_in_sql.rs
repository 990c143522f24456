//! The order and its stock in PostgreSQL, and sessions that keep a connection open.

use bandog::SqlStatement;
use bandog_testkit::PostgresServer;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::Result;

/// The tables of the shop, with the unpaid order 7.
pub(crate) const TABLES: &str = "create table orders (id int primary key, state text not null);
    create table stock (id int primary key, returned int not null);
    insert into orders values (7, 'unpaid'); insert into stock values (7, 0);
    grant all on orders, stock to locks";

/// A server with the tables of the shop, and the URL of their database.
pub(crate) fn shop() -> (PostgresServer, String, String) {
    let server = PostgresServer::start();
    let database = server.new_database();
    server.sql(&database, TABLES);
    let url = format!("postgres://{}@{}/{database}", PostgresServer::LOCKS, server.addr());
    (server, database, url)
}

/// A session: one connection of a replica.
pub(crate) struct Session {
    runtime: Runtime,
    client: Client,
}

impl Session {
    pub(crate) fn open(url: &str) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let client = runtime.block_on(connect(url))?;
        Ok(Self { runtime, client })
    }

    /// Executes a statement. Returns the first column of its first row, or the number of rows.
    pub(crate) fn sql(&self, statement: &str) -> Result<String> {
        let messages = self.runtime.block_on(self.client.simple_query(statement))?;
        let answers = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("null").to_owned()),
            SimpleQueryMessage::CommandComplete(1) => Some("1 row".to_owned()),
            SimpleQueryMessage::CommandComplete(rows) => Some(format!("{rows} rows")),
            _ => None,
        });
        Ok(answers.into_iter().next().unwrap_or_default())
    }
}

/// Closes order 7 and returns its stock in one transaction, whose last statement checks the lock. The replica has read
/// that the order is unpaid before it was paused, so the transaction does not check this again.
pub(crate) async fn close_order(url: &str, check: &SqlStatement) -> Result<String> {
    let mut client = connect(url).await?;
    let transaction = client.transaction().await?;
    transaction.batch_execute("update orders set state = 'closed' where id = 7").await?;
    transaction.batch_execute("update stock set returned = returned + 1 where id = 7").await?;
    let values: Vec<_> = check.values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
    if let Err(error) = transaction.query_one(&check.text, &values).await {
        let message = error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned());
        transaction.rollback().await?;
        let refusal = check.refusal(&message).ok_or(error)?;
        return Ok(format!("refused by the database: Err({:?})", refusal.kind()));
    }
    transaction.commit().await?;
    Ok("committed".into())
}

async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}
