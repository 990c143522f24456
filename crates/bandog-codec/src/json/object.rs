//! The properties of an object, in the order of Java.

use std::cmp::Ordering;

/// A property that was written at this place, with the comma behind it.
#[derive(Clone, Copy)]
pub(super) struct Property<N> {
    pub(super) name: N,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Puts the properties, which are the end of `to`, into this order.
pub(super) fn arrange<N>(properties: &[Property<N>], to: &mut Vec<u8>) {
    let Some(start) = properties.iter().map(|property| property.start).min() else { return };
    let end = to.len();
    to.reserve(end - start);
    for property in properties {
        to.extend_from_within(property.start..property.end);
    }
    to.copy_within(end.., start);
    to.truncate(end);
}

/// The order of `String.compareTo`, by units of UTF-16: characters outside of the basic plane come before U+E000.
#[inline]
pub(super) fn order(a: &str, b: &str) -> Ordering {
    match (a.as_bytes(), b.as_bytes()) {
        // Most names differ in their first byte.
        ([a @ ..0x80, ..], [b, ..]) | ([a, ..], [b @ ..0x80, ..]) if a != b => a.cmp(b),
        (a, b) => order_bytes(a, b),
    }
}

fn order_bytes(a: &[u8], b: &[u8]) -> Ordering {
    let rank = |byte: u8| if matches!(byte, 0xee | 0xef) { byte + 0x10 } else { byte };
    match a.iter().zip(b).find(|(a, b)| a != b) {
        Some((a, b)) => rank(*a).cmp(&rank(*b)),
        None => a.len().cmp(&b.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_ordered_by_units_of_utf16() {
        let texts =
            ["", "a", "ab", "b", "Z", "\u{7f}", "é", "\u{d7ff}", "\u{e000}", "\u{ffff}", "😀", "😀a", "\u{10ffff}"];
        for (a, b) in texts.into_iter().flat_map(|a| texts.map(|b| (a, b))) {
            let units = |text: &str| text.encode_utf16().collect::<Vec<_>>();
            assert_eq!(order(a, b), units(a).cmp(&units(b)), "{a:?}, {b:?}");
        }
    }
}
