//! The statements that take, extend and free a lock of the database.

use std::time::Duration;

use bandog_core::{Error, ErrorKind, Key};

use crate::{
    context::Context,
    fault::Fault,
    options::{Dialect, Layout},
    row::Row,
    session::Link,
};

/// Minimum time after which MySQL ends a session that sends nothing, in seconds. A connection sends a ping each second.
#[cfg(feature = "mysql")]
const MIN_IDLE: u64 = 3;

/// Takes the lock, if no other session has it. The server ends the session if it sends nothing for a ttl: then the process
/// is stopped, and its guard is lost.
pub(super) async fn take(link: &Link, context: &Context, key: &Key, ttl: Duration) -> Result<bool, Fault> {
    if let Some(error) = link.table.as_ref().and_then(|table| table.refuse(key)) {
        return Err(error.into());
    }
    match context.options.layout {
        Layout::RowLock(_) => {
            let is_taken = take_row(link, key).await?;
            if is_taken {
                // The limit is one of this transaction. Until it is set, the shorter one of all transactions holds.
                set_limit(link, context, ttl).await?;
            }
            Ok(is_taken)
        }
        Layout::Advisory => {
            // A session without a limit would keep the lock if the process is stopped before the next statement.
            set_limit(link, context, ttl).await?;
            take_advisory(link, key).await
        }
        Layout::Leases | Layout::ShedLock(_) => Ok(true),
    }
}

/// Locks the row, and creates it first if it is missing. It is created in a transaction of its own.
async fn take_row(link: &Link, key: &Key) -> Result<bool, Fault> {
    for is_created in [false, true] {
        let Some(rows) = if_free(link.begin(&link.statements.hold_take, &[&key.as_str()]).await)? else {
            return Ok(false);
        };
        if let Some(row) = rows.first() {
            let name: &str = row.try_get(0)?;
            if name == key.as_str() {
                return Ok(true);
            }
            let message =
                format!("the row has the spelling {name:?}; the collation of the table does not distinguish the two");
            return Err(Error::new(ErrorKind::Denied, message).at(key).into());
        }
        link.roll_back().await?;
        if !is_created && if_free(link.query(&link.statements.hold_insert, &[&key.as_str()]).await)?.is_none() {
            return Ok(false);
        }
    }
    // Another session has deleted the row.
    Ok(false)
}

/// None if another session has the lock: it has locked the row, or the place of a missing row, or it has created the row in a
/// transaction that is still open.
fn if_free(done: Result<Vec<Row>, Fault>) -> Result<Option<Vec<Row>>, Fault> {
    match done {
        Err(fault) if fault.is_transient() => Ok(None),
        done => done.map(Some),
    }
}

async fn take_advisory(link: &Link, key: &Key) -> Result<bool, Fault> {
    let rows = link.query(&link.statements.hold_take, &[&key.as_str()]).await?;
    let is_taken: Option<bool> = rows.first().ok_or(Fault::Broken(None))?.try_get(0)?;
    // Null is an error of the server, such as a killed statement.
    is_taken.ok_or_else(|| Error::unavailable("the server could not take the lock").at(key).into())
}

/// Sends a statement, so that the server does not end the session.
pub(super) async fn extend(link: &Link, context: &Context, _: &Key, ttl: Duration) -> Result<bool, Fault> {
    set_limit(link, context, ttl).await?;
    Ok(true)
}

/// Sets the time after which the server ends the session if it sends nothing.
async fn set_limit(link: &Link, context: &Context, ttl: Duration) -> Result<(), Fault> {
    let limit = match context.options.dialect {
        Dialect::Postgres => ttl.as_millis().max(1),
        #[cfg(feature = "mysql")]
        Dialect::MySql => u128::from((ttl.as_secs() + 1).max(MIN_IDLE)),
    };
    let limit = i32::try_from(limit).unwrap_or(i32::MAX);
    // The result of a prepared statement stays open until the next statement of its transaction, and with it the snapshot of
    // the transaction on PostgreSQL, which would delay `create index concurrently` and others. This statement closes it.
    link.execute(&link.statements.hold_extend.replace("$1", &limit.to_string())).await
}

/// Frees the lock. A row is freed by the end of its transaction.
pub(super) async fn free(link: &Link, context: &Context, key: &Key) -> Result<(), Fault> {
    match context.options.layout {
        Layout::RowLock(_) => link.commit().await,
        Layout::Advisory => link.query(&link.statements.hold_free, &[&key.as_str()]).await.map(drop),
        Layout::Leases | Layout::ShedLock(_) => Ok(()),
    }
}
