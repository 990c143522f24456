use std::num::NonZeroU32;

use bandog_core::{ClientId, Key};
use serde_json::{json, to_value};

use super::*;

fn row(kinds: &[Kind]) -> Row {
    let holder = |(at, kind): (usize, &Kind)| Holder {
        kind: Some(*kind),
        fence: Some(Fence::new(7 + at as u64)),
        ttl: Some(Duration::from_secs(1)),
        ..Holder::new(format!("java:{at}"))
    };
    let holders = kinds.iter().enumerate().map(holder).collect();
    Row { kind: kinds.first().copied(), holders, ..Row::free(&Key::new("x").unwrap()) }
}

/// The fields of a lock in JSON, as text without the new fields, in their order.
#[test]
fn the_fields_of_a_mutex_stay() {
    let text = serde_json::to_string(&LockJson::new(&row(&[Kind::Mutex]), "memory:")).unwrap();
    let holders = r#"[{"owner":"java:0","fence":7,"ttl_ms":1000,"holder":null}]"#;
    let before = r#"{"name":"x","held":true,"owner":"java:0","fence":7,"fence_to":null,"ttl_ms":1000,"held_since":null,"holder":null,"waiters":[],"store":"memory:"}"#;
    let added = [(r#""kind":"mutex","#, ""), (&format!(r#""holders":{holders},"#), "")];
    let without = added.iter().fold(text, |text, (new, old)| {
        assert!(text.contains(new), "no {new} in {text}");
        text.replace(new, old)
    });
    assert_eq!(without, before);
}

#[test]
fn each_kind_has_its_fields() {
    let lock = |kinds: &[Kind]| to_value(LockJson::new(&row(kinds), "memory:")).unwrap();
    let [read, write] = [Kind::Read, Kind::Write].map(|kind| lock(&[kind, kind]));
    assert_eq!((&read["kind"], &write["kind"]), (&json!("read-write"), &json!("read-write")));
    assert_eq!((&read["holders"][1]["mode"], &write["holders"][0]["mode"]), (&json!("read"), &json!("write")));
    assert_eq!(read["holders"][1]["fence"], 8);
    let [take, of] = [2, 5].map(|number| NonZeroU32::new(number).unwrap());
    let gpu = lock(&[Kind::Permits { take, of }]);
    assert_eq!(
        (&gpu["kind"], &gpu["limit"], &gpu["holders"][0]["permits"]),
        (&json!("semaphore"), &json!(5), &json!(2))
    );
    assert_eq!(lock(&[Kind::Fair])["kind"], "fair");
    assert_eq!(lock(&[])["kind"], json!(null));
    let latch = LatchRow { name: "import".into(), count: 3 };
    let latch = to_value(LockJson::latch(&latch, "memory:")).unwrap();
    assert_eq!((&latch["kind"], &latch["count"], &latch["held"]), (&json!("latch"), &json!(3), &json!(false)));
    // A latch has the fields of a free lock, so that programs need no second format.
    let mut free = to_value(LockJson::new(&Row::free(&Key::new("import").unwrap()), "memory:")).unwrap();
    (free["kind"], free["count"]) = (json!("latch"), json!(3));
    assert_eq!(latch, free);
}

#[test]
fn waiters_are_in_the_order_of_the_queue() {
    let ann = Member { host: "ann".into(), ..Member::here(ClientId::random()) };
    let place = format!("{}:4", ann.id);
    let mut row = Row { queue: vec!["java:9".into(), place.clone()], ..row(&[Kind::Fair]) };
    row.add_members(&[ann]);
    let waiters = to_value(LockJson::new(&row, "memory:")).unwrap()["waiters"].clone();
    let first = json!({ "owner": "java:9", "ahead": 0, "reason": "java:0 holds the lock" });
    assert_eq!(waiters[0], first);
    assert_eq!((&waiters[1]["owner"], &waiters[1]["host"]), (&json!(place), &json!("ann")));
    assert_eq!((&waiters[1]["ahead"], &waiters[0]["host"]), (&json!(1), &json!(null)));
    assert_eq!(waiters[1]["reason"], "java:0 holds the lock; before it in the queue is java:9");
}
