//! The statements that create the tables, for an administrator.

use std::fmt::Write as _;

use crate::{
    options::{Dialect, SqlOptions},
    queues::{statements as work, tables},
    statements::Statements,
};

/// The frame of the statements for an administrator.
const PRINTED: &str = include_str!("../sql/postgres/printed.sql");

impl SqlOptions {
    /// The statements that create the tables. An administrator executes them once. On PostgreSQL, they also create the
    /// schema, and grant the needed rights to the user of the URL. Afterwards, the client with `?create=false` needs no
    /// further rights.
    ///
    /// ```
    /// use bandog_sql::SqlOptions;
    /// let options = SqlOptions::from_url("postgres://locks@db/shop?schema=shop_locks")?;
    /// assert!(options.schema_sql().contains("create schema if not exists \"shop_locks\";"));
    /// # Ok::<(), bandog_core::Error>(())
    /// ```
    pub fn schema_sql(&self) -> String {
        match self.dialect {
            Dialect::Postgres => for_postgres(self),
            #[cfg(feature = "mysql")]
            Dialect::MySql => for_mysql(self),
        }
    }
}

fn for_postgres(options: &SqlOptions) -> String {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let own: Vec<_> =
        options.own_tables().map(|(table, _)| table).chain(tables::names(options.dialect, &options.tables)).collect();
    let names = [("$schema", quoted(&options.schema)), ("$user", quoted(options.user())), ("$names", own.join(", "))];
    let filled = names.iter().fold(PRINTED.to_owned(), |text, (name, value)| text.replace(name, value));
    let tables = format!(
        "{};\n\n{}",
        Statements::postgres().named(&options.tables).schema.trim_end_matches(';'),
        work::schema(options.dialect, &options.tables)
    );
    let mut text = filled.replace("$tables", &tables);
    if let Some(table) = options.shared_table() {
        // The table belongs to other programs, so it must exist.
        let _ = writeln!(text, "grant select, insert, update on {table} to {};", quoted(options.user()));
    }
    text
}

/// The rights are a comment, because a part of an account is the host from which its user comes.
#[cfg(feature = "mysql")]
fn for_mysql(options: &SqlOptions) -> String {
    let database = options.schema.replace('`', "``");
    let mut text = Statements::mysql().named(&options.tables).schema;
    text.push_str(";\n\n");
    text.push_str(&work::schema(options.dialect, &options.tables));
    text.push_str(";\n\n-- The user of the locks needs these rights. Replace % with the host of its account.\n");
    let user = options.user().replace('\'', "''");
    let own = options.own_tables().map(|(table, _)| table);
    for table in own.chain(tables::names(options.dialect, &options.tables)) {
        let _ = writeln!(text, "-- grant select, insert, update, delete on `{database}`.{table} to '{user}'@'%';");
    }
    if let Some(table) = options.shared_table() {
        let _ = writeln!(text, "-- grant select, insert, update on {table} to '{user}'@'%';");
    }
    text
}
