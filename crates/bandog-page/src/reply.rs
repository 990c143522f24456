//! The responses of the page, and the headers that all responses have.

use http_body_util::Full;
use hyper::{
    Response, StatusCode,
    body::Bytes,
    header::{self, HeaderName, HeaderValue},
};
use serde::Serialize;

use crate::{Language, source::Trouble};

/// A response of the page.
pub type Reply = Response<Full<Bytes>>;

/// A file of the page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asset {
    pub(crate) path: &'static str,
    kind: &'static str,
    pub(crate) text: &'static str,
}

/// All files of the page. The page loads nothing from other servers.
pub(crate) const ASSETS: [Asset; 20] = [
    Asset { path: "/", kind: "text/html; charset=utf-8", text: include_str!("page/index.html") },
    Asset { path: "/page.css", kind: "text/css; charset=utf-8", text: include_str!("page/page.css") },
    Asset { path: "/icon.svg", kind: "image/svg+xml", text: include_str!("page/icon.svg") },
    script("/acts.js", include_str!("page/acts.js")),
    script("/caches.js", include_str!("page/caches.js")),
    script("/chart.js", include_str!("page/chart.js")),
    script("/dash.js", include_str!("page/dash.js")),
    script("/dom.js", include_str!("page/dom.js")),
    script("/en.js", include_str!("page/en.js")),
    script("/history.js", include_str!("page/history.js")),
    script("/locks.js", include_str!("page/locks.js")),
    script("/nav.js", include_str!("page/nav.js")),
    script("/nodes.js", include_str!("page/nodes.js")),
    script("/objects.js", include_str!("page/objects.js")),
    script("/page.js", include_str!("page/page.js")),
    script("/queues.js", include_str!("page/queues.js")),
    script("/text.js", include_str!("page/text.js")),
    script("/view.js", include_str!("page/view.js")),
    script("/words.js", include_str!("page/words.js")),
    script("/zh.js", include_str!("page/zh.js")),
];

const fn script(path: &'static str, text: &'static str) -> Asset {
    Asset { path, kind: "text/javascript; charset=utf-8", text }
}

/// The attribute of the page's file that names its language.
const ENGLISH: &str = "<html lang=\"en\">";

/// Headers of all responses. With these headers, a browser runs only the page's own files, sends requests only to the
/// page, and does not show the page in a frame of another page.
const HEADERS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

impl Asset {
    pub(crate) fn reply(&self) -> Reply {
        reply(StatusCode::OK, self.kind, self.text)
    }
}

/// The page in this language. The scripts find the language in the tag `<html>`.
pub(crate) fn index(language: Language) -> Reply {
    let Asset { kind, text, .. } = ASSETS[0];
    reply(StatusCode::OK, kind, text.replacen(ENGLISH, &format!("<html lang=\"{}\">", language.tag()), 1))
}

/// A response whose media type is `kind`.
pub(crate) fn reply(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    reply
}

/// Redirects a browser to `place`, a URL relative to the requested path.
pub(crate) fn moved(place: &str) -> Reply {
    let mut reply = reply(StatusCode::PERMANENT_REDIRECT, "text/plain; charset=utf-8", "");
    if let Ok(place) = HeaderValue::from_str(place) {
        reply.headers_mut().insert(header::LOCATION, place);
    }
    reply
}

/// A response in JSON.
pub(crate) fn json(status: StatusCode, object: &impl Serialize) -> Reply {
    match serde_json::to_vec(object) {
        Ok(body) => reply(status, "application/json", body),
        Err(error) => reply(StatusCode::INTERNAL_SERVER_ERROR, "text/plain; charset=utf-8", error.to_string()),
    }
}

/// The response to a request that was refused or failed.
pub(crate) fn trouble(trouble: &Trouble) -> Reply {
    #[derive(Serialize)]
    struct Body<'a> {
        error: &'a Trouble,
    }
    json(trouble.status, &Body { error: trouble })
}
