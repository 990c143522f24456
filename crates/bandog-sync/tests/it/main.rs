//! The engine over the memory backend, with time paused.
#![expect(clippy::unwrap_used, reason = "tests")]

mod basics;
