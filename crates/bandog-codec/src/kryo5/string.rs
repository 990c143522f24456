//! The texts of Kryo: short ASCII with a mark on its last byte, or a length and UTF-16 units as UTF-8.

use super::varint;

/// The bytes of a null String, with the id.
pub(super) const NULL: &[u8] = &[0x03, 0x80];

/// The longest text that Kryo writes without a length.
const SHORT: usize = 32;
/// The mark of the last byte of short ASCII, and of the first byte of a length.
const MARK: u8 = 0x80;
/// The mark of the first byte of a length that continues.
const MORE: u8 = 0x40;

/// Writes a text in the form that Kryo writes. Short ASCII has 2 to 32 characters.
pub(super) fn write(text: Option<&str>, to: &mut Vec<u8>) {
    let Some(text) = text else { return length(0, to) };
    if (2..=SHORT).contains(&text.len()) && text.is_ascii() {
        to.extend_from_slice(text.as_bytes());
        if let Some(last) = to.last_mut() {
            *last |= MARK;
        }
        return;
    }
    if text.is_ascii() {
        length(text.len() + 1, to);
        to.extend_from_slice(text.as_bytes());
        return;
    }
    length(text.encode_utf16().count() + 1, to);
    for c in text.chars() {
        match c.len_utf16() {
            1 => to.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            _ => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| surrogate(*unit, to)),
        }
    }
}

/// Writes a length: 6 bits with the marks, then groups of 7 bits.
fn length(length: usize, to: &mut Vec<u8>) {
    let low = length.to_le_bytes()[0] & 0x3f | MARK;
    if length < 0x40 {
        return to.push(low);
    }
    to.push(low | MORE);
    varint::write((length >> 6) as u64, to);
}

/// Writes a half of a surrogate pair as UTF-8 would, which has no form for it.
fn surrogate(unit: u16, to: &mut Vec<u8>) {
    let group = |shift: u16| (unit >> shift).to_le_bytes()[0] & 0x3f | 0x80;
    to.extend([0xe0 | (unit >> 12).to_le_bytes()[0], group(6), group(0)]);
}

/// Reads bytes that are exactly one text, in either form. The inner `None` is a null.
pub(super) fn read(bytes: &[u8]) -> Option<Option<String>> {
    let (text, rest) = split(bytes)?;
    rest.is_empty().then_some(text)
}

/// Reads the text in front of other bytes.
pub(super) fn read_first(bytes: &[u8]) -> Option<String> {
    split(bytes)?.0
}

fn split(bytes: &[u8]) -> Option<(Option<String>, &[u8])> {
    if bytes.first()? & MARK == 0 {
        let (ascii, rest) = bytes.split_at(bytes.iter().position(|byte| byte & MARK != 0)? + 1);
        let text = ascii.iter().map(|byte| char::from(byte & !MARK)).collect();
        return Some((Some(text), rest));
    }
    let (length, bytes) = read_length(bytes)?;
    let Some(units) = length.checked_sub(1) else { return Some((None, bytes)) };
    let (text, rest) = decode(units, bytes)?;
    Some((Some(text), rest))
}

fn read_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let low = usize::from(first & 0x3f);
    if first & MORE == 0 {
        return Some((low, rest));
    }
    let (more, rest) = rest.split_at(rest.iter().position(|byte| byte & 0x80 == 0)? + 1);
    let high = varint::read(more).filter(|high| (1..1 << 26).contains(high))?;
    Some((usize::try_from(high << 6).ok()? | low, rest))
}

/// Reads this number of UTF-16 units. `None` if they are not in the form that [`write`] writes.
fn decode(units: usize, bytes: &[u8]) -> Option<(String, &[u8])> {
    // Most texts are ASCII or have no surrogates, so a prefix of them is UTF-8 itself.
    if let Some((ascii, rest)) = bytes.split_at_checked(units).filter(|(ascii, _)| ascii.is_ascii()) {
        return Some((str::from_utf8(ascii).ok()?.to_owned(), rest));
    }
    let mut text = String::with_capacity(units.min(bytes.len()));
    let (mut bytes, mut left) = (bytes, units);
    while left > 0 {
        let unit = next(&mut bytes)?;
        left -= 1;
        text.push(match unit {
            0xd800..0xdc00 if left > 0 => {
                left -= 1;
                char::decode_utf16([unit, next(&mut bytes)?]).next()?.ok()?
            }
            unit => char::from_u32(unit.into())?,
        });
    }
    Some((text, bytes))
}

/// The next unit. `None` if it has more bytes than it needs, or is damaged.
fn next(bytes: &mut &[u8]) -> Option<u16> {
    let group = |byte: u8| (byte & 0xc0 == 0x80).then_some(u16::from(byte & 0x3f));
    let (unit, rest) = match *bytes {
        [first @ 0..0x80, rest @ ..] => (u16::from(*first), rest),
        [first @ 0xc2..0xe0, second, rest @ ..] => (u16::from(first & 0x1f) << 6 | group(*second)?, rest),
        [first @ 0xe0..0xf0, second, third, rest @ ..] => {
            let unit = u16::from(first & 0x0f) << 12 | group(*second)? << 6 | group(*third)?;
            (Some(unit).filter(|unit| *unit >= 0x800)?, rest)
        }
        _ => return None,
    };
    *bytes = rest;
    Some(unit)
}
