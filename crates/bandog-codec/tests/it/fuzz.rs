//! Random inputs for every reader of this crate. What is read is written, and then read as the same value.

use bandog_codec::{
    Corrupt, Decode, Encode, Int, Kryo5, KryoValue, TaggedJson, Text, TypedJson, number,
    pack::{CacheEntry, CacheEvent, DelayedItem, LocalCacheMessage},
};
use bandog_testkit::fuzz;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    golden::{encoded, lines},
    json::{User, full},
};

/// The bytes that Java wrote, of a file.
fn written(name: &str) -> Vec<Vec<u8>> {
    let lines =
        lines(name).into_iter().filter(|line| !line.label.starts_with("read ") && !line.section.starts_with("texts"));
    lines.filter_map(|line| line.bytes()).filter(|bytes| bytes.len() < 600).collect()
}

/// Checks that a value that is read is written, and read again, as the same bytes. Returns those bytes.
fn stable<T>(codec: &(impl Encode<T> + Decode<T>), bytes: &[u8]) -> Option<Vec<u8>> {
    let value = codec.decode(bytes).ok()?;
    let once = encoded(codec, &value);
    let again = codec.decode(&once).unwrap_or_else(|error| panic!("{}: {error}", once.escape_ascii()));
    assert_eq!(encoded(codec, &again).escape_ascii().to_string(), once.escape_ascii().to_string());
    Some(once)
}

#[test]
fn fuzz_kryo5() {
    let samples = written("kryo5");
    let samples: Vec<_> = samples.iter().map(Vec::as_slice).collect();
    fuzz::bytes("Kryo5", &samples, &["\u{3}", "\u{1}\0java.lang.Objec", "\u{9}"], |bytes| {
        drop(stable::<Option<i64>>(&Kryo5, bytes));
        drop(stable::<char>(&Kryo5, bytes));
        let Some(once) = stable::<KryoValue>(&Kryo5, bytes) else { return false };
        // Other bytes are read only for texts and null, which have a second form.
        assert!(once == bytes || bytes[0] == 3 || once == [0] || bytes.len() == once.len(), "{once:?}");
        true
    });
}

#[test]
fn fuzz_typed_json() {
    let samples = written("typed-json");
    let samples: Vec<_> = samples.iter().map(Vec::as_slice).collect();
    let words = ["\"NaN\"", "\\uD83D\\uDE00", "\\ud800", "null", "true", "{\"", "\":", "1E5", "1e400", "[[[[", "]]"];
    fuzz::bytes("TypedJson", &samples, &words, |bytes| {
        drop(stable::<User>(&TypedJson, bytes));
        drop(stable::<f64>(&TypedJson, bytes));
        drop(stable::<f32>(&TypedJson, bytes));
        drop(stable::<i128>(&TypedJson, bytes));
        let ours = Decode::<Value>::decode(&TypedJson, bytes);
        let theirs = serde_json::from_slice::<Value>(bytes);
        match (&ours, &theirs) {
            (Ok(ours), Ok(theirs)) => assert!(is_near(ours, theirs), "{ours}, serde_json {theirs}"),
            (Ok(_), Err(error)) => assert!(error.to_string().contains("number out of range"), "{ours:?}, {error}"),
            (Err(error), Ok(theirs)) => assert!(error.to_string().contains("too great"), "{error}, {theirs}"),
            (Err(_), Err(_)) => {}
        }
        stable::<Value>(&TypedJson, bytes).is_some()
    });
}

/// Whether two values are equal, except that serde_json reads some numbers as a double near the right one. So it also
/// refuses or accepts other numbers near the greatest one.
fn is_near(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Number(ours), Value::Number(theirs)) if ours.is_f64() && theirs.is_f64() => {
            let bits = |number: &serde_json::Number| number.as_f64().unwrap().to_bits();
            bits(ours).abs_diff(bits(theirs)) <= 4
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| is_near(ours, theirs))
        }
        (Value::Object(ours), Value::Object(theirs)) => {
            let is_same =
                |(name, value): (&String, &Value)| theirs.get(name).is_some_and(|other| is_near(value, other));
            ours.len() == theirs.len() && ours.iter().all(is_same)
        }
        (ours, theirs) => ours == theirs,
    }
}

#[derive(Serialize, Deserialize)]
enum Shape {
    Empty,
    Circle(f64),
    Box { width: i32, height: Option<Box<Shape>> },
}

#[test]
fn fuzz_variants() {
    let samples = [
        r#""Empty""#,
        r#"{"Circle":1.5}"#,
        r#"{"Box":{"height":{"Circle":"NaN"},"width":1}}"#,
        r#"{"Box":[1,"Empty"]}"#,
    ];
    fuzz::texts("variants of TypedJson", &samples, &["\"Empty\"", "{\"Circle\":", "{\"Box\":"], |text| {
        let theirs = serde_json::from_str::<Shape>(text);
        let ours = stable::<Shape>(&TypedJson, text.as_bytes());
        assert!(theirs.is_err() || ours.is_some(), "{text}");
        ours.is_some()
    });
}

#[test]
fn fuzz_tagged_json() {
    let user = encoded(&TypedJson, &full());
    let mut samples = written("tagged-json");
    samples.push(user);
    let samples: Vec<_> = samples.iter().map(Vec::as_slice).collect();
    let codec = TaggedJson::of("bandog.codecs.User").class("Address", "bandog.codecs.Address");
    let words = [
        "\"@class\":\"bandog.codecs.User\",",
        "[\"java.lang.Long\",",
        "[\"java.util.ArrayList\",[",
        "\"@class\"",
        "]]",
    ];
    fuzz::bytes("TaggedJson", &samples, &words, |bytes| {
        let number = stable::<i64>(&codec, bytes);
        let list = stable::<Vec<String>>(&codec, bytes);
        let any = Decode::<Value>::decode(&codec, bytes).is_ok();
        stable::<User>(&codec, bytes).or(number).or(list).is_some() && any
    });
}

#[test]
fn fuzz_texts_and_numbers() {
    let samples =
        ["5", "-9223372036854775808", "1.5", "0.00000010", "1.0E10", "-Infinity", "nan", "18446744073709551615"];
    fuzz::texts("Int and number", &samples, &["E", ".", "-", "e+308"], |text| {
        let int = stable::<i64>(&Int, text.as_bytes());
        drop(stable::<u128>(&Int, text.as_bytes()));
        drop(stable::<String>(&Text, text.as_bytes()));
        let Ok(value) = number::parse(text.as_bytes()) else { return false };
        assert!(int.is_none() || value.is_finite());
        for text in [Some(number::java(value)), number::plain(value), number::score(value)].into_iter().flatten() {
            let again = number::parse(text.as_bytes()).unwrap();
            assert!(again == value || value.is_nan(), "{text}");
        }
        true
    });
}

#[test]
fn fuzz_packs() {
    let samples = written("pack");
    let samples: Vec<_> = samples.iter().map(Vec::as_slice).collect();
    fuzz::bytes("packs", &samples, &["\0\0\0\0\0\0\0\0", "\u{1}\0\0\0\0\0\0\0", "\0\0\0\u{1}", "\u{7f}"], |bytes| {
        let is_same = |again: Vec<u8>| assert_eq!(again, bytes);
        let entry = CacheEntry::decode(bytes).map(|entry| {
            assert_eq!(CacheEntry::decode(&entry.encode()), Ok(entry));
        });
        let event = CacheEvent::decode(bytes).map(|event| is_same(event.encode()));
        let item = DelayedItem::decode(bytes).map(|item| is_same(item.encode()));
        let message = LocalCacheMessage::decode(bytes).map(|message| {
            let again = message.encode().unwrap();
            assert_eq!(LocalCacheMessage::decode(&again), Ok(message));
        });
        [entry, event, item, message].into_iter().any(|read: Result<(), Corrupt>| read.is_ok())
    });
}
