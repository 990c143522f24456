//! Texts of doubles and floats.

use bandog_codec::{KryoValue, TypedJson, number};

use crate::golden::{encoded, section, unquoted};

/// The doubles of the file that have another text in Java 17, and then in Java 19 and here: Java 17 writes more digits than
/// necessary, or not the nearest ones.
const DOUBLES_OF_JAVA_17: [&str; 4] = [
    "9.999999999999999E22 1.0E23",
    "1.9999999999999998E23 2.0E23",
    "8.409999999999999E21 8.41E21",
    "1.0E-323 9.9E-324",
];
/// The same for floats.
const FLOATS_OF_JAVA_17: [&str; 5] = [
    "1.17549435E-38 1.1754944E-38",
    "-1.14537769E18 -1.1453777E18",
    "1.19451617E15 1.1945162E15",
    "-6.1483962E8 -6.148396E8",
    "-6.4615731E8 -6.461573E8",
];

#[test]
fn doubles_have_the_text_of_java() {
    let mut other = Vec::new();
    for line in section("number", "doubles") {
        let KryoValue::Double(value) = line.scalar() else { panic!("{line:?}") };
        let (java, plain) = line.text.split_once(' ').unwrap();
        let (ours, our_plain) = (number::java(value), number::plain(value).unwrap_or_else(|| "refused".to_owned()));
        if ours == java {
            assert_eq!(our_plain, plain, "{line:?}");
            continue;
        }
        assert!(ours.len() <= java.len(), "{line:?}: {ours}");
        for text in [java, plain, &ours, &our_plain] {
            assert_eq!(number::parse(text.as_bytes()).unwrap().to_bits(), value.to_bits(), "{line:?}: {text}");
        }
        other.push(format!("{java} {ours}"));
    }
    assert_eq!(other, DOUBLES_OF_JAVA_17);
}

#[test]
fn floats_have_the_text_of_java() {
    let mut other = Vec::new();
    for line in section("number", "floats") {
        let KryoValue::Float(value) = line.scalar() else { panic!("{line:?}") };
        let ours = String::from_utf8(encoded(&TypedJson, &value)).unwrap();
        let ours = ours.trim_matches('"');
        if ours != line.text {
            assert!(ours.len() < line.text.len() && ours.parse() == Ok(value), "{line:?}: {ours}");
            other.push(format!("{} {ours}", line.text));
        }
    }
    assert_eq!(other, FLOATS_OF_JAVA_17);
}

/// The text is one that is read as the same double, and no text with fewer digits is.
#[test]
fn texts_of_many_doubles_are_exact() {
    let mut state = 7_u64;
    for turn in 0..200_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let value = match turn % 4 {
            0 => f64::from_bits(state),
            1 => (state >> 40) as f64 / 100.0,
            2 => (state >> 30) as f64 / 1e6,
            _ => (state >> 20) as f64,
        };
        if !value.is_finite() {
            continue;
        }
        let (java, plain) = (number::java(value), number::plain(value).unwrap());
        assert_eq!(java.parse::<f64>().unwrap().to_bits(), value.to_bits(), "{java}");
        assert_eq!(plain.parse::<f64>().unwrap(), value, "{plain}");
        let digits = |text: &str| {
            let mantissa = text.split(['e', 'E']).next().unwrap().replace(['.', '-'], "");
            mantissa.trim_start_matches('0').trim_end_matches('0').len()
        };
        assert_eq!(digits(&java), digits(&format!("{value:e}")), "{java}");
        assert_eq!(digits(&plain), digits(&java), "{plain}");
    }
}

#[test]
fn texts_of_java_and_of_redis_are_read() {
    for line in section("number", "read") {
        let text = unquoted(line.label.strip_prefix("read ").unwrap());
        let ours = number::parse(text.as_bytes()).map(number::java).ok();
        match (text.as_str(), line.read()) {
            // Redis writes these, and Java does not read them.
            ("inf" | "-inf" | "nan", None) => assert!(ours.is_some(), "{text}"),
            // Java reads these as literals of its language, and nothing writes them.
            (" 1" | "0x1p3" | "1d" | "1f", Some(_)) => assert_eq!(ours, None, "{text}"),
            (_, java) => assert_eq!(ours, java.map(|(_, text)| text), "{text}"),
        }
    }
    for line in section("pack", "texts of RAtomicDouble") {
        let KryoValue::Double(value) = line.scalar() else { panic!("{line:?}") };
        let (set, added) = line.text.split_once(' ').unwrap();
        assert_eq!(number::plain(value).unwrap(), set, "{line:?}");
        assert_eq!(number::parse(added.as_bytes()).unwrap(), value + 0.25, "{line:?}");
    }
}

#[test]
fn scores_have_infinities_and_no_nan() {
    assert_eq!(number::score(f64::INFINITY).as_deref(), Some("+inf"));
    assert_eq!(number::score(f64::NAN), None);
    assert_eq!(number::score(-0.0).as_deref(), Some("0.0"));
    for text in ["inf", "-inf", "+inf", "1e+20", "1.5", "17", "9.2233720368547760e+16"] {
        assert!(number::parse(text.as_bytes()).is_ok(), "{text}");
    }
}
