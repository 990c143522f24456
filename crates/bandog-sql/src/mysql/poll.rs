//! Notifications: MySQL has none, so one task of a backend reads the numbers of all channels that have subscribers. It also
//! reads the leases of the mutexes for which claims wait. So these claims need not be sent again while nothing changes.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use bandog_core::Key;
use tokio::time::{sleep, timeout};

use crate::{
    channel::Channel,
    context::Context,
    fault::Fault,
    polled::PolledLease,
    session::{Link, Session},
    subscriptions::Subscriptions,
};

/// Minimum and maximum interval between two polls. Between them, the interval is a part of the time since a channel was
/// notified or got its first subscriber. So a waiter is late by a small part of the time for which it waits.
const MIN_INTERVAL: Duration = Duration::from_millis(5);
const MAX_INTERVAL: Duration = Duration::from_millis(450);
const PART: u32 = 40;

/// The state of a channel, as the task has read it.
struct Seen {
    /// The number of the channel. Each notification raises it.
    number: i64,
    /// The time of the last notification, or of the first poll.
    since: Instant,
}

/// Polls until the connection ends, or the server does not answer in time.
pub(crate) async fn poll(context: &Context, session: &mut Session, is_new_session: bool) -> Fault {
    let (subscriptions, limit) = (&context.subscriptions, context.options.timeout);
    let mut seen: HashMap<Channel, Seen> = HashMap::new();
    loop {
        let channels = subscriptions.channels();
        seen.retain(|channel, _| channels.contains(channel));
        let polled = timeout(limit, read(subscriptions, session, &channels, &mut seen, is_new_session)).await;
        let interval = match polled {
            Ok(Ok(interval)) => interval,
            Ok(Err(fault)) => return fault,
            Err(_) => return Fault::Broken(None),
        };
        // Subscribers that come and go do not make the polls more frequent.
        sleep(MIN_INTERVAL).await;
        tokio::select! {
            fault = session.ended() => return fault,
            () = subscriptions.changed() => {}
            () = sleep(interval.unwrap_or_default()), if interval.is_some() => {}
        }
    }
}

/// Reads the numbers, and notifies the subscribers of those that have changed. Returns the time until the next poll. None:
/// there are no subscribers.
async fn read(
    subscriptions: &Subscriptions,
    session: &mut Session,
    channels: &[Channel],
    seen: &mut HashMap<Channel, Seen>,
    is_new_session: bool,
) -> Result<Option<Duration>, Fault> {
    if channels.is_empty() {
        return Ok(None);
    }
    let names: Vec<_> = channels.iter().map(Channel::to_string).collect();
    let waited_for = subscriptions.waited_for();
    let polled = session.drive(|link| poll_once(link, &names, &waited_for)).await?;
    let Polled { numbers, leases } = polled;
    // Before the subscribers are notified: the claims that follow must not be answered with what an earlier poll has seen.
    subscriptions.polled(&waited_for, &leases);
    let now = Instant::now();
    for (channel, name) in channels.iter().zip(&names) {
        let number = numbers.get(name).copied();
        match seen.get_mut(channel) {
            None => {
                // The number was read after the subscriber came. So each later notification is seen.
                seen.insert(*channel, Seen { number: number.unwrap_or_default(), since: now });
                subscriptions.confirm(*channel, is_new_session);
            }
            // Without a row, the channel was not used for long, and its row was deleted.
            Some(known) => {
                if let Some(number) = number.filter(|number| *number != known.number) {
                    *known = Seen { number, since: now };
                    subscriptions.notify(*channel);
                }
            }
        }
    }
    subscriptions.confirm_known(&seen.keys().copied().collect::<HashSet<_>>());
    let quiet = seen.values().map(|seen| now.saturating_duration_since(seen.since)).min().unwrap_or_default();
    Ok(Some((quiet / PART).clamp(MIN_INTERVAL, MAX_INTERVAL)))
}

/// The result of a poll.
struct Polled {
    /// The numbers of the channels that were used, by their names.
    numbers: HashMap<String, i64>,
    /// The leases that are held, by the names of their locks.
    leases: HashMap<String, PolledLease>,
}

async fn poll_once(link: &Link, names: &Vec<String>, waited_for: &HashMap<Key, Channel>) -> Result<Polled, Fault> {
    let (asked_at, locks) = (Instant::now(), waited_for.keys().map(Key::as_str).collect::<Vec<_>>());
    let rows = link.query(&link.statements.numbers, &[names, &locks]).await?;
    let answered_at = Instant::now();
    let mut polled = Polled { numbers: HashMap::new(), leases: HashMap::new() };
    for row in &rows {
        let name: String = row.try_get(0)?;
        if let Some(number) = row.try_get(1)? {
            polled.numbers.insert(name, number);
            continue;
        }
        polled.leases.insert(name, PolledLease::read(row, 2, asked_at, answered_at)?);
    }
    Ok(polled)
}
