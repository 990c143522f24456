//! The memory that readers and writers take.

use std::collections::BTreeMap;

use allocation_counter::measure;
use bandog_codec::{
    Bytes, Decode, Encode, Int, Kryo5, KryoValue, TaggedJson, Text, TypedJson,
    pack::{CacheEntry, CacheEvent, DelayedItem, LocalCacheMessage},
};
use serde::de::IgnoredAny;

use crate::{
    golden::{encoded, unhex},
    json::User,
};

/// The bytes that an error may take.
const ERROR: u64 = 1024;

/// Inputs that promise much more than they contain.
fn liars() -> Vec<Vec<u8>> {
    let mut liars: Vec<_> = [
        "03ffffffffff0f61",
        "03ffffffffffffffffff7f61",
        "03bf61",
        "0100ffffffff0f61",
        "01ffffffffffffffffff0300",
        "ffffffffffffffff",
        "0000000000000000ffffffffffffff7f61",
        "ffffffffffffff7f61",
        "08000000000000000000000000ffffff7f",
        "0100000000000000000000000000000000ffffffff",
        "01000000000000000000000000000000007fffffff00",
        "02000000000000000000000000000000007fffffff00",
    ]
    .map(unhex)
    .into();
    liars.extend(
        ["[".repeat(5000), "{\"a\":".repeat(900), "[\"a.b\",".repeat(600), "\"\\u0041".to_owned()]
            .map(String::into_bytes),
    );
    liars.extend(
        ["[".repeat(100), "[".repeat(100) + &"]".repeat(99), "1".repeat(4000), "\"".to_owned() + &"\\n".repeat(2000)]
            .map(String::into_bytes),
    );
    liars
}

#[test]
fn readers_allocate_at_most_a_multiple_of_their_input() {
    fn check<T>(codec: &impl Decode<T>, bytes: &[u8], factor: u64) {
        let used = measure(|| drop(codec.decode(bytes)));
        let limit = ERROR + factor * bytes.len() as u64;
        assert!(
            used.bytes_max <= limit,
            "{}: {} bytes for {:?}",
            codec.name(),
            used.bytes_max,
            bytes.escape_ascii().to_string()
        );
    }
    let codec = TaggedJson::of("a.B");
    for bytes in liars() {
        check::<KryoValue>(&Kryo5, &bytes, 1);
        check::<String>(&Kryo5, &bytes, 1);
        check::<String>(&Text, &bytes, 1);
        check::<u128>(&Int, &bytes, 0);
        check::<Vec<u8>>(&Bytes, &bytes, 1);
        check::<String>(&TypedJson, &bytes, 3);
        check::<Vec<u8>>(&TypedJson, &bytes, 3);
        check::<User>(&codec, &bytes, 3);
        check::<IgnoredAny>(&TypedJson, &bytes, 3);
        check::<IgnoredAny>(&codec, &bytes, 3);
        let packs = measure(|| {
            drop(CacheEntry::decode(&bytes));
            drop(CacheEvent::decode(&bytes));
            drop(DelayedItem::decode(&bytes));
            drop(LocalCacheMessage::decode(&bytes));
        });
        assert!(packs.bytes_max <= ERROR + 4 * bytes.len() as u64, "{} bytes", packs.bytes_max);
    }
}

#[test]
fn a_read_allocates_only_the_value() {
    let text = encoded(&Kryo5, &"a".repeat(1000));
    let read = measure(|| drop(Decode::<String>::decode(&Kryo5, &text).unwrap()));
    assert_eq!((read.count_total, read.bytes_total), (1, 1000));
    let json = encoded(&TypedJson, &(1, "a".repeat(1000), 1.5));
    let read = measure(|| drop(Decode::<(i32, String, f64)>::decode(&TypedJson, &json).unwrap()));
    assert_eq!((read.count_total, read.bytes_total), (1, 1000));
}

#[test]
fn a_write_into_a_buffer_allocates_only_to_sort() {
    let mut to = Vec::with_capacity(4000);
    let written = measure(|| {
        Kryo5.encode("é", &mut to).unwrap();
        Kryo5.encode(&5_i64, &mut to).unwrap();
        Int.encode(&5_i64, &mut to).unwrap();
        Text.encode("text", &mut to).unwrap();
        TypedJson.encode(&(1, "text", 1.5, 0.1 + 0.2, [true]), &mut to).unwrap();
    });
    assert_eq!(written.count_total, 0);
    let user = User::default();
    let written = measure(|| TypedJson.encode(&user, &mut to).unwrap());
    assert_eq!(written.count_total, 1, "the list of the fields");
    let map = BTreeMap::from([("a", 1), ("b", 2)]);
    let written = measure(|| TypedJson.encode(&map, &mut to).unwrap());
    assert_eq!(written.count_total, 2, "the names, and the list of the entries");
}
