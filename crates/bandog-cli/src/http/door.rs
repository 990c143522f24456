//! Who is let in: the checks that come before any answer.

use std::net::IpAddr;

use hyper::{
    HeaderMap, StatusCode, Uri,
    header::{self, HeaderValue},
    http::uri::Authority,
};

use super::{source::Trouble, token::Token};

/// Refuses a request that reached a loopback address under another name: a page from elsewhere whose name was made to
/// mean this machine (DNS rebinding) would else be of the same origin as ours.
pub(super) fn check_host(uri: &Uri, headers: &HeaderMap) -> Result<(), Trouble> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let named = uri.authority().map(|authority| authority.as_str());
    if host.is_some_and(is_local) && named.is_none_or(is_local) {
        return Ok(());
    }
    let message = "this page is served on a loopback address: ask for it as localhost, 127.0.0.1 or [::1]";
    Err(Trouble::new(StatusCode::MISDIRECTED_REQUEST, "host", message))
}

/// Refuses whoever may not act. No cookie is ever set, and the header with the token is one that no page of another
/// origin can send; the looks at the origin are a second wall.
pub(super) fn check_actor(headers: &HeaderMap, token: Option<&Token>) -> Result<(), Trouble> {
    let Some(token) = token else {
        let message = "this page is for looking only: start bandog with --http-token-file or BANDOG_HTTP_TOKEN to act";
        return Err(Trouble::new(StatusCode::FORBIDDEN, "read_only", message));
    };
    if !is_same_origin(headers) {
        let message = "only the page itself may act, not a page of another origin";
        return Err(Trouble::new(StatusCode::FORBIDDEN, "origin", message));
    }
    let given = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let given = given.and_then(|value| value.strip_prefix(b"Bearer "));
    match given {
        Some(given) if token.is(given) => Ok(()),
        Some(_) => Err(Trouble::new(StatusCode::UNAUTHORIZED, "token", "this is not the token")),
        None => {
            let message = "to act takes the token, in a header: `Authorization: Bearer TOKEN`";
            Err(Trouble::new(StatusCode::UNAUTHORIZED, "token", message))
        }
    }
}

/// Whether a browser says that our page asks. A program that is no browser says nothing.
fn is_same_origin(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    if let Some(site) = text("sec-fetch-site") {
        return site == "same-origin" || site == "none";
    }
    let Some(origin) = text("origin") else { return true };
    let origin = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    origin.zip(text("host")).is_some_and(|(origin, host)| origin.eq_ignore_ascii_case(host))
}

/// Whether a host, with or without its port, can only be this machine.
fn is_local(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    // Whoever writes more than a host and a port, such as a user before them, wants to be misread.
    let port = authority.as_str().strip_prefix(authority.host());
    let is_port =
        |rest: &str| rest.bytes().enumerate().all(|(at, b)| if at == 0 { b == b':' } else { b.is_ascii_digit() });
    if !port.is_some_and(is_port) {
        return false;
    }
    let name = authority.host().trim_matches(['[', ']']).to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}
