//! The checks that come before any answer.

use std::{
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

use bandog_core::Error;
use hyper::{
    HeaderMap, StatusCode, Uri,
    header::{self, HeaderValue},
    http::uri::Authority,
};

use crate::{source::Trouble, token::Token};

/// The host names that requests may be sent to. Without this check, a foreign web page whose name resolves to this
/// machine (DNS rebinding) would have the same origin as this page.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hosts {
    /// The address of the page; none in a service of the user.
    pub(crate) address: Option<SocketAddr>,
    /// Further names.
    pub(crate) names: Vec<HostName>,
}

/// The name of a host, without a port ([`crate::Page::host`]).
///
/// ```
/// use bandog_page::HostName;
/// assert!("jobs.example".parse::<HostName>().is_ok());
/// assert!("http://jobs.example:8080".parse::<HostName>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostName(String);

impl FromStr for HostName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let name = name(text).filter(|name| name.eq_ignore_ascii_case(text));
        name.map(Self).ok_or_else(|| {
            Error::misused(format!(
                "{text:?} is not a host name: write it like jobs.example, without http:// and without a port"
            ))
        })
    }
}

impl Hosts {
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Trouble> {
        if self.address.is_none() && self.names.is_empty() {
            return Ok(());
        }
        let header = headers.get(header::HOST).map(|host| host.to_str().unwrap_or_default());
        let named = uri.authority().map(Authority::as_str);
        let is_there = header.is_some() || named.is_some();
        match header.iter().chain(&named).find(|host| !self.allow(host)) {
            None if is_there => Ok(()),
            refused => Err(self.refusal(refused.copied().unwrap_or_default())),
        }
    }

    /// Whether requests to this host, with or without its port, are answered. IP addresses are allowed, because DNS
    /// rebinding needs a name.
    fn allow(&self, host: &str) -> bool {
        let Some(name) = name(host) else { return false };
        if self.names.iter().any(|known| known.0 == name) || name == "localhost" || name.ends_with(".localhost") {
            return true;
        }
        let is_local = self.address.is_some_and(|address| address.ip().is_loopback());
        name.parse::<IpAddr>().is_ok_and(|ip| !is_local || ip.is_loopback())
    }

    fn refusal(&self, host: &str) -> Trouble {
        let name = name(host).unwrap_or_else(|| "NAME".into());
        let ip = match self.address {
            Some(address) if address.ip().is_loopback() => "localhost, 127.0.0.1 or [::1]".to_owned(),
            Some(address) if !address.ip().is_unspecified() => address.ip().to_string(),
            Some(_) | None => "an IP address of this machine".to_owned(),
        };
        let message = format!(
            "the page does not answer to the host {host:?}: use {ip} in the URL, or allow the name with --http-host \
             {name} (in a program: Page::host)"
        );
        Trouble::new(StatusCode::MISDIRECTED_REQUEST, "host", message)
    }
}

/// Refuses an action without the right token. The token is in a header and not in a cookie, so a page of another origin
/// cannot send it. The check of the origin is a second protection.
pub(crate) fn check_actor(uri: &Uri, headers: &HeaderMap, token: Option<&Token>) -> Result<(), Trouble> {
    let Some(token) = token else {
        let message = "this page is read-only: start bandog with --http-token-file or BANDOG_HTTP_TOKEN to act \
                       (in a program: Page::token)";
        return Err(Trouble::new(StatusCode::FORBIDDEN, "read_only", message));
    };
    if !is_same_origin(uri, headers) {
        let message = "only the page itself may act, not a page of another origin";
        return Err(Trouble::new(StatusCode::FORBIDDEN, "origin", message));
    }
    let given = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let given = given.and_then(|value| value.strip_prefix(b"Bearer "));
    match given {
        Some(given) if token.is(given) => Ok(()),
        Some(_) => Err(Trouble::new(StatusCode::UNAUTHORIZED, "token", "this token is wrong")),
        None => {
            let message = "an action requires the token, in a header: `Authorization: Bearer TOKEN`";
            Err(Trouble::new(StatusCode::UNAUTHORIZED, "token", message))
        }
    }
}

/// Whether the headers of a browser prove that this page sent the request. Other programs do not send these headers,
/// and pass.
fn is_same_origin(uri: &Uri, headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    if let Some(site) = text("sec-fetch-site") {
        return site == "same-origin" || site == "none";
    }
    let Some(origin) = text("origin") else { return true };
    let origin = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    let host = text("host").or_else(|| uri.authority().map(Authority::as_str));
    origin.zip(host).is_some_and(|(origin, host)| origin.eq_ignore_ascii_case(host))
}

/// The name or the IP address of a host, with or without its port, in lower case and without brackets.
fn name(host: &str) -> Option<String> {
    let authority = host.parse::<Authority>().ok()?;
    // A host with more than a port, such as a user name before it, is refused: another parser could read another host.
    let port = authority.as_str().strip_prefix(authority.host())?;
    let is_port = port.bytes().enumerate().all(|(at, b)| if at == 0 { b == b':' } else { b.is_ascii_digit() });
    let name = authority.host().trim_matches(['[', ']']).to_ascii_lowercase();
    (is_port && !name.is_empty()).then_some(name)
}
