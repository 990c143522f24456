//! `bandog queue NAME limit`: changes the limits of a queue.

use std::{num::NonZeroU32, time::Duration};

use bandog::work::Rate;

use super::open::Queue;

/// Limits the number of elements on which all workers together work, and the number of deliveries per time.
///
/// The limits are in the store, so they hold for all workers on all machines, and change at once.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
#[command(after_help = "\
Of a rate, a fiftieth of the deliveries may come at once; the others are spread over the period.

Examples:
  bandog queue mails limit --concurrency 4
  bandog queue mails limit --rate 100/1m
  bandog queue mails limit --concurrency none --rate none")]
pub(super) struct Args {
    /// Maximum number of taken elements, or `none`.
    #[arg(long, value_name = "N|none", value_parser = concurrency)]
    concurrency: Option<Limit<NonZeroU32>>,
    /// Maximum number of deliveries in a period, such as `100/1m`, or `none`.
    #[arg(long, value_name = "N/DUR|none", value_parser = rate)]
    rate: Option<Limit<Rate>>,
}

/// A limit, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit<T> {
    No,
    At(T),
}

impl<T> Limit<T> {
    fn get(self) -> Option<T> {
        match self {
            Self::No => None,
            Self::At(limit) => Some(limit),
        }
    }
}

impl Args {
    pub(super) async fn apply(&self, queue: &Queue) -> bandog::Result<()> {
        if let Some(limit) = self.concurrency {
            queue.limit_concurrency(limit.get()).await?;
        }
        if let Some(limit) = self.rate {
            queue.limit_rate(limit.get()).await?;
        }
        Ok(())
    }
}

fn concurrency(text: &str) -> Result<Limit<NonZeroU32>, String> {
    match text {
        "none" => Ok(Limit::No),
        number => number.parse().map(Limit::At).map_err(|_| "write a number from 1 on, or `none`".to_owned()),
    }
}

fn rate(text: &str) -> Result<Limit<Rate>, String> {
    if text == "none" {
        return Ok(Limit::No);
    }
    let parse = || {
        let (deliveries, per) = text.split_once('/')?;
        // `10/s` is `10/1s`.
        let per =
            if per.starts_with(|first: char| first.is_ascii_digit()) { per.to_owned() } else { format!("1{per}") };
        Some(Rate { deliveries: deliveries.parse().ok()?, per: humantime::parse_duration(&per).ok()? })
    };
    let longest = Duration::from_secs(365 * 86_400);
    let allowed = |rate: &Rate| (Duration::from_millis(1)..=longest).contains(&rate.per);
    parse()
        .filter(allowed)
        .map(Limit::At)
        .ok_or_else(|| "write a number and a period from 1ms to 365d, such as 100/1m or 5/s, or `none`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_numbers_or_none() {
        let of = |deliveries, ms| {
            NonZeroU32::new(deliveries).map(|deliveries| Limit::At(Rate { deliveries, per: Duration::from_millis(ms) }))
        };
        assert_eq!(rate("100/1m").ok(), of(100, 60_000));
        assert_eq!(rate("5/s").ok(), of(5, 1000));
        assert_eq!(rate("none"), Ok(Limit::No));
        assert_eq!(concurrency("none"), Ok(Limit::No));
        for wrong in ["", "5", "0/1s", "5/", "5/0s", "5/2y", "-1/s", "5/-1s", " 5/s"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
        for wrong in ["0", "-1", "", "all"] {
            assert!(concurrency(wrong).is_err(), "{wrong}");
        }
    }
}
