//! The codecs of the command line: words to bytes, and bytes to text.

use bandog::grid::codec::{Corrupt, Decode, Encode, Kryo5, KryoValue, Text, TextJson, number};
use clap::ValueEnum;
use serde_json::Value;

use crate::fault::Fault;

/// The form of keys, values and elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Codec {
    /// The text itself.
    Text,
    /// A JSON text; keys of maps are text.
    Json,
    /// A scalar of Java's Kryo5Codec, as JSON; 5L is a Long.
    Kryo5,
}

/// A value that was read.
pub(super) struct Shown {
    /// The value as it would be written on the command line.
    pub(super) text: String,
    pub(super) json: Value,
    /// The Java type, if the codec has one.
    pub(super) java_type: Option<&'static str>,
}

impl Codec {
    /// The codec of the keys of maps.
    pub(super) fn keys(self) -> Self {
        match self {
            Self::Text | Self::Json => Self::Text,
            Self::Kryo5 => Self::Kryo5,
        }
    }

    /// The bytes of a word of the command line.
    pub(super) fn bytes(self, word: &str) -> Result<Vec<u8>, Fault> {
        let mut bytes = Vec::new();
        let written = match self {
            Self::Text => Text.encode(word, &mut bytes),
            Self::Json => TextJson.encode(&json(word)?, &mut bytes),
            Self::Kryo5 => Kryo5.encode(&scalar(word)?, &mut bytes),
        };
        written.map_err(|error| Fault::usage(error.to_string()))?;
        Ok(bytes)
    }

    /// The value of bytes of the store.
    pub(super) fn read(self, bytes: &[u8]) -> Result<Shown, String> {
        // The type is the same for all JSON, and says nothing to a user.
        let text = |error: Corrupt| error.to_string().replace(" in serde_json::value::Value", "");
        self.decode(bytes).map_err(text)
    }

    fn decode(self, bytes: &[u8]) -> Result<Shown, Corrupt> {
        match self {
            Self::Text => {
                let text: String = Text.decode(bytes)?;
                Ok(Shown { json: Value::String(text.clone()), text, java_type: None })
            }
            Self::Json => {
                let json: Value = TextJson.decode(bytes)?;
                Ok(Shown { text: json_text(&json), json, java_type: None })
            }
            Self::Kryo5 => Kryo5.decode(bytes).map(shown),
        }
    }
}

fn json(word: &str) -> Result<Value, Fault> {
    TextJson.decode(word.as_bytes()).map_err(|error| {
        Fault::usage(format!(
            "{word:?} is no JSON: {error}\n  a text is in quotes, which the shell must not remove: '\"…\"'"
        ))
    })
}

/// The JSON text in the form in which it is stored.
fn json_text(value: &Value) -> String {
    let mut text = Vec::new();
    // A value of JSON can always be written.
    let _ = TextJson.encode(value, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// The scalar of a word.
fn scalar(word: &str) -> Result<KryoValue, Fault> {
    if let Some(long) = word.strip_suffix('L').and_then(|number| number.parse().ok()) {
        return Ok(KryoValue::Long(long));
    }
    let wrong = |why: &str| Fault::usage(format!("{word:?} is no scalar of kryo5: {why}"));
    match json(word)? {
        Value::Null => Ok(KryoValue::Null),
        Value::Bool(flag) => Ok(KryoValue::Boolean(flag)),
        Value::String(text) => Ok(KryoValue::String(text)),
        Value::Number(number) if number.is_f64() => {
            number.as_f64().map(KryoValue::Double).ok_or_else(|| wrong("it is no double"))
        }
        Value::Number(number) => match number.as_i64().and_then(|number| i32::try_from(number).ok()) {
            Some(integer) => Ok(KryoValue::Integer(integer)),
            None => Err(wrong("it does not fit into an Integer; a Long ends in L, such as 5L")),
        },
        Value::Array(_) | Value::Object(_) => Err(wrong("lists and objects need --codec json")),
    }
}

fn shown(value: KryoValue) -> Shown {
    let json = match &value {
        KryoValue::Null => Value::Null,
        KryoValue::Integer(number) => (*number).into(),
        KryoValue::Byte(number) => (*number).into(),
        KryoValue::Short(number) => (*number).into(),
        KryoValue::Long(number) => (*number).into(),
        KryoValue::Boolean(flag) => (*flag).into(),
        KryoValue::String(text) => text.as_str().into(),
        KryoValue::Character(one) => one.to_string().into(),
        KryoValue::Double(number) if number.is_finite() => (*number).into(),
        // The shortest text of a float as a double: 0.1 and not 0.10000000149011612.
        KryoValue::Float(number) if number.is_finite() => number.to_string().parse::<f64>().unwrap_or_default().into(),
        KryoValue::Double(_) | KryoValue::Float(_) => value.to_string().into(),
    };
    let text = match &value {
        KryoValue::Long(number) => format!("{number}L"),
        KryoValue::Double(number) => number::java(*number),
        KryoValue::String(_) | KryoValue::Character(_) => json_text(&json),
        other => other.to_string(),
    };
    Shown { text, json, java_type: Some(value.java_type()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_can_be_written_again() {
        let words = [
            (Codec::Text, vec!["", "a b", "\u{1f600}\n", "-"]),
            (
                Codec::Json,
                vec!["5", "1.5", "1.0E10", "\"a\\n\"", "[1,null]", "{\"a\":{\"b\":true}}", "18446744073709551615"],
            ),
            (Codec::Kryo5, vec!["5", "-5L", "5.0", "1.0E10", "\"abc\"", "\"\"", "true", "null", "2147483647"]),
        ];
        for (codec, words) in words {
            for word in words {
                let bytes = codec.bytes(word).unwrap_or_else(|fault| panic!("{word}: {fault}"));
                assert_eq!(codec.read(&bytes).unwrap().text, word, "{codec:?}");
            }
        }
    }

    #[test]
    fn equal_json_is_equal_bytes() {
        let bytes = |word: &str| Codec::Json.bytes(word).unwrap_or_else(|fault| panic!("{word}: {fault}"));
        assert_eq!(bytes(" { \"b\" : 1.50, \"a\" : [ ] } "), br#"{"a":[],"b":1.5}"#);
    }

    #[test]
    fn a_wrong_word_gets_advice() {
        for (codec, word, advice) in [
            (Codec::Json, "abc", "a text is in quotes"),
            (Codec::Kryo5, "2147483648", "ends in L"),
            (Codec::Kryo5, "[1]", "--codec json"),
            (Codec::Kryo5, "9223372036854775808L", "no JSON"),
        ] {
            let fault = codec.bytes(word).unwrap_err().to_string();
            assert!(fault.contains(advice), "{fault}");
        }
    }
}
