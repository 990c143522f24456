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
        "redis" => &["layout", "semaphores", "password_file"],
        "rediss" => &["layout", "semaphores", "password_file", "ca", "cert", "key"],
        "redis+cluster" => &["layout", "semaphores", "password_file", "address_map"],
        "rediss+cluster" => &["layout", "semaphores", "password_file", "address_map", "ca", "cert", "key"],
        "redis+unix" => &["layout", "semaphores", "password_file", "db"],
        "redis+sentinel" => &[
            "layout",
            "semaphores",
            "password_file",
            "address_map",
            "sentinel_user",
            "sentinel_password",
            "sentinel_password_file",
        ],
        "rediss+sentinel" => &[
            "layout",
            "semaphores",
            "password_file",
            "address_map",
            "sentinel_user",
            "sentinel_password",
            "sentinel_password_file",
            "ca",
            "cert",
            "key",
        ],
        "redis+quorum" => &["password_file"],
        "rediss+quorum" => &["password_file", "ca", "cert", "key"],
        "zookeeper" => &["acl", "session", "password_file"],
        "zookeeper+tls" => &["acl", "session", "password_file", "ca", "cert", "key"],
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
