//! The names of keys and channels: Redisson's names for locks, and our own for the registry and for records. The key of
//! a lock is the name of the lock.
//!
//! # Keys that scripts use without declaring them
//! While a slot of a Redis Cluster is being moved, each of two nodes has some of its keys. A node runs a script only if
//! it has all keys in KEYS, or none of them and the client asks with ASKING; for more than one key, it must have them
//! all. (Else the answer is `TRYAGAIN` or `ASK`.) Inside the script, the node that loses the slot refuses each command
//! with a missing key. But the node that gets the slot runs commands with one key, and a key that is still at the other
//! node is missing there. These keys are not in KEYS, for the reasons below. So for each of them:
//!
//! - the holds of readers ([`HoldPrefix`]; a lock can have thousands of them, and a step cannot know them before): a
//!   reader is dead only after `check_absent` in `common.lua` has shown that the slot is not being moved.
//! - [`StarvingKey`] (a user without the right for it can take locks): if the note seems to be missing, a release makes
//!   no offer. A claim writes a note only after the same check, because a second key would stop the move.
//! - [`OperationsKey`] in claims of semaphores: it is read only if the token is missing. The token is in KEYS, so the
//!   slot is not being moved.
//! - [`PermitsKey`], [`TokenKey`], [`LEASES`], [`PLAIN`] and [`FORMER_LIMIT`] in steps of latches: if the name is misused
//!   for a latch and a semaphore, the step may not be refused.
//! - all keys except the lock in `inspect.lua` and `evict.lua`: a lock is never shown or reported as free because of a
//!   key that is at the other node, see `check_shown`. The fences and the queue can be left out.
//! - all keys except the lock in `forget.lua` and `unused.lua`: they delete nothing and report nothing while the slot is being moved.
//! - channels have no data. The node that has the slot, or gets it, publishes.

use std::fmt;

use bandog_core::{Claim, ClientId, Kind};

use crate::options::Format;

/// The prefix of the registry's keys.
pub(crate) const REGISTRY: &str = "bandog:client:";

/// The sorted set of all registered clients. A client's score is the time in ms, by the server's clock, at which the
/// client's row expires.
pub(crate) const CLIENTS: &str = "bandog:clients";

/// The prefix of the keys that mark a lock with a starving client. A client starves if it has waited for a lock for a
/// second or more.
pub(crate) const STARVING: &str = "bandog:starving:";

/// The prefix of the keys with the operations on latches that the server remembers.
pub(crate) const OPERATIONS: &str = "bandog:ops:";

/// The prefix of the channels of latches.
pub(crate) const LATCH_CHANNEL: &str = "redisson_countdownlatch__channel__";
/// Hashes with the last fence of each hold, for locks that can have several holders and for fair locks.
pub(crate) const HELD: &str = "bandog:held:";
/// Sorted sets of the waiting writers that have a place, with the time in ms at which the place expires.
pub(crate) const WRITERS: &str = "bandog:writers:";
/// Sorted sets of our waiting claims that have a place in the queue of a fair lock or of a semaphore, with the time in
/// ms at which the place expires.
pub(crate) const WAITING: &str = "bandog:waiting:";
/// Sorted sets of the starving claims of a semaphore, in the order in which they got their places.
pub(crate) const STARVING_ORDER: &str = "bandog:order:";
/// Marks a long queue of a fair lock whose deadlines have not come nearer after the last grants.
pub(crate) const STAYED: &str = "bandog:stayed:";
/// The limit of a semaphore before its last change.
pub(crate) const FORMER_LIMIT: &str = "bandog:limit:";

/// Hashes with our claims that have permits of a plain semaphore, and with its limit.
pub(crate) const PLAIN: &str = "bandog:plain:";
/// Sorted sets of our claims that have permits of a plain semaphore, with the time in ms at which each of them expires.
pub(crate) const LEASES: &str = "bandog:leases:";

/// The prefix of strings with settings that all clients of a server share. They have no ttl.
pub(crate) const SETTING: &str = "bandog:setting:";

/// Redisson's list of the claims that wait for a fair lock, and the sorted set with the time in ms at which each of them
/// is given up.
pub(crate) const QUEUE: &str = "redisson_lock_queue:";
pub(crate) const DEADLINES: &str = "redisson_lock_timeout:";
/// Redisson's channels of read-write locks and of semaphores.
pub(crate) const READ_WRITE_CHANNEL: &str = "redisson_rwlock:";
pub(crate) const SEMAPHORE_CHANNEL: &str = "redisson_sc:";

/// The set of the names of all records.
pub(crate) const INDEX: &str = "bandog:records";

/// The prefixes of the keys of records and of their histories.
const RECORD: &str = "bandog:record:";
const HISTORY: &str = "bandog:history:";

/// The key of the fencing token of the lock with this name.
pub(crate) struct TokenKey<'a>(pub(crate) &'a str);

/// The prefix of the keys of fencing tokens.
pub(crate) const TOKEN: &str = "redisson_lock_token:";

/// The channel of a name. Each release of the lock with this name publishes a message on this channel. Each swap of the
/// record with this name that notifies subscribers does the same.
pub(crate) struct Channel<'a>(pub(crate) &'a str);

/// The key that exists while a client starves for the lock with this name.
pub(crate) struct StarvingKey<'a>(pub(crate) &'a str);

/// The key of the operations on the latch with this name that the server remembers.
pub(crate) struct OperationsKey<'a>(pub(crate) &'a str);

/// The channel of the latch with this name, in this format.
pub(crate) struct LatchChannel<'a>(pub(crate) &'a str, pub(crate) Format);
/// The channel to which the client of a refused claim subscribes. For all kinds except [`Kind::Fair`], it is the channel
/// of the name, on which the releases of this kind are published. A claim of a fair mutex has a channel of its own.
pub(crate) struct ClaimChannel<'a>(pub(crate) &'a Claim);

/// A further key or channel of the lock with this name. The first text is its prefix, such as [`HELD`].
pub(crate) struct Satellite<'a>(pub(crate) &'static str, pub(crate) &'a str);

/// The sorted set of the permits of the semaphore with this name that are held, with the time in ms at which each of
/// them expires.
pub(crate) struct PermitsKey<'a>(pub(crate) &'a str);

/// The beginning of the keys that belong to single holds of the lock with this name.
pub(crate) struct HoldPrefix<'a>(pub(crate) &'a str);

/// The key of a client's row in the registry.
pub(crate) struct ClientRowKey(pub(crate) ClientId);

/// The key of a record, in this format.
pub(crate) struct RecordKey<'a>(pub(crate) &'a str, pub(crate) Format);

/// The key of a record's history, in this format.
pub(crate) struct HistoryKey<'a>(pub(crate) &'a str, pub(crate) Format);

/// The key of the set that contains the name of this record, in this format. On a Redis Cluster, each hash tag has a set
/// of its own.
pub(crate) struct IndexKey<'a>(pub(crate) &'a str, pub(crate) Format);

/// Whether this hash is a record, a history or a private key of a lock, and not a lock.
pub(crate) fn is_private(key: &str) -> bool {
    let is_of_records = |prefix| key.strip_prefix(prefix).is_some_and(|name: &str| name.starts_with(['{', ':']));
    (is_of_records(RECORD) || is_of_records(HISTORY)) && key.contains('}')
        || (key.starts_with(HELD) || key.starts_with(PLAIN)) && key.contains('{')
}

/// The names of the semaphores that can have this key for their permits: see [`PermitsKey`].
pub(crate) fn semaphores_of(key: &str) -> Vec<String> {
    key.strip_suffix(":timeout").map(names_with_tag).unwrap_or_default()
}

/// The names of the locks that can have this key, which has this prefix: see [`Satellite`].
pub(crate) fn names_of(prefix: &str, key: &str) -> Vec<String> {
    key.strip_prefix(prefix).map(names_with_tag).unwrap_or_default()
}

/// The names that have this text in the keys that belong to them.
fn names_with_tag(name: &str) -> Vec<String> {
    if !name.contains('{') {
        return Vec::new();
    }
    let inner = name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).filter(|name| !name.contains('{'));
    [Some(name), inner].into_iter().flatten().map(str::to_owned).collect()
}

impl fmt::Display for RecordKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        of_record(f, RECORD, self.0, self.1)
    }
}

impl fmt::Display for HistoryKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        of_record(f, HISTORY, self.0, self.1)
    }
}

impl fmt::Display for IndexKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(INDEX)?;
        if !self.1.in_cluster {
            return Ok(());
        }
        write!(f, ":{{{}}}", String::from_utf8_lossy(bandog_redis_net::tag(self.0.as_bytes())))
    }
}

impl fmt::Display for ClientRowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{REGISTRY}{}", self.0)
    }
}

impl fmt::Display for TokenKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        prefixed(f, TOKEN, self.0)
    }
}

impl fmt::Display for StarvingKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        prefixed(f, STARVING, self.0)
    }
}

impl fmt::Display for OperationsKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        prefixed(f, OPERATIONS, self.0)
    }
}

/// As in Redisson, the braces are always added, even if the name contains `{`. On a Redis Cluster, such a latch of
/// Redisson does not work, because the channel would have another slot. So there the name keeps its own hash tag.
impl fmt::Display for LatchChannel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        of_record(f, LATCH_CHANNEL, self.0, self.1)
    }
}

impl fmt::Display for Satellite<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        prefixed(f, self.0, self.1)
    }
}

impl fmt::Display for PermitsKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}timeout", HoldPrefix(self.0))
    }
}

impl fmt::Display for HoldPrefix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        prefixed(f, "", self.0)?;
        f.write_str(":")
    }
}

impl fmt::Display for ClaimChannel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.key.as_str();
        match self.0.kind {
            Kind::Mutex => Channel(name).fmt(f),
            Kind::Fair => write!(f, "{}:{}", Channel(name), self.0.id),
            Kind::Read | Kind::Write => Satellite(READ_WRITE_CHANNEL, name).fmt(f),
            Kind::Permits { .. } => Satellite(SEMAPHORE_CHANNEL, name).fmt(f),
        }
    }
}

impl fmt::Display for Channel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        prefixed(f, "redisson_lock__channel:", self.0)
    }
}

/// Writes the prefix and the name in braces. On a Redis Cluster, a name that contains `{` gets a colon instead of the
/// braces, because it contains its own hash tag. So the names `a` and `{a}` have different keys.
fn of_record(f: &mut fmt::Formatter<'_>, prefix: &str, name: &str, format: Format) -> fmt::Result {
    if format.in_cluster && name.contains('{') { write!(f, "{prefix}:{name}") } else { write!(f, "{prefix}{{{name}}}") }
}

/// Writes the prefix and the name in braces. As in Redisson, a name that contains `{` gets no braces, because the name
/// may contain its own hash tag. (In a Redis Cluster, the hash tag is the part of a key in braces. It decides which
/// server has the key.)
fn prefixed(f: &mut fmt::Formatter<'_>, prefix: &str, name: &str) -> fmt::Result {
    f.write_str(prefix)?;
    if name.contains('{') {
        return f.write_str(name);
    }
    f.write_str("{")?;
    f.write_str(name)?;
    f.write_str("}")
}
