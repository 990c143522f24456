//! HighwayHash-128, names of entries, and Bloom filters.

use bandog_codec::{
    Encode, Int, Kryo5, Text, TypedJson,
    hash::{Bloom, entry_name, h128, h128_bytes},
    number,
};

use crate::golden::{encoded, section, unhex};

#[test]
fn hashes_are_those_of_java() {
    let lines = section("hash", "h128");
    assert_eq!(lines.len(), 70);
    for (length, line) in lines.iter().enumerate() {
        assert_eq!(line.label, format!("h128 {length}"));
        let input: Vec<u8> = (0..=u8::MAX).take(length).collect();
        assert_eq!(h128_bytes(&input), *line.bytes().unwrap(), "{length} bytes");
    }
    assert_eq!(h128(b"k1"), [0xf6c0_bc2a_9320_f05f, 0x0a05_bc60_1e7a_69d7]);
}

#[test]
fn names_of_entries_are_those_of_java() {
    for line in section("hash", "names") {
        let key = match line.label.split_once(' ').unwrap().1.split_once(' ').unwrap() {
            ("Kryo5", key) => name(&Kryo5, key),
            ("Text", key) => name(&Text, key),
            ("TypedJson", key) => name(&TypedJson, key),
            ("Int", key) => name(&Int, &key.parse::<i64>().unwrap()),
            (other, _) => panic!("{other}"),
        };
        assert_eq!(key, line.text, "{}", line.label);
    }
}

fn name<T: ?Sized>(codec: &impl Encode<T>, key: &T) -> String {
    let name = entry_name(&encoded(codec, key));
    assert_eq!(name.len(), 22, "{}", codec.name());
    name
}

#[test]
fn sizes_of_bloom_filters_are_those_of_java() {
    let lines = section("hash", "sizes");
    assert!(lines.len() > 150);
    for line in lines {
        let words: Vec<_> = line.label.split(' ').collect();
        let (elements, probability) = (words[1].parse().unwrap(), words[2].parse().unwrap());
        let ours = Bloom::expecting(elements, probability).map_or("refused".to_owned(), |bloom| {
            assert_eq!(Bloom::with(bloom.size(), bloom.iterations()), Some(bloom));
            format!("{} {} {}", bloom.size(), bloom.iterations(), number::java(probability))
        });
        assert_eq!(ours, line.text, "{}", line.label);
    }
}

#[test]
fn bits_of_bloom_filters_are_those_of_java() {
    for line in section("hash", "bits") {
        let words: Vec<_> = line.label.split(' ').collect();
        let bloom = Bloom::with(words[2].parse().unwrap(), words[3].parse().unwrap()).unwrap();
        let bits: Vec<_> = bloom.bits(&unhex(words[1])).map(|bit| bit.to_string()).collect();
        assert_eq!(bits.join(" "), line.text, "{}", line.label);
    }
}

#[test]
fn impossible_bloom_filters_are_refused() {
    for probability in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        assert_eq!(Bloom::expecting(100, probability), None);
    }
    assert_eq!(Bloom::expecting(0, 0.03), None);
    assert_eq!(Bloom::expecting(u64::MAX, 0.03), None);
    assert_eq!((Bloom::with(0, 1), Bloom::with(1, 0), Bloom::with(1 << 32, 1)), (None, None, None));
}

#[test]
fn the_number_of_elements_is_estimated() {
    let bloom = Bloom::expecting(1000, 0.03).unwrap();
    assert_eq!((bloom.count(0), bloom.count(5), bloom.count(7298)), (0, 1, u64::MAX));
    assert!((990..1010).contains(&bloom.count(3620)));
}
