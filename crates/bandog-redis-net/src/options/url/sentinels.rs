//! Parses the hosts and the path of a URL of sentinels.

use std::collections::BTreeMap;

use bandog_core::{Error, Result};
use url::Url;

use super::parts::{SENTINELS, db, decoded, host, is_port, login};
use crate::options::{Host, Sentinels, TlsFiles};

/// The port of a sentinel.
const DEFAULT_PORT: u16 = 26379;

/// The URL with one placeholder instead of its hosts, and the hosts. The parser of URLs requires exactly one host.
pub(super) fn with_placeholder_host(url: &str) -> Result<(String, Vec<Host>)> {
    let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (login, hosts) = authority.rsplit_once('@').map_or(("", authority), |(login, hosts)| (login, hosts));
    let at = if login.is_empty() { "" } else { "@" };
    let hosts: Result<_> = hosts.split(',').map(read_host).collect();
    Ok((format!("{scheme}://{login}{at}sentinels{path}"), hosts?))
}

/// The sentinels, and the number of the database.
pub(super) fn read(
    hosts: Vec<Host>,
    path: &str,
    tls: Option<TlsFiles>,
    options: &mut BTreeMap<String, String>,
) -> Result<(Sentinels, u16)> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let (master, number) = path.split_once('/').unwrap_or((path, ""));
    // These are the characters that a sentinel allows in the name of a master.
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    let master = decoded("name of the master", master)?.filter(|name| is_name(name)).ok_or_else(|| {
        Error::misused(format!(
            "the URL names no master; expected {SENTINELS}, where MASTER is the name in the line \"sentinel monitor\" of \
             the sentinels' configuration"
        ))
    })?;
    let (user, password) = (options.remove("sentinel_user"), options.remove("sentinel_password"));
    let login = login(user, password, "sentinel_password_file", options)?;
    Ok((Sentinels { hosts, master, tls, login }, db(number)?))
}

/// Reads one host, with or without a port.
fn read_host(text: &str) -> Result<Host> {
    // If the text at the place of the port is no number, it might be a password before a mistyped `@`.
    let shown = match text.split_once(':') {
        Some((name, port)) if !text.starts_with('[') && !is_port(port) => format!("{name}:***"),
        Some(_) | None => text.to_owned(),
    };
    let unreadable = || Error::misused(format!("{shown:?} is not the host of a sentinel; expected {SENTINELS}"));
    let parsed = Url::parse(&format!("redis://{text}")).map_err(|error| unreadable().caused_by(error))?;
    if text.is_empty() || text.starts_with(':') {
        return Err(unreadable());
    }
    Ok(host(&parsed, DEFAULT_PORT))
}
