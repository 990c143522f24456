//! Decimal text of numbers: integers, and doubles as Java writes them.
//!
//! The digits are the shortest ones that are read back as the same number, as in Java 19 and later; Java 17 and 18 write
//! one digit more for some numbers (`1.9999999999999998E23` for `2.0E23`). A number with a single digit that is smaller
//! than [`f64::MIN_POSITIVE`] has two, the nearest ones: `4.9E-324`. The notation is that of `Double.toString`.

use std::fmt::{self, Display, Write};

/// Maximum number of digits of a double.
const DIGITS: usize = 17;
/// Length of the longest `{:e}` of a double, `-1.2345678901234567e-308`, rounded up.
const LONGEST: usize = 32;
/// The powers of ten by which [`few`] tries to make a number an integer.
const POWERS: [f64; 7] = [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6];
/// The smallest number, and the one above the greatest, that Java writes without an exponent.
const PLAIN: (f64, f64) = (1e-3, 1e7);

/// Writes an integer.
#[inline]
pub(crate) fn integer<T: TryInto<i64> + Display + Copy>(value: T, to: &mut Vec<u8>) {
    let Ok(number) = value.try_into() else {
        _ = write!(End(to), "{value}");
        return;
    };
    if number < 0 {
        to.push(b'-');
    }
    unsigned(number.unsigned_abs(), to);
}

#[inline]
fn unsigned(value: u64, to: &mut Vec<u8>) {
    match value {
        0..10 => to.push(digit(value)),
        10..100 => to.extend_from_slice(&[digit(value / 10), digit(value % 10)]),
        _ => digits(value, to),
    }
}

/// Appends formatted text. `std::io::Write` panics if a `Display` fails.
pub(crate) struct End<'a>(pub(crate) &'a mut Vec<u8>);

impl Write for End<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// Writes a number of at least three digits.
fn digits(mut value: u64, to: &mut Vec<u8>) {
    let (mut buffer, mut at) = ([0; 20], 20);
    while value >= 100 {
        at -= 2;
        buffer[at..at + 2].copy_from_slice(&[digit(value / 10 % 10), digit(value % 10)]);
        value /= 100;
    }
    if value >= 10 {
        at -= 1;
        buffer[at] = digit(value % 10);
        value /= 10;
    }
    at -= 1;
    buffer[at] = digit(value);
    to.extend_from_slice(&buffer[at..]);
}

/// The digit of a number below 10.
fn digit(value: u64) -> u8 {
    b'0' + value.to_le_bytes()[0]
}

/// The number without its fraction, or the nearest one that a `u64` can have.
#[expect(clippy::cast_possible_truncation, reason = "it is the meaning of the function")]
pub(crate) fn whole(value: f64) -> u64 {
    value as u64
}

/// Writes a number as `Double.toString`, also `NaN` and `-Infinity`.
pub(crate) fn java64(value: f64, to: &mut Vec<u8>) {
    if let Some((scaled, places)) = few(value.abs()) {
        if value.is_sign_negative() {
            to.push(b'-');
        }
        fixed(scaled, places, to);
    } else {
        java(value.is_finite().then(|| Decimal::of64(value)), value, to);
    }
}

/// Writes a number as `Float.toString`.
pub(crate) fn java32(value: f32, to: &mut Vec<u8>) {
    java(value.is_finite().then(|| Decimal::of32(value)), value.into(), to);
}

/// Writes a finite number as `BigDecimal.valueOf(value).toPlainString()`: without an exponent or a negative zero.
pub(crate) fn plain(value: f64, to: &mut Vec<u8>) {
    if value == 0.0 {
        return to.extend_from_slice(b"0.0");
    }
    let has_point = (PLAIN.0..PLAIN.1).contains(&value.abs());
    Decimal::of64(value).plain(if has_point { Fraction::Always } else { Fraction::OfMantissa }, to);
}

fn java(decimal: Option<Decimal>, value: f64, to: &mut Vec<u8>) {
    let text: &[u8] = match decimal {
        Some(decimal) if value == 0.0 || (PLAIN.0..PLAIN.1).contains(&value.abs()) => {
            return decimal.plain(Fraction::Always, to);
        }
        Some(decimal) => return decimal.scientific(to),
        None if value.is_nan() => b"NaN",
        None if value < 0.0 => b"-Infinity",
        None => b"Infinity",
    };
    to.extend_from_slice(text);
}

/// A number with at most six decimals, as an integer and their count. It is much faster than the general case: the
/// quotient of two integers is rounded correctly, so if it is the number, the integer has its digits. No other number
/// with at most 15 digits is read as the same double, so these digits are the shortest.
fn few(value: f64) -> Option<(u64, usize)> {
    if value != 0.0 && !(PLAIN.0..PLAIN.1).contains(&value) {
        return None;
    }
    POWERS.iter().enumerate().find_map(|(places, power)| {
        let product = value * power;
        let scaled = whole(product + 0.5);
        // The first condition saves most divisions, which are slow.
        let is_near = (scaled as f64 - product).abs() <= product * 1e-15;
        (is_near && scaled as f64 / power == value).then_some((scaled, places))
    })
}

/// Writes an integer with a point before its last digits.
fn fixed(scaled: u64, places: usize, to: &mut Vec<u8>) {
    let power = whole(POWERS[places]);
    unsigned(scaled / power, to);
    let (mut fraction, mut decimals) = (scaled % power, *b".000000");
    for decimal in decimals[1..=places].iter_mut().rev() {
        *decimal = digit(fraction % 10);
        fraction /= 10;
    }
    to.extend_from_slice(&decimals[..=places.max(1)]);
}

/// When [`Decimal::plain`] writes a fraction that is zero.
#[derive(Clone, Copy, PartialEq)]
enum Fraction {
    /// `100.0`: at least one decimal.
    Always,
    /// A single digit gets a zero behind it: `1.0E-7` is `0.00000010`, and `1.0E10` has no decimals.
    OfMantissa,
}

/// The shortest digits of a finite number.
struct Decimal {
    is_negative: bool,
    digits: [u8; DIGITS],
    count: usize,
    /// The exponent of the first digit: 2 for `123.4`.
    exponent: i32,
}

impl Decimal {
    fn of64(value: f64) -> Self {
        if value != 0.0 && value.abs() < f64::MIN_POSITIVE {
            return Self::of_small(format_args!("{value:e}"), format_args!("{value:.1e}"));
        }
        Self::read(format_args!("{value:e}"))
    }

    fn of32(value: f32) -> Self {
        if value != 0.0 && value.abs() < f32::MIN_POSITIVE {
            return Self::of_small(format_args!("{value:e}"), format_args!("{value:.1e}"));
        }
        Self::read(format_args!("{value:e}"))
    }

    /// The doubles near zero are so far apart that a single digit can be read back although two digits are nearer.
    fn of_small(shortest: fmt::Arguments<'_>, two_digits: fmt::Arguments<'_>) -> Self {
        let decimal = Self::read(shortest);
        if decimal.count > 1 { decimal } else { Self::read(two_digits) }
    }

    /// Reads the text of `{:e}`, such as `-1.5e-7`.
    fn read(text: fmt::Arguments<'_>) -> Self {
        let mut buffer = Buffer { bytes: [0; LONGEST], len: 0 };
        let mut decimal = Self { is_negative: false, digits: [0; DIGITS], count: 0, exponent: 0 };
        let Ok(()) = buffer.write_fmt(text) else { return decimal };
        let (mut in_exponent, mut is_below) = (false, false);
        for byte in &buffer.bytes[..buffer.len] {
            match byte {
                b'-' if in_exponent => is_below = true,
                b'-' => decimal.is_negative = true,
                b'e' => in_exponent = true,
                b'0'..=b'9' if in_exponent => decimal.exponent = decimal.exponent * 10 + i32::from(byte - b'0'),
                b'0'..=b'9' if decimal.count < DIGITS => {
                    decimal.digits[decimal.count] = *byte;
                    decimal.count += 1;
                }
                _ => {}
            }
        }
        if is_below {
            decimal.exponent = -decimal.exponent;
        }
        while decimal.count > 1 && decimal.digits[decimal.count - 1] == b'0' {
            decimal.count -= 1;
        }
        decimal
    }

    fn sign(&self, to: &mut Vec<u8>) {
        if self.is_negative {
            to.push(b'-');
        }
    }

    /// `1.0E10`
    fn scientific(&self, to: &mut Vec<u8>) {
        self.sign(to);
        to.extend_from_slice(&[self.digits[0], b'.']);
        to.extend_from_slice(if self.count > 1 { &self.digits[1..self.count] } else { b"0" });
        to.push(b'E');
        integer(self.exponent, to);
    }

    /// `100.0`
    fn plain(&self, fraction: Fraction, to: &mut Vec<u8>) {
        self.sign(to);
        let digits = &self.digits[..self.count];
        let zeros = |count: usize, to: &mut Vec<u8>| to.resize(to.len() + count, b'0');
        let Ok(exponent) = usize::try_from(self.exponent) else {
            to.extend_from_slice(b"0.");
            zeros(self.exponent.unsigned_abs() as usize - 1, to);
            to.extend_from_slice(digits);
            if fraction == Fraction::OfMantissa && self.count == 1 {
                to.push(b'0');
            }
            return;
        };
        let whole = (exponent + 1).min(self.count);
        to.extend_from_slice(&digits[..whole]);
        zeros(exponent + 1 - whole, to);
        if whole < self.count {
            to.push(b'.');
            to.extend_from_slice(&digits[whole..]);
        } else if fraction == Fraction::Always {
            to.extend_from_slice(b".0");
        }
    }
}

/// A text on the stack.
struct Buffer {
    bytes: [u8; LONGEST],
    len: usize,
}

impl Write for Buffer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let free = self.bytes.get_mut(self.len..self.len + text.len()).ok_or(fmt::Error)?;
        free.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}
