//! Reports the holder of a lock while `bandog lock` waits.

use std::{
    convert::Infallible,
    future,
    io::{IsTerminal, stderr},
    time::{Duration, Instant},
};

use bandog::{Client, ErrorKind, admin::Holder};
use tokio::time::sleep;
use tracing::Level;

use crate::{
    console::{StatusLine, report},
    holder_text,
};

/// Delay before the first message. A wait that ends earlier prints nothing.
const QUIET: Duration = Duration::from_millis(500);
/// Minimum pause between two queries.
const PAUSE: Duration = Duration::from_secs(1);
/// A factor that limits the load on the store: the pause after a query lasts at least `SHARE` times as long as the
/// query.
const SHARE: u32 = 50;

/// Runs beside the wait, and never ends: reports the holder. If the user has set a limit to the wait, finds out whether the
/// store can be reached, so that the wait lasts until this limit.
pub(crate) async fn progress(client: &Client, names: &[&str], is_limited: bool) -> Infallible {
    let reach = async { if is_limited { reach(client).await } else { future::pending().await } };
    tokio::select! {
        never = report_holder(client, names) => match never {},
        never = reach => match never {},
    }
}

/// Asks the store whether it answers, until it does. If all claims fail, the client ends a wait after 5 s, unless the store
/// has answered something: a server without enough replicas, or a quorum without votes, answers, and may grant the lock
/// later.
async fn reach(client: &Client) -> Infallible {
    loop {
        sleep(PAUSE).await;
        // An error means that the client is closed.
        if client.health().await.is_ok_and(|health| health.last_answer.is_some()) {
            return future::pending().await;
        }
    }
}

/// Reports the holder, and later each new holder, until the future is dropped. On a terminal, the report is a single
/// line, which is redrawn. Without a terminal, there is a report only with `-v`.
async fn report_holder(client: &Client, names: &[&str]) -> Infallible {
    if !is_reported() {
        return future::pending().await;
    }
    let on_terminal = stderr().is_terminal();
    let began = Instant::now();
    sleep(QUIET).await;
    let (line, title) = (StatusLine::on_terminal(), title(names));
    let mut before = None;
    loop {
        let queried_at = Instant::now();
        let now = wait_reason(client, names).await;
        let took = queried_at.elapsed();
        let waited = humantime::format_duration(Duration::from_secs(began.elapsed().as_secs()));
        let changed = before.as_ref() != Some(&now);
        match &line {
            Some(line) => line.draw(&format!("waiting {waited} for {title}, {}", now.brief)),
            None if changed && on_terminal => report(&format!("waiting for {title}, {}", now.whole)),
            None => {}
        }
        if changed {
            tracing::info!("waiting for {title}, {}", now.whole);
        }
        before = Some(now);
        sleep(PAUSE.max(took * SHARE)).await;
    }
}

/// Whether the holder is printed anywhere. If not, bandog does not query the holder, because this query is expensive on
/// a server with many keys.
pub(super) fn is_reported() -> bool {
    stderr().is_terminal() || tracing::enabled!(Level::INFO)
}

/// The reason why bandog waits, as text.
#[derive(PartialEq, Eq)]
struct WaitReason {
    /// The text for messages.
    whole: String,
    /// A shorter text for the status line.
    brief: String,
}

/// Queries the store for the reason of the wait.
async fn wait_reason(client: &Client, names: &[&str]) -> WaitReason {
    let (whole, brief) = match client.holders(names).await {
        Ok(mut rows) => {
            // With `?replicas=`, the server has a grant before the replicas have acknowledged it. Of several locks, this
            // command can have some already.
            let is_own = |holder: &Holder| is_own(client, holder);
            let has_all = rows.iter().all(|row| row.holders.iter().any(is_own));
            rows.iter_mut().for_each(|row| row.holders.retain(|holder| !is_own(holder)));
            let Some(row) = rows.iter().find(|row| !row.holders.is_empty()) else {
                return WaitReason::plain(if has_all {
                    "which this command has got, but its grant is not acknowledged yet"
                } else {
                    "which has no holder at this moment"
                });
            };
            let named = |holder| {
                if names.len() > 1 {
                    format!("{:?} is held by {holder}", row.name)
                } else {
                    format!("held by {holder}")
                }
            };
            (holder_text::holders(row).map(named), holder_text::brief_holders(row).map(named))
        }
        Err(error) if error.kind() == ErrorKind::Unavailable => {
            return WaitReason::plain("but the store does not answer");
        }
        Err(_) => return WaitReason::plain("its holder cannot be read"),
    };
    match (whole, brief) {
        (Some(whole), Some(brief)) => WaitReason { whole, brief },
        _ => WaitReason::plain("which has no holder at this moment"),
    }
}

/// Whether this command is the holder.
pub(super) fn is_own(client: &Client, holder: &Holder) -> bool {
    holder.client() == Some(client.id())
}

/// The names in a message: `"a"`, or `"a" and "b"`.
pub(super) fn title(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [name] => format!("{name:?}"),
        [first @ .., last] => {
            let first: Vec<_> = first.iter().map(|name| format!("{name:?}")).collect();
            format!("{} and {last:?}", first.join(", "))
        }
    }
}

impl WaitReason {
    /// A reason with the same text for messages and for the status line.
    fn plain(words: &str) -> Self {
        Self { whole: words.into(), brief: words.into() }
    }
}
