//! Statements for transactions of the user: the check of a hold, and a record that is created once.

use bandog_core::{Error, ErrorKind, Fence, Holding, Mark, Result, SqlDialect, SqlStatement};

use crate::leases::Context;

/// The statement that checks a hold.
///
/// # Errors
/// `Unavailable`: this process has not connected yet. Then none of its claims holds a lock. `Unsupported`: the database is
/// not PostgreSQL.
pub(crate) fn check(context: &Context, holding: &Holding, fence: Fence) -> Result<SqlStatement> {
    let text = text(context, &context.statements.fence)?;
    let values = vec![holding.key.as_str().to_owned(), holding.id.to_string(), id(context)?, fence.to_string()];
    Ok(SqlStatement { key: holding.key.clone(), dialect: SqlDialect::Postgres, text, values })
}

/// The statement that creates a mark.
///
/// # Errors
/// As [`check`].
pub(crate) fn mark(context: &Context, mark: &Mark) -> Result<SqlStatement> {
    let text_of_mark = text(context, &context.statements.mark)?;
    let Mark { key, within: (record, text), obsolete: (from, until) } = mark;
    let name = |key: &bandog_core::Key| key.as_str().to_owned();
    let values = vec![name(key), name(record), text.clone(), id(context)?, name(from), name(until)];
    Ok(SqlStatement { key: record.clone(), dialect: SqlDialect::Postgres, text: text_of_mark, values })
}

/// The id of the tables.
fn id(context: &Context) -> Result<String> {
    context.id().ok_or_else(|| Error::unavailable("the id of the store is not known yet"))
}

/// The text of a statement that the user executes in another session.
fn text(context: &Context, statement: &str) -> Result<String> {
    if context.statements.can_keep_fences() {
        return Ok(statement.replace("$schema", &format!("\"{}\"", context.options.schema)));
    }
    let message =
        "transactions of your own can check a lock only on PostgreSQL; send the fence with each write instead";
    Err(Error::new(ErrorKind::Unsupported, message))
}
