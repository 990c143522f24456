//! Statements for transactions of the user: the check of a hold, and a record that is created once.

use bandog_core::{Error, ErrorKind, Fence, Holding, Key, Mark, Result, SqlDialect, SqlStatement};

use crate::{context::Context, options::Dialect};

impl Dialect {
    /// The dialect of the statements for users.
    pub(crate) fn for_users(self) -> SqlDialect {
        match self {
            Self::Postgres => SqlDialect::Postgres,
            #[cfg(feature = "mysql")]
            Self::MySql => SqlDialect::MySql,
        }
    }
}

/// The statement that checks a hold.
///
/// # Errors
/// `Unavailable`: this process has not connected yet. Then none of its claims holds a lock. `Unsupported`: the locks are in
/// the table of other programs.
pub(crate) fn check(context: &Context, holding: &Holding, fence: Fence) -> Result<SqlStatement> {
    if !context.statements.can_keep_fences() {
        let message = "a transaction of your own cannot check a lock in the table of ShedLock";
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let values = [holding.key.as_str().to_owned(), holding.id.to_string(), id(context)?, fence.to_string()];
    Ok(statement(context, &holding.key, &context.statements.fence, &values))
}

/// The statement that creates a mark. Marks are records, so the layout of the locks does not matter.
///
/// # Errors
/// `Unavailable`: as [`check`].
pub(crate) fn mark(context: &Context, mark: &Mark) -> Result<SqlStatement> {
    let Mark { key, within: (record, run), obsolete: (from, until) } = mark;
    let name = |key: &Key| key.as_str().to_owned();
    let values = [name(key), name(record), run.clone(), id(context)?, name(from), name(until)];
    Ok(statement(context, record, &context.statements.mark, &values))
}

/// The id of the tables.
pub(crate) fn id(context: &Context) -> Result<String> {
    context.id().ok_or_else(|| Error::unavailable("the id of the store is not known yet"))
}

/// A statement that the user executes in another session. `values` are those of `$1`, `$2` and so on.
pub(crate) fn statement(context: &Context, key: &Key, text: &str, values: &[String]) -> SqlStatement {
    let schema = &context.options.schema;
    let (key, dialect) = (key.clone(), context.options.dialect.for_users());
    match context.options.dialect {
        Dialect::Postgres => {
            let text = text.replace("$schema", &format!("\"{schema}\""));
            SqlStatement { key, dialect, text, values: values.to_vec() }
        }
        #[cfg(feature = "mysql")]
        Dialect::MySql => {
            let schema = format!("`{}`", schema.replace('`', "``"));
            let (text, values) = with_question_marks(text, &schema, values);
            SqlStatement { key, dialect, text, values }
        }
    }
}

/// Replaces `$schema`, and each `$1`, `$2` and so on by `?`. Returns the text, and a value for each `?`.
#[cfg(feature = "mysql")]
fn with_question_marks(text: &str, schema: &str, values: &[String]) -> (String, Vec<String>) {
    let mut parts = text.split('$');
    let mut replaced = parts.next().unwrap_or_default().to_owned();
    let mut used = Vec::new();
    for part in parts {
        let digits = part.chars().take_while(char::is_ascii_digit).count();
        let number: Option<usize> = part[..digits].parse().ok();
        match number.and_then(|number| values.get(number - 1)) {
            Some(value) => {
                used.push(value.clone());
                replaced.push('?');
                replaced.push_str(&part[digits..]);
            }
            None => {
                replaced.push_str(schema);
                replaced.push_str(part.strip_prefix("schema").unwrap_or(part));
            }
        }
    }
    (replaced, used)
}

#[cfg(all(test, feature = "mysql"))]
mod tests {
    use super::*;

    #[test]
    fn each_question_mark_has_its_value() {
        let values = ["a", "b"].map(String::from);
        let (text, values) = with_question_marks("select $2, $1 from $schema.t where x = $2", "`d$1`", &values);
        assert_eq!(text, "select ?, ? from `d$1`.t where x = ?");
        assert_eq!(values, ["b", "a", "b"]);
    }
}
