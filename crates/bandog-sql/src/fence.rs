//! The check of a hold in a transaction of the user.

use bandog_core::{Error, Fence, Holding, Result, SqlDialect, SqlStatement};

use crate::leases::Context;

/// The statement for a transaction of the user.
///
/// # Errors
/// `Unavailable`: this process has not connected yet. Then none of its claims holds a lock.
pub(crate) fn statement(context: &Context, holding: &Holding, fence: Fence) -> Result<SqlStatement> {
    let id = context.id().ok_or_else(|| Error::unavailable("the id of the store is not known yet"))?;
    let schema = format!("\"{}\"", context.options.schema);
    Ok(SqlStatement {
        key: holding.key.clone(),
        dialect: SqlDialect::Postgres,
        text: context.statements.fence.replace("$schema", &schema),
        values: vec![holding.key.as_str().to_owned(), holding.id.to_string(), id, fence.to_string()],
    })
}
