//! Prints the elements of a queue.

use std::io;

use bandog::work::{ElementRow, Phase};

use super::status::columns;
use crate::{console::escaped, row};

/// Maximum number of characters of a payload or an error in a table.
const SHOWN: usize = 60;

/// Prints a table of elements in one phase.
pub(crate) fn table(rows: &[ElementRow], phase: Phase) -> io::Result<()> {
    let (left, note) = match phase {
        Phase::Delayed => ("READY IN", "LAST ERROR"),
        Phase::Taken => ("LEASE", "PROGRESS"),
        Phase::Ready | Phase::Blocked | Phase::Dead | Phase::Ended => ("-", "ERROR"),
    };
    let heads = ["ID", "AGE", left, "ATTEMPT", "KEY", "PAYLOAD", note].map(String::from);
    let lines = rows.iter().map(|row| {
        let time = |time: Option<std::time::Duration>| time.map_or("-".to_owned(), row::remaining);
        let note = if phase == Phase::Taken { &row.progress } else { &row.error };
        let key = row.order_key.as_deref().map_or("-".to_owned(), |key| shortened(&escaped(key)));
        let cancelled = if row.is_cancelled { "cancelled " } else { "" };
        let note = note.as_deref().map_or("-".to_owned(), |note| shortened(&escaped(note)));
        let (age, left) = (time(row.age), time(row.left));
        [
            row.id.to_string(),
            age,
            left,
            row.attempt.to_string(),
            key,
            payload(&row.payload),
            cancelled.to_owned() + &note,
        ]
    });
    columns(&[heads].into_iter().chain(lines).collect::<Vec<_>>())
}

/// A payload for people: text if it is UTF-8, else its bytes as `0x` and hexadecimal digits.
fn payload(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        // Only the beginning is shown.
        Ok(text) => shortened(&escaped(&text.chars().take(SHOWN + 1).collect::<String>())),
        Err(_) => shortened(&format!("0x{}", hex(bytes, SHOWN))),
    }
}

/// The first bytes as hexadecimal digits.
fn hex(bytes: &[u8], most: usize) -> String {
    bytes.iter().take(most).map(|byte| format!("{byte:02x}")).collect()
}

/// A text of at most [`SHOWN`] characters.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_text_or_hexadecimal() {
        assert_eq!(payload(b"a\nb"), "a\\nb");
        assert_eq!(payload(b"\xff\x01"), "0xff01");
        assert_eq!(payload("ä".repeat(70).as_bytes()), format!("{}…", "ä".repeat(60)));
        assert_eq!(payload(&[0xff; 100]).chars().count(), 61);
    }
}
