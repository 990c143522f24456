use std::time::UNIX_EPOCH;

use super::*;
use crate::script::clients::fields;

fn member_that_waits_for(names: &[&str]) -> Member {
    Member {
        id: ClientId::random(),
        host: "shop-1".into(),
        pid: 17,
        program: "till --all \"x\"".into(),
        since: UNIX_EPOCH + Duration::from_millis(1_790_000_000_123),
        prefix: "shop:".into(),
        waits: names.iter().map(|name| Key::new(name).unwrap()).collect(),
        blocked: BlockedCalls { lends: true, ..BlockedCalls::default() },
    }
}

fn reply(values: &[String]) -> Value {
    Value::Array(values.iter().map(|value| Value::BulkString(value.clone().into_bytes())).collect())
}

#[test]
fn a_row_is_read_as_it_was_written() {
    let long = "n".repeat(1024);
    for names in [&[][..], &["a"], &["a b", "a,b", "a;\"b\"", "\\n", "中文", "{x}", " y ", &long]] {
        let original = member_that_waits_for(names);
        assert_eq!(member(original.id, &reply(&fields(&original))), Some(original));
    }
}

#[test]
fn at_most_max_waits_names_are_written() {
    let mut original = member_that_waits_for(&["a"; MAX_WAITS + 1]);
    let read = member(original.id, &reply(&fields(&original))).unwrap();
    original.waits.pop();
    assert_eq!(read, original);
}

#[test]
fn a_damaged_row_gives_no_member() {
    let original = member_that_waits_for(&["a"]);
    for (at, value) in [(1, "-1"), (1, "many"), (3, ""), (3, "18446744073709551616"), (5, "a\u{7}")] {
        let mut fields = fields(&original);
        fields[at] = value.into();
        assert_eq!(member(original.id, &reply(&fields)), None, "{value:?}");
    }
    assert_eq!(member(original.id, &Value::Array(vec![Value::Nil; 7])), None);
    assert_eq!(member(original.id, &Value::Nil), None);
}

#[test]
fn fuzz_members() {
    let sample =
        "*7\r\n$4\r\nhost\r\n$2\r\n17\r\n$4\r\ntill\r\n$13\r\n1790000000123\r\n$5\r\nshop:\r\n$3\r\na\nb\r\n$-1\r\n";
    let id = ClientId::random();
    crate::fuzz::replies("a client's row", &[sample], |reply| {
        let Some(original) = member(id, &reply) else { return false };
        // If the member is written again, reading the new row gives the same member.
        let values = fields(&original).map(|value| Value::BulkString(value.into_bytes())).to_vec();
        assert_eq!(member(id, &Value::Array(values)), Some(original));
        true
    });
}
