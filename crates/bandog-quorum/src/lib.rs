//! A backend of [bandog](https://docs.rs/bandog) over several independent stores. A lock is held if a majority of the
//! stores holds it. So locks continue to work while a minority of the stores is down.
//!
//! Users of locks need only the `bandog` crate. The promises of this backend are documented at [`Quorum`].

mod agreement;
mod apply;
mod ask;
mod contention;
mod gather;
mod inspect;
mod leases;
mod node;
mod options;
mod owed;
mod pauses;
mod renewals;
mod repairs;
mod reuse;
mod rules;
mod steps;
mod task;

pub use leases::Quorum;
pub use options::QuorumOptions;
