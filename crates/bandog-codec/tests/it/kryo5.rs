//! Scalars of Kryo 5.

use bandog_codec::{Decode, Kryo5, KryoValue};

use crate::golden::{both_ways, encoded, scalar_both_ways, section, unhex};

/// Bytes that Java reads as this value, although it never writes them, and that are refused here: text that is not UTF-8,
/// half of a surrogate pair, other bytes for false, bytes behind the value, and numbers that are longer than necessary.
const STRICTER: [&str; 10] = [
    "0382f09f9880",
    "0384f09f9880",
    "0382ff",
    "0382eda080",
    "0502",
    "0503",
    "020a00",
    "02ffffffffff",
    "0200ff",
    "0700d8",
];

#[test]
fn scalars_have_the_bytes_of_java() {
    let lines = section("kryo5", "scalars");
    assert!(lines.len() > 120);
    for line in lines {
        scalar_both_ways!(Kryo5, &line);
        both_ways(&Kryo5, &line.scalar(), &line.bytes().unwrap(), &line.label);
    }
}

#[test]
fn bytes_are_read_as_java_reads_them_or_refused() {
    for line in section("kryo5", "read") {
        let hex = line.label.strip_prefix("read ").unwrap();
        let ours = Decode::<KryoValue>::decode(&Kryo5, &unhex(hex));
        let (ours, java) = (ours.map(|value| (value.java_type().into(), value.to_string())), line.read());
        match (ours, java) {
            (Ok((class, _)), Some(_)) if class == "null" => assert_eq!(line.text, "null", "{hex}"),
            (Ok(ours), Some(java)) => assert_eq!(ours, java, "{hex}"),
            (Err(_), None) => {}
            (Err(_), Some(_)) if hex == "03c100" || STRICTER.contains(&hex) => {}
            (ours, java) => panic!("{hex}: {ours:?}, Java {java:?}"),
        }
    }
}

#[test]
fn objects_are_refused_with_their_class() {
    let classes = ["java.util.ArrayList", "[B", "bandog.codecs.Address", "bandog.codecs.Colour", "java.util.Date"];
    for (line, class) in section("kryo5", "objects").iter().zip(classes) {
        let error = Decode::<KryoValue>::decode(&Kryo5, &line.bytes().unwrap()).unwrap_err();
        assert_eq!(error.class(), Some(class), "{line:?}");
        let error = Decode::<Option<String>>::decode(&Kryo5, &line.bytes().unwrap()).unwrap_err();
        assert_eq!(error.class(), Some(class), "{line:?}");
    }
}

#[test]
fn a_null_is_read_as_an_option_only() {
    assert_eq!(Decode::<Option<i32>>::decode(&Kryo5, &[0]).unwrap(), None);
    assert_eq!(Decode::<Option<String>>::decode(&Kryo5, &[3, 0x80]).unwrap(), None);
    assert_eq!(Decode::<Option<String>>::decode(&Kryo5, &[3, 0x81]).unwrap().as_deref(), Some(""));
    let error = Decode::<i32>::decode(&Kryo5, &[0]).unwrap_err();
    assert_eq!(error.to_string(), "Kryo5: expected an Integer (i32), and found null; read it as an Option");
    assert!(Decode::<String>::decode(&Kryo5, &[3, 0x80]).is_err());
    assert_eq!(encoded(&Kryo5, &Some("ab")), b"\x03a\xe2");
}
