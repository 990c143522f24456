//! Tests of internals: rules, texts of the system, other machines.

mod batches;
mod boots;
mod health;
mod records;
mod rules;
mod same_rules;
mod texts;
