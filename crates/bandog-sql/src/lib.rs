//! PostgreSQL, and with the feature `mysql` MySQL and MariaDB, as a backend of [bandog](https://docs.rs/bandog).
//!
//! Each lock is a row of the table `bandog_lease`, and its last fence is a row of the table `bandog_fence`. The tables are
//! created when they are first used. The time of the database decides when a lease expires. A release notifies the
//! waiters with NOTIFY; on MySQL the waiters poll.
//!
//! Users of locks need only the `bandog` crate. The promises of this backend are documented at [`Sql`].

mod apply;
mod channel;
mod check;
mod client;
mod context;
mod decisions;
mod dial;
mod fault;
mod fence;
mod held;
mod inspect;
mod job;
mod known_names;
mod lane;
mod leases;
mod limits;
mod mutexes;
#[cfg(feature = "mysql")]
mod mysql;
mod notifications;
mod open;
mod options;
mod others;
mod polled;
mod postgres;
mod printed;
mod queues;
mod record_rows;
mod records;
mod registry;
mod rights;
mod row;
mod schema;
mod session;
mod shared_table;
mod shedlock;
mod sql;
mod statements;
mod states;
mod subscriptions;
mod swaps;
#[cfg(test)]
mod tests;
mod unused;
mod value;
mod want;

pub use options::SqlOptions;
pub use sql::Sql;
