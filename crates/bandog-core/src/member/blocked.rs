//! The part of a client's row that clients use to find deadlocks.

use std::fmt::Write as _;

use crate::{ClaimId, ClientId, Key};

/// Maximum number of calls in [`BlockedCalls::calls`].
pub const MAX_BLOCKED: usize = 64;
/// Maximum number of claims in [`BlockedCall::holds`].
pub const MAX_BLOCKED_HOLDS: usize = 64;

/// The blocked calls that a client publishes. A call is *blocked* if it waits for a lock without a time limit
/// while its owner holds other locks. If each owner in a circle waits for a lock of the next owner, this is a deadlock.
/// Each client in the circle finds it in these rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockedCalls {
    /// Whether other processes can wait on behalf of this client's holds. True for `bandog lock`: the processes that it
    /// starts can wait for further locks.
    pub lends: bool,
    /// The number of the last row that this client wrote. It rises with each row.
    pub round: u64,
    /// The clients whose rows this client has read in its last search, with the numbers of these rows. So a reader knows
    /// that this row was written after the other client's row with that number.
    pub seen: Vec<(ClientId, u64)>,
    /// The blocked calls. If there are more than [`MAX_BLOCKED`], the list has only [`MAX_BLOCKED`] of them.
    pub calls: Vec<BlockedCall>,
}

/// A call that waits for a lock without a time limit while its owner holds other locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedCall {
    /// The id of the call. It has the format of a claim's id, and no other call or claim has the same id, except the
    /// claim that is made for this call.
    pub id: ClaimId,
    /// The lock for which the call waits.
    pub key: Key,
    /// Whether the call waits as a reader. Then it does not wait for other readers.
    pub is_reader: bool,
    /// The claims by which the owner of the call holds other locks. The owner releases these locks only after the call
    /// has ended.
    pub holds: Vec<ClaimId>,
    /// If the client has found that this call is part of a deadlock, the ids of all calls of that deadlock. Otherwise
    /// empty.
    pub deadlock: Vec<ClaimId>,
}

impl BlockedCalls {
    /// The text for the registry of a store. Empty if there is nothing to publish. The text consists of lines, and
    /// contains no other control characters than line breaks.
    ///
    /// ```
    /// use bandog::backend::BlockedCalls;
    /// let calls = BlockedCalls { lends: true, ..BlockedCalls::default() };
    /// assert_eq!(BlockedCalls::from_text(&calls.to_text()), calls);
    /// assert_eq!(BlockedCalls::default().to_text(), "");
    /// ```
    pub fn to_text(&self) -> String {
        let Self { lends, round, seen, calls } = self;
        let mut text = String::new();
        if *lends {
            text.push_str("lends\n");
        }
        if calls.is_empty() {
            return text;
        }
        // Writing to a string cannot fail.
        let _ = writeln!(text, "round {round}");
        for (client, round) in seen {
            let _ = writeln!(text, "seen {client} {round}");
        }
        for BlockedCall { id, key, is_reader, holds, deadlock } in calls.iter().take(MAX_BLOCKED) {
            let mode = if *is_reader { "read" } else { "exclusive" };
            let holds = list(&holds[..holds.len().min(MAX_BLOCKED_HOLDS)]);
            let _ = writeln!(text, "call {id} {mode} {holds} {} {key}", list(deadlock));
        }
        text
    }

    /// Reads the text of [`BlockedCalls::to_text`]. Lines that this version does not know are left out.
    pub fn from_text(text: &str) -> Self {
        let mut all = Self::default();
        for line in text.lines() {
            if line == "lends" {
                all.lends = true;
            } else if let Some(round) = line.strip_prefix("round ").and_then(|round| round.parse().ok()) {
                all.round = round;
            } else if let Some(seen) = line.strip_prefix("seen ").and_then(seen) {
                all.seen.push(seen);
            } else if let Some(call) = line.strip_prefix("call ").and_then(call) {
                all.calls.push(call);
            }
        }
        all.calls.truncate(MAX_BLOCKED);
        all
    }
}

fn seen(text: &str) -> Option<(ClientId, u64)> {
    let (client, round) = text.split_once(' ')?;
    Some((client.parse().ok()?, round.parse().ok()?))
}

fn call(text: &str) -> Option<BlockedCall> {
    let mut words = text.splitn(5, ' ');
    let mut word = || words.next();
    let (id, mode, holds, deadlock) = (word()?.parse().ok()?, word()?, ids(word()?)?, ids(word()?)?);
    let is_reader = match mode {
        "read" => true,
        "exclusive" => false,
        _ => return None,
    };
    Some(BlockedCall { id, key: Key::new(word()?).ok()?, is_reader, holds, deadlock })
}

/// A list of ids as one word. An empty list is `-`.
fn list(ids: &[ClaimId]) -> String {
    if ids.is_empty() {
        return "-".into();
    }
    ids.iter().map(ClaimId::to_string).collect::<Vec<_>>().join(",")
}

fn ids(word: &str) -> Option<Vec<ClaimId>> {
    if word == "-" { Some(Vec::new()) } else { word.split(',').map(|id| id.parse().ok()).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> ClaimId {
        ClaimId { client: ClientId::random(), number }
    }

    #[test]
    fn a_text_is_read_as_it_was_written() {
        let call = |name: &str, is_reader, holds: Vec<_>, deadlock| BlockedCall {
            id: id(7),
            key: Key::new(name).unwrap(),
            is_reader,
            holds,
            deadlock,
        };
        let calls = BlockedCalls {
            lends: true,
            round: 17,
            seen: vec![(ClientId::random(), 3), (ClientId::random(), u64::MAX)],
            calls: vec![
                call("orders", false, vec![id(1), id(2)], vec![]),
                call(" a b - 中文 ", true, vec![], vec![id(3), id(4)]),
            ],
        };
        assert_eq!(BlockedCalls::from_text(&calls.to_text()), calls);
    }

    #[test]
    fn lines_of_other_versions_are_left_out() {
        let id = id(1);
        let text = format!("later 5\nround x\nseen 7\ncall {id} maybe - - x\ncall {id} read - -\n\nlends\n");
        assert_eq!(BlockedCalls::from_text(&text), BlockedCalls { lends: true, ..BlockedCalls::default() });
    }

    #[test]
    fn the_numbers_of_calls_and_holds_are_limited() {
        let call = |_| BlockedCall {
            id: id(1),
            key: Key::new("x").unwrap(),
            is_reader: false,
            holds: vec![id(1); MAX_BLOCKED_HOLDS + 1],
            deadlock: vec![],
        };
        let calls = BlockedCalls { calls: (0..=MAX_BLOCKED).map(call).collect(), ..BlockedCalls::default() };
        let read = BlockedCalls::from_text(&calls.to_text());
        assert_eq!(read.calls.len(), MAX_BLOCKED);
        assert!(read.calls.iter().all(|call| call.holds.len() == MAX_BLOCKED_HOLDS));
    }
}
