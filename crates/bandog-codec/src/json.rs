//! JSON as Jackson writes it: plain (`TypedJson`, `TextJson`), and with the names of Java classes (`TaggedJson`).

mod bytes;
mod fault;
mod key;
mod object;
mod read;
mod string;
mod tagged;
mod tags;
mod typed;
mod write;

pub use tagged::TaggedJson;
pub use typed::{TextJson, TypedJson};
