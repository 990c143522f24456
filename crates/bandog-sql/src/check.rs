//! The check for operators: settings of the server that endanger locks.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bandog_core::{Clock, Finding};

use crate::{
    fault::Fault,
    held,
    job::Query,
    leases::Context,
    options::{Dialect, Layout},
    row::Row,
    session::Link,
};

/// A difference between the clocks of this machine and of the server that is worth a notice.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(5);
/// Number of free connections below which the server might refuse new ones soon.
const FEW_CONNECTIONS: usize = 20;
/// Maximum number of connections of a backend that do not hold locks.
pub(crate) const CONNECTIONS: usize = 4;

/// Checks the settings of the server.
pub(crate) struct Check;

#[async_trait]
impl Query for Check {
    type Output = Vec<Finding>;

    async fn run(&self, link: &Link, context: &Context) -> Result<Vec<Finding>, Fault> {
        let rows = link.query(&link.statements.settings, &[]).await?;
        let row = rows.first().ok_or(Fault::Broken(None))?;
        let holds_sessions = matches!(context.options.layout, Layout::RowLock(_) | Layout::Advisory);
        let needed = CONNECTIONS + if holds_sessions { context.options.connections } else { 0 };
        let mut findings = match context.options.dialect {
            Dialect::Postgres => findings(row, needed)?,
            #[cfg(feature = "mysql")]
            Dialect::MySql => crate::mysql::findings(row, needed)?,
        };
        if holds_sessions {
            findings.extend(held::check::findings(link, context).await?);
        }
        Ok(findings)
    }
}

/// The findings for this row of PostgreSQL. A client needs up to this number of connections.
fn findings(row: &Row, needed: usize) -> Result<Vec<Finding>, Fault> {
    let version: &str = row.try_get(7)?;
    let mut findings = vec![Finding::fine("server", format!("PostgreSQL {version}, which is not a replica"))];
    findings.extend(durability(row)?);
    findings.push(replicas(row.try_get(3)?));
    findings.push(connections(row.try_get(4)?, row.try_get(5)?, needed));
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
