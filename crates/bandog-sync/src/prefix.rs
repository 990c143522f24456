//! The prefix that a client adds to all of its names, so that several systems can share one store.

use std::collections::BTreeSet;

use bandog_core::{Error, Finding, Member, Result};

/// Maximum length of a prefix, in bytes.
const MAX_BYTES: usize = 256;

/// Returns an error unless the prefix is allowed.
pub(crate) fn check(prefix: &str) -> Result<()> {
    let is_right = prefix.is_empty() || (prefix.ends_with(':') && (2..=MAX_BYTES).contains(&prefix.len()));
    if is_right && !prefix.contains(char::is_control) {
        return Ok(());
    }
    Err(Error::misused(format!(
        "the prefix {prefix:?} is not allowed: a prefix must end in ':' and have 2 to {MAX_BYTES} bytes, \
         without control characters"
    )))
}

/// Checks whether a prefix in use begins with another prefix in use. If so, two systems can have the same lock. `ours`
/// is the prefix of this client, and `members` are the registered clients.
pub(crate) fn finding(ours: &str, members: &[Member]) -> Finding {
    let prefixes: BTreeSet<&str> = members.iter().map(|member| &*member.prefix).chain([ours]).collect();
    let used: Vec<&str> = prefixes.into_iter().filter(|prefix| !prefix.is_empty()).collect();
    // A prefix in use that begins with the prefix `short`, and is longer.
    let longer = |short: &str| used.iter().find(|prefix| **prefix != short && prefix.starts_with(short)).copied();
    match used.iter().find_map(|short| Some((*short, longer(short)?))) {
        Some((short, long)) => Finding::advice(
            "prefix",
            format!("the prefix {long:?} begins with the prefix {short:?}, so two systems can have the same lock"),
            "change one of them, so that no prefix begins with another, such as \"shop-eu:\" beside \"shop-us:\"",
        ),
        None if used.is_empty() => Finding::fine("prefix", "no registered client uses a prefix"),
        None => Finding::fine("prefix", "no prefix in use begins with another"),
    }
}
