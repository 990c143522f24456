//! The login of a URL, and what can be mistaken for one.

/// Whether this login follows a host, as in `host1,user:password@host2` or `host1:7000,user:password@host2`. The host would
/// be the name of the user.
pub(super) fn follows_a_host(login: &str) -> bool {
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    user.contains(',') || password.split_once(',').is_some_and(|(port, _)| is_port(port))
}

/// Whether the text after a colon is a port, as in `6379`, `6379/0` or `6379?timeout=1s`. If it is a port, the text
/// before the colon is a host and not a scheme.
pub(super) fn is_port(rest: &str) -> bool {
    let port = rest.split(['/', '?', ',']).next().unwrap_or_default();
    !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
}
