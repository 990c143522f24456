//! Durations such as `500ms`, `10s` and `2m`.

use std::{ops::RangeInclusive, time::Duration};

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, LitStr, Result};

/// Maximum duration that any key accepts.
pub(crate) const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// The ttls that a lock can have.
pub(crate) const TTLS: RangeInclusive<Duration> = Duration::from_millis(100)..=LONGEST;

/// Reads a duration and checks that it is allowed. `bounds` are the allowed bounds as text.
pub(crate) fn read(name: &str, text: &LitStr, allowed: RangeInclusive<Duration>, bounds: &str) -> Result<Duration> {
    let value = text.value();
    let refused = |message| Err(Error::new(text.span(), message));
    match humantime::parse_duration(&value) {
        Ok(time) if allowed.contains(&time) => Ok(time),
        Ok(_) => refused(format!("`{name}` is {value:?}; it must be between {bounds}")),
        Err(_) => refused(format!("`{name}` is {value:?}, which is not a duration; write 500ms, 10s or 2m")),
    }
}

/// The code of an expression whose value is this duration.
pub(crate) fn tokens(time: Duration) -> TokenStream {
    let (seconds, nanos) = (time.as_secs(), time.subsec_nanos());
    quote!(::core::time::Duration::new(#seconds, #nanos))
}
