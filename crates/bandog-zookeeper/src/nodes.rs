//! The nodes of a lock: their names, their order, and their data.

use std::time::Duration;

use bandog_core::{Claim, Kind};
use uuid::Uuid;

/// The text before the number in the name of a mutex's node. Curator has the same.
const WORD: &str = "lock-";

/// The greatest number of a node with which a client holds a lock or waits. The numbers end at 2147483647: from there on,
/// nodes get equal or negative numbers, so the queue has no order. The distance is greater than the number of nodes that
/// are created while a client holds the lock.
const LAST_NUMBER: i64 = i32::MAX as i64 - 100_000;

/// Creates the part of a name by which a client finds its node: Curator's prefix of protected nodes, with a new UUID.
pub(crate) fn protection() -> String {
    format!("_c_{}", Uuid::new_v4())
}

/// The path that ZooKeeper completes with ten digits when it creates the node.
pub(crate) fn path_prefix(folder: &str, protection: &str) -> String {
    format!("{folder}/{protection}-{WORD}")
}

/// Sorts nodes in the order in which they get the lock. As in Curator, all children of the folder count, and the key is
/// the text after the last `lock-`. A name without `lock-` is its own key.
pub(crate) fn sort(children: &mut [String]) {
    children.sort_by(|a, b| key(a).cmp(key(b)));
}

/// Whether a node of this crate has a place in the order of the queue. Near the end of the numbers, it has none.
pub(crate) fn has_place(name: &str) -> bool {
    key(name).parse().is_ok_and(|number| (0..=LAST_NUMBER).contains(&number))
}

fn key(name: &str) -> &str {
    name.rfind(WORD).map_or(name, |at| &name[at + WORD.len()..])
}

/// The data of a node of ours. Curator ignores the data of a mutex.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeText {
    /// The id of the claim.
    pub(crate) owner: String,
    /// The requested ttl.
    pub(crate) ttl: Duration,
    pub(crate) kind: Kind,
    /// Whether the node only waits: no claim holds the lock with it, even if it is the first one.
    pub(crate) waits: bool,
}

/// The fourth word of the data of a node that only waits.
const WAITS: &str = "waits";

impl NodeText {
    pub(crate) fn of(claim: &Claim) -> Self {
        Self { owner: claim.id.to_string(), ttl: claim.ttl, kind: claim.kind, waits: false }
    }

    /// The data of a node of waiting calls.
    pub(crate) fn waiting(claim: &Claim) -> Self {
        Self { waits: true, ..Self::of(claim) }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let waits = if self.waits { format!(" {WAITS}") } else { String::new() };
        format!("{} {} {}{waits}", self.owner, self.ttl.as_millis(), self.kind).into_bytes()
    }

    /// None if the node belongs to another library.
    pub(crate) fn read(data: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(data).ok()?;
        let mut words = text.split(' ');
        let (owner, ttl, kind) = (words.next()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let waits = match words.next() {
            None => false,
            Some(WAITS) => true,
            Some(_) => return None,
        };
        let is_ours = bandog_core::ClientId::made(owner) && words.next().is_none();
        is_ours.then(|| Self { owner: owner.to_owned(), ttl: Duration::from_millis(ttl), kind, waits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_sorted_as_curator_sorts_them() {
        let mut nodes = [
            "~",
            "abc",
            "x-lock-abc",
            "5",
            "lock-0000000003x",
            "12",
            "x-lock-00000000005",
            "0",
            "!abc",
            "lock-",
            "_c_x-lock-lock-0000000001",
            "x-lock--2147483648",
            "x-lock-2147483647",
            "3f2a9c__lock__0000000001",
        ]
        .map(String::from);
        sort(&mut nodes);
        assert_eq!(
            nodes,
            [
                "lock-",
                "!abc",
                "x-lock--2147483648",
                "0",
                "x-lock-00000000005",
                "_c_x-lock-lock-0000000001",
                "lock-0000000003x",
                "12",
                "x-lock-2147483647",
                "3f2a9c__lock__0000000001",
                "5",
                "abc",
                "x-lock-abc",
                "~",
            ]
        );
    }

    #[test]
    fn near_the_end_of_the_numbers_a_node_has_no_place() {
        for (number, has_place) in
            [("0000000000", true), ("2147383647", true), ("2147383648", false), ("-000000001", false)]
        {
            assert_eq!(super::has_place(&format!("_c_x-lock-{number}")), has_place, "{number}");
        }
    }

    #[test]
    fn the_data_of_a_node_are_read_as_they_were_written() {
        let owner = format!("{}:7", bandog_core::ClientId::random());
        for waits in [false, true] {
            let text = NodeText { owner: owner.clone(), ttl: Duration::from_secs(30), kind: Kind::Mutex, waits };
            assert_eq!(NodeText::read(&text.bytes()), Some(text));
        }
        for data in [&b"127.0.0.1"[..], b"", b"__REVOKE__", b"a 1 mutex", &[0xff]] {
            assert_eq!(NodeText::read(data), None);
        }
    }
}
