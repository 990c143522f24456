//! What a claim is, and what a backend must promise.
//!
//! This crate holds the nouns of [bandog](https://docs.rs/bandog) and the traits that a backend
//! implements: [`Leases`] (try, renew, release, ring), [`Inspect`] (who holds what) and [`Records`] (texts with a
//! version, of which schedules are made). Everything else, such as waiting, queues, the watchdog and re-entry, is written
//! once above it, in `bandog-sync`.
//! [`Memory`] is the reference backend. Nothing here opens a socket.
//!
//! Users of locks need the `bandog` crate only; this one is for those who write a backend.

mod claim;
mod clock;
mod error;
mod fence;
mod finding;
#[cfg(test)]
mod fuzz;
mod inspect;
mod key;
mod leases;
mod lock_state;
mod member;
mod memory;
mod records;
mod subscription;

pub use claim::{Claim, ClaimId, ClientId, Kind, MAX_TTL, MIN_TTL, OFFER, check_ttl};
pub use clock::{Clock, Moment};
pub use error::{Error, ErrorKind, Result};
pub use fence::{Fence, Fences, MAX_BLOCK};
pub use finding::{Finding, Level};
pub use inspect::{Inspect, Pattern, Row};
pub use key::{Key, MAX_KEY_LEN};
pub use leases::{Answer, Backend, Leases, Profile, Released, Renewal, Step, Verdict};
pub use lock_state::LockState;
pub use member::{MAX_WAITS, Member};
pub use memory::Memory;
pub use records::{Holding, Line, Reading, Record, Records, Swap, Swapped, Swaps, Version};
pub use subscription::{Notifier, Subscription};
