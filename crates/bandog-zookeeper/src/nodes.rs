//! The nodes of a lock: their names, their order, and their data.

use std::time::Duration;

use bandog_core::{Claim, Family, Key, Kind};
use uuid::Uuid;

use crate::encoding::election_of;

/// The word in the name of a node: what the node claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Word {
    /// A mutex, fair or not.
    Lock,
    /// The mutex of an election, fair or not.
    Latch,
    Read,
    Write,
    /// Permits of a semaphore. The node is in the queue of the semaphore, in the folder [`QUEUE`].
    Permits,
}

/// A queue in which nodes wait for each other. The queues of one folder are different locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Queue {
    /// The nodes of a mutex.
    Lock,
    /// The candidates of an election. Its folder can have another queue, too, which does not matter to the candidates.
    Latch,
    /// Readers and writers.
    ReadWrite,
    /// The claims for permits. This queue has a folder of its own.
    Permits,
}

impl Queue {
    /// The queue of the mutex with this key.
    pub(crate) fn of_mutex(key: &Key) -> Self {
        Word::of(key, Kind::Mutex).queue()
    }

    pub(crate) fn family(self) -> Family {
        match self {
            Self::Lock | Self::Latch => Family::Mutex,
            Self::ReadWrite => Family::ReadWrite,
            Self::Permits => Family::Semaphore,
        }
    }

    /// Whether no other queue can use the folder at the same time.
    pub(crate) fn is_alone(self) -> bool {
        matches!(self, Self::Lock | Self::ReadWrite)
    }
}

/// The words that say which family uses a folder.
const WORDS: [Word; 3] = [Word::Lock, Word::Read, Word::Write];
/// The folder in the folder of a semaphore that has the queue: the first node may take permits. Curator has the same.
pub(crate) const QUEUE: &str = "locks";
/// The folder in the folder of a semaphore that has a node for each permit that is taken. Curator has the same.
pub(crate) const LEASES: &str = "leases";
/// The text before the number in the name of a taken permit. Curator has the same.
const LEASE: &str = "lease-";

impl Word {
    /// The word of a claim of this kind.
    pub(crate) fn of(key: &Key, kind: Kind) -> Self {
        match kind {
            Kind::Mutex | Kind::Fair if election_of(key.as_str()).is_some() => Self::Latch,
            Kind::Mutex | Kind::Fair => Self::Lock,
            Kind::Read => Self::Read,
            Kind::Write => Self::Write,
            Kind::Permits { .. } => Self::Permits,
        }
    }

    pub(crate) fn queue(self) -> Queue {
        match self {
            Self::Lock => Queue::Lock,
            Self::Latch => Queue::Latch,
            Self::Read | Self::Write => Queue::ReadWrite,
            Self::Permits => Queue::Permits,
        }
    }

    pub(crate) fn family(self) -> Family {
        self.queue().family()
    }

    /// The text before the number in the name of a node. Curator has the same.
    fn text(self) -> &'static str {
        match self {
            Self::Lock | Self::Permits => "lock-",
            Self::Latch => "latch-",
            Self::Read => "__READ__",
            Self::Write => "__WRIT__",
        }
    }

    /// Whether the data of a node may change. Curator's `LeaderLatch` waits only for the deletion of the node before its own: a
    /// change of that node's data uses up the watch, and then the candidate waits for ever.
    pub(crate) fn may_change(self) -> bool {
        self != Self::Latch
    }

    /// Whether a node has this word, as Curator decides it.
    pub(crate) fn is_in(self, name: &str) -> bool {
        name.contains(self.text())
    }
}

/// The greatest number of a node with which a client holds a lock or waits. The numbers end at 2147483647: from there on,
/// nodes get equal or negative numbers, so the queue has no order. The distance is greater than the number of nodes that
/// are created while a client holds the lock.
const LAST_NUMBER: i64 = i32::MAX as i64 - 100_000;

/// Creates the part of a name by which a client finds its node: Curator's prefix of protected nodes, with a new UUID.
pub(crate) fn protection() -> String {
    format!("_c_{}", Uuid::new_v4())
}

/// The path that ZooKeeper completes with ten digits when it creates the node.
pub(crate) fn path_prefix(folder: &str, protection: &str, word: Word) -> String {
    format!("{folder}/{protection}-{}", word.text())
}

/// The path that ZooKeeper completes with ten digits when it creates the node of a permit.
pub(crate) fn lease_prefix(folder: &str, protection: &str) -> String {
    format!("{folder}/{LEASES}/{protection}-{LEASE}")
}

/// The text by which the nodes of permits are sorted: the number. A node without the word is its own text, as in Curator.
pub(crate) fn lease_order(name: &str) -> &str {
    name.rfind(LEASE).map_or(name, |at| &name[at + LEASE.len()..])
}

/// The text by which the queue of a semaphore is sorted.
pub(crate) fn queue_order(name: &str) -> &str {
    key(name, Queue::Permits)
}

/// The digits at the end of the path of a node of this crate.
pub(crate) fn digits(path: &str, word: Word) -> &str {
    after_last(path, word)
}

/// Sorts nodes in the order in which they get the lock. As in Curator, all children of the folder count.
pub(crate) fn sort(children: &mut [String], queue: Queue) {
    children.sort_by(|a, b| key(a, queue).cmp(key(b, queue)));
}

/// The text by which a node is sorted, as in Curator: the text after the last word. A name without the word is its own key.
pub(crate) fn key(name: &str, queue: Queue) -> &str {
    match queue {
        Queue::Lock | Queue::Permits => after_last(name, Word::Lock),
        Queue::Latch => after_last(name, Word::Latch),
        Queue::ReadWrite => after_last(after_last(name, Word::Read), Word::Write),
    }
}

fn after_last(name: &str, word: Word) -> &str {
    // Most names end with the word and ten digits, so the word needs no search.
    if let Some((front, digits)) = name.len().checked_sub(10).and_then(|at| name.split_at_checked(at))
        && front.ends_with(word.text())
        && digits.bytes().all(|digit| digit.is_ascii_digit())
    {
        return digits;
    }
    name.rfind(word.text()).map_or(name, |at| &name[at + word.text().len()..])
}

/// Whether a node of this crate has a place in the order of the queue. Near the end of the numbers, it has none.
pub(crate) fn has_place(name: &str, queue: Queue) -> bool {
    key(name, queue).parse().is_ok_and(|number| (0..=LAST_NUMBER).contains(&number))
}

/// The protected node with the lowest number, and its family, which uses the folder. All kinds of nodes get their numbers
/// from one counter. None if there is no such node.
pub(crate) fn first_of_a_family(children: &[String]) -> Option<(Family, &str)> {
    let numbered = children.iter().filter_map(|name| {
        let rest = name.strip_prefix("_c_")?.get(36..)?.strip_prefix('-')?;
        WORDS.iter().find_map(|word| {
            let number: i64 = rest.strip_prefix(word.text())?.parse().ok()?;
            Some((number, (word.family(), name.as_str())))
        })
    });
    numbered.min_by_key(|(number, _)| *number).map(|(_, first)| first)
}

/// The family that uses the folder.
pub(crate) fn family(children: &[String]) -> Option<Family> {
    first_of_a_family(children).map(|(family, _)| family)
}

/// Whether a node has the name of a lock's node: one of the words, and a number behind it. Folders of other programs have
/// no such nodes.
pub(crate) fn is_of_a_lock(name: &str) -> bool {
    WORDS.iter().any(|word| has_number(name, word.text()))
}

/// Whether a node has the name of a candidate's node.
pub(crate) fn is_of_an_election(name: &str) -> bool {
    has_number(name, Word::Latch.text())
}

/// Whether a node has the name of a taken permit.
pub(crate) fn is_a_lease(name: &str) -> bool {
    has_number(name, LEASE)
}

fn has_number(name: &str, word: &str) -> bool {
    let number = name.rfind(word).map(|at| &name[at + word.len()..]);
    number.is_some_and(|number| number.len() >= 10 && number.parse::<i64>().is_ok())
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

    /// The data of a node of waiting calls. A node whose data may not change never says that it waits: see
    /// [`Word::may_change`].
    pub(crate) fn waiting(claim: &Claim, word: Word) -> Self {
        Self { waits: word.may_change(), ..Self::of(claim) }
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
        sort(&mut nodes, Queue::Lock);
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
    fn readers_and_writers_are_sorted_by_their_numbers() {
        let mut nodes =
            ["_c_x-lock-0000000000", "_c_a-__READ__0000000002", "_c_b-__WRIT__0000000001", "__WRIT__0000000000", "0"]
                .map(String::from);
        sort(&mut nodes, Queue::ReadWrite);
        assert_eq!(
            nodes,
            ["0", "__WRIT__0000000000", "_c_b-__WRIT__0000000001", "_c_a-__READ__0000000002", "_c_x-lock-0000000000"]
        );
    }

    #[test]
    fn the_queues_of_one_folder_are_behind_each_other() {
        let (latch, lock, write) = ("_c_a-latch-0000000002", "_c_b-lock-0000000001", "_c_c-__WRIT__0000000000");
        for (queue, first) in [(Queue::Latch, latch), (Queue::Lock, lock), (Queue::ReadWrite, write)] {
            let mut nodes = [lock, latch, write, "leases", "locks", "0"].map(String::from);
            sort(&mut nodes, queue);
            assert_eq!(nodes[..2], ["0", first], "{queue:?}");
        }
    }

    #[test]
    fn the_lowest_number_says_which_family_uses_a_folder() {
        let name = |word: &str, number: &str| format!("_c_2b3f71b5-76fc-41fc-83c9-f63573c55b15-{word}{number}");
        let (lock, read) = (name("lock-", "0000000007"), name("__READ__", "0000000010"));
        assert_eq!(family(&[read.clone(), lock.clone()]), Some(Family::Mutex));
        assert_eq!(family(&[name("__WRIT__", "0000000006"), lock]), Some(Family::ReadWrite));
        assert_eq!(family(&["lock-0000000000".into(), "0".into(), "_c_犬".into(), name("latch-", "0000000001")]), None);
    }

    #[test]
    fn the_nodes_of_locks_have_a_word_and_a_number() {
        for name in ["_c_x-lock-0000000001", "lock-0000000001", "_c_x-__READ__0000000002", "x-lock--2147483648"] {
            assert!(is_of_a_lock(name), "{name}");
        }
        for name in ["ids", "0", "lock-", "lock-abc", "lock-1", "3f2a9c__lock__0000000001", "0000000001"] {
            assert!(!is_of_a_lock(name), "{name}");
        }
    }

    #[test]
    fn near_the_end_of_the_numbers_a_node_has_no_place() {
        for (number, is_usable) in
            [("0000000000", true), ("2147383647", true), ("2147383648", false), ("-000000001", false)]
        {
            assert_eq!(has_place(&format!("_c_x-lock-{number}"), Queue::Lock), is_usable, "{number}");
            assert_eq!(has_place(&format!("_c_x-__READ__{number}"), Queue::ReadWrite), is_usable, "{number}");
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
