//! What is logged: one line for each change of state, and none for each retry.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bandog_conformance::wrap::{Fate, Lossy};
use tokio::time;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

use crate::kit::{memory, ms, paused};

/// Keeps what it is told of this crate's engine, with its level.
#[derive(Clone, Default)]
struct Ear(Arc<Heard>);

#[derive(Default)]
struct Heard {
    lines: Mutex<Vec<(Level, String)>>,
    spans: AtomicU64,
}

impl Ear {
    fn take(&self, level: Level) -> Vec<String> {
        let mut lines = self.0.lines.lock().unwrap();
        let taken = lines.iter().filter(|line| line.0 == level).map(|line| line.1.clone()).collect();
        lines.retain(|line| line.0 != level);
        taken
    }
}

impl Subscriber for Ear {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("bandog")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut text = Text(span.metadata().name().to_owned());
        span.record(&mut text);
        self.0.lines.lock().unwrap().push((Level::TRACE, text.0));
        Id::from_u64(self.0.spans.fetch_add(1, Relaxed) + 1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lines.lock().unwrap().push((*event.metadata().level(), text.0));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        use fmt::Write;
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn one_line_for_each_change_of_state() {
    let ear = Ear::default();
    let _hears = tracing::subscriber::set_default(ear.clone());
    let wire = Lossy::new(memory());
    let client = paused().watchdog(ms(60_000)).over(wire.clone()).unwrap();
    let guard = client.mutex("orders").lock().await.unwrap();
    let taken = ear.take(Level::DEBUG);
    assert!(taken.iter().any(|line| line.contains("a lock was taken") && line.contains("key=orders")), "{taken:?}");
    let spans = ear.take(Level::TRACE);
    assert!(spans.iter().any(|line| line.contains("bandog.lock") && line.contains("key=orders")), "{spans:?}");
    assert_eq!(ear.take(Level::WARN), [""; 0]);

    wire.always(Fate::Refused);
    let waiting = client.mutex("other");
    let waiting = tokio::spawn(async move { waiting.lock().await });
    time::sleep(Duration::from_secs(25)).await;
    assert!(wire.lost() > 20, "it was tried {} times", wire.lost());
    let warned = ear.take(Level::WARN);
    assert!(warned.len() == 1 && warned[0].contains("does not answer"), "{warned:?}");
    assert_eq!(ear.take(Level::INFO), [""; 0]);

    wire.heal();
    drop(waiting.await.unwrap().unwrap());
    let informed = ear.take(Level::INFO);
    assert!(informed.len() == 1 && informed[0].contains("answers again"), "{informed:?}");
    assert!(!guard.is_lost());

    wire.always(Fate::RequestLost);
    guard.lost().await;
    let warned = ear.take(Level::WARN);
    assert_eq!(warned.iter().filter(|line| line.contains("a lock was lost")).count(), 1, "{warned:?}");
    assert_eq!(warned.len(), 2, "{warned:?}");
}

/// A store that answers and is silent by turns would fill a log.
#[tokio::test(start_paused = true)]
async fn a_store_that_flaps_is_told_of_once_in_ten_seconds() {
    let ear = Ear::default();
    let _hears = tracing::subscriber::set_default(ear.clone());
    let wire = Lossy::new(memory());
    let client = paused().over(wire.clone()).unwrap();
    drop(client.mutex("orders").lock().await.unwrap());
    let begun = time::Instant::now();
    while begun.elapsed() < Duration::from_secs(150) {
        wire.next([Fate::Refused]);
        drop(client.mutex("orders").lock().await.unwrap());
        client.idle().await;
    }
    // An outage that begins right after one that was told is told too, when it lasts.
    wire.always(Fate::Refused);
    client.mutex("orders").try_lock_for(Duration::from_secs(30)).await.unwrap_err();
    wire.heal();
    drop(client.mutex("orders").lock().await.unwrap());
    assert!(wire.lost() > 1000, "{}", wire.lost());
    assert_eq!((ear.take(Level::WARN).len(), ear.take(Level::INFO).len()), (16, 16));
}
