//! What the command says on standard error: its own messages and the library's warnings, in one style.

use std::{
    fmt::{self, Write as _},
    io::Write as _,
};

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt},
    util::SubscriberInitExt,
};

/// Prints a message; standard output is for what was asked for.
pub(crate) fn say(message: &str) {
    // A standard error that is closed can be told nothing, and the work goes on all the same.
    let _ = writeln!(std::io::stderr().lock(), "bandog: {message}");
}

/// A text as a terminal may see it: others may have put control characters there.
pub(crate) fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { c.escape_debug().to_string() } else { c.to_string() }).collect()
}

/// Prints the library's warnings from now on, and more of what it does for each `-v`.
pub(crate) fn listen(verbosity: u8) {
    let level = match verbosity {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    // It fails only if somebody listens already, who then goes on.
    let _ = tracing_subscriber::registry().with(level).with(Printer).try_init();
}

/// Prints events as messages.
struct Printer;

impl<S: Subscriber> Layer<S> for Printer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line::default();
        event.record(&mut line);
        let grade = match *event.metadata().level() {
            Level::ERROR | Level::WARN => "",
            Level::INFO => "info: ",
            Level::DEBUG => "debug: ",
            Level::TRACE => "trace: ",
        };
        say(&shown(&format!("{grade}{}{}", line.message, line.rest)));
    }
}

/// An event as text.
#[derive(Default)]
struct Line {
    message: String,
    rest: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing into a text cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.rest, ", {name}: {value:?}"),
        };
    }
}
