//! Objects as JSON.

use bandog_core::structures::ObjectRow;
use serde::Serialize;

use crate::lock_json::millis;

/// One object in JSON, in the format of the page and of `bandog ls --objects --json`. Programs rely on the field names.
#[derive(Debug, Serialize)]
pub struct ObjectJson<'a> {
    name: &'a str,
    r#type: &'static str,
    /// The number of elements; of a value, the number of bytes.
    size: u64,
    ttl_ms: Option<u64>,
    store: &'a str,
}

impl<'a> ObjectJson<'a> {
    /// The object in `row`. `store` is the displayed name of the store, which must not contain a password.
    pub fn new(row: &'a ObjectRow, store: &'a str) -> Self {
        let ObjectRow { key, structure, size, ttl } = row;
        Self { name: key.as_str(), r#type: structure.name(), size: *size, ttl_ms: ttl.map(millis), store }
    }
}
