//! The lines of the files `proof/interop/golden/codec-*.txt`, which `proof/interop/tests/it/codecs.rs` writes.

use std::{borrow::Cow, fs};

use bandog_codec::{Decode, Encode, KryoValue};

/// A line: a label, and what Java wrote for it.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) section: String,
    pub(crate) label: String,
    pub(crate) text: String,
}

impl Line {
    /// The bytes of a line with hex. `None` if Java refused the value.
    pub(crate) fn bytes(&self) -> Option<Vec<u8>> {
        (self.text != "refused").then(|| unhex(&self.text))
    }

    /// The scalar that the label names.
    pub(crate) fn scalar(&self) -> KryoValue {
        let (kind, literal) = self.label.split_once(' ').unwrap_or((&self.label, ""));
        let bits = || u64::from_str_radix(literal, 16).unwrap();
        match kind {
            "null" => KryoValue::Null,
            "String" => KryoValue::String(repeated(literal)),
            "Integer" => KryoValue::Integer(literal.parse().unwrap()),
            "Long" => KryoValue::Long(literal.parse().unwrap()),
            "Short" => KryoValue::Short(literal.parse().unwrap()),
            "Byte" => KryoValue::Byte(literal.parse().unwrap()),
            "Boolean" => KryoValue::Boolean(literal == "true"),
            "Character" => KryoValue::Character(char::from_u32(u32::try_from(bits()).unwrap()).unwrap()),
            "Double" => KryoValue::Double(f64::from_bits(bits())),
            "Float" => KryoValue::Float(f32::from_bits(u32::try_from(bits()).unwrap())),
            _ => panic!("{self:?}"),
        }
    }

    /// The value that Java has read: its class without the package, and its text. `None` if Java refused it.
    pub(crate) fn read(&self) -> Option<(Cow<'_, str>, String)> {
        match self.text.as_str() {
            "refused" => None,
            "null" => Some(("null".into(), String::new())),
            text => {
                let (class, text) = text.split_once(' ').unwrap();
                Some((class.rsplit('.').next().unwrap().into(), unquoted(text)))
            }
        }
    }
}

/// The lines of a file.
pub(crate) fn lines(name: &str) -> Vec<Line> {
    let path = format!("{}/../../proof/interop/golden/codec-{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let file = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let (mut lines, mut section) = (Vec::new(), String::new());
    for line in file.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(title) = line.strip_prefix("== ") {
            title.clone_into(&mut section);
            continue;
        }
        let (label, text) = line.rsplit_once(" => ").unwrap_or_else(|| panic!("{path}: {line}"));
        lines.push(Line { section: section.clone(), label: label.to_owned(), text: text.to_owned() });
    }
    assert!(lines.len() > 10, "{path}");
    lines
}

/// The lines of a section.
pub(crate) fn section(name: &str, title: &str) -> Vec<Line> {
    let found: Vec<_> = lines(name).into_iter().filter(|line| line.section.starts_with(title)).collect();
    assert!(!found.is_empty(), "codec-{name}.txt has no section {title}");
    found
}

pub(crate) fn unhex(hex: &str) -> Vec<u8> {
    let digits = hex.strip_prefix('-').unwrap_or(hex).as_bytes();
    digits.chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// A text in quotes with escapes, which may contain half of a surrogate pair only in lines that are not read as text.
pub(crate) fn unquoted(literal: &str) -> String {
    let literal = literal.replace("\\ud800\"", "?\"");
    serde_json::from_str(&literal).unwrap_or_else(|error| panic!("{literal}: {error}"))
}

/// `"a"`, or `"a" x 33`
fn repeated(literal: &str) -> String {
    match literal.rsplit_once("\" x ") {
        Some((text, count)) => unquoted(&format!("{text}\"")).repeat(count.parse().unwrap()),
        None => unquoted(literal),
    }
}

/// The bytes of a value.
pub(crate) fn encoded<T: ?Sized>(codec: &impl Encode<T>, value: &T) -> Vec<u8> {
    let mut bytes = b"before".to_vec();
    codec.encode(value, &mut bytes).unwrap();
    assert!(bytes.starts_with(b"before"));
    bytes.split_off(6)
}

/// Checks that a value has these bytes, and that they are read as a value with these bytes.
#[track_caller]
pub(crate) fn both_ways<T>(codec: &(impl Encode<T> + Decode<T>), value: &T, bytes: &[u8], label: &str) {
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let written = encoded(codec, value);
    assert!(written == bytes, "{label}: Java wrote {}, and we {}", shown(bytes), shown(&written));
    let read = codec.decode(bytes).unwrap_or_else(|error| panic!("{label}: {error}"));
    let again = encoded(codec, &read);
    assert!(again == bytes, "{label}: {} is read as {}", shown(bytes), shown(&again));
}

/// Checks a scalar in both directions, as its own type.
macro_rules! scalar_both_ways {
    ($codec:expr, $line:expr) => {{
        let (line, bytes) = ($line, $line.bytes().unwrap());
        match line.scalar() {
            KryoValue::Null => both_ways(&$codec, &None::<i32>, &bytes, &line.label),
            KryoValue::Integer(value) => both_ways(&$codec, &value, &bytes, &line.label),
            KryoValue::String(value) => both_ways(&$codec, &value, &bytes, &line.label),
            KryoValue::Float(value) => both_ways(&$codec, &value, &bytes, &line.label),
            KryoValue::Boolean(value) => both_ways(&$codec, &value, &bytes, &line.label),
            KryoValue::Byte(value) => both_ways(&$codec, &value, &bytes, &line.label),
            KryoValue::Character(value) => both_ways(&$codec, &value, &bytes, &line.label),
            KryoValue::Short(value) => both_ways(&$codec, &value, &bytes, &line.label),
            KryoValue::Long(value) => both_ways(&$codec, &value, &bytes, &line.label),
            KryoValue::Double(value) => both_ways(&$codec, &value, &bytes, &line.label),
        }
    }};
}

pub(crate) use scalar_both_ways;
