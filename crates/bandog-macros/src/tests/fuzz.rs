//! Random attributes. Each attribute is either refused with a message or expanded to valid Rust.

use bandog_testkit::fuzz;
use proc_macro2::TokenStream;

use crate::{locked, scheduled};

const WORDS: &[&str] = &[
    "{",
    "}",
    "{{",
    "{id}",
    "{id.0}",
    "{self.shop}",
    "{id:08}",
    "{id:$}",
    "{:?}",
    "${",
    "${X}",
    "${X:}",
    "${X:5s}",
    "$",
    "name",
    "wait",
    "lease",
    "cron",
    "zone",
    "fixed_rate",
    "retry",
    "overlap",
    "catch_up",
    "on_crash",
    "r#type",
    "=",
    ",",
    "\"\"",
    "\"5s\"",
    "1",
    "-1",
    "true",
    "18446744073709551616",
    "\\u{0}",
];

fn fuzz_attribute(name: &str, samples: &[&str], expand: fn(TokenStream, TokenStream) -> syn::Result<TokenStream>) {
    let method = "async fn sweep(&self, id: u64, name: &str) -> bandog::Result<Option<u64>> { Ok(None) }";
    let job = "async fn sweep(run: Run) {}";
    fuzz::texts(name, samples, WORDS, |text| {
        let Ok(attribute) = text.parse::<TokenStream>() else { return false };
        let mut accepted = false;
        for function in [method, job] {
            match expand(attribute.clone(), function.parse().unwrap()) {
                Ok(made) => {
                    syn::parse2::<syn::File>(made.clone())
                        .unwrap_or_else(|error| panic!("{text:?} expands to invalid Rust: {error}\n{made}"));
                    accepted = true;
                }
                Err(error) => assert!(error.into_iter().all(|fault| !fault.to_string().is_empty())),
            }
        }
        accepted
    });
}

#[test]
fn fuzz_locked() {
    let samples = [
        r#"name = "order-{id}", wait = "5s""#,
        r#"name = "{self.shop}/{id:08}-{{x}}", lease = "10s", guard = guard, client = self.client"#,
        r#"name = format!("x-{id}"), wait = "1m""#,
        r#"name = "orders", client = client()"#,
    ];
    fuzz_attribute("#[locked]", &samples, locked::expand);
}

#[test]
fn fuzz_scheduled() {
    let samples = [
        r#"cron = "0 15 10 ? * MON-FRI", zone = "Europe/Berlin""#,
        r#"fixed_rate = "5s", timeout = "2s", retry = 3"#,
        r#"cron = "${REPORT_CRON:0 0 6 * * ?}", on_crash = "retry""#,
        r#"fixed_delay = "1m", initial_delay = "10s", overlap = "queue(3)", catch_up = "all(5)", lease = "30s""#,
        r#"at = "2026-01-31T00:00:00Z", name = "once", enabled = false, jitter = "1s", misfire_grace = "1m""#,
    ];
    fuzz_attribute("#[scheduled]", &samples, scheduled::expand);
}
