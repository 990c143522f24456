//! The check for operators.

use bandog_core::Finding;

use crate::{
    fault::Fault,
    limits::{clock, connections, limit_of_user},
    options::SqlOptions,
    row::Row,
};

/// The findings for this row of the statement `settings`.
pub(crate) fn findings(row: &Row, options: &SqlOptions) -> Result<Vec<Finding>, Fault> {
    let version: &str = row.try_get(6)?;
    let limit = Some(row.try_get(8)?).filter(|limit| *limit > 0);
    let mut findings = vec![
        Finding::fine("server", format!("{version}, which is not read-only")),
        flush(row.try_get(0)?),
        binary_log(row.try_get(1)?, row.try_get(2)?),
        doublewrite(row.try_get(3)?),
        tables(&row.try_get::<Vec<&str>>(5)?),
        replicas(row.try_get(1)?),
        connections(row.try_get(4)?, row.try_get(11)?, options.needed_connections()),
        clock(row.try_get(7)?),
        packet(row.try_get(9)?),
    ];
    findings.extend(limit_of_user(limit, options));
    Ok(findings)
}

/// Whether a crash can lose grants.
fn flush(value: i64) -> Finding {
    const NAME: &str = "innodb_flush_log_at_trx_commit";
    match value {
        1 | 3 => Finding::fine(NAME, format!("it is {value}")),
        _ => Finding::danger(
            NAME,
            format!("it is {value}: after a crash, the last grants are lost, and other clients can get the same locks"),
            format!("set {NAME} = 1 in the configuration of the server"),
        ),
    }
}

fn binary_log(exists: bool, sync: i64) -> Finding {
    if exists && sync == 0 {
        return Finding::advice(
            "sync_binlog",
            "it is 0: after a crash of the server's machine, replicas can have other data than the server",
            "set sync_binlog = 1 in the configuration of the server",
        );
    }
    Finding::fine("sync_binlog", if exists { "each commit is written" } else { "there is no binary log" })
}

fn doublewrite(value: &str) -> Finding {
    const NAME: &str = "innodb_doublewrite";
    // With `DETECT_ONLY`, which only MySQL has, damaged pages are found and not repaired.
    if matches!(value, "0" | "OFF" | "DETECT_ONLY") {
        return Finding::danger(
            NAME,
            format!("it is {value}: after a crash of the server's machine, tables can be damaged"),
            format!("set {NAME} = on in the configuration of the server"),
        );
    }
    Finding::fine(NAME, "it is on")
}

/// Whether an element of a work queue fits into a statement: each of its bytes needs two.
fn packet(bytes: i64) -> Finding {
    const NAME: &str = "max_allowed_packet";
    const NEEDED: i64 = 4 << 20;
    if bytes >= NEEDED {
        return Finding::fine(NAME, format!("it is {bytes}: elements of 1 MiB fit"));
    }
    let says = format!(
        "it is {bytes}: elements and results of work queues of more than {} bytes are refused",
        (bytes - 4096).max(0) / 2
    );
    Finding::advice(NAME, says, format!("set {NAME} = {NEEDED} in the configuration of the server"))
}

fn tables(others: &[&str]) -> Finding {
    if others.is_empty() {
        return Finding::fine("tables", "they have the engine InnoDB");
    }
    let says = format!("{} do not have the engine InnoDB, so they have no transactions", others.join(", "));
    Finding::danger("tables", says, "ALTER TABLE … ENGINE = InnoDB")
}

fn replicas(has_binary_log: bool) -> Finding {
    if !has_binary_log {
        return Finding::fine("replicas", "the server has no binary log, so it has no replicas");
    }
    Finding::advice(
        "replicas",
        "the server has a binary log: a failover to a replica that has not got the last commits frees held locks",
        "use semi-synchronous replication, or check the fence of each lock where its data are written",
    )
}
