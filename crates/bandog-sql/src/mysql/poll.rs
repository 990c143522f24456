//! Notifications: MySQL has none, so one task of a backend reads the numbers of all channels that have subscribers.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use tokio::time::sleep;

use crate::{
    fault::Fault,
    listen::{Channel, Listener},
    session::{Link, Session},
};

/// Minimum and maximum interval between two polls. Between them, the interval is a part of the time since a channel was
/// notified or got its first subscriber. So a waiter is late by a small part of the time for which it waits.
const MIN_INTERVAL: Duration = Duration::from_millis(5);
const MAX_INTERVAL: Duration = Duration::from_millis(400);
const PART: u32 = 40;

/// What the task knows of a channel.
struct Seen {
    /// The number of the channel. Each notification raises it.
    number: i64,
    /// The time of the last notification, or of the first poll.
    since: Instant,
}

/// Polls until the connection ends.
pub(crate) async fn poll(listener: &Listener, session: &mut Session, is_new_session: bool) -> Fault {
    let mut seen: HashMap<Channel, Seen> = HashMap::new();
    loop {
        let channels = listener.channels();
        seen.retain(|channel, _| channels.contains(channel));
        let interval = match read(listener, session, &channels, &mut seen, is_new_session).await {
            Ok(interval) => interval,
            Err(fault) => return fault,
        };
        tokio::select! {
            fault = session.ended() => return fault,
            () = listener.changed() => {}
            () = sleep(interval.unwrap_or_default()), if interval.is_some() => {}
        }
    }
}

/// Reads the numbers, and notifies the subscribers of those that have changed. Returns the time until the next poll. None:
/// there are no subscribers.
async fn read(
    listener: &Listener,
    session: &mut Session,
    channels: &[Channel],
    seen: &mut HashMap<Channel, Seen>,
    is_new_session: bool,
) -> Result<Option<Duration>, Fault> {
    if channels.is_empty() {
        return Ok(None);
    }
    let names: Vec<_> = channels.iter().map(Channel::to_string).collect();
    let numbers = session.drive(|link| numbers(link, &names)).await?;
    let now = Instant::now();
    for (channel, name) in channels.iter().zip(&names) {
        let number = numbers.get(name).copied();
        match seen.get_mut(channel) {
            None => {
                // The number was read after the subscriber came. So each later notification is seen.
                seen.insert(*channel, Seen { number: number.unwrap_or_default(), since: now });
                listener.confirm(*channel, is_new_session);
            }
            // Without a row, the channel was not used for long, and its row was deleted.
            Some(known) => {
                if let Some(number) = number.filter(|number| *number != known.number) {
                    *known = Seen { number, since: now };
                    listener.notify(*channel);
                }
            }
        }
    }
    listener.confirm_known(&seen.keys().copied().collect::<HashSet<_>>());
    let quiet = seen.values().map(|seen| now.saturating_duration_since(seen.since)).min().unwrap_or_default();
    Ok(Some((quiet / PART).clamp(MIN_INTERVAL, MAX_INTERVAL)))
}

/// The numbers of the channels that were used, by their names.
async fn numbers(link: &Link, names: &Vec<String>) -> Result<HashMap<String, i64>, Fault> {
    let rows = link.query(&link.statements.numbers, &[names]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}
