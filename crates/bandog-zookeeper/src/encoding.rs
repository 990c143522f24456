//! The path of a lock in the tree of ZooKeeper, and the name of a lock in a path.

use percent_encoding::percent_decode_str;

/// The folder of a chroot in which this crate keeps its own nodes. No name of a lock is encoded like this, because a
/// percent sign in a name is encoded.
pub(crate) const OWN: &str = "%bandog";

/// Words that ZooKeeper refuses or reserves as the name of a node.
const RESERVED: [&str; 3] = [".", "..", "zookeeper"];

/// The beginning of the key of an election's mutex.
const ELECTION: &str = "election/";

/// The name of the election whose mutex this is.
pub(crate) fn election_of(mutex: &str) -> Option<&str> {
    mutex.strip_prefix(ELECTION).filter(|name| !name.is_empty())
}

/// The name of an election's mutex.
pub(crate) fn mutex_of(election: &str) -> String {
    format!("{ELECTION}{election}")
}

/// Encodes the name of a lock as the name of one node. Most names stay as they are. Characters that ZooKeeper refuses,
/// the slash and the percent sign are percent-encoded.
pub(crate) fn encode(name: &str) -> String {
    if RESERVED.contains(&name) {
        let (first, rest) = name.split_at(1);
        return format!("%{:02X}{rest}", first.as_bytes()[0]);
    }
    let mut encoded = String::with_capacity(name.len());
    for c in name.chars() {
        if is_plain(c) {
            encoded.push(c);
            continue;
        }
        let mut bytes = [0; 4];
        for byte in c.encode_utf8(&mut bytes).bytes() {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// The name of the lock whose node has this name. None if no lock has it.
pub(crate) fn decode(node: &str) -> Option<String> {
    let name = percent_decode_str(node).decode_utf8().ok()?.into_owned();
    (encode(&name) == node).then_some(name)
}

/// Whether ZooKeeper accepts this character in the name of a node. Its servers check units of UTF-16, so they refuse all
/// characters above U+FFFF.
fn is_plain(c: char) -> bool {
    let is_refused = c.is_control() || c >= '\u{fff0}' || ('\u{e000}'..='\u{f8ff}').contains(&c);
    !(is_refused || matches!(c, '/' | '%'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_reversibly() {
        let names =
            ["orders", "a/b", "100%", ".", "..", "...", "zookeeper", "%2E", "%bandog", "犬", "🐕", "\u{feff}", " a "];
        for name in names {
            let node = encode(name);
            assert!(!node.contains('/') && node != OWN && !RESERVED.contains(&node.as_str()), "{node}");
            assert_eq!(decode(&node).as_deref(), Some(name));
        }
        assert_eq!(encode("orders-17"), "orders-17");
        assert_eq!(
            (encode("a/b"), encode("."), encode("zookeeper")),
            ("a%2Fb".into(), "%2E".into(), "%7Aookeeper".into())
        );
    }

    #[test]
    fn an_election_has_the_name_behind_the_slash() {
        assert_eq!(election_of(&mutex_of("a/b")), Some("a/b"));
        for name in ["election/", "election", "shop:election/a", "a"] {
            assert_eq!(election_of(name), None, "{name}");
        }
    }

    #[test]
    fn nodes_that_are_no_locks_have_no_name() {
        for node in [OWN, "%61", "%", "%zz", "%2e"] {
            assert_eq!(decode(node), None, "{node}");
        }
    }
}
