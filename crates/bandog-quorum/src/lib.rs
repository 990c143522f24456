//! A backend of [bandog](https://docs.rs/bandog) over several independent stores. A lock is held if a majority of the
//! stores holds it. So locks continue to work while a minority of the stores is down.
//!
//! Users of locks need only the `bandog` crate. The promises of this backend are documented at [`Quorum`].
//!
//! # A dropped request
//! The client polls each call of this backend until it ends. The backend itself drops the requests to the nodes that
//! have not answered when the result is known, or at the deadline. Such a node may still apply its request:
//! - *Claim, granted by a majority*: the node claims the hold as a repair, until the hold has ended or was released.
//! - *Claim, not granted*: it is handed back: each node that may have applied it must release it.
//! - *Pass, without a result*: the client repeats it. *Pass, granted*: as a claim, and the node must release the old
//!   hold.
//! - *Release*: the node must release the claim.
//!
//! The node's task sends these releases until the node has answered, or the claim's ttl and one timeout of the node
//! have passed. When the client closes, it makes one more attempt. Then the holds expire after their ttl.
//!
//! # Modules
//! - `leases`: the backend; `options`: its options;
//! - `apply`: the rounds of requests of one call; `steps`: the steps of a call, and the votes about them; `rules`: how
//!   votes become an answer; `gather`: collects answers until they suffice; `ask`: one request to each node;
//! - `node`: one node; `task`: its background task; `owed`: the releases that it has not answered; `reuse`: claims that
//!   are sent again under another id; `repairs`: holds that it has lost;
//! - `renewals`: renewals in flight, and their votes;
//! - `contention`: asks one node first if clients contend; `pauses`: when a waiter claims again;
//! - `agreement`: the terms that all clients of the nodes share; `inspect`: the view of operators.

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
