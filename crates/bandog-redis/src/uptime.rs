//! The time since the start of the server.

use std::time::Duration;

use bandog_core::{Error, ErrorKind, Result};
use bandog_redis_net::reply::text;
use redis::Value;

use crate::refusal;

/// The server counts whole seconds of its clock at the start and now, so the difference can be one second too much.
const RESOLUTION: Duration = Duration::from_secs(1);

/// Reads the time from the reply to `INFO server`.
pub(crate) fn read(reply: Option<&Value>, store: &str) -> Result<Duration> {
    let hidden = |why: String| {
        let message = format!("{store} hides its uptime, so it cannot be a node of a quorum: {why}");
        Error::new(ErrorKind::Denied, message)
    };
    let info = match reply {
        Some(Value::ServerError(error)) if refusal::is_lasting(error) => {
            return Err(hidden("allow this user to run INFO".into()).caused_by(refusal::refused(error)));
        }
        Some(Value::ServerError(error)) => return Err(refusal::refused(error)),
        reply => reply.and_then(text).ok_or_else(|| hidden("its answer to INFO is not a text".into()))?,
    };
    let seconds = info.lines().find_map(|line| line.strip_prefix("uptime_in_seconds:")?.trim().parse().ok());
    let seconds = seconds.ok_or_else(|| hidden("INFO server has no uptime_in_seconds".into()))?;
    Ok(Duration::from_secs(seconds).saturating_sub(RESOLUTION))
}
