//! Text in quotes, with the escapes of Jackson.

/// Writes a text in quotes. Jackson escapes characters outside of the basic plane in values and in keys of maps, but not in
/// the names of fields.
#[inline]
pub(super) fn write(text: &str, wide: Wide, to: &mut Vec<u8>) {
    to.push(b'"');
    let plain = plain::<true>(text.as_bytes());
    to.extend_from_slice(&text.as_bytes()[..plain]);
    if plain < text.len() {
        write_rest(&text[plain..], wide, to);
    }
    to.push(b'"');
}

/// Writes the name of a field with the colon behind it. It is inlined, because most names are constants without escapes.
#[inline(always)]
pub(super) fn write_name(name: &'static str, to: &mut Vec<u8>) {
    if name.bytes().all(|byte| byte > b'"' && byte != b'\\') {
        to.push(b'"');
        to.extend_from_slice(name.as_bytes());
        to.extend_from_slice(b"\":");
    } else {
        write(name, Wide::Raw, to);
        to.push(b':');
    }
}

/// Writes a text that begins with a byte that may need an escape.
fn write_rest(text: &str, wide: Wide, to: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    let (mut written, mut at) = (0, 0);
    while let Some(byte) = bytes.get(at) {
        let length = if *byte >= 0xf0 { 4 } else { 1 };
        if length == 1 || wide == Wide::Escaped {
            to.extend_from_slice(&bytes[written..at]);
            escape(*byte, &text[at..at + length], to);
            written = at + length;
        }
        at += length;
        at += plain::<true>(&bytes[at..]);
    }
    to.extend_from_slice(&bytes[written..]);
}

/// The form of characters outside of the basic plane.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Wide {
    /// `\uD83D\uDE00`
    Escaped,
    /// UTF-8
    Raw,
}

/// Number of bytes before the first one that may need an escape: a control character, a quote, a backslash, or with `WIDE`
/// the first byte of a character outside of the basic plane.
#[inline]
pub(super) fn plain<const WIDE: bool>(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let (words, _) = bytes.as_chunks::<8>();
    let is_plain = |word: &&[u8; 8]| {
        let word = u64::from_le_bytes(**word);
        // Of each byte only the highest bit counts. It is set if the byte is below the limit, or is zero.
        let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word;
        let equal = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
        let is_wide = if WIDE { word & word << 1 & word << 2 & word << 3 } else { 0 };
        (below(word, 0x20) | equal(b'"') | equal(b'\\') | is_wide) & (ONES << 7) == 0
    };
    let start = words.iter().take_while(is_plain).count() * 8;
    let rest = &bytes[start..];
    let is_special = |byte: &u8| matches!(byte, ..0x20 | b'"' | b'\\') || (WIDE && *byte >= 0xf0);
    start + rest.iter().position(is_special).unwrap_or(rest.len())
}

fn escape(first: u8, text: &str, to: &mut Vec<u8>) {
    let letter = match first {
        b'"' | b'\\' => first,
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0c => b'f',
        b'\r' => b'r',
        _ => return text.encode_utf16().for_each(|unit| escape_unit(unit, to)),
    };
    to.extend_from_slice(&[b'\\', letter]);
}

/// Writes a unit of UTF-16: `\u001F`.
fn escape_unit(unit: u16, to: &mut Vec<u8>) {
    let digit = |shift: u16| b"0123456789ABCDEF"[usize::from(unit >> shift & 0xf)];
    to.extend_from_slice(&[b'\\', b'u', digit(12), digit(8), digit(4), digit(0)]);
}
