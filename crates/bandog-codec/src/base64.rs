//! Base64 in the standard alphabet (RFC 4648).

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Writes bytes without padding.
pub(crate) fn write(bytes: &[u8], to: &mut Vec<u8>) {
    for chunk in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, at| bits << 8 | u32::from(chunk.get(at).copied().unwrap_or(0)));
        to.extend((0..=chunk.len()).map(|at| ALPHABET[(bits >> (18 - 6 * at) & 63) as usize]));
    }
}

/// The padding of a text for this number of bytes.
pub(crate) fn padding(bytes: usize) -> &'static [u8] {
    [&b""[..], b"==", b"="][bytes % 3]
}

/// Reads a text with or without padding. `None` if it is not base64.
pub(crate) fn read(text: &[u8]) -> Option<Vec<u8>> {
    let unpadded = match text {
        [text @ .., b'=', b'='] | [text @ .., b'='] => text,
        text => text,
    };
    let mut bytes = Vec::with_capacity(unpadded.len() / 4 * 3 + 2);
    for chunk in unpadded.chunks(4) {
        let bits = chunk.iter().try_fold(0, |bits, c| Some(bits << 6 | value(*c)?))? << (6 * (4 - chunk.len()));
        let [_, first, second, third] = u32::to_be_bytes(bits);
        match chunk.len() {
            4 => bytes.extend([first, second, third]),
            3 if third == 0 => bytes.extend([first, second]),
            2 if second == 0 && third == 0 => bytes.push(first),
            _ => return None,
        }
    }
    (unpadded.len() == text.len() || text.len().is_multiple_of(4)).then_some(bytes)
}

fn value(c: u8) -> Option<u32> {
    let value = match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let bytes: Vec<u8> = (0..=255).collect();
        for (start, end) in (0..40).flat_map(|start| (start..44).map(move |end| (start, end))) {
            let bytes = &bytes[start * 5..end * 5 + start % 3];
            let mut text = Vec::new();
            write(bytes, &mut text);
            assert_eq!(read(&text).as_deref(), Some(bytes));
            text.extend(padding(bytes.len()));
            assert_eq!(text.len() % 4, 0);
            assert_eq!(read(&text).as_deref(), Some(bytes));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["A", "AAAAA", "A===", "AA=", "AB==", "AAB=", "A A=", "====", "=", "AAAA=", "AA==AA==", "é"] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
        assert_eq!(read(b""), Some(Vec::new()));
    }
}
