//! Text, integers and bytes.

use bandog_codec::{Bytes, Decode, Int, KryoValue, Text, number};

use crate::golden::{both_ways, encoded, lines, section, unhex, unquoted};

#[test]
fn texts_have_the_bytes_of_java() {
    for line in section("text", "StringCodec").iter().filter(|line| !line.label.starts_with("read ")) {
        let Some(bytes) = line.bytes() else {
            assert_eq!(line.label, "null");
            continue;
        };
        match line.scalar() {
            KryoValue::String(value) => both_ways(&Text, &value, &bytes, &line.label),
            KryoValue::Integer(value) => both_ways(&Text, &value, &bytes, &line.label),
            KryoValue::Long(value) => both_ways(&Text, &value, &bytes, &line.label),
            KryoValue::Short(value) => both_ways(&Text, &value, &bytes, &line.label),
            KryoValue::Byte(value) => both_ways(&Text, &value, &bytes, &line.label),
            KryoValue::Boolean(value) => both_ways(&Text, &value, &bytes, &line.label),
            KryoValue::Character(value) => both_ways(&Text, &value, &bytes, &line.label),
            KryoValue::Double(value) => both_ways(&Text, &number::java(value), &bytes, &line.label),
            KryoValue::Float(_) | KryoValue::Null => {}
        }
    }
}

#[test]
fn the_number_codecs_of_java_write_the_same_text() {
    let text = |codec| section("text", codec).into_iter().map(|line| (line.label, line.text));
    let written = |codec| text(codec).filter(|(label, _)| !label.starts_with("read "));
    for codec in ["LongCodec", "IntegerCodec", "DoubleCodec"] {
        assert!(written(codec).eq(written("StringCodec")), "{codec}");
    }
}

#[test]
fn integers_have_the_bytes_of_java() {
    for line in section("text", "LongCodec").iter().filter(|line| !line.label.starts_with("read ")) {
        let bytes = line.bytes().unwrap_or_default();
        match line.scalar() {
            KryoValue::Integer(value) => both_ways(&Int, &value, &bytes, &line.label),
            KryoValue::Long(value) => both_ways(&Int, &value, &bytes, &line.label),
            KryoValue::Short(value) => both_ways(&Int, &value, &bytes, &line.label),
            KryoValue::Byte(value) => both_ways(&Int, &value, &bytes, &line.label),
            _ => {}
        }
    }
    for (value, text) in [(u128::MAX, u128::MAX.to_string()), (1 << 64, (1_u128 << 64).to_string())] {
        both_ways(&Int, &value, text.as_bytes(), &text);
    }
    both_ways(&Int, &i128::MIN, i128::MIN.to_string().as_bytes(), "i128::MIN");
    both_ways(&Int, &u64::MAX, u64::MAX.to_string().as_bytes(), "u64::MAX");
}

#[test]
fn texts_are_read_as_java_reads_them() {
    for line in lines("text").iter().filter(|line| line.label.starts_with("read ")) {
        let text = unquoted(line.label.strip_prefix("read ").unwrap());
        let ours = match line.section.as_str() {
            "StringCodec" => Decode::<String>::decode(&Text, text.as_bytes()),
            "LongCodec" => Decode::<i64>::decode(&Int, text.as_bytes()).map(|value| value.to_string()),
            "IntegerCodec" => Decode::<i32>::decode(&Int, text.as_bytes()).map(|value| value.to_string()),
            // Java also accepts spaces, which neither Java nor Redis writes.
            "DoubleCodec" if text == " 5" => continue,
            "DoubleCodec" => number::parse(text.as_bytes()).map(number::java),
            other => panic!("{other}"),
        };
        assert_eq!(ours.ok(), line.read().map(|(_, text)| text), "{line:?}");
    }
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    let error = Decode::<String>::decode(&Text, b"ab\xff").unwrap_err();
    assert_eq!(error.to_string(), "Text: expected UTF-8 text at byte 2; the writer may use another codec");
}

#[test]
fn bytes_are_the_bytes() {
    for line in section("text", "ByteArrayCodec") {
        let bytes = unhex(line.label.strip_prefix("bytes ").unwrap());
        assert_eq!(line.bytes().unwrap(), bytes);
        both_ways(&Bytes, &bytes, &bytes, &line.label);
    }
    assert_eq!(encoded(&Bytes, "ab"), b"ab");
    assert_eq!(*Decode::<Box<[u8]>>::decode(&Bytes, b"ab").unwrap(), *b"ab");
    let error = Decode::<[u8; 3]>::decode(&Bytes, b"ab").unwrap_err();
    assert_eq!(error.to_string(), "Bytes: expected the bytes of a [u8; 3], and found 2 bytes");
}
