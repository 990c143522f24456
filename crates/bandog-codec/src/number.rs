//! Texts of doubles that are not values of a codec: `RAtomicDouble`, scores of sorted sets, and the configuration of Bloom
//! filters.

use crate::{Corrupt, decimal};

/// The text of a double in Java's notation: `1.5`, `100.0`, `1.0E10`, `3.0E-4`, `NaN`, `-Infinity`.
///
/// It has the shortest digits that are read back as the same double, as in Java 19 and later. Java 17 and 18 write other
/// digits, mostly one more, of 0.3 % of all doubles and 11 % of all floats, but of no number with two decimals (of 300,000
/// random ones). [`TypedJson`](crate::TypedJson) and the hash of a Bloom filter's configuration have this text.
///
/// ```
/// assert_eq!(bandog_codec::number::java(0.0003), "3.0E-4");
/// assert_eq!(bandog_codec::number::java(0.03), "0.03");
/// ```
pub fn java(value: f64) -> String {
    text(|to| decimal::java64(value, to))
}

/// The text of a double without an exponent, as `RAtomicDouble` writes it. `None` for `NaN` and infinities, which neither
/// Java nor Redis accepts.
///
/// ```
/// use bandog_codec::number::plain;
///
/// assert_eq!(plain(1e10).as_deref(), Some("10000000000"));
/// assert_eq!(plain(1e-7).as_deref(), Some("0.00000010"));
/// assert_eq!(plain(100.0).as_deref(), Some("100.0"));
/// assert_eq!(plain(1e300).map(|text| text.len()), Some(301));
/// assert_eq!(plain(f64::NAN), None);
/// ```
pub fn plain(value: f64) -> Option<String> {
    value.is_finite().then(|| text(|to| decimal::plain(value, to)))
}

/// The text of a score or of a bound of scores: [`plain`], or `+inf` and `-inf`. `None` for `NaN`, which is no score.
///
/// ```
/// use bandog_codec::number::score;
///
/// assert_eq!(score(1.5).as_deref(), Some("1.5"));
/// assert_eq!(score(f64::NEG_INFINITY).as_deref(), Some("-inf"));
/// ```
pub fn score(value: f64) -> Option<String> {
    match value {
        f64::INFINITY => Some("+inf".to_owned()),
        f64::NEG_INFINITY => Some("-inf".to_owned()),
        value => plain(value),
    }
}

/// Reads a double that Java or Redis has written: plain, with an exponent, `NaN`, `Infinity`, or `inf`.
///
/// # Errors
/// [`Corrupt`] if the bytes are another text.
///
/// ```
/// use bandog_codec::number::parse;
///
/// assert_eq!(parse(b"0.00000010")?, 1e-7);
/// assert_eq!(parse(b"1e+20")?, 1e20);
/// assert_eq!(parse(b"-inf")?, f64::NEG_INFINITY);
/// assert!(parse(b"1,5").is_err());
/// # Ok::<(), bandog_codec::Corrupt>(())
/// ```
pub fn parse(bytes: &[u8]) -> Result<f64, Corrupt> {
    let number = str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| Corrupt::new("number", "the decimal text of a double"))
}

fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut text = Vec::new();
    write(&mut text);
    String::from_utf8(text).unwrap_or_default()
}
