//! The laws. The documentation of each law begins with the number of the law.
//!
//! Words in the laws: a *claim* asks the store for a lock. A *hold* is a granted claim in the store. A *fence* is the
//! number of a grant. A *guard* is the value that the caller gets for a granted claim. A hold expires after its *ttl*
//! if the client does not renew the hold. If the caller asks for a *lease*, the client never renews the hold. A
//! *waiter* is a call that waits for a lock which another claim holds.

pub mod admin;
pub mod basics;
pub mod batches;
pub mod cancel;
pub mod crowd;
pub mod fair;
pub mod faults;
pub mod fencing;
pub mod kind_faults;
pub mod kinds;
pub mod latches;
pub mod lease;
pub mod loss;
pub mod mix;
pub mod names;
pub mod processes;
pub mod read_write;
pub mod record_conditions;
pub mod record_crowd;
pub mod record_faults;
pub mod record_history;
pub mod record_notifications;
pub mod record_reading;
pub mod records;
pub mod reentry;
pub mod semaphore;
pub mod several;
pub mod unused;
pub mod waiting;
