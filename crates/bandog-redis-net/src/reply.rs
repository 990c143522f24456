//! Reads values from a server's replies.

use std::time::Duration;

use redis::Value;

/// Reads a text. None if the value is not a text.
pub fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.clone()),
        Value::Okay => Some("OK".into()),
        _ => None,
    }
}

/// Reads the reply of `TIME`: the time since 1970.
pub fn time(value: &Value) -> Option<Duration> {
    let numbers: Vec<u64> = list(value).iter().filter_map(text).filter_map(|text| text.parse().ok()).collect();
    let [seconds, micros] = numbers.try_into().ok()?;
    Some(Duration::from_secs(seconds) + Duration::from_micros(micros))
}

/// The elements of an array. Empty if the value is not an array.
pub fn list(value: &Value) -> &[Value] {
    match value {
        Value::Array(values) => values,
        _ => &[],
    }
}
