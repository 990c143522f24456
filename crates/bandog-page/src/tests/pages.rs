//! The files of the page and their headers.

use super::Served;
use crate::reply::ASSETS;

#[test]
fn all_files_are_served_and_load_nothing_from_other_servers() {
    let page = Served::read_only();
    for asset in &ASSETS {
        let reply = page.get(asset.path);
        assert_eq!(reply.status, 200, "{}", asset.path);
        // The URL of an XML namespace is only a name, from which nothing is loaded.
        let text = reply.body.replace("http://www.w3.org/2000/svg", "");
        for word in ["http:", "https:", "//cdn", "innerHTML", "eval(", "style=\"", "onclick=\""] {
            assert!(!text.contains(word), "{} has {word}", asset.path);
        }
    }
    let html = page.get("/").body;
    // These URLs are relative, so that the page works under any path.
    for path in ["page.css", "page.js", "icon.svg"] {
        assert!(html.contains(&format!("\"{path}\"")), "{path}");
    }
}

#[test]
fn each_answer_has_the_security_headers() {
    let page = Served::read_only();
    for path in ["/", "/page.js", "/api/jobs", "/metrics", "/healthz", "/nothing"] {
        let reply = page.get(path);
        let policy = reply.header("content-security-policy").unwrap();
        for rule in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'none'"] {
            assert!(policy.contains(rule), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        let header = |name| reply.header(name);
        assert_eq!(header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(header("referrer-policy"), Some("no-referrer"), "{path}");
        assert_eq!(header("cache-control"), Some("no-store"), "{path}");
        assert_eq!(header("access-control-allow-origin"), None, "{path}");
        assert_eq!(header("set-cookie"), None, "{path}");
    }
}

#[test]
fn health_and_metrics_are_text() {
    let page = Served::read_only();
    assert_eq!(page.get("/healthz").body, "ok\n");
    let figures = page.get("/metrics");
    assert_eq!(
        (figures.status, figures.header("content-type")),
        (200, Some("text/plain; version=0.0.4; charset=utf-8"))
    );
}

#[test]
fn a_head_request_gets_the_headers_of_a_get_request() {
    let page = Served::read_only();
    let mut asker = page.asker();
    let head = asker.ask("HEAD", "/", &["Host: localhost"], "");
    let got = asker.get("/");
    assert_eq!(head.header("content-length"), got.header("content-length"));
    assert_eq!(head.header("content-type"), got.header("content-type"));
}
