//! The schemes of URLs, and their backends.

/// The backend that a URL names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// `redis://user:password@host:port/db`, `rediss://` over TLS, `redis+unix://` over a socket, `redis+sentinel://` for the
    /// master that sentinels name, or `redis+cluster://` for a cluster; the last two also with `rediss`. For each of these
    /// schemes there is another with `valkey` instead of `redis`.
    Redis,
    /// `redis+quorum://user:password@host:port,host:port,host:port/db`, or `rediss+quorum://` over TLS. For each of these
    /// schemes there is another with `valkey` instead of `redis`.
    Quorum,
    /// `mysql://user:password@host:port/database`, also for MariaDB
    MySql,
    /// `postgres://user:password@host:port/database`
    Postgres,
    /// `sqlite:PATH`
    Sqlite,
    /// `zookeeper://user:password@host:port,host:port/folder`, or `zookeeper+tls://`
    ZooKeeper,
    /// `memory:` or `memory:NAME`
    Memory,
}

/// The backend of this scheme, and the name of the scheme in the URLs for this backend.
pub(super) fn backend(scheme: &str) -> Option<(Scheme, &'static str)> {
    Some(match scheme.to_ascii_lowercase().as_str() {
        "redis" | "valkey" => (Scheme::Redis, "redis"),
        "rediss" | "valkeys" => (Scheme::Redis, "rediss"),
        "redis+unix" | "valkey+unix" => (Scheme::Redis, "redis+unix"),
        "redis+cluster" | "valkey+cluster" => (Scheme::Redis, "redis+cluster"),
        "rediss+cluster" | "valkeys+cluster" => (Scheme::Redis, "rediss+cluster"),
        "redis+sentinel" | "valkey+sentinel" => (Scheme::Redis, "redis+sentinel"),
        "rediss+sentinel" | "valkeys+sentinel" => (Scheme::Redis, "rediss+sentinel"),
        "redis+quorum" | "valkey+quorum" => (Scheme::Quorum, "redis+quorum"),
        "rediss+quorum" | "valkeys+quorum" => (Scheme::Quorum, "rediss+quorum"),
        "mysql" | "mariadb" => (Scheme::MySql, "mysql"),
        "postgres" | "postgresql" => (Scheme::Postgres, "postgres"),
        "sqlite" => (Scheme::Sqlite, "sqlite"),
        "zookeeper" => (Scheme::ZooKeeper, "zookeeper"),
        "zookeeper+tls" => (Scheme::ZooKeeper, "zookeeper+tls"),
        "memory" => (Scheme::Memory, "memory"),
        _ => return None,
    })
}

/// Whether this word has the syntax of a scheme: a letter, then letters, digits and `+-.`.
pub(super) fn is_scheme(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_alphabetic())
        && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

/// Whether the URLs of this scheme have no host. Such URLs have no user and no password either.
pub(super) fn is_local(scheme: &str) -> bool {
    scheme.eq_ignore_ascii_case("sqlite") || scheme.eq_ignore_ascii_case("memory")
}
