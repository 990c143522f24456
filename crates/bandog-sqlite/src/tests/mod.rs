//! Tests of what users cannot reach: rules, texts of the system, other machines.

mod boots;
mod health;
mod lanes;
mod records;
mod rules;
mod texts;
