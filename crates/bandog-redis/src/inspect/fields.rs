//! The fields of a hash, which show whether it may be a lock.

use bandog_core::ClientId;
use bandog_redis_net::reply::{list, text};
use redis::{Pipeline, Value};

/// Approximate maximum number of fields that are read from a hash. A lock has one field. A read lock of Redisson has
/// one field for each reader.
const MAX_FIELDS: usize = 16;

/// Adds the first query for a lock, which reads some fields of the hash.
pub(crate) fn fields(pipe: &mut Pipeline, name: &str) {
    // A few fields are enough here, and a hash of another application might have millions of fields.
    pipe.cmd("HSCAN").arg(name).arg(0).arg("COUNT").arg(MAX_FIELDS);
}

/// Whether a hash might be a lock. `fields` is the reply to the first query.
pub(crate) fn is_lock(fields: &Value) -> bool {
    names_of(fields).iter().any(|name| ClientId::is_owner(name.strip_suffix(":write").unwrap_or(name)))
}

/// The names of the first fields of a hash.
fn names_of(fields: &Value) -> Vec<String> {
    match fields {
        Value::Array(parts) if parts.len() == 2 => list(&parts[1]).iter().step_by(2).filter_map(text).collect(),
        _ => Vec::new(),
    }
}
