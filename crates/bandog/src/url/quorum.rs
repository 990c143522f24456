//! URLs of a quorum: `redis+quorum://user:password@host:port,host:port,host:port/db`.

use std::collections::BTreeSet;

use bandog_core::{Error, Result};

use super::login::follows_a_host;

/// Minimum number of nodes of a quorum.
const MIN_NODES: usize = 3;

/// The parts of the text after the scheme's colon.
struct Parts<'a> {
    /// The user and the password with the `@`, or an empty text.
    login: &'a str,
    hosts: Vec<&'a str>,
    /// The database with the `/`, the options with the `?`, or an empty text.
    tail: &'a str,
}

fn split(rest: &str) -> Option<Parts<'_>> {
    let rest = rest.strip_prefix("//")?;
    let place = rest.rfind('@').map_or(0, |at| at + 1);
    let (login, place) = rest.split_at(place);
    let (hosts, tail) = place.split_at(place.find(['/', '?']).unwrap_or(place.len()));
    Some(Parts { login, hosts: hosts.split(',').collect(), tail })
}

/// Refuses a URL that does not name at least three different nodes.
pub(super) fn check(rest: &str, shown: &str) -> Result<()> {
    const FORM: &str = "write redis+quorum://[user:password@]HOST[:port],HOST[:port],HOST[:port][/db]";
    let misused = |what: &str| Err(Error::misused(format!("the URL {shown:?} {what}: {FORM}")));
    let Some(Parts { login, hosts, .. }) = split(rest) else { return misused("lacks its //") };
    if login.contains(['/', '?', '#']) {
        return misused("has a '/', '?' or '#' before its '@'; in a user or password, write %2F, %3F or %23");
    }
    if hosts.iter().any(|host| host.is_empty()) || hosts.len() < MIN_NODES {
        return misused("names fewer than three nodes of the quorum");
    }
    let has_wrong_port = |host: &&str| {
        let port = host.rsplit_once(']').map_or(*host, |(_, port)| port).split_once(':').map_or("", |(_, port)| port);
        !port.bytes().all(|byte| byte.is_ascii_digit())
    };
    if hosts.iter().any(has_wrong_port) {
        return misused("has a port that is not a number (in a password, write %25 for % and %40 for @)");
    }
    if follows_a_host(login) {
        return misused("has a login after its first host; write the login once, and %2C for a comma in it");
    }
    // The same server twice would have two votes.
    let distinct: BTreeSet<_> = hosts.iter().map(|host| server(host)).collect();
    if distinct.len() < hosts.len() {
        return misused("names a node of the quorum twice");
    }
    Ok(())
}

/// The server at this host and port. Different texts of one server that are often mixed are the same value.
fn server(host: &str) -> (String, String) {
    let has_port = host.rfind(':').is_some_and(|at| !host[at..].contains(']'));
    let (name, port) = if has_port { host.rsplit_once(':').unwrap_or((host, "")) } else { (host, "") };
    let name = match name.to_ascii_lowercase().as_str() {
        "localhost" | "[::1]" => "127.0.0.1".to_owned(),
        name => name.to_owned(),
    };
    let port = port.trim_start_matches('0');
    (name, if port.is_empty() { "6379" } else { port }.to_owned())
}

/// The URLs of the nodes. `url` is the URL of the quorum, with the options of its nodes only.
pub(crate) fn nodes(url: &str) -> Vec<String> {
    let (scheme, rest) = url.split_once(':').unwrap_or_default();
    let scheme = scheme.strip_suffix("+quorum").unwrap_or(scheme);
    let Some(Parts { login, hosts, tail }) = split(rest) else { return Vec::new() };
    hosts.into_iter().map(|host| format!("{scheme}://{login}{host}{tail}")).collect()
}

/// The URL of the quorum without user, password and options, for messages.
pub(crate) fn store(url: &str) -> String {
    let (scheme, rest) = url.split_once(':').unwrap_or_default();
    let Some(Parts { hosts, tail, .. }) = split(rest) else { return scheme.to_owned() };
    let db = tail.split('?').next().unwrap_or_default();
    format!("{scheme}://{}{db}", hosts.join(","))
}

#[cfg(test)]
mod tests;
