//! The names of the options of URLs. The parser refuses other options, and the URL for a child process keeps these.

use super::scheme::{Scheme, backend};

/// The options that each URL can have.
pub(super) const OF_ALL: [&str; 3] = ["watchdog", "timeout", "prefix"];

/// The options for the client, beside [`OF_ALL`], in URLs of this backend.
pub(super) fn of_client(scheme: Scheme) -> &'static [&'static str] {
    match scheme {
        Scheme::Redis => &["java_skew", "replicas"],
        Scheme::Quorum => &["max_ttl"],
        Scheme::MySql | Scheme::Postgres | Scheme::Sqlite | Scheme::ZooKeeper | Scheme::Memory => &[],
    }
}

/// The options that only the backend of this scheme knows. Those of a database are in [`of_database`].
pub(super) fn of_backend(word: &str) -> &'static [&'static str] {
    match word {
        "redis" => &["layout", "semaphores"],
        "rediss" => &["layout", "semaphores", "ca", "cert", "key"],
        "redis+cluster" => &["layout", "semaphores", "address_map"],
        "rediss+cluster" => &["layout", "semaphores", "address_map", "ca", "cert", "key"],
        "redis+unix" => &["layout", "semaphores", "db"],
        "redis+sentinel" => &["layout", "semaphores", "address_map", "sentinel_user", "sentinel_password"],
        "rediss+sentinel" => {
            &["layout", "semaphores", "address_map", "sentinel_user", "sentinel_password", "ca", "cert", "key"]
        }
        "rediss+quorum" => &["ca", "cert", "key"],
        "zookeeper" => &["acl", "session"],
        "zookeeper+tls" => &["acl", "session", "ca", "cert", "key"],
        _ => &[],
    }
}

/// Whether a URL of this scheme can have an option with this name. A text with an unknown scheme, or without one, is
/// compared with a URL of one Redis server.
pub(super) fn is_known(word: &str, name: &str) -> bool {
    let (scheme, word) = backend(word).unwrap_or((Scheme::Redis, "redis"));
    let mut others = of_client(scheme).iter().chain(of_backend(word));
    OF_ALL.contains(&name) || others.any(|other| *other == name) || of_database(word).any(|other| other == name)
}

/// The options that the backend of this database knows.
#[cfg(any(feature = "postgres", feature = "mysql"))]
fn of_database(word: &str) -> impl Iterator<Item = &'static str> {
    bandog_sql::SqlOptions::option_names(word)
}

#[cfg(not(any(feature = "postgres", feature = "mysql")))]
fn of_database(_: &str) -> impl Iterator<Item = &'static str> {
    std::iter::empty()
}

#[cfg(test)]
mod tests;
