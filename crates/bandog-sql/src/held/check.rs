//! The part of the check for operators about sessions that hold locks.

use bandog_core::{Finding, Key};

use crate::{
    context::Context,
    fault::Fault,
    options::{Dialect, Layout},
    session::Link,
};

/// The first version of PostgreSQL that ends idle sessions.
const ENDS_IDLE_SESSIONS: i32 = 140_000;
/// The longest time after which a keepalive still helps, in s.
const LATE_KEEPALIVE: i32 = 300;
/// The name of the row that the check creates and rolls back.
const PROBE: &str = "bandog doctor";
/// The subject of the finding about the table of the rows.
const ROWS: &str = "rows";

/// The findings that concern the sessions that hold locks, or their locks.
pub(crate) async fn findings(link: &Link, context: &Context) -> Result<Vec<Finding>, Fault> {
    let rows = link.query(&link.statements.held_settings, &[]).await?;
    let mut findings = match context.options.dialect {
        Dialect::Postgres => {
            let row = rows.first().ok_or(Fault::Broken(None))?;
            of_postgres(&context.options.layout, row.try_get(0)?, row.try_get(1)?)
        }
        #[cfg(feature = "mysql")]
        Dialect::MySql => of_mysql(&settings(&rows)?),
    };
    if let Layout::RowLock(_) = context.options.layout {
        findings.push(try_row(link, context).await?);
    }
    Ok(findings)
}

/// The findings for a server of this version, with this time of keepalives.
fn of_postgres(layout: &Layout, version: i32, keepalive: i32) -> Vec<Finding> {
    match layout {
        Layout::Leases | Layout::ShedLock(_) => Vec::new(),
        Layout::RowLock(_) => vec![limit_of_idle("idle_in_transaction_session_timeout")],
        Layout::Advisory if version >= ENDS_IDLE_SESSIONS => vec![limit_of_idle("idle_session_timeout")],
        Layout::Advisory => {
            let missing = Finding::danger(
                "idle_session_timeout",
                "this version does not have it: while the process of a holder is stopped, the server keeps its lock",
                "use PostgreSQL 14 or later, or mode=rowlock",
            );
            vec![missing, keepalives(keepalive)]
        }
    }
}

fn limit_of_idle(name: &str) -> Finding {
    Finding::fine(name, "each session that holds a lock sets it to the ttl of the lock")
}

fn keepalives(seconds: i32) -> Finding {
    const NAME: &str = "tcp_keepalives_idle";
    if (1..=LATE_KEEPALIVE).contains(&seconds) {
        return Finding::fine(NAME, format!("it is {seconds} s"));
    }
    Finding::advice(
        NAME,
        format!("it is {seconds} s (0: never, or a Unix socket): the server keeps the locks of a broken connection"),
        format!("set {NAME} = 60 in postgresql.conf"),
    )
}

/// The settings by their names.
#[cfg(feature = "mysql")]
fn settings(rows: &[crate::row::Row]) -> Result<Vec<(String, String)>, Fault> {
    rows.iter().map(|row| Ok((row.try_get::<String>(0)?.to_lowercase(), row.try_get(1)?))).collect()
}

/// The findings for a server with these settings.
#[cfg(feature = "mysql")]
fn of_mysql(settings: &[(String, String)]) -> Vec<Finding> {
    let value = |name: &str| settings.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str());
    let mut findings = vec![limit_of_idle("wait_timeout")];
    if matches!(value("wsrep_on"), Some("ON" | "1")) {
        findings.push(Finding::danger(
            "wsrep_on",
            "the server is a node of a Galera cluster: locks of rows and of GET_LOCK are known to one node only",
            "connect all programs to the same node, or use the default layout",
        ));
    }
    findings
}

/// Creates and locks a row, and rolls back. So a missing right is found, and a column that has no default.
async fn try_row(link: &Link, context: &Context) -> Result<Finding, Fault> {
    let probe = Key::new(PROBE)?;
    if let Some(error) = link.table.as_ref().and_then(|table| table.refuse(&probe)) {
        return Ok(Finding::advice(ROWS, format!("no row was tried: {error}"), "use a longer column for the names"));
    }
    let tried = async {
        link.begin(&link.statements.hold_insert, &[&PROBE]).await?;
        link.query(&link.statements.hold_take, &[&PROBE]).await
    };
    let tried = tried.await;
    link.roll_back().await?;
    Ok(match tried {
        Ok(rows) if rows.is_empty() => {
            let says = "a row for a lock was created, and then it was not found";
            Finding::danger(ROWS, says, "remove the rule, the trigger or the constraint of the table that refuses it")
        }
        Ok(_) => Finding::fine(ROWS, "a row for a lock can be created and locked"),
        Err(fault) if fault.is_lock_timeout() => Finding::fine(ROWS, "a row for a lock can be created and locked"),
        Err(fault) => {
            let error = fault.describe(&context.options.store());
            let cure = "grant select, insert and update on the table, and give its other columns defaults";
            Finding::danger(ROWS, format!("no row for a lock can be created and locked: {error}"), cure)
        }
    })
}

#[cfg(test)]
mod tests {
    use bandog_core::Level;

    use super::*;

    fn levels(findings: &[Finding]) -> Vec<(&str, Level)> {
        findings.iter().map(|finding| (finding.subject.as_str(), finding.level)).collect()
    }

    #[test]
    fn an_advisory_lock_needs_a_server_that_ends_idle_sessions() {
        let old = of_postgres(&Layout::Advisory, 130_020, 7200);
        let expected = [("idle_session_timeout", Level::Danger), ("tcp_keepalives_idle", Level::Advice)];
        assert_eq!(levels(&old), expected);
        assert_eq!(levels(&of_postgres(&Layout::Advisory, 130_020, 60))[1].1, Level::Fine);
        let new = of_postgres(&Layout::Advisory, 140_000, 7200);
        assert_eq!(levels(&new), [("idle_session_timeout", Level::Fine)]);
    }

    #[cfg(feature = "mysql")]
    #[test]
    fn a_cluster_is_reported_on_mysql() {
        let setting = |value: &str| [("wsrep_on".to_owned(), value.to_owned())];
        assert_eq!(levels(&of_mysql(&setting("OFF"))), [("wait_timeout", Level::Fine)]);
        assert_eq!(levels(&of_mysql(&setting("ON"))), [("wait_timeout", Level::Fine), ("wsrep_on", Level::Danger)]);
    }
}
