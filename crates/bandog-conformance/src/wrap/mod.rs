//! Backends that wrap another backend: they count, delay, lose or hold its calls, grant less, or break a rule.
//!
//! Each wrapper is a [`Wrapped`] backend with [`Hooks`] of its own. All clones of a wrapper share one state. So a test
//! can keep one clone and pass another clone to a client.

mod capped;
mod counting;
mod delayed;
mod flaw;
mod flawed;
mod forgetful;
mod hooks;
mod lossy;
mod stopped;
mod without_subscriptions;
mod wrapped;

pub use capped::Capped;
pub use counting::Counting;
pub use delayed::Delayed;
pub use flaw::Flaw;
pub use flawed::Flawed;
pub use forgetful::Forgetful;
pub use hooks::{Call, Hooks};
pub use lossy::{Fate, Lossy};
pub use stopped::{Stopped, Which};
pub use without_subscriptions::WithoutSubscriptions;
pub use wrapped::Wrapped;
