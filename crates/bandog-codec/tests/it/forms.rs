//! What the codecs have in common.

use bandog_codec::{Bytes, Codec, Composite, Decode, Encode, Int, Kryo5, TaggedJson, Text, TextJson, TypedJson};

use crate::golden::encoded;

#[test]
fn each_codec_has_a_name_and_a_codec_of_keys() {
    fn names(codec: &impl Codec) -> [String; 2] {
        [codec.name().into_owned(), codec.keys().name().into_owned()]
    }
    assert_eq!(names(&TextJson), ["TextJson", "Text"]);
    assert_eq!(names(&TypedJson), ["TypedJson", "TypedJson"]);
    assert_eq!(names(&Text), ["Text", "Text"]);
    assert_eq!(names(&Int), ["Int", "Int"]);
    assert_eq!(names(&Bytes), ["Bytes", "Bytes"]);
    assert_eq!(names(&Kryo5), ["Kryo5", "Kryo5"]);
    assert_eq!(names(&TaggedJson::of("a.B")), ["TaggedJson", "TaggedJson"]);
    assert_eq!(names(&Composite::of(Int, TypedJson)), ["Composite<Int, TypedJson>", "Int"]);
}

/// A map of the grid needs this of its codec, and nothing more.
#[test]
fn a_map_is_generic_over_its_codec() {
    fn entry<K: ?Sized, V, C>(codec: &C, key: &K, value: &V) -> (Vec<u8>, V)
    where
        C: Encode<V> + Decode<V>,
        C::Keys: Encode<K>,
    {
        (encoded(&codec.keys(), key), codec.decode(&encoded(codec, value)).unwrap())
    }
    assert_eq!(entry(&TextJson, "k", &vec![1, 2]), (b"k".to_vec(), vec![1, 2]));
    assert_eq!(entry(&Kryo5, "k1", &5_i64), (b"\x03k\xb1".to_vec(), 5));
    assert_eq!(entry(&Composite::of(Int, Kryo5), &7_u8, &true), (b"7".to_vec(), true));
    assert_eq!(entry(&TaggedJson::of("a.B"), &7_i64, &1.5), (br#"["java.lang.Long",7]"#.to_vec(), 1.5));
}
