//! The library's events, printed as messages.

use std::fmt::{self, Write};

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
};
use tracing_subscriber::{
    Layer,
    filter::Targets,
    layer::{Context, SubscriberExt},
    util::SubscriberInitExt,
};

use super::{
    queue::{self, Item},
    sanitized,
};

/// From now on, prints the warnings of the library. Each `-v` adds the next level of the library's log. The clients of the
/// stores have logs of their own, of which one level less is printed: their warnings repeat each attempt to connect.
pub(crate) fn install_subscriber(verbosity: u8) {
    let (ours, clients) = match verbosity {
        0 => (LevelFilter::WARN, LevelFilter::ERROR),
        1 => (LevelFilter::INFO, LevelFilter::WARN),
        2 => (LevelFilter::DEBUG, LevelFilter::INFO),
        _ => (LevelFilter::TRACE, LevelFilter::DEBUG),
    };
    let levels = Targets::new().with_default(clients).with_target("bandog", ours);
    queue::start();
    // This fails only if another subscriber is installed already. That subscriber is kept.
    let _ = tracing_subscriber::registry().with(levels).with(Printer).try_init();
}

/// Prints events as messages.
struct Printer;

impl<S: Subscriber> Layer<S> for Printer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut sentence = Sentence::default();
        event.record(&mut sentence);
        let grade = match *event.metadata().level() {
            Level::ERROR | Level::WARN => "",
            Level::INFO => "info: ",
            Level::DEBUG => "debug: ",
            Level::TRACE => "trace: ",
        };
        queue::post(Item::Message(sanitized(&format!("{grade}{}{}", sentence.message, sentence.rest))));
    }
}

/// An event as text.
#[derive(Default)]
struct Sentence {
    /// The message of the event.
    message: String,
    /// The other fields of the event, with their names.
    rest: String,
}

impl Visit for Sentence {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing into a text cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.rest, ", {name}: {value:?}"),
        };
    }
}
