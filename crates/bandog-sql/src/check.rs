//! The check for operators: settings of the server that endanger locks.

use std::time::Duration;

use async_trait::async_trait;
use bandog_core::Finding;

use crate::{
    context::Context,
    fault::Fault,
    held,
    job::Query,
    limits::{clock, connections, limit_of_user},
    options::{Dialect, Layout, SqlOptions},
    others, rights,
    row::Row,
    session::Link,
};

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
