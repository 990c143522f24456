//! The requirements of a new session: its settings, and a server that can keep locks.

use std::time::Duration;

use bandog_core::{Error, ErrorKind};

use crate::{
    context::Context,
    fault::Fault,
    schema::{self, Found},
    session::{Decides, Link},
    shedlock::unknown_zone,
};

/// Maximum time for which a statement waits for a row that another transaction has locked, or for a table, such as during a
/// backup with `flush tables with read lock`: the smallest that all servers have.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
/// The server ends a session that keeps a transaction open for longer than this without a statement. Otherwise a process
/// that is stopped inside a transaction would keep its rows locked. MySQL knows only the next limit.
const IDLE_TRANSACTION: Duration = Duration::from_secs(2);
/// The server ends a session that has sent nothing for longer than this. The connection sends a ping each second.
const IDLE: Duration = Duration::from_secs(10);
/// The oldest supported versions.
const OLDEST_MARIADB: (u32, u32) = (10, 6);
const OLDEST_MYSQL: (u32, u32) = (8, 0);

/// Makes the settings of a session, and creates the tables if they do not exist.
pub(crate) async fn prepare(link: &Link, context: &Context) -> Result<Decides, Fault> {
    let options = &context.options;
    let limit = options.timeout;
    // Only MySQL executes the first comment, and only MariaDB the second one. Two settings of the second one would replace
    // `idle_transaction_timeout`. The last one keeps long lists of names as they are: as a subquery, they could be looked up
    // in a scan, which locks all rows.
    let settings = format!(
        "set session sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'; set session time_zone = '+00:00';\
         set names utf8mb4; set session transaction isolation level read committed, read write;\
         set session autocommit = 1; set session completion_type = 0; set session sql_safe_updates = 0;\
         set session sql_select_limit = 18446744073709551615; set session sql_big_selects = 1;\
         set session innodb_lock_wait_timeout = {0}, session lock_wait_timeout = {0}; set session wait_timeout = {1}\
         /*!80000 , session max_execution_time = 0 */;\
         /*M! set session idle_transaction_timeout = {2}, session idle_readonly_transaction_timeout = 0,\
         session idle_write_transaction_timeout = 0, session max_statement_time = {3},\
         session in_predicate_conversion_threshold = 0 */",
        LOCK_TIMEOUT.as_secs(),
        IDLE.max(3 * limit).as_secs(),
        IDLE_TRANSACTION.max(limit).as_secs(),
        limit.as_secs_f64(),
    );
    link.execute(&settings).await?;
    // The tables of bandog have no column that depends on the time zone of the session.
    if let Some(zone) = &options.session_zone {
        let set = link.execute(&format!("set session time_zone = '{}'", zone.on_mysql())).await;
        set.map_err(|fault| unknown_zone(fault, context))?;
    }
    let rows = link.query(&link.statements.server, &[&options.schema]).await?;
    let row = rows.first().ok_or(Fault::Broken(None))?;
    let (version, is_read_only): (&str, bool) = (row.try_get(0)?, row.try_get(1)?);
    check_version(&options.store(), version)?;
    if is_read_only {
        let message = format!("{}: the server is read-only; locks need the primary server", options.store());
        return Err(Error::unavailable(message).into());
    }
    schema::prepare(link, context, &Found::read(row)?).await?;
    // MySQL has no statements that are blocks of others, and one that changes rows waits for a locked row for a second at
    // least, and delays all others.
    let decides = link.statements.decide_mutexes() && is_mariadb(version);
    Ok(if decides { Decides::UsualSteps } else { Decides::Nothing })
}

fn is_mariadb(version: &str) -> bool {
    version.contains("MariaDB")
}

/// Whether the version has what the statements need: rows that are skipped if they are locked.
fn check_version(store: &str, version: &str) -> Result<(), Error> {
    let (name, oldest) = if is_mariadb(version) { ("MariaDB", OLDEST_MARIADB) } else { ("MySQL", OLDEST_MYSQL) };
    // Old clients got a version that begins with `5.5.5-`.
    let number = version.strip_prefix("5.5.5-").unwrap_or(version);
    let mut parts = number.split(|c: char| !c.is_ascii_digit()).map_while(|part| part.parse::<u32>().ok());
    if (parts.next().unwrap_or_default(), parts.next().unwrap_or_default()) >= oldest {
        return Ok(());
    }
    let message = format!("{store}: {name} {version} is too old; version {}.{} or later is needed", oldest.0, oldest.1);
    Err(Error::new(ErrorKind::Unsupported, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_servers_are_refused() {
        for version in
            ["10.6.4-MariaDB", "5.5.5-10.11.2-MariaDB-log", "11.4.1-MariaDB", "8.0.36", "8.4.0-debug", "9.1.0"]
        {
            assert!(check_version("db", version).is_ok(), "{version}");
        }
        for version in ["10.5.9-MariaDB", "5.5.5-10.3.2-MariaDB", "5.7.44-log", "?"] {
            assert_eq!(check_version("db", version).unwrap_err().kind(), ErrorKind::Unsupported, "{version}");
        }
    }
}
