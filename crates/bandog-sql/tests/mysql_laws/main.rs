//! The conformance suite with MariaDB and MySQL.

#![allow(clippy::unwrap_used, reason = "a test that fails panics")]

mod mysql;
#[path = "../suite/laws/mod.rs"]
mod suite;

/// The child processes of all laws run this test.
#[test]
fn child_of_the_laws() {
    bandog_conformance::serve_as_child::<suite::OnSql<bandog_testkit::MariaDb>>();
}
