//! What a waiting `bandog lock` tells of whoever is in its way.

use std::{
    convert::Infallible,
    fmt::Display,
    future,
    io::{IsTerminal, stderr},
    time::{Duration, Instant},
};

use bandog::{Client, ErrorKind};
use tokio::time::sleep;
use tracing::Level;

use crate::{
    person,
    voice::{Line, say},
};

/// Whoever gets the lock within this time is told nothing.
const QUIET: Duration = Duration::from_millis(500);
/// Between two looks, at least.
const PAUSE: Duration = Duration::from_secs(1);
/// A look costs the store some time: the pause after it is so many times as long.
const SHARE: u32 = 50;

/// Tells who holds the lock, and again when that changes, until it is dropped: on a terminal in one line that is
/// redrawn, elsewhere only if more was asked for.
pub(super) async fn tell(client: &Client, name: &str) -> Infallible {
    if !somebody_reads() {
        return future::pending().await;
    }
    let on_terminal = stderr().is_terminal();
    let began = Instant::now();
    sleep(QUIET).await;
    let line = Line::on_terminal();
    let mut before = None;
    loop {
        let asked = Instant::now();
        let now = in_the_way(client, name).await;
        let took = asked.elapsed();
        let waited = humantime::format_duration(Duration::from_secs(began.elapsed().as_secs()));
        let changed = before.as_ref() != Some(&now);
        match &line {
            Some(line) => line.draw(&waiting(name, &waited, &now)),
            None if changed && on_terminal => say(&waiting(name, &waited, &now)),
            None => {}
        }
        if changed {
            tracing::info!("waiting for {name:?}, {now}");
        }
        before = Some(now);
        sleep(PAUSE.max(took * SHARE)).await;
    }
}

/// Whether it is worth a look, which on a server with many keys is not cheap, to tell who is in the way.
pub(super) fn somebody_reads() -> bool {
    stderr().is_terminal() || tracing::enabled!(Level::INFO)
}

fn waiting(name: &str, waited: &impl Display, in_the_way: &str) -> String {
    format!("waiting {waited} for {name:?}, {in_the_way}")
}

async fn in_the_way(client: &Client, name: &str) -> String {
    match client.show(name).await {
        Ok(row) => match person::holder(&row) {
            Some(holder) => format!("held by {holder}"),
            None => "which is changing hands".into(),
        },
        Err(error) if error.kind() == ErrorKind::Unavailable => "but the store does not answer".into(),
        Err(_) => "and who holds it cannot be seen".into(),
    }
}
