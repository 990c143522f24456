//! Parses parts that URLs of several forms have.

use std::collections::BTreeMap;

use bandog_core::{Error, Result};
use bandog_net::{Login, PasswordFile};
use url::{Host as UrlHost, Url};

use crate::options::Host;

/// The form of a URL of sentinels. With `rediss+sentinel`, it has the options of a URL for TLS, too.
pub(super) const SENTINELS: &str = "redis+sentinel://[user:password@]host[:port][,host[:port]...]/MASTER[/db]\
                         [?sentinel_user=USER&sentinel_password=PASSWORD]";

/// The login of this user. `file` is the query option that names the file with the password.
pub(super) fn login(
    user: Option<String>,
    password: Option<String>,
    file: &'static str,
    options: &mut BTreeMap<String, String>,
) -> Result<Login> {
    Ok(match options.remove(file) {
        Some(path) => {
            let file = PasswordFile::of_url(file, path, password.is_some())?;
            Login::with_file(user, file)
        }
        None => {
            let password = password.or_else(|| user.is_some().then(String::new));
            Login::of_url(user, password)
        }
    })
}

/// The host in the form that a resolver expects: an IPv6 address has no brackets.
pub(super) fn host(url: &Url, default_port: u16) -> Host {
    let name = match url.host() {
        Some(UrlHost::Ipv4(address)) => address.to_string(),
        Some(UrlHost::Ipv6(address)) => address.to_string(),
        Some(UrlHost::Domain(name)) if !name.is_empty() => name.into(),
        Some(UrlHost::Domain(_)) | None => "localhost".into(),
    };
    Host { name, port: url.port().unwrap_or(default_port) }
}

/// Reads the number of the database. It is the path of the URL, or the value of the option `db`.
pub(super) fn db(path: &str) -> Result<u16> {
    let number = path.strip_prefix('/').unwrap_or(path);
    if number.is_empty() {
        return Ok(0);
    }
    let digits = number.bytes().all(|byte| byte.is_ascii_digit());
    number.parse().ok().filter(|_| digits).ok_or_else(|| {
        let shown = after_at(path);
        Error::misused(format!("{shown:?} is not a database; expected a number from 0 to 65535"))
    })
}

/// A part of a URL, for messages. The text before an `@` is hidden, because it might belong to a password that was not
/// encoded.
pub(super) fn after_at(part: &str) -> String {
    part.rsplit_once('@').map_or(part.to_owned(), |(_, rest)| format!("***@{rest}"))
}

/// The percent-decoded text. None if it is empty. The text might be secret, so error messages contain only `what`, the
/// name of this part of the URL.
pub(super) fn decoded(what: &str, text: &str) -> Result<Option<String>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => hex(rest.next())
                .zip(hex(rest.next()))
                .map(|(high, low)| high << 4 | low)
                .ok_or_else(|| undecodable(what))?,
            byte => byte,
        });
    }
    let text = String::from_utf8(bytes).map_err(|_| undecodable(what))?;
    Ok(Some(text).filter(|text| !text.is_empty()))
}

fn undecodable(what: &str) -> Error {
    Error::misused(format!("the {what} of the URL cannot be decoded; expected UTF-8, with %XX for special characters"))
}

/// The value of a hexadecimal digit.
fn hex(digit: Option<u8>) -> Option<u8> {
    match digit? {
        digit @ b'0'..=b'9' => Some(digit - b'0'),
        digit @ b'a'..=b'f' => Some(digit - b'a' + 10),
        digit @ b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// The text of a URL that could not be parsed, without any part that might be a user or a password.
pub(super) fn without_secrets(url: &str) -> String {
    if let Some((before, _)) = url.split_once("sentinel_password") {
        return format!("{}sentinel_password=***", without_secrets(before));
    }
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://***@{rest}"),
        (None, Some((_, rest))) => format!("***@{rest}"),
        // The `@` may have been mistyped. Then the text at the position of the port might be a password.
        (Some((scheme, rest)), None) if rest.split_once(':').is_some_and(|(_, port)| !is_port(port)) => {
            format!("{scheme}://***")
        }
        (_, None) => url.into(),
    }
}

pub(super) fn is_port(text: &str) -> bool {
    text.split('/').next().is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}
