//! Durations as text, for messages.

use std::time::Duration;

/// The duration as text for messages and logs, rounded: below a millisecond to microseconds, below a minute to
/// milliseconds, otherwise to seconds. The units are `d`, `h`, `m`, `s`, `ms` and `us`, as in `110ms`,
/// `2.7s` and `1h 30m`. Zero is `0s`.
pub fn rounded(duration: Duration) -> String {
    let micros = duration.as_nanos().saturating_add(500) / 1000;
    let (millis, secs) = ((micros + 500) / 1000, (micros + 500_000) / 1_000_000);
    match (micros, millis) {
        (0, _) => "0s".to_owned(),
        (1..1000, _) => format!("{micros}us"),
        (_, 1..1000) => format!("{millis}ms"),
        (_, 1000..60_000) => {
            let fraction = format!("{:03}", millis % 1000);
            let text = format!("{}.{}", millis / 1000, fraction.trim_end_matches('0'));
            format!("{}s", text.trim_end_matches('.'))
        }
        _ => {
            let units = [(secs / 86_400, "d"), (secs / 3600 % 24, "h"), (secs / 60 % 60, "m"), (secs % 60, "s")];
            let units = units.iter().filter(|(number, _)| *number > 0);
            units.map(|(number, unit)| format!("{number}{unit}")).collect::<Vec<_>>().join(" ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_the_largest_unit_that_fits() {
        for (micros, text) in [
            (0, "0s"),
            (1, "1us"),
            (999, "999us"),
            (1_000, "1ms"),
            (110_045, "110ms"),
            (999_499, "999ms"),
            (999_500, "1s"),
            (1_250_000, "1.25s"),
            (2_700_000, "2.7s"),
            (59_999_499, "59.999s"),
            (59_999_500, "1m"),
            (60_000_000, "1m"),
            (90_000_000, "1m 30s"),
            (3_600_000_000, "1h"),
            (93_784_000_000, "1d 2h 3m 4s"),
        ] {
            assert_eq!(rounded(Duration::from_micros(micros)), text);
        }
        assert_eq!(rounded(Duration::from_nanos(499)), "0s");
        assert!(rounded(Duration::MAX).starts_with("213503982334601d"));
    }
}
