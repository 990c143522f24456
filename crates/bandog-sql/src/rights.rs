//! The part of the check for operators about the rights of the user.

use bandog_core::{Error, Finding, Result};
use tokio::time::timeout;

use crate::{
    context::Context,
    fault::Fault,
    options::{Dialect, Layout, RowTable, SqlOptions},
    queues::tables,
    session::{Link, Session},
};

/// The subject of the finding.
const SUBJECT: &str = "rights";
/// The rights on a table of bandog.
const ALL: [&str; 4] = ["select", "insert", "update", "delete"];

/// The rights that the user lacks.
#[derive(Debug, Default)]
struct Missing {
    /// Each right with its object.
    says: Vec<String>,
    /// The rights of each object that an administrator has to grant.
    grants: Vec<(String, Vec<String>)>,
}

/// Whether the user may read and write all tables.
pub(crate) async fn finding(link: &Link, context: &Context) -> Result<Finding, Fault> {
    let missing = missing(link, context).await?;
    if missing.says.is_empty() {
        return Ok(Finding::fine(SUBJECT, "the user may read and write all tables of bandog"));
    }
    Ok(missing.finding(&context.options))
}

/// The finding for a user whose sessions are refused with this error.
///
/// # Errors
/// The same error, if the user has all rights, or cannot log in.
pub(crate) async fn of_refused(context: &Context, error: Error) -> Result<Vec<Finding>> {
    let read = async {
        let mut session = Session::open_bare(context).await.ok()?;
        let missing = session.drive(|link| missing(link, context)).await;
        session.close().await;
        missing.ok()
    };
    match timeout(context.options.timeout, read).await {
        Ok(Some(missing)) if !missing.says.is_empty() => Ok(vec![missing.finding(&context.options)]),
        Ok(_) | Err(_) => Err(error),
    }
}

/// The statements of an administrator for a user of MySQL that may not use the database.
#[cfg(feature = "mysql")]
pub(crate) fn on_database(options: &SqlOptions) -> String {
    let mut missing = Missing::default();
    missing.add(&[], &[&ALL[..], &["create"]].concat(), &database(options));
    missing.cure(options)
}

impl Missing {
    /// Adds rights on an object, and the rights to grant.
    fn add(&mut self, rights: &[&str], to_grant: &[&str], object: &str) {
        self.says.extend(rights.iter().map(|right| format!("{right} on {object}")));
        let to_grant = to_grant.iter().map(|right| (*right).to_owned());
        match self.grants.last_mut() {
            Some((last, granted)) if last == object => granted.extend(to_grant),
            Some(_) | None => self.grants.push((object.to_owned(), to_grant.collect())),
        }
    }

    fn finding(&self, options: &SqlOptions) -> Finding {
        let says = format!("the user lacks these rights: {}", self.says.join(", "));
        Finding::danger(SUBJECT, says, self.cure(options))
    }

    /// The statements that grant the rights.
    fn cure(&self, options: &SqlOptions) -> String {
        let (user, hint) = match options.dialect {
            Dialect::Postgres => (format!("\"{}\"", options.user().replace('"', "\"\"")), ""),
            #[cfg(feature = "mysql")]
            Dialect::MySql => (
                format!("'{}'@'%'", options.user().replace('\'', "''")),
                " (with the host of the account instead of %)",
            ),
        };
        let grant =
            |(object, rights): &(String, Vec<String>)| format!("grant {} on {object} to {user};", rights.join(", "));
        let grants: Vec<_> = self.grants.iter().map(grant).collect();
        format!(
            "as an administrator, execute: {}{hint}; or apply the output of `bandog schema --print`",
            grants.join(" ").trim_end_matches(';')
        )
    }
}

async fn missing(link: &Link, context: &Context) -> Result<Missing, Fault> {
    let options = &context.options;
    let mut own: Vec<_> = options.own_tables().collect();
    // They are there if a client has used a work queue, or an administrator has applied the printed schema.
    if let Some(layout) = tables::layout(link, context).await? {
        own.extend(tables::tables(options.dialect, &options.tables, layout));
    }
    match options.dialect {
        Dialect::Postgres => of_postgres(link, options, &own).await,
        #[cfg(feature = "mysql")]
        Dialect::MySql => of_mysql(link, options, &own).await,
    }
}

/// Asks the server for the rights.
async fn of_postgres(link: &Link, options: &SqlOptions, own: &[(String, &'static str)]) -> Result<Missing, Fault> {
    let own_rights = ALL.join(" ");
    let mut tables: Vec<_> =
        own.iter().map(|(table, _)| (options.schema.as_str(), table.as_str(), own_rights.as_str())).collect();
    match &options.layout {
        Layout::Leases | Layout::Advisory => {}
        Layout::ShedLock(table) | Layout::RowLock(RowTable { table, .. }) => {
            tables.push((&table.schema, &table.table, "select insert update"));
        }
    }
    let schemas: Vec<&str> = tables.iter().map(|(schema, ..)| *schema).collect();
    let names: Vec<&str> = tables.iter().map(|(_, name, _)| *name).collect();
    let rights: Vec<&str> = tables.iter().map(|(.., rights)| *rights).collect();
    let rows = link.query(&link.statements.rights, &[&schemas, &names, &rights, &options.schema]).await?;
    let mut missing = Missing::default();
    for row in &rows {
        let right: &str = row.try_get(0)?;
        missing.add(&[right], &[right], row.try_get(1)?);
    }
    Ok(missing)
}

/// Executes statements that need the rights and change no row: the tables of the server do not show the rights of roles.
#[cfg(feature = "mysql")]
async fn of_mysql(link: &Link, options: &SqlOptions, own: &[(String, &'static str)]) -> Result<Missing, Fault> {
    let (database, mut missing) = (database(options), Missing::default());
    let prefix = database.trim_end_matches('*');
    for (table, column) in own {
        let object = format!("{prefix}{table}");
        for (right, text) in [
            ("select", format!("select count(*) from {table} where 1 = 0")),
            ("insert", format!("insert into {table} select * from {table} where 1 = 0")),
            ("update", format!("update {table} set {column} = {column} where 1 = 0")),
            ("delete", format!("delete from {table} where 1 = 0")),
        ] {
            match link.execute(&text).await {
                // The other statements read the table, too.
                Err(fault) if fault.is_denied() && right == "select" => {
                    missing.add(&[right], &ALL, &object);
                    break;
                }
                Err(fault) if fault.is_denied() => missing.add(&[right], &[right], &object),
                Err(fault) if fault.is_gone() => {
                    missing.add(&["create"], &["create"], &object);
                    break;
                }
                other => other?,
            }
        }
    }
    Ok(missing)
}

/// All tables of the database of MySQL, as a grant names them.
#[cfg(feature = "mysql")]
fn database(options: &SqlOptions) -> String {
    format!("`{}`.*", options.schema.replace('`', "``"))
}
