//! The check for operators: settings of the server that endanger locks.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bandog_core::{Clock, Error, Finding};

use crate::{
    fault::Fault,
    held,
    job::Query,
    leases::Context,
    options::{Dialect, Layout, SqlOptions},
    others, rights,
    row::Row,
    session::Link,
};

/// A difference between the clocks of this machine and of the server that is worth a notice.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(5);
/// Number of free connections below which the server might refuse new ones soon.
const FEW_CONNECTIONS: usize = 20;

/// The subject of the findings about the limit of connections.
const OF_USER: &str = "connections of the user";
/// The cure for a limit of connections that is too low.
const RAISE: &str = "raise the limit of the user or of the database";

/// Checks the settings of the server.
pub(crate) struct Check;

#[async_trait]
impl Query for Check {
    type Output = Vec<Finding>;

    async fn run(&self, link: &Link, context: &Context) -> Result<Vec<Finding>, Fault> {
        let rows = link.query(&link.statements.settings, &[]).await?;
        let row = rows.first().ok_or(Fault::Broken(None))?;
        let holds_sessions = matches!(context.options.layout, Layout::RowLock(_) | Layout::Advisory);
        let mut findings = match context.options.dialect {
            Dialect::Postgres => findings(row, &context.options)?,
            #[cfg(feature = "mysql")]
            Dialect::MySql => crate::mysql::findings(row, &context.options)?,
        };
        findings.extend(defaults(link, context.options.dialect).await?);
        findings.push(rights::finding(link, context).await?);
        findings.push(others::finding(link, context).await?);
        if holds_sessions {
            findings.extend(held::check::findings(link, context).await?);
        }
        Ok(findings)
    }
}

/// The settings of the server that the sessions of bandog replace.
async fn defaults(link: &Link, dialect: Dialect) -> Result<Vec<Finding>, Fault> {
    let rows = link.query(&link.statements.defaults, &[]).await?;
    let row = rows.first().ok_or(Fault::Broken(None))?;
    let (zone, of_system, isolation): (&str, &str, &str) = (row.try_get(0)?, row.try_get(1)?, row.try_get(3)?);
    let zone = if zone == "SYSTEM" { of_system } else { zone };
    let mut findings = vec![
        Finding::fine("time zone", format!("it is {zone}; the tables of bandog do not depend on it")),
        Finding::fine(
            "isolation",
            format!(
                "the default is {}; the sessions of bandog use READ COMMITTED. Begin a transaction that checks a lock \
                 after the lock is granted",
                isolation.to_uppercase()
            ),
        ),
    ];
    match dialect {
        Dialect::Postgres => findings.push(idle_transactions(row.try_get(4)?)),
        // `wait_timeout` is always set.
        #[cfg(feature = "mysql")]
        Dialect::MySql => {}
    }
    Ok(findings)
}

/// Whether the server ends the transaction of a stopped program. `limit` is in ms, and 0 if there is none.
fn idle_transactions(limit: &str) -> Finding {
    const NAME: &str = "idle transactions";
    match limit.parse() {
        Ok(limit @ 1..) => {
            let seconds = Duration::from_millis(limit).as_secs_f64();
            Finding::fine(NAME, format!("your own transactions end when they are idle for {seconds} s"))
        }
        Ok(0) | Err(_) => Finding::advice(
            NAME,
            "a program that is stopped inside a transaction of its own keeps its rows locked, also from the next holder of \
             its lock",
            "begin such transactions with guard.begin or run.begin of bandog-sqlx, or set a limit for the user of the \
             program: ALTER ROLE … SET idle_in_transaction_session_timeout = '30s'",
        ),
    }
}

/// The findings for this row of PostgreSQL.
fn findings(row: &Row, options: &SqlOptions) -> Result<Vec<Finding>, Fault> {
    let version: &str = row.try_get(7)?;
    let mut findings = vec![Finding::fine("server", format!("PostgreSQL {version}, which is not a replica"))];
    findings.extend(durability(row)?);
    findings.push(replicas(row.try_get(3)?));
    findings.push(connections(row.try_get(4)?, row.try_get(5)?, options.needed_connections()));
    findings.extend(limit_of_user(row.try_get(9)?, options));
    findings.push(clock(row.try_get(8)?));
    Ok(findings)
}

/// Whether a crash of the server can lose grants.
fn durability(row: &Row) -> Result<Vec<Finding>, Fault> {
    let mut findings = Vec::new();
    for (number, name) in ["fsync", "full_page_writes"].into_iter().enumerate() {
        let value: &str = row.try_get(number)?;
        findings.push(if value == "on" {
            Finding::fine(name, "it is on")
        } else {
            let says = format!(
                "it is {value}: after a crash of the server's machine, locks may be free although they are held"
            );
            Finding::danger(name, says, format!("set {name} = on in postgresql.conf"))
        });
    }
    let commit: &str = row.try_get(2)?;
    findings.push(if commit == "off" {
        Finding::danger(
            "synchronous_commit",
            "it is off: after a crash of the server, the last grants are lost, and other clients can get the same locks",
            "for the user of the locks: ALTER ROLE … SET synchronous_commit = on",
        )
    } else {
        Finding::fine("synchronous_commit", format!("it is {commit}"))
    });
    let unlogged: Vec<&str> = row.try_get(6)?;
    findings.push(if unlogged.is_empty() {
        Finding::fine("tables", "they survive a crash of the server")
    } else {
        let says = format!("{} are unlogged: a crash of the server empties them", unlogged.join(", "));
        Finding::danger("tables", says, "ALTER TABLE … SET LOGGED")
    });
    Ok(findings)
}

fn replicas(count: i64) -> Finding {
    if count == 0 {
        return Finding::fine("replicas", "no replica is connected, as far as this user may see");
    }
    Finding::advice(
        "replicas",
        format!("{count} replicas are connected: a failover to one that has not got the last commits frees held locks"),
        "use synchronous_standby_names, or check the fence of each lock where its data are written",
    )
}

pub(crate) fn connections(allowed: i64, used: i64, needed: usize) -> Finding {
    if usize::try_from(allowed - used).is_ok_and(|free| free >= needed.max(FEW_CONNECTIONS)) {
        return Finding::fine("connections", format!("{used} of {allowed} are in use"));
    }
    Finding::advice(
        "connections",
        format!("{used} of {allowed} are in use; each client of bandog needs up to {needed}"),
        "raise max_connections, or use fewer connections elsewhere",
    )
}

/// The limit of connections of the user or of the database, if it has one.
pub(crate) fn limit_of_user(limit: Option<i64>, options: &SqlOptions) -> Option<Finding> {
    let (limit, needed) = (usize::try_from(limit?).unwrap_or_default(), options.needed_connections());
    if limit >= needed {
        return Some(Finding::fine(
            OF_USER,
            format!("the user or the database may have {limit}, for all clients together"),
        ));
    }
    let has_mode = matches!(options.layout, Layout::RowLock(_) | Layout::Advisory);
    let with_fewer = if has_mode {
        "with fewer, its requests share one, its waiters poll, and a claim fails if no connection is left for its lock"
    } else {
        "with fewer, its requests share one, and its waiters poll"
    };
    let says = format!(
        "the user or the database may have {limit}, and each client of bandog uses up to {needed}: {with_fewer}"
    );
    let cure = match limit.checked_sub(SqlOptions::CONNECTIONS) {
        Some(held @ 1..) if has_mode => format!("{RAISE}, or write connections={held} in the URL"),
        Some(_) | None => RAISE.to_owned(),
    };
    Some(Finding::advice(OF_USER, says, cure))
}

/// The finding if the server has no connection for this client.
pub(crate) fn no_connection(error: &Error) -> Finding {
    Finding::danger(OF_USER, format!("a client gets none now: {error}"), format!("{RAISE}, or end other sessions"))
}

/// The clock of this machine decides nothing. But a difference shows that one of the clocks is wrong.
pub(crate) fn clock(server: SystemTime) -> Finding {
    let ours = Clock::system().wall();
    let difference = ours.duration_since(server).or_else(|_| server.duration_since(ours)).unwrap_or_default();
    if difference < CLOCK_DIFFERENCE {
        return Finding::fine("clock", "the clock of the server agrees with the clock of this machine");
    }
    Finding::advice(
        "clock",
        format!("the clocks of the server and of this machine differ by {} s", difference.as_secs()),
        "synchronize both clocks; a jump of the server's clock ends leases too early or too late",
    )
}
