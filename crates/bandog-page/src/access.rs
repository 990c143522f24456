//! The checks that a request must pass before it is answered.

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

/// The host names and addresses that a request is allowed to name as its target. The check protects against DNS
/// rebinding: the owner of a foreign web page makes the host name of that page resolve to this machine. For a browser,
/// the foreign page and this page then have the same origin. Without the check, the foreign page could read this page.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hosts {
    /// The address on which [`crate::Page::serve`] listens. `None` if the user's own service serves the page.
    pub(crate) address: Option<SocketAddr>,
    /// Names that the user allows with [`crate::Page::host`].
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
        let name = host_name(text).filter(|name| name.eq_ignore_ascii_case(text));
        name.map(Self).ok_or_else(|| {
            Error::misused(format!(
                "{text:?} is not a host name: write it like jobs.example, without http:// and without a port"
            ))
        })
    }
}

impl Hosts {
    /// Refuses a request to a host that is not allowed.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Trouble> {
        if self.address.is_none() && self.names.is_empty() {
            return Ok(());
        }
        let header = headers.get(header::HOST).map(|host| host.to_str().unwrap_or_default());
        let in_uri = uri.authority().map(Authority::as_str);
        let has_host = header.is_some() || in_uri.is_some();
        match header.iter().chain(&in_uri).find(|host| !self.allow(host)) {
            None if has_host => Ok(()),
            refused => Err(self.refusal(refused.copied().unwrap_or_default())),
        }
    }

    /// Whether requests to this host are answered. `host` can end with a port. IP addresses are allowed, because DNS
    /// rebinding works only with host names. But a page on a loopback address allows only loopback IP addresses.
    fn allow(&self, host: &str) -> bool {
        let Some(name) = host_name(host) else { return false };
        if self.names.iter().any(|known| known.0 == name) || name == "localhost" || name.ends_with(".localhost") {
            return true;
        }
        let is_local = self.address.is_some_and(|address| address.ip().is_loopback());
        name.parse::<IpAddr>().is_ok_and(|ip| !is_local || ip.is_loopback())
    }

    /// The error for a request to this host, with advice.
    fn refusal(&self, host: &str) -> Trouble {
        let name = host_name(host).unwrap_or_else(|| "NAME".into());
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

/// Refuses an action if the token is missing or wrong. The token is in a header and not in a cookie, so a page of
/// another origin cannot send the token. The check of the origin is a second protection.
pub(crate) fn check_actor(uri: &Uri, headers: &HeaderMap, token: Option<&Token>) -> Result<(), Trouble> {
    let Some(token) = token else {
        let message = "this page is read-only: start bandog with --http-token-file or BANDOG_HTTP_TOKEN to act \
                       (in a program: Page::token)";
        return Err(Trouble::new(StatusCode::FORBIDDEN, "read_only", message));
    };
    if !is_same_origin(uri, headers) {
        let message = "only the page itself is allowed to act, not a page of another origin";
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

/// Whether this page might have sent the request. In the headers of a request, a browser names the origin of the page
/// that sends the request. This origin must be the origin of this page. A request without such headers is not from a
/// browser, and is allowed.
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

/// The name or the IP address in `host`, in lower case, without port and without brackets. `None` if `host` is invalid.
fn host_name(host: &str) -> Option<String> {
    let authority = host.parse::<Authority>().ok()?;
    // Besides the name, only a port is allowed. For example, `user@host` is refused, because another parser could read
    // `user` as the host.
    let port = authority.as_str().strip_prefix(authority.host())?;
    let is_port = port.bytes().enumerate().all(|(at, b)| if at == 0 { b == b':' } else { b.is_ascii_digit() });
    let name = authority.host().trim_matches(['[', ']']).to_ascii_lowercase();
    (is_port && !name.is_empty()).then_some(name)
}
