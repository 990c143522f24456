use std::time::Duration;

use bandog_core::{ClaimId, ClientId, Version};
use redis::Arg;

use super::*;

#[test]
fn a_plain_swap_takes_one_key_and_five_arguments() {
    let texts = texts(&swap(&[from("a")], Format::default(), ScriptForm::Hash));
    assert_eq!(texts[2..], ["2", "bandog:records", "bandog:record:{a}", "0", "7", "0", "0", "=", "x"]);
}

#[test]
fn other_swaps_name_their_history_and_lines() {
    let lines = ["1", "2"].map(|slot| Line { slot: slot.into(), value: "text".into() }).to_vec();
    let swaps = [
        Swap::new(key("a"), None, "x"),
        from("b"),
        Swap { lines: lines.clone(), ..from("c") },
        Swap { to: None, lines, ..from("d") },
    ];
    let texts = texts(&swap(&swaps, Format::default(), ScriptForm::Hash));
    let keys = ["record:{a}", "history:{a}", "record:{b}", "record:{c}", "history:{c}", "record:{d}", "history:{d}"];
    assert_eq!(texts[2..4], ["8", "bandog:records"]);
    assert_eq!(texts[4..11], keys.map(|key| format!("bandog:{key}")));
    let (a, b, d) = (["", "0", "0", "0", "x", "a"], ["7", "0", "0", "=", "x"], ["7", "0", "0", "-1", "", "d"]);
    let c = ["7", "0", "0", "2", "x", "c", "1", "text", "2", "text"];
    assert_eq!(texts[11..], [&["0"][..], &a, &b, &c, &d].concat());
}

#[test]
fn swaps_that_notify_name_their_channels_at_the_end() {
    let lines = vec![Line { slot: "1".into(), value: "text".into() }];
    let swaps = [from("a"), Swap { notifies: true, ..from("b") }, Swap { notifies: true, lines, ..from("{c}") }];
    let texts = texts(&swap(&swaps, Format::default(), ScriptForm::Hash));
    let channels = ["redisson_lock__channel:{b}", "redisson_lock__channel:{c}"];
    assert_eq!(texts[texts.len() - 5..], ["text", "2", channels[0], "3", channels[1]]);
}

#[test]
fn each_holding_is_named_once() {
    let [one, two] =
        [1, 2].map(|number| Holding { key: key("lock"), id: ClaimId { client: ClientId::random(), number } });
    let held = |held: &Holding| Swap { held: Some(held.clone()), ..from("a") };
    let texts = texts(&swap(&[held(&one), from("a"), held(&two), held(&one)], Format::default(), ScriptForm::Hash));
    assert_eq!(texts[2..6], ["7", "bandog:records", "lock", "lock"]);
    assert_eq!(texts[10..13], ["2", &one.id.to_string(), &two.id.to_string()]);
    let holding_numbers: Vec<&str> = texts[13..].chunks(5).map(|args| args[2].as_str()).collect();
    assert_eq!(holding_numbers, ["1", "0", "2", "1"]);
}

#[test]
fn a_read_has_a_key_for_each_record_and_lock_and_an_owner_for_each_lock() {
    let held = Holding { key: key("lock"), id: ClaimId { client: ClientId::random(), number: 1 } };
    let texts = texts(&read(&[key("a"), key("{b}")], std::slice::from_ref(&held), Format::default(), ScriptForm::Hash));
    assert_eq!(texts[2..], ["3", "bandog:record:{a}", "bandog:record:{{b}}", "lock", &held.id.to_string()]);
}

#[test]
fn times_are_whole_milliseconds_rounded_up_and_exact_in_lua() {
    assert_eq!(millis(None), 0);
    assert_eq!(millis(Some(UNIX_EPOCH - Duration::from_secs(1))), 0);
    assert_eq!(millis(Some(UNIX_EPOCH + Duration::from_micros(1_000_001))), 1001);
    assert_eq!(millis(Some(UNIX_EPOCH + Duration::from_secs(u64::MAX >> 2))), 1 << 53);
}

#[test]
fn both_headers_document_keys_arguments_and_reply() {
    for script in [&SWAP, &READ, &setnx::SWAP, &setnx::READ] {
        for word in ["KEYS", "ARGV", "Reply"] {
            assert!(script.text(false).contains(&format!("\n-- {word}: ")), "{word} of {}", script.text(false));
        }
    }
}

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

/// A plain swap of the record with this name, from version 7 to the value `x`.
fn from(name: &str) -> Swap {
    Swap::new(key(name), Version::new(7), "x")
}

/// All parts of a command, as texts.
fn texts(cmd: &Cmd) -> Vec<String> {
    let text = |arg| match arg {
        Arg::Simple(bytes) => String::from_utf8(Vec::from(bytes)).unwrap(),
        other => panic!("{other:?}"),
    };
    cmd.args_iter().map(text).collect()
}
