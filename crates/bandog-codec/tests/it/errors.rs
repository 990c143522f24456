//! Errors say what was expected, and never contain a value.

use std::{collections::BTreeMap, error::Error, fmt, str::FromStr};

use bandog_codec::{
    Corrupt, Decode, Encode, Int, Kryo5, KryoValue, TaggedJson, Text, TextJson, TypedJson, Unencodable, number,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

const SECRET: &str = "hunter2";

/// A type whose own errors contain the value.
#[derive(Debug)]
struct Chatty;

impl FromStr for Chatty {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Err(format!("{text} is wrong"))
    }
}

impl fmt::Display for Chatty {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Err(fmt::Error)
    }
}

impl Serialize for Chatty {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(ser::Error::custom(SECRET))
    }
}

impl<'de> Deserialize<'de> for Chatty {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Err(de::Error::custom(String::deserialize(deserializer)?))
    }
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "it is read only to fail")]
struct Strict {
    age: u8,
    side: Option<Side>,
}

#[derive(Deserialize, Debug)]
enum Side {
    Left,
    Right,
}

/// The error of a codec that reads these bytes as a type.
fn corrupt<T: fmt::Debug>(codec: &impl Decode<T>, bytes: impl AsRef<[u8]>) -> String {
    let error: Corrupt = codec.decode(bytes.as_ref()).unwrap_err();
    let (text, debug) = (error.to_string(), format!("{error:?}"));
    assert!(!text.contains(SECRET) && !debug.contains(SECRET), "{debug}");
    assert_eq!(error.codec(), codec.name());
    assert!(text.starts_with(&format!("{}: expected {}", codec.name(), error.expected())), "{text}");
    text
}

#[test]
fn errors_of_readers_say_what_was_expected() {
    let json = |text: &str| text.replace("SECRET", SECRET);
    let strict = |text: &str| corrupt::<Strict>(&TypedJson, json(text));
    for (text, expected) in [
        (strict(r#""SECRET""#), "struct Strict in it::errors::Strict at byte 9, and found text"),
        (
            strict(r#"{"SECRET":1}"#),
            "one of the properties age, side in it::errors::Strict at byte 10, and found another name",
        ),
        (strict(r#"{"age":"SECRET"}"#), "u8 in it::errors::Strict at byte 16, and found text"),
        (strict(r#"{"age":1337}"#), "u8 in it::errors::Strict at byte 11, and found an integer out of its range"),
        (strict(r#"{"age":-7.5}"#), "u8 in it::errors::Strict at byte 11, and found a number with decimals"),
        (strict("{}"), "the property age in it::errors::Strict at byte 2"),
        (strict(r#"{"age":1,"age":2}"#), "the property age once in it::errors::Strict at byte 14"),
        (
            strict(r#"{"age":1,"side":"SECRET"}"#),
            "one of the variants Left, Right in it::errors::Strict at byte 25, and found another name",
        ),
        (strict(r#"{"age":SECRET}"#), "JSON in it::errors::Strict at byte 7"),
        (strict(r#"{"age":1"#), "a comma or the end in it::errors::Strict at byte 8, and found the end"),
        (strict(r#"{"age":1} SECRET"#), "nothing behind the value in it::errors::Strict at byte 10"),
        (
            corrupt::<Chatty>(&TypedJson, json(r#""SECRET""#)),
            "a value that the type accepts in it::errors::Chatty at byte 9",
        ),
        (corrupt::<u8>(&TypedJson, json(r#""SECRET""#)), "u8 at byte 9, and found text"),
        (corrupt::<BTreeMap<u8, u8>>(&TypedJson, json(r#"{"SECRET":1}"#)), "u8 in "),
        (corrupt::<(u8, u8)>(&TypedJson, "[1]"), "a tuple of size 2 in (u8, u8) at byte 3, and found another length"),
        (corrupt::<(u8, u8)>(&TypedJson, "[1,2,3]"), "the end of a list in (u8, u8) at byte 5"),
    ] {
        assert!(text.contains(&format!(": expected {expected}")), "{text}");
    }
    for text in [
        corrupt::<Chatty>(&Text, SECRET),
        corrupt::<i64>(&Int, SECRET),
        corrupt::<String>(&Kryo5, SECRET),
        corrupt::<KryoValue>(&Kryo5, [b"\x01\x00", SECRET.as_bytes()].concat()),
        corrupt::<i64>(&Kryo5, [b"\x03", SECRET.as_bytes()].concat()),
        corrupt::<String>(&TextJson, SECRET),
        corrupt::<Strict>(&TaggedJson::of("a.B"), json(r#"{"@class":"SECRET"}"#)),
        number::parse(SECRET.as_bytes()).unwrap_err().to_string(),
    ] {
        assert!(text.contains(": expected ") && !text.contains(SECRET), "{text}");
    }
}

#[test]
fn errors_of_writers_say_what_to_do() {
    let error = |error: Result<(), Unencodable>| {
        let error = error.unwrap_err();
        assert!(!format!("{error:?}").contains(SECRET) && error.source().is_none());
        error.to_string()
    };
    assert_eq!(error(Text.encode(&Chatty, &mut Vec::new())), "Text: Display of it::errors::Chatty has failed");
    assert_eq!(
        error(TextJson.encode(&Chatty, &mut Vec::new())),
        "TextJson: the Serialize implementation of the type has failed"
    );
    assert!(error(Kryo5.encode(&'🦀', &mut Vec::new())).ends_with("write it as a String"));
}

#[test]
fn what_was_written_before_an_error_is_removed() {
    let mut to = b"before".to_vec();
    assert!(TypedJson.encode(&(1, Chatty), &mut to).is_err());
    assert!(Text.encode(&Chatty, &mut to).is_err());
    assert!(Kryo5.encode(&Some('🦀'), &mut to).is_err());
    assert_eq!(to, b"before");
}
