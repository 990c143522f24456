//! Findings of the check for operators that all servers share: connections and the clock.

use std::time::{Duration, SystemTime};

use bandog_core::{Clock, Error, Finding};

use crate::options::{Layout, SqlOptions};

/// A difference between the clocks of this machine and of the server that is worth a notice.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(5);
/// Number of free connections below which the server might refuse new ones soon.
const FEW_CONNECTIONS: usize = 20;

/// The subject of the findings about the limit of connections.
const OF_USER: &str = "connections of the user";
/// The cure for a limit of connections that is too low.
const RAISE: &str = "raise the limit of the user or of the database";

/// Whether the server will have free connections.
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
