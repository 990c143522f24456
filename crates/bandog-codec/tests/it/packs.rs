//! The layouts around values.

use std::time::Duration;

use bandog_codec::pack::{CacheEntry, CacheEvent, DelayedItem, LocalCacheMessage};

use crate::golden::section;

#[test]
fn messages_of_local_caches_are_those_of_java() {
    let bytes = |first: u8| std::array::from_fn(|at| first + u8::try_from(at).unwrap());
    let (sender, request) = (bytes(0x10), bytes(0x20));
    for line in section("pack", "messages of RLocalCachedMap") {
        let message = match line.label.as_str() {
            "clear" => LocalCacheMessage::Clear { sender, request, answer: false },
            "clear and release" => LocalCacheMessage::Clear { sender, request, answer: true },
            "invalidate none" => LocalCacheMessage::Invalidate { sender, hashes: vec![] },
            "invalidate one" => LocalCacheMessage::Invalidate { sender, hashes: vec![request] },
            "invalidate two" => LocalCacheMessage::Invalidate { sender, hashes: vec![request, bytes(0x30)] },
            "update k1 v1" => LocalCacheMessage::Update { sender, entries: vec![(b"k1", b"v1")] },
            "update k1 v1, empty" => LocalCacheMessage::Update { sender, entries: vec![(b"k1", b"v1"), (b"", b"")] },
            other => panic!("{other}"),
        };
        let java = line.bytes().unwrap();
        assert_eq!(message.encode().unwrap(), java, "{}", line.label);
        assert_eq!(LocalCacheMessage::decode(&java).unwrap(), message, "{}", line.label);
    }
    let error = LocalCacheMessage::decode(&[4]).unwrap_err();
    assert_eq!(error.to_string(), "RLocalCachedMap message: expected a message of type 0, 1 or 2; drop all copies");
    assert!(LocalCacheMessage::Update { sender, entries: vec![] }.encode().is_err());
}

#[test]
fn entries_and_messages_of_map_caches_are_those_of_java() {
    for line in section("pack", "values and messages of RMapCache") {
        let java = line.bytes().unwrap();
        let entry = |max_idle, value| CacheEntry { max_idle, value };
        let event = |key, value, old| CacheEvent { key, value, old };
        let (entry, event) = match line.label.as_str() {
            "value v1" => (Some(entry(None, b"v1")), None),
            "value v22, idle 60000 ms" => (Some(entry(Some(Duration::from_secs(60)), b"v22")), None),
            "value empty" => (Some(entry(None, b"")), None),
            "created k1 v1" => (None, Some(event(b"k1", b"v1", None))),
            "created k2 empty" => (None, Some(event(b"k2", b"", None))),
            "updated k1 v22 v1" => (None, Some(event(b"k1", b"v22", Some(&b"v1"[..])))),
            "removed k1 v22" => (None, Some(event(b"k1", b"v22", None))),
            other => panic!("{other}"),
        };
        if let Some(entry) = entry {
            assert_eq!(entry.encode(), java, "{}", line.label);
            assert_eq!(CacheEntry::decode(&java).unwrap(), entry, "{}", line.label);
        }
        if let Some(event) = event {
            assert_eq!(event.encode(), java, "{}", line.label);
            assert_eq!(CacheEvent::decode(&java).unwrap(), event, "{}", line.label);
        }
    }
}

#[test]
fn idle_times_are_rounded_up() {
    let written = |idle| CacheEntry { max_idle: Some(idle), value: b"" }.encode();
    let read = |bytes: &[u8]| CacheEntry::decode(bytes).unwrap().max_idle;
    assert_eq!(read(&written(Duration::from_nanos(1))), Some(Duration::from_millis(1)));
    assert_eq!(read(&written(Duration::from_micros(60_001))), Some(Duration::from_millis(61)));
    assert_eq!(read(&written(Duration::ZERO)), None);
    for idle in [-1.0, f64::NAN, f64::INFINITY, 1e300] {
        let bytes = [f64::to_le_bytes(idle), [0; 8]].concat();
        let error = CacheEntry::decode(&bytes).unwrap_err();
        assert!(error.to_string().starts_with("RMapCache entry: expected an idle time at byte"), "{error}");
    }
}

#[test]
fn items_of_delayed_queues_are_those_of_java() {
    for (line, value) in section("pack", "items").iter().zip([&b"v1"[..], b""]) {
        let item = DelayedItem { id: [0; 8], value };
        assert_eq!(item.encode(), line.bytes().unwrap());
        assert_eq!(DelayedItem::decode(&item.encode()).unwrap(), item);
    }
    assert!(DelayedItem::decode(b"\x07").is_err());
}

#[test]
fn damaged_layouts_are_refused() {
    let event = CacheEvent { key: b"k", value: b"v", old: Some(b"o") }.encode();
    for (cut, end) in (0..event.len()).map(|cut| (cut, "")).chain([(event.len(), "x")]) {
        let bytes = [&event[..cut], end.as_bytes()].concat();
        let has_two_parts = bytes.len() == 18;
        assert_eq!(CacheEvent::decode(&bytes).is_ok(), has_two_parts, "{cut}");
    }
    let error = CacheEvent::decode(&event[..20]).unwrap_err();
    assert_eq!(error.to_string(), "RMapCache message: expected an old value with its length at byte 18");
}
