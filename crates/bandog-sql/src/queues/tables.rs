//! The tables of work queues. They are created when a client first uses a queue.

use std::sync::atomic::Ordering;

use bandog_core::{Error, ErrorKind};

use crate::{context::Context, fault::Fault, options::Dialect, schema, session::Link};

/// The version of these tables that this program knows.
const VERSION: &str = "1";
/// The names of the tables, without their common beginning, and the name of the first column of each.
const NAMES: [(&str, &str); 4] =
    [("work_queue", "number"), ("work", "queue"), ("work_body", "queue"), ("work_kept", "queue")];
/// A further table of MySQL and MariaDB.
#[cfg(feature = "mysql")]
const LOCKS: (&str, &str) = ("work_lock", "number");

/// The tables, and the name of the first column of each.
pub(crate) fn tables(dialect: Dialect, prefix: &str) -> impl Iterator<Item = (String, &'static str)> {
    let further = match dialect {
        Dialect::Postgres => None,
        #[cfg(feature = "mysql")]
        Dialect::MySql => Some(LOCKS),
    };
    NAMES.into_iter().chain(further).map(move |(name, column)| (format!("{prefix}{name}"), column))
}

/// The names of the tables.
pub(crate) fn names(dialect: Dialect, prefix: &str) -> Vec<String> {
    tables(dialect, prefix).map(|(table, _)| table).collect()
}

/// Whether the tables were created.
pub(crate) async fn exist(link: &Link, context: &Context) -> Result<bool, Fault> {
    match Found::read(link, context).await {
        Ok(found) => Ok(found.version.is_some()),
        Err(fault) if fault.is_denied() || fault.is_gone() => Ok(false),
        Err(fault) => Err(fault),
    }
}

/// Creates the tables that are missing, and checks their version, once for each session.
pub(crate) async fn ensure(link: &Link, context: &Context) -> Result<(), Fault> {
    if link.has_work_tables.load(Ordering::Relaxed) {
        return Ok(());
    }
    let mut found = Found::read(link, context).await?;
    if !found.is_complete() {
        if !context.options.creates_tables {
            return Err(
                missing(context, ErrorKind::Unsupported, "create=false in the URL forbids to create them").into()
            );
        }
        let created = schema::create_work_tables(link, context).await;
        if created.as_ref().is_err_and(Fault::is_denied) {
            return Err(missing(context, ErrorKind::Denied, "the user may not create them").into());
        }
        created?;
        found = Found::read(link, context).await?;
    }
    match found.version.as_deref() {
        Some(VERSION) => {
            link.has_work_tables.store(true, Ordering::Relaxed);
            Ok(())
        }
        version => {
            let message = format!(
                "{}: the tables of work queues have version {}, and this program knows version {VERSION}; use a newer \
                 bandog",
                context.options.store(),
                version.unwrap_or("unknown")
            );
            Err(Error::new(ErrorKind::Unsupported, message).into())
        }
    }
}

fn missing(context: &Context, kind: ErrorKind, why: &str) -> Error {
    let (store, tables) = (context.options.store(), names(context.options.dialect, &context.options.tables).join(", "));
    let message = format!(
        "{store}: work queues need the tables {tables}, which are missing, and {why}; an administrator can apply the output \
         of `bandog schema --print`"
    );
    Error::new(kind, message)
}

struct Found {
    has_all: bool,
    version: Option<String>,
}

impl Found {
    async fn read(link: &Link, context: &Context) -> Result<Self, Fault> {
        let rows = link.query(&context.work.shared.exist, &[&context.options.schema]).await?;
        let row = rows.first().ok_or(Fault::Broken(None))?;
        Ok(Self { has_all: row.try_get(0)?, version: row.try_get(1)? })
    }

    fn is_complete(&self) -> bool {
        self.has_all && self.version.is_some()
    }
}
