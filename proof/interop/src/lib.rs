//! The parts that the Rust side and the tests share.

pub mod counter;
