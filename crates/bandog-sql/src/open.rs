//! Opens a session: connects, makes the settings, and creates the tables if they do not exist.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use bandog_core::{Error, ErrorKind, Result, rounded};
use futures_util::future::join_all;
use tokio::time::timeout;

use crate::{
    context::Context,
    dial::dial,
    fault::Fault,
    options::{Dialect, Layout, SqlOptions},
    postgres,
    schema::{self, Found},
    session::{Decides, Link, Session},
    shared_table::Table,
    shedlock,
    statements::Statements,
};

/// Maximum time for which a statement waits for a row that another transaction has locked.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_millis(200);
/// The server ends a session that keeps a transaction open for longer than this without a statement. Otherwise a process
/// that is stopped inside a transaction would keep its rows locked.
const IDLE_TRANSACTION: Duration = Duration::from_secs(2);
/// Switches off the limits that would end a session, or a transaction that holds a lock. Older servers do not have them: the
/// first one is of PostgreSQL 14, and the second one of PostgreSQL 17.
const NO_LIMITS: &str = "select set_config(name, '0', false) from unnest(array['idle_session_timeout', \
                         'transaction_timeout']) name where current_setting(name, true) is not null;";
/// The oldest supported version of the server: 12.
const OLDEST: i32 = 120_000;

impl Session {
    /// Connects, and creates the tables if they do not exist.
    ///
    /// # Errors
    /// As [`dial`]. `Denied`: the user lacks a right. `Unsupported`: the server is too old, or the tables are those of a
    /// newer version of bandog.
    pub(crate) async fn open(context: &Context) -> Result<Self> {
        let hosts = context.options.hosts();
        if let [host] = &hosts[..] {
            return Self::open_at(host, context).await;
        }
        let mut errors = Vec::new();
        // A host that accepts connections and answers nothing must not take the time of the next ones.
        let share = context.options.timeout * 9 / 10 / hosts.len().try_into().unwrap_or(u32::MAX);
        for host in &hosts {
            let opened = timeout(share, Self::open_at(host, context)).await;
            match opened.unwrap_or_else(|_| Err(no_session(host, share))) {
                // This host does not answer, is a replica, or has other tables.
                Err(error) if error.kind() == ErrorKind::Unavailable => errors.push(error.to_string()),
                opened => return opened,
            }
        }
        Err(Error::unavailable(format!("no host of the URL can keep locks: {}", errors.join("; "))))
    }

    /// Connects to the first host that answers, and neither makes settings nor reads tables: a user that lacks rights on the
    /// tables can do so.
    ///
    /// # Errors
    /// As [`dial`].
    pub(crate) async fn open_bare(context: &Context) -> Result<Self> {
        let mut last = Err(Error::unavailable("the URL names no host"));
        for host in context.options.hosts() {
            last = Self::connect(&host, context).await;
            if last.is_ok() {
                break;
            }
        }
        last
    }

    async fn connect(host: &SqlOptions, context: &Context) -> Result<Self> {
        let connection = match host.dialect {
            Dialect::Postgres => postgres::connection(dial(host).await?),
            #[cfg(feature = "mysql")]
            Dialect::MySql => crate::mysql::dial(host).await?,
        };
        Ok(Self::new(connection, host.address.clone(), context.statements.clone()))
    }

    async fn open_at(host: &SqlOptions, context: &Context) -> Result<Self> {
        let mut session = Self::connect(host, context).await?;
        let prepared = session.drive(|link| prepare(link, context)).await;
        let prepared = prepared.map_err(|fault| not_applied(fault.describe(&host.store())));
        match prepared {
            Ok((decides, table)) => {
                session.link.decides = decides;
                if let Some(table) = table {
                    session.link.statements = Arc::new(table.fill(&session.link.statements));
                    session.link.table = Some(table);
                }
                Ok(session)
            }
            Err(error) => {
                session.close().await;
                Err(error)
            }
        }
    }
}

/// Makes the settings of a session, creates the tables if they do not exist, and reads the table of other programs.
async fn prepare(link: &Link, context: &Context) -> Result<(Decides, Option<Table>), Fault> {
    let decides = match context.options.dialect {
        Dialect::Postgres => prepare_postgres(link, context).await?,
        #[cfg(feature = "mysql")]
        Dialect::MySql => crate::mysql::prepare(link, context).await?,
    };
    let table = match &context.options.layout {
        Layout::Leases | Layout::Advisory => None,
        Layout::ShedLock(name) => Some(shedlock::read(link, context, name).await?),
        Layout::RowLock(name) => Some(shedlock::read_rows(link, context, name).await?),
    };
    Ok((decides, table))
}

async fn prepare_postgres(link: &Link, context: &Context) -> Result<Decides, Fault> {
    let options = &context.options;
    if !options.may_have_pooler {
        refuse_pooler(link, context).await?;
    }
    link.execute(&settings(options)).await?;
    let rows = link.query(&link.statements.server, &[&options.schema]).await?;
    let row = rows.first().ok_or(Fault::Broken(None))?;
    let store = options.store();
    let unsupported = |message: String| Error::new(ErrorKind::Unsupported, format!("{store}: {message}"));
    let (version, is_replica, encoding): (i32, bool, &str) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    if version < OLDEST {
        let version = version / 10_000;
        return Err(unsupported(format!("PostgreSQL {version} is too old; version 12 or later is needed")).into());
    }
    if encoding != "UTF8" {
        return Err(unsupported(format!("the database has the encoding {encoding}; it must be UTF8")).into());
    }
    if is_replica {
        return Err(
            Error::unavailable(format!("{store}: the server is a replica; locks need the primary server")).into()
        );
    }
    if row.try_get(6)? {
        let message = format!(
            "{store}: transactions are read-only by default (default_transaction_read_only); locks need to write"
        );
        return Err(Error::unavailable(message).into());
    }
    // A schema without this right is left out of the search path, so its tables seem to be missing.
    if !row.try_get::<bool>(7)? {
        let (user, schema) = (options.user(), &options.schema);
        let message = format!(
            "{store}: the user {user:?} may not use the schema {schema:?}; an administrator can apply the output of \
             `bandog schema --print`, which grants the rights that docs/postgres.md lists"
        );
        return Err(Error::new(ErrorKind::Denied, message).into());
    }
    schema::prepare(link, context, &Found::read(row)?).await?;
    if !link.statements.decide_mutexes() {
        return Ok(Decides::Nothing);
    }
    // Then a claim, a release and a renewal are one request each, from the first one on.
    let Statements { claim, claim_one, insert, release, release_one, renew, .. } = &*link.statements;
    let texts = [claim, claim_one, insert, release, release_one, renew];
    join_all(texts.map(|text| link.prepare(text))).await.into_iter().collect::<Result<(), _>>()?;
    Ok(Decides::AllSteps)
}

/// The settings of a session. They replace those of the server, of the database and of the user's role.
fn settings(options: &SqlOptions) -> String {
    // The limits come first: those of the role can be shorter than the next statement.
    let mut settings = String::new();
    let milliseconds = [
        ("statement_timeout", options.timeout),
        ("lock_timeout", LOCK_TIMEOUT.min(options.timeout / 3)),
        ("idle_in_transaction_session_timeout", IDLE_TRANSACTION.max(options.timeout)),
    ];
    for (name, duration) in milliseconds {
        let _ = write!(settings, "set {name} to {};", duration.as_millis());
    }
    // Each statement finds its rows by their names, and the plans of empty tables must also fit full tables.
    let _ = write!(
        settings,
        "set search_path to {}, pg_catalog; {NO_LIMITS}\
         set default_transaction_isolation to 'read committed';\
         set timezone to 'UTC'; set jit to off; set enable_seqscan to off; set enable_bitmapscan to off;\
         set plan_cache_mode to force_generic_plan;",
        options.schema
    );
    if !matches!(options.layout, Layout::ShedLock(_)) {
        // The statements for many names read each table once, by a list of names. PostgreSQL does not know how long the
        // list is, so with nested loops it would read a table again for each name. Joins without a condition stay nested
        // loops. Their estimated cost is high, so `jit` must be off.
        settings.push_str("set enable_nestloop to off;");
    }
    settings
}

/// Refuses a connection that does not lead to one process of the server. The check comes before all settings: in the mode
/// `transaction`, a setting would stay in a session that other clients use.
async fn refuse_pooler(link: &Link, context: &Context) -> Result<(), Fault> {
    if !link.has_pooler().await? {
        return Ok(());
    }
    let message = format!(
        "{}: a connection pooler, such as PgBouncer, is between the client and the server. Locks need a session of their \
         own: name the server itself; or, if the pooler is in the mode `session`, add pooler=session to the URL",
        context.options.store()
    );
    Err(Error::new(ErrorKind::Unsupported, message).into())
}

/// The error of a host that was given up.
fn no_session(host: &SqlOptions, limit: Duration) -> Error {
    Error::unavailable(format!("no session on {} within {}", host.store(), rounded(limit)))
}

/// The error of a connection attempt. No request was sent, so nothing was applied.
fn not_applied(error: Error) -> Error {
    if error.maybe_applied() {
        Error::new(error.kind(), "the server closed the connection").caused_by(error)
    } else {
        error
    }
}
