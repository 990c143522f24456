//! What a worker has to do.

use std::{ffi::OsString, time::Duration};

use bandog::work::Backoff;

use crate::{
    durations, exit_code::ExitCode, fault::Fault, kept::program::Missing, lock::grace::Grace, print::Format,
    store::Store,
};

/// The options of a worker.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// The number of elements on which this worker works at the same time.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) workers: u32,
    /// The lease of an element, from 1s to 1d: if the worker dies or is stopped, others get the element after this time.
    #[arg(long, value_name = "DUR", value_parser = lease, default_value = "30s")]
    pub(super) lease: Duration,
    /// The number of deliveries after which a failed element is dead.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) deliveries: u32,
    /// The time after which a failed element comes again; with a range, it doubles with each attempt.
    #[arg(long, value_name = "DUR[..DUR]", value_parser = backoff, default_value = "1s..1h")]
    pub(super) backoff: Backoff,
    /// How long running commands are allowed to continue after a stop signal, before they are ended.
    #[arg(long, value_name = "DUR", value_parser = durations::wait, default_value = "30s")]
    pub(super) drain: Duration,
    /// The maximum duration of CMD; then it is ended, and the attempt has failed [default: none].
    #[arg(long, value_name = "DUR", value_parser = durations::lease)]
    pub(super) timeout: Option<Duration>,
    /// Exit when no element is ready, delayed or taken. Dead ones, and those that wait for dead ones, may be left.
    #[arg(long)]
    pub(super) until_empty: bool,
    /// Print the lines of CMD as they are, without the queue's name in front.
    #[arg(long)]
    pub(super) plain: bool,
}

/// What a worker has to do.
pub(super) struct Order<'a> {
    pub(super) name: &'a str,
    pub(super) options: &'a Options,
    pub(super) format: Format,
    pub(super) command: &'a [OsString],
    pub(super) grace: Grace,
    pub(super) store: &'a Store,
}

/// The error if the program cannot be started.
pub(super) fn cannot_run(missing: &Missing) -> Fault {
    let code = match missing {
        Missing::NotFound(_) => 127,
        Missing::NotExecutable(_) | Missing::NoDirectory(_) | Missing::ClosedDirectory(_) => 126,
    };
    Fault::new(ExitCode::Child(code), missing.to_string())
}

/// Parses the lease of an element.
fn lease(text: &str) -> Result<Duration, String> {
    let allowed = Duration::from_secs(1)..=Duration::from_secs(86_400);
    let lease = humantime::parse_duration(text).ok().filter(|lease| allowed.contains(lease));
    lease.ok_or_else(|| "write it like 10s or 2m, between 1s and 1d".to_owned())
}

/// Parses a time, or a range of times.
fn backoff(text: &str) -> Result<Backoff, String> {
    let backoff = match text.split_once("..") {
        Some((first, most)) => Backoff::exponential(durations::wait(first)?, durations::wait(most)?),
        None => Backoff::fixed(durations::wait(text)?),
    };
    backoff.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backoff_is_a_time_or_a_range() {
        assert_eq!(backoff("2s").ok(), Backoff::fixed(Duration::from_secs(2)).ok());
        let range = Backoff::exponential(Duration::from_secs(1), Duration::from_secs(3600));
        assert_eq!(backoff("1s..1h").ok(), range.ok());
        for wrong in ["", "1", "..", "1s..", "2s..1s", "1s...2s"] {
            assert!(backoff(wrong).is_err(), "{wrong}");
        }
        assert!(lease("999ms").is_err() && lease("1d").is_ok() && lease("25h").is_err());
    }
}
