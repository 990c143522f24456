//! Durations on the command line.

use std::time::Duration;

use bandog::backend::{MAX_TTL, MIN_TTL};

/// Parses a wait, which must be between zero and 365 days.
pub(crate) fn wait(text: &str) -> Result<Duration, String> {
    duration(text, Duration::ZERO, "between 0s and 365d")
}

/// Parses a lease, within the limits of a ttl.
pub(crate) fn lease(text: &str) -> Result<Duration, String> {
    duration(text, MIN_TTL, "between 100ms and 365d")
}

/// Parses a duration between `least` and `MAX_TTL`. `range` is this range as text.
fn duration(text: &str, least: Duration, range: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(duration) if (least..=MAX_TTL).contains(&duration) => Ok(duration),
        Ok(_) => Err(format!("it must be {range}")),
        Err(_) => Err(format!("write it like 500ms, 10s or 2m, {range}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit_and_bounds() {
        assert_eq!(lease("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(wait("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(wait("0s"), Ok(Duration::ZERO));
        for wrong in ["0s", "99ms", "366d", "-5s", "10", "", "soon", "99999999999999999999s"] {
            assert!(lease(wrong).unwrap_err().contains("between 100ms and 365d"), "{wrong}");
        }
    }
}
