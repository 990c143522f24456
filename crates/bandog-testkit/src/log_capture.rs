//! Captures `tracing` events and spans.

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, set_default, set_global_default};
use tracing::{Dispatch, Event, Metadata, Subscriber};

/// Records the events and the new spans whose target begins with a given prefix. Each event and each span becomes one
/// line. The line of an event begins with the level of the event, for example `WARN`. The line of a span begins with
/// `SPAN` and the name of the span. The rest of the line has `field=value` for each field.
///
/// ```
/// let (log, _guard) = bandog_testkit::LogCapture::of_thread("");
/// tracing::warn!(key = "orders", "a lock was lost");
/// assert_eq!(log.lines_with("lost"), ["WARN message=a lock was lost key=\"orders\""]);
/// ```
#[derive(Debug, Clone)]
pub struct LogCapture {
    target: &'static str,
    lines: Arc<Mutex<Vec<String>>>,
    spans: Arc<AtomicU64>,
}

impl LogCapture {
    fn new(target: &'static str) -> Self {
        Self { target, lines: Arc::default(), spans: Arc::default() }
    }

    /// Records the events and spans of this thread whose target begins with `target`, until the guard is dropped.
    #[must_use]
    pub fn of_thread(target: &'static str) -> (Self, DefaultGuard) {
        // If there is only one subscriber, `tracing` asks the first thread that reaches an event whether the event is
        // enabled, and uses this answer for all threads. But the first thread can belong to another test. If there are
        // several subscribers, `tracing` asks all of them. So this function creates two more subscribers.
        static OTHERS: LazyLock<[Dispatch; 2]> = LazyLock::new(|| [(); 2].map(|()| Dispatch::new(LogCapture::new(""))));
        LazyLock::force(&OTHERS);
        let log = Self::new(target);
        (log.clone(), set_default(log))
    }

    /// Records the events and spans of the whole process whose target begins with `target`, until the process ends.
    ///
    /// # Panics
    /// If another subscriber is installed already.
    #[must_use]
    pub fn of_process(target: &'static str) -> Self {
        let log = Self::new(target);
        set_global_default(log.clone()).expect("another global subscriber is already installed");
        log
    }

    /// The recorded lines that contain this text.
    #[must_use]
    pub fn lines_with(&self, words: &str) -> Vec<String> {
        self.lines().iter().filter(|line| line.contains(words)).cloned().collect()
    }

    /// Removes and returns the lines that begin with this word, such as `WARN`.
    #[must_use]
    pub fn take(&self, word: &str) -> Vec<String> {
        self.lines().extract_if(.., |line| line.starts_with(word)).collect()
    }

    fn lines(&self) -> MutexGuard<'_, Vec<String>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscriber for LogCapture {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with(self.target)
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut text = Text(format!("SPAN {}", span.metadata().name()));
        span.record(&mut text);
        self.lines().push(text.0);
        Id::from_u64(self.spans.fetch_add(1, Relaxed) + 1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(event.metadata().level().to_string());
        event.record(&mut text);
        self.lines().push(text.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The text of a line. `tracing` passes each field to this value, which appends the field to the text.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a `String` cannot fail.
        let _ = write!(self.0, " {field}={value:?}");
    }
}
