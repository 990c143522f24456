//! The Redis backend against real servers, at the level of leases.

mod bells;
mod faults;
mod fences;
mod help;
mod layout;
mod look;
mod rights;
mod source;
