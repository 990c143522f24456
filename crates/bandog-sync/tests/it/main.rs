//! The engine, beyond the laws of the conformance suite: over the memory backend, mostly under a paused clock.

#![expect(clippy::unwrap_used, reason = "tests")]

mod cancel;
mod ending;
mod kit;
