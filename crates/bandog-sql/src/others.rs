//! Other sets of bandog's tables in the same database. Clients of different sets share no locks and no jobs.

use bandog_core::Finding;

use crate::{context::Context, fault::Fault, options::Dialect, session::Link};

/// The subject of the finding.
const SUBJECT: &str = "other tables";

/// Logs a warning if the database has other sets of tables. Only the first session of a client reads them.
pub(crate) async fn warn(link: &Link, context: &Context) -> Result<(), Fault> {
    if !context.is_first_use() {
        return Ok(());
    }
    match description(link, context).await {
        Ok(Some(says)) => {
            tracing::warn!(store = %context.options.store(), "{says}; {}", cure(context));
            Ok(())
        }
        Ok(None) => Ok(()),
        Err(fault) if fault.ends_session() => Err(fault),
        Err(fault) => {
            tracing::debug!(?fault, "the catalogue was not read for other tables of bandog");
            Ok(())
        }
    }
}

/// The finding about other sets of tables.
pub(crate) async fn finding(link: &Link, context: &Context) -> Result<Finding, Fault> {
    Ok(match description(link, context).await {
        Ok(Some(says)) => Finding::advice(SUBJECT, says, cure(context)),
        Ok(None) => Finding::fine(SUBJECT, "the database has no other set of bandog's tables"),
        Err(fault) if fault.is_denied() => Finding::fine(SUBJECT, "the user may not read the catalogue"),
        Err(fault) => return Err(fault),
    })
}

/// The other sets, as options of a URL. None if there are none.
async fn description(link: &Link, context: &Context) -> Result<Option<String>, Fault> {
    let options = &context.options;
    let rows = link.query(&link.statements.others, &[&options.schema, &options.tables]).await?;
    let mut sets = Vec::new();
    for row in &rows {
        let (schema, tables): (&str, &str) = (row.try_get(0)?, row.try_get(1)?);
        sets.push(options.dialect.set_of_tables(schema, tables));
    }
    let ours = options.dialect.set_of_tables(&options.schema, &options.tables);
    Ok((!sets.is_empty()).then(|| {
        format!(
            "this client uses {ours}, and the database also has bandog's tables for {}: clients of different tables share \
             no locks, and each of these sets runs the ticks of a job once",
            sets.join(", ")
        )
    }))
}

fn cure(context: &Context) -> &'static str {
    match context.options.dialect {
        Dialect::Postgres => {
            "give all clients of a service the same schema= and tables= in their URLs, and drop tables that no client uses"
        }
        #[cfg(feature = "mysql")]
        Dialect::MySql => {
            "give all clients of a service the same tables= in their URLs, and drop tables that no client uses"
        }
    }
}

impl Dialect {
    /// The options of a URL that name a set of tables.
    fn set_of_tables(self, schema: &str, tables: &str) -> String {
        match self {
            Self::Postgres => format!("schema={schema}&tables={tables}"),
            #[cfg(feature = "mysql")]
            Self::MySql => format!("tables={tables}"),
        }
    }
}
