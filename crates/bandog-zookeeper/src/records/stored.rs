//! The data of a record's node: the value and the history.

use std::collections::BTreeMap;

use bandog_core::Version;

/// Maximum size of a node's data, in bytes. The servers refuse requests above 1 MiB by default (`jute.maxbuffer`).
pub(crate) const MAX_BYTES: usize = 512 * 1024;

/// The first word of the data.
const FORMAT: &str = "bandog-record-1";

/// A record with its history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) version: Version,
    pub(crate) value: String,
    /// The texts of the lines, by the names of their slots.
    pub(crate) lines: BTreeMap<String, String>,
}

impl Stored {
    /// A line with the version and the number of bytes of each text, then the texts.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let texts = || [&self.value].into_iter().chain(self.lines.iter().flat_map(|(slot, value)| [slot, value]));
        let lengths: Vec<_> = texts().map(|text| text.len().to_string()).collect();
        let head = format!("{FORMAT} {} {}\n", self.version, lengths.join(" "));
        head.bytes().chain(texts().flat_map(|text| text.bytes())).collect()
    }

    /// None if the data were not written by this crate.
    pub(crate) fn read(data: &[u8]) -> Option<Self> {
        let (head, mut rest) = std::str::from_utf8(data).ok()?.split_once('\n')?;
        let mut texts = Vec::new();
        let (version, lengths) = head.strip_prefix(FORMAT)?.strip_prefix(' ')?.split_once(' ')?;
        let version = Version::new(version.parse().ok()?)?;
        for length in lengths.split(' ') {
            let (text, behind) = rest.split_at_checked(length.parse().ok()?)?;
            texts.push(text);
            rest = behind;
        }
        let (value, lines) = texts.split_first()?;
        if !rest.is_empty() || lines.len() % 2 != 0 {
            return None;
        }
        let lines = lines.chunks(2).map(|line| (line[0].to_owned(), line[1].to_owned())).collect();
        Some(Self { version, value: (*value).to_owned(), lines })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let lines =
            [("a", "one\ntwo"), ("犬", ""), ("b 1", "🐕")].map(|(slot, value)| (slot.to_owned(), value.to_owned()));
        for value in ["", "text", "with\nlines 7", "🐕"] {
            for lines in [BTreeMap::new(), lines.clone().into_iter().collect()] {
                let version = Version::new(17).unwrap();
                let stored = Stored { version, value: value.to_owned(), lines };
                assert_eq!(Stored::read(&stored.bytes()), Some(stored));
            }
        }
    }

    #[test]
    fn other_data_are_not_a_record() {
        for data in [
            &b""[..],
            b"text",
            b"bandog-record-1 1 4\nfour five",
            b"bandog-record-1 1 9\nshort",
            b"bandog-record-1 1 \n",
            b"bandog-record-1 1 1 1\nab",
            b"bandog-record-1 1 x\n",
            b"bandog-record-1 0 1\na",
            b"bandog-record-1 1\na",
            "bandog-record-1 1 1\n🐕".as_bytes(),
            &[0xff, b'\n'],
        ] {
            assert_eq!(Stored::read(data), None, "{data:?}");
        }
    }
}
