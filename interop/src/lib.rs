//! What the Rust side and the tests share.

pub mod counter;
