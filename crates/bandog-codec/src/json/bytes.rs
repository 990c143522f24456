//! Bytes as base64.

use base64::{
    Engine,
    prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD},
};

/// Reads a text with or without padding. `None` if it is not base64.
pub(super) fn read(text: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(text).or_else(|_| BASE64_STANDARD_NO_PAD.decode(text)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_texts_are_refused() {
        for text in ["A", "AAAAA", "A===", "AA=", "AB==", "AAB=", "A A=", "====", "=", "AAAA=", "AA==AA==", "é"] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(read(""), Some(Vec::new()));
        assert_eq!((read("AQI="), read("AQI")), (Some(vec![1, 2]), Some(vec![1, 2])));
    }
}
