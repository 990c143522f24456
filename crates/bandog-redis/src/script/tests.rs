use std::{collections::BTreeMap, num::NonZeroU32};

use bandog_core::{ClaimId, ClientId, Key};
use redis::Arg;

use super::*;

#[test]
fn every_header_tells_what_its_script_is_called_with() {
    let one = claim_of("a");
    let commands = [(&CLAIM, claim(&one, None, By::Hash)), (&RELEASE, release(&one, By::Hash))];
    for (script, cmd) in commands {
        let (keys, args) = called_with(&cmd);
        assert_eq!(words(script, "KEYS").len(), keys, "{}", script.text);
        assert_eq!(words(script, "ARGV").len(), args, "{}", script.text);
        assert!(script.text.contains("\n-- Reply: "), "{}", script.text);
    }
}

#[test]
fn the_header_of_the_renewal_tells_what_each_claim_adds() {
    let (keys, args) = called_with(&renew(&[claim_of("a"), claim_of("b"), claim_of("c")], By::Hash));
    for (word, number) in [("KEYS", keys), ("ARGV", args)] {
        let mut words = words(&RENEW, word);
        assert_eq!(words.pop().as_deref(), Some("..."));
        assert_eq!(words.len() * 3, number, "{word}");
    }
}

#[test]
fn scripts_take_their_names_from_where_the_header_puts_them() {
    for script in [&CLAIM, &RELEASE] {
        for array in ["KEYS", "ARGV"] {
            let names = words(script, array);
            let places: Vec<String> = (1..=names.len()).map(|place| format!("{array}[{place}]")).collect();
            let line = format!("local {} = {}\n", names.join(", "), places.join(", "));
            assert!(script.text.contains(&line), "expected {line:?} in\n{}", script.text);
        }
    }
}

#[test]
fn a_pass_is_a_claim_that_names_its_predecessor() {
    let (from, to) = (claim_of("a"), claim_of("a"));
    let args = texts(&claim(&to, Some(&from), By::Hash));
    assert_eq!(args[3..], ["a", "redisson_lock_token:{a}", &to.id.to_string(), "30000", "64", &from.id.to_string()]);
    let args = texts(&claim(&to, None, By::Text));
    assert_eq!((args[0].as_str(), args[1].as_str(), args[8].as_str()), ("EVAL", CLAIM.text, ""));
}

#[test]
fn a_ttl_is_rounded_up() {
    assert_eq!(millis(Duration::from_micros(100_001)), 101);
    assert_eq!(millis(Duration::from_millis(100)), 100);
}

fn claim_of(key: &str) -> Claim {
    Claim {
        key: Key::new(key).unwrap(),
        id: ClaimId { client: ClientId::random(), number: 7 },
        kind: Kind::Mutex,
        ttl: Duration::from_secs(30),
        fences: NonZeroU32::new(64).unwrap(),
    }
}

/// The names that a header line gives, without what stands in parentheses and without units.
fn words(script: &Script, line: &str) -> Vec<String> {
    let lines = script.text.lines().filter_map(|line| line.strip_prefix("-- ")?.split_once(": "));
    let lines: BTreeMap<&str, &str> = lines.collect();
    let words = lines[line].split(" (").next().unwrap().split(", ");
    words.map(|word| word.trim_end_matches(" in ms").into()).collect()
}

fn called_with(cmd: &Cmd) -> (usize, usize) {
    let texts = texts(cmd);
    let keys: usize = texts[2].parse().unwrap();
    (keys, texts.len() - 3 - keys)
}

fn texts(cmd: &Cmd) -> Vec<String> {
    let text = |arg| match arg {
        Arg::Simple(bytes) => String::from_utf8(Vec::from(bytes)).unwrap(),
        other => panic!("{other:?}"),
    };
    cmd.args_iter().map(text).collect()
}
