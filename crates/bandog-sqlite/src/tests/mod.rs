//! Tests of private parts: rules, texts of the kernel, other boots and other clocks.

mod batches;
mod boots;
mod boots_of_kinds;
mod health;
mod records;
mod rules;
mod same_rules;
mod texts;
