//! The tables: they are created when they are first used, and have a version.

use bandog_core::{ClientId, Error, ErrorKind};

use crate::{context::Context, fault::Fault, options::Dialect, others, row::Row, session::Link};

/// The version of the tables that this program knows.
const VERSION: &str = "1";
/// The name of the row of `bandog_meta` that has the version of the tables.
const VERSION_NAME: &str = "version";
/// The name of the row of `bandog_meta` that has the id of the tables: a random text, which distinguishes databases.
const ID_NAME: &str = "id";
/// The key of the advisory lock under which one session creates the tables: the bytes of `bandog` as a number.
const CREATION_LOCK: i64 = 0x6261_6e64_6f67;

/// The parts of the schema of the URL that exist. On MySQL, it is the database.
pub(crate) struct Found {
    has_schema: bool,
    has_version_table: bool,
    has_all_tables: bool,
}

impl Found {
    /// Reads it from a row of the statement `server`.
    pub(crate) fn read(row: &Row) -> Result<Self, Fault> {
        Ok(Self { has_schema: row.try_get(3)?, has_version_table: row.try_get(4)?, has_all_tables: row.try_get(5)? })
    }

    /// The version of the tables. The last statement of their creation writes it.
    async fn version(&self, link: &Link) -> Result<Option<String>, Fault> {
        if self.has_version_table { setting(link, VERSION_NAME).await } else { Ok(None) }
    }

    /// Whether tables are missing. Tables of another version are not completed.
    fn is_incomplete(&self, version: Option<&str>) -> bool {
        version.is_none_or(|version| version == VERSION && !self.has_all_tables)
    }
}

/// Creates the tables that are missing, and checks their version.
pub(crate) async fn prepare(link: &Link, context: &Context, found: &Found) -> Result<(), Fault> {
    let (store, schema, place) = (context.options.store(), &context.options.schema, context.options.dialect.place());
    if !context.options.further_hosts.is_empty() {
        let id = if found.has_version_table { setting(link, ID_NAME).await? } else { None };
        context.check_id(id.as_deref(), &link.address)?;
    }
    let mut version = found.version(link).await?;
    if context.options.creates_tables && found.is_incomplete(version.as_deref()) {
        match create(link, context).await {
            // A user that may not create tables, or not see all of them, can use those that are there.
            Err(fault) if version.is_some() && fault.is_denied() => {}
            created => created?,
        }
        version = setting(link, VERSION_NAME).await?;
    } else if version.is_none() && !found.has_version_table {
        let message = format!(
            "{store}: {place} {schema:?} has no tables of bandog, and create=false in the URL forbids to create them; an \
             administrator can apply the output of `bandog schema --print`"
        );
        return Err(Error::new(ErrorKind::Unsupported, message).into());
    }
    match version.as_deref() {
        Some(VERSION) => {
            read_id(link, context).await?;
            others::warn(link, context).await
        }
        Some(version) => Err(Fault::Described(Error::new(
            ErrorKind::Unsupported,
            format!(
                "{store}: the tables in {place} {schema:?} have version {version}, and this program knows version \
                 {VERSION}; use a newer bandog, or another one (in the URL)"
            ),
        ))),
        None => Err(Fault::Described(Error::new(
            ErrorKind::Corrupt,
            format!("{store}: the table {}meta in {place} {schema:?} has no version", context.options.tables),
        ))),
    }
}

/// Reads a row of `bandog_meta`.
async fn setting(link: &Link, name: &str) -> Result<Option<String>, Fault> {
    let rows = link.query(&link.statements.meta, &[&name]).await?;
    rows.first().map(|row| row.try_get(0)).transpose()
}

/// Reads the id of the tables. The first client writes it.
async fn read_id(link: &Link, context: &Context) -> Result<(), Fault> {
    let mut id = setting(link, ID_NAME).await?;
    if id.is_none() {
        // After the table was dropped, the id stays.
        let written = context.id().unwrap_or_else(|| ClientId::random().to_string());
        link.query(&link.statements.setting, &[&ID_NAME, &written]).await?;
        id = setting(link, ID_NAME).await?;
    }
    Ok(context.set_id(id.ok_or(Fault::Broken(None))?, &link.address)?)
}

/// Creates the tables that are missing. Sessions that do so at the same time wait for each other.
async fn create(link: &Link, context: &Context) -> Result<(), Fault> {
    locked(link, context, async || create_locked(link, context).await).await
}

/// Creates tables while no other session does.
async fn locked(link: &Link, context: &Context, create: impl AsyncFnOnce() -> Result<(), Fault>) -> Result<(), Fault> {
    match context.options.dialect {
        Dialect::Postgres => create_on_postgres(link, create).await,
        #[cfg(feature = "mysql")]
        Dialect::MySql => create_on_mysql(link, create).await,
    }
}

/// Changes tables of work queues. Sessions that do so at the same time wait for each other.
pub(crate) async fn change_work_tables(
    link: &Link,
    context: &Context,
    change: impl AsyncFnOnce() -> Result<(), Fault>,
) -> Result<(), Fault> {
    locked(link, context, change).await
}

/// Creates the tables in one transaction.
async fn create_on_postgres(link: &Link, create: impl AsyncFnOnce() -> Result<(), Fault>) -> Result<(), Fault> {
    let lock = format!("select pg_advisory_xact_lock({CREATION_LOCK})");
    // The creator may take longer than the usual timeout of a lock.
    let begin = format!("begin; set local lock_timeout to 0; {lock}");
    link.execute(&begin).await?;
    match create().await {
        Ok(()) => link.execute("commit").await,
        Err(fault) => {
            link.execute("rollback").await?;
            Err(fault)
        }
    }
}

/// Creates the tables. On MySQL, each statement is a transaction of its own.
#[cfg(feature = "mysql")]
async fn create_on_mysql(link: &Link, create: impl AsyncFnOnce() -> Result<(), Fault>) -> Result<(), Fault> {
    // The server frees the lock also if the connection ends.
    let rows = link.query(&link.statements.creation_lock, &[]).await?;
    if !matches!(rows.first().map(|row| row.try_get(0)), Some(Ok(true))) {
        return Err(Fault::row_locked()); // Another session creates the tables and takes longer than the timeout.
    }
    let created = create().await;
    link.query(&link.statements.creation_unlock, &[]).await?;
    created
}

/// Creates the tables that are missing. No other session does so now.
async fn create_locked(link: &Link, context: &Context) -> Result<(), Fault> {
    let schema = &context.options.schema;
    let rows = link.query(&link.statements.server, &[schema]).await?;
    let found = Found::read(rows.first().ok_or(Fault::Broken(None))?)?;
    if !found.is_incomplete(found.version(link).await?.as_deref()) {
        return Ok(()); // Another session was faster.
    }
    // A user without the right to create schemas may use one that exists.
    let create_schema = if found.has_schema { String::new() } else { format!("create schema {schema};") };
    link.execute(&format!("{create_schema}{}", link.statements.schema)).await
}
