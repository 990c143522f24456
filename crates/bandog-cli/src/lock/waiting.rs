//! What a waiting `bandog lock` tells of whoever is in its way.

use std::{
    convert::Infallible,
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
            Some(line) => line.draw(&format!("waiting {waited} for {name:?}, {}", now.brief)),
            None if changed && on_terminal => say(&format!("waiting for {name:?}, {}", now.whole)),
            None => {}
        }
        if changed {
            tracing::info!("waiting for {name:?}, {}", now.whole);
        }
        before = Some(now);
        sleep(PAUSE.max(took * SHARE)).await;
    }
}

/// Whether it is worth a look, which on a server with many keys is not cheap, to tell who is in the way.
pub(super) fn somebody_reads() -> bool {
    stderr().is_terminal() || tracing::enabled!(Level::INFO)
}

/// What is in the way, in words.
#[derive(PartialEq, Eq)]
struct InTheWay {
    whole: String,
    /// For a line that has little room.
    brief: String,
}

async fn in_the_way(client: &Client, name: &str) -> InTheWay {
    let (whole, brief) = match client.show(name).await {
        Ok(row) => (person::holder(&row), person::brief_holder(&row)),
        Err(error) if error.kind() == ErrorKind::Unavailable => {
            return InTheWay::plain("but the store does not answer");
        }
        Err(_) => return InTheWay::plain("and who holds it cannot be seen"),
    };
    match (whole, brief) {
        (Some(whole), Some(brief)) => InTheWay { whole: format!("held by {whole}"), brief: format!("held by {brief}") },
        _ => InTheWay::plain("which is changing hands"),
    }
}

impl InTheWay {
    fn plain(words: &str) -> Self {
        Self { whole: words.into(), brief: words.into() }
    }
}
