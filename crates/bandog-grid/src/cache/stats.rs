//! The counts of a cache.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use metrics::counter;

/// Defines the counts, and the counters behind them.
macro_rules! counts {
    ($($(#[$docs:meta])* $name:ident)*) => {
        /// What the handles of a cache have counted.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct CacheStats {
            $($(#[$docs])* pub $name: u64,)*
        }

        impl CacheStats {
            /// Each count by its name.
            pub(super) fn each(&self) -> BTreeMap<&'static str, u64> {
                [$((stringify!($name), self.$name),)*].into()
            }
        }

        pub(super) struct Counters {
            $(pub(super) $name: Counter,)*
        }

        impl Counters {
            /// Counters that are also reported as metrics, with the name of the cache.
            pub(super) fn new(cache: &str) -> Self {
                Self { $($name: Counter::new(counter!(
                    concat!("bandog_cache_", stringify!($name), "_total"),
                    "cache" => cache.to_owned()
                )),)* }
            }

            pub(super) fn stats(&self) -> CacheStats {
                CacheStats { $($name: self.$name.number.load(Relaxed),)* }
            }
        }
    };
}

counts! {
    /// Copies of this process that were returned.
    near_hits
    /// Fresh entries that were read from the store.
    hits
    /// Stale entries that were returned.
    stale_hits
    /// Reads of the store that found no entry.
    misses
    /// The sum of the ages of the entries that were returned, in ms, by the clock of this process.
    age_ms
    /// Loads that have begun.
    loads
    /// Loads that have failed or panicked.
    failed_loads
    /// Loads without the store, because it did not answer.
    loads_without_store
    /// Loads whose value was not written, because the entry was removed or written during the load.
    overtaken_loads
    /// Callers that have waited for a load that was running, in this process or another one.
    waits
    /// Entries that could not be decoded.
    undecodable
    /// Values that could not be encoded, or are larger than [`Limits::element`](crate::Limits::element), and were not written.
    unencodable
    /// Requests that the store has not answered, or has refused.
    store_errors
}

pub(super) struct Counter {
    number: AtomicU64,
    metric: metrics::Counter,
}

impl Counter {
    fn new(metric: metrics::Counter) -> Self {
        Self { number: AtomicU64::new(0), metric }
    }

    pub(super) fn add(&self, number: u64) {
        self.number.fetch_add(number, Relaxed);
        self.metric.increment(number);
    }

    pub(super) fn one(&self) {
        self.add(1);
    }
}
