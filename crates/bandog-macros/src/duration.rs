//! Durations such as `500ms`, `10s` and `2m`.

use std::{ops::RangeInclusive, time::Duration};

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, LitStr, Result};

/// The maximum duration that a key of an attribute accepts.
pub(crate) const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// The ttls that a lock can have. The keys `lease` and `max_hold` of `#[locked]` accept these durations.
pub(crate) const TTLS: RangeInclusive<Duration> = Duration::from_millis(100)..=LONGEST;

/// Parses the duration in `text`, the value of the key `name`. A duration that is not in `allowed` is an error.
/// `bounds` is the range `allowed` as a text for the error message, such as `0s and 365d`.
pub(crate) fn read(name: &str, text: &LitStr, allowed: RangeInclusive<Duration>, bounds: &str) -> Result<Duration> {
    let value = text.value();
    let refused = |message| Err(Error::new(text.span(), message));
    match humantime::parse_duration(&value) {
        Ok(time) if allowed.contains(&time) => Ok(time),
        Ok(_) => refused(format!("`{name}` is {value:?}; it must be between {bounds}")),
        Err(_) => refused(format!("`{name}` is {value:?}, which is not a duration; write 500ms, 10s or 2m")),
    }
}

/// Generates the code of an expression whose value is `time`.
pub(crate) fn tokens(time: Duration) -> TokenStream {
    let (seconds, nanos) = (time.as_secs(), time.subsec_nanos());
    quote!(::core::time::Duration::new(#seconds, #nanos))
}
