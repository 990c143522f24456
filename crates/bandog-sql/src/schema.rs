//! The tables: they are created when they are first used, and have a version.

use std::fmt::Write as _;

use bandog_core::{ClientId, Error, ErrorKind};

use crate::{
    fault::Fault,
    leases::Context,
    options::{Dialect, Layout, RowTable, SqlOptions},
    session::Link,
    statements::Statements,
};

/// The frame of the statements for an administrator.
const PRINTED: &str = include_str!("../sql/postgres/printed.sql");
/// The version of the tables that this program knows.
const VERSION: u32 = 1;
/// The name of the row of `bandog_meta` that has the version of the tables.
const VERSION_NAME: &str = "version";
/// The name of the row of `bandog_meta` that has the id of the tables: a random text, which distinguishes databases.
const ID_NAME: &str = "id";
/// The key of the advisory lock under which one session creates the tables: the bytes of `bandog` as a number.
const CREATION_LOCK: i64 = 0x6261_6e64_6f67;

/// The statements for an administrator.
pub(crate) fn text(options: &SqlOptions) -> String {
    #[cfg(feature = "mysql")]
    if options.dialect == Dialect::MySql {
        return Statements::mysql().schema;
    }
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let names = [("$schema", quoted(&options.schema)), ("$user", quoted(&options.user))];
    let filled = names.iter().fold(PRINTED.to_owned(), |text, (name, value)| text.replace(name, value));
    let mut text = filled.replace("$tables", &Statements::postgres().schema);
    if let Layout::ShedLock(table) | Layout::RowLock(RowTable { table, .. }) = &options.layout {
        let (table, user) = (options.dialect.quoted(table), quoted(&options.user));
        // The table belongs to other programs, so it must exist.
        let _ = writeln!(text, "grant select, insert, update on {table} to {user};");
    }
    text
}

/// Creates the tables, unless they exist, and checks their version.
pub(crate) async fn prepare(link: &Link, context: &Context, has_schema: bool, has_tables: bool) -> Result<(), Fault> {
    if !has_tables && !context.options.creates_tables {
        let (store, schema, place) =
            (context.options.store(), &context.options.schema, context.options.dialect.place());
        let message = format!(
            "{store}: {place} {schema:?} has no tables of bandog, and create=false in the URL forbids to create them; an \
             administrator can apply the output of `bandog schema --print`"
        );
        return Err(Error::new(ErrorKind::Unsupported, message).into());
    }
    match context.options.dialect {
        Dialect::Postgres if !has_tables => create(link, context, has_schema).await?,
        Dialect::Postgres => {}
        #[cfg(feature = "mysql")]
        Dialect::MySql if context.options.creates_tables => create_on_mysql(link, has_tables).await?,
        #[cfg(feature = "mysql")]
        Dialect::MySql => {}
    }
    let rows = link.query(&link.statements.meta, &[&VERSION_NAME]).await?;
    let found: Option<&str> = rows.first().map(|row| row.try_get(0)).transpose()?;
    let (store, schema, place) = (context.options.store(), &context.options.schema, context.options.dialect.place());
    match found.map(str::parse::<u32>) {
        Some(Ok(VERSION)) => read_id(link, context).await,
        Some(Ok(version)) => Err(Fault::Described(Error::new(
            ErrorKind::Unsupported,
            format!(
                "{store}: the tables in {place} {schema:?} have version {version}, and this program knows version \
                 {VERSION}; use a newer bandog, or another one (in the URL)"
            ),
        ))),
        Some(Err(_)) | None => Err(Fault::Described(Error::new(
            ErrorKind::Corrupt,
            format!("{store}: the table bandog_meta in {place} {schema:?} has no version"),
        ))),
    }
}

/// Reads the id of the tables. The first client writes it.
async fn read_id(link: &Link, context: &Context) -> Result<(), Fault> {
    let read = async || -> Result<Option<String>, Fault> {
        let rows = link.query(&link.statements.meta, &[&ID_NAME]).await?;
        rows.first().map(|row| row.try_get(0)).transpose()
    };
    let mut id = read().await?;
    if id.is_none() {
        link.query(&link.statements.setting, &[&ID_NAME, &ClientId::random().to_string()]).await?;
        id = read().await?;
    }
    context.set_id(id.ok_or(Fault::Broken(None))?);
    Ok(())
}

/// Creates the tables in one transaction. Sessions that do so at the same time wait for each other.
async fn create(link: &Link, context: &Context, has_schema: bool) -> Result<(), Fault> {
    let schema = &context.options.schema;
    let lock = format!("select pg_advisory_xact_lock({CREATION_LOCK})");
    // The creator may take longer than the usual timeout of a lock.
    let begin = format!("begin; set local lock_timeout to 0; {lock}");
    link.execute(&begin).await?;
    let created = async {
        let rows = link.query(&link.statements.server, &[schema]).await?;
        let row = rows.first().ok_or(Fault::Broken(None))?;
        if row.try_get(4)? {
            return Ok(()); // Another session was faster.
        }
        // A user without the right to create schemas may use one that exists.
        let create_schema =
            if has_schema || row.try_get(3)? { String::new() } else { format!("create schema {schema};") };
        link.execute(&format!("{create_schema}{}", link.statements.schema)).await
    };
    match created.await {
        Ok(()) => link.execute("commit").await,
        Err(fault) => {
            link.execute("rollback").await?;
            Err(fault)
        }
    }
}

/// Creates the tables that are missing, unless the version is there, which is written last. Each statement is a transaction
/// of its own. Sessions that do so at the same time wait for each other.
#[cfg(feature = "mysql")]
async fn create_on_mysql(link: &Link, has_tables: bool) -> Result<(), Fault> {
    if has_tables && !link.query(&link.statements.meta, &[&VERSION_NAME]).await?.is_empty() {
        return Ok(());
    }
    // The server frees the lock also if the connection ends.
    let rows = link.query(&link.statements.creation_lock, &[]).await?;
    if !matches!(rows.first().map(|row| row.try_get(0)), Some(Ok(true))) {
        return Err(Fault::row_locked()); // Another session creates the tables and takes longer than the timeout.
    }
    let created = link.execute(&link.statements.schema).await;
    link.query(&link.statements.creation_unlock, &[]).await?;
    created
}
