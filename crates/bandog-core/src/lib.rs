//! The types of [bandog](https://docs.rs/bandog), and the traits of a backend. A backend connects bandog to one kind of
//! store, such as Redis.
//!
//! A backend implements [`Leases`] (claim, renew, release, subscribe), [`Inspect`] (list the locks and their holders)
//! and [`Records`] (texts with a version, in which the scheduler keeps its jobs). [`Latches`] has a default
//! implementation over records. All other parts are the same for all backends, and are in the crate `bandog-sync`:
//! waiting, queues, re-entry, and the watchdog (the background task that renews leases).
//!
//! A backend may also have [`structures`] (maps, queues and other objects), [`messages`] on channels, and work [`queues`].
//!
//! [`Memory`] is the reference backend. This crate opens no socket.
//!
//! This crate is for authors of backends. A program that uses locks needs only the `bandog` crate.

mod backend;
mod claim;
mod clock;
mod duration;
mod error;
mod fence;
mod finding;
#[cfg(test)]
mod fuzz;
mod inspect;
mod key;
mod latches;
mod leases;
mod lock_state;
mod member;
mod memory;
pub mod messages;
mod name;
mod outcome;
mod pattern;
mod portion;
mod profile;
pub mod queues;
mod quorum_node;
mod records;
mod reports;
mod row;
mod sql_statement;
mod step;
pub mod structures;
mod subscription;
mod unused;
mod url_text;

pub use backend::Backend;
pub use claim::{Claim, ClaimId, ClientId, Family, Kind, Kinds, MAX_TTL, MIN_TTL, OFFER, PLACE, check_ttl};
pub use clock::{Clock, Moment};
pub use duration::rounded;
pub use error::{Error, ErrorKind, Result};
pub use fence::{Fence, Fences, MAX_BLOCK};
pub use finding::{Finding, Level};
pub use inspect::Inspect;
pub use key::{Key, MAX_KEY_LEN};
pub use latches::{LatchAction, LatchAnswer, LatchOperation, LatchRow, Latches, OperationId};
pub use leases::Leases;
pub use lock_state::{Hold, Limit, LockState, Place, check_pass};
pub use member::{BlockedCall, BlockedCalls, MAX_BLOCKED, MAX_BLOCKED_HOLDS, MAX_WAITS, Member};
pub use memory::Memory;
pub use outcome::{Failure, Outcome};
pub use pattern::Pattern;
pub use portion::{PORTION, Portion, Portions};
pub use profile::Profile;
pub use quorum_node::QuorumNode;
pub use records::{Holding, Line, Reading, Record, Records, Swap, Swapped, Swaps, Version, no_records};
pub use reports::Reports;
pub use row::{Holder, Row, Waiting};
pub use sql_statement::{Mark, SqlDialect, SqlStatement};
pub use step::{Answer, Released, Renewal, Step, Verdict};
pub use subscription::{Notifier, Subscription};
pub use unused::{IfUnused, NamesPage, Usage};
pub use url_text::url_text;
