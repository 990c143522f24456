//! Servers that accept only short arguments.

use bandog_core::{ErrorKind, Inspect, Key, Level, Records, Swap, Swapped};
use bandog_testkit::RedisServer;

use crate::help::{at, operator};

/// The lowest limit that a server can have.
const LIMIT: usize = 1 << 20;

#[tokio::test]
async fn a_record_that_is_too_long_is_refused_and_the_others_are_written() {
    let server = RedisServer::start_with(&["--proto-max-bulk-len", &LIMIT.to_string()]);
    server.cmd(&["ACL", "SETUSER", "few", "on", ">PASSWORD", "~*", "&*", "+@all", "-config"]);
    for redis in [operator(&server), at(&server.url().replace("redis://", "redis://few:PASSWORD@"))] {
        let swap = |(at, length)| Swap::new(Key::new(format!("r{at}")).unwrap(), None, "x".repeat(length));
        let swaps: Vec<Swap> = [1, LIMIT + 1, 2].into_iter().enumerate().map(swap).collect();
        let answers = redis.swap(&swaps).await.unwrap().each;
        let error = answers[1].as_ref().unwrap_err();
        assert!(error.kind() == ErrorKind::Misused && !error.maybe_applied(), "{error}");
        assert!(error.to_string().contains("proto-max-bulk-len"), "{error}");
        assert!(matches!(&answers[0], Ok(Swapped::Done(_))), "{answers:?}");
        // Without the right to read the setting, the server has closed the connection.
        let is_written = |answer: &_| matches!(answer, Ok(Swapped::Done(_)));
        assert!(is_written(&answers[2]) || answers[2].as_ref().is_err_and(bandog_core::Error::is_retryable));
        server.cmd(&["FLUSHALL"]);
    }
}

#[tokio::test]
async fn doctor_reports_a_limit_that_is_too_low_for_an_element() {
    let server = RedisServer::start_with(&["--client-query-buffer-limit", "1mb"]);
    let finding = async || {
        let findings = at(&server.url()).check().await.unwrap();
        findings.into_iter().find(|finding| finding.subject == "arguments")
    };
    let found = finding().await.expect("a finding");
    assert!(found.level == Level::Advice && found.says.contains("client-query-buffer-limit is 1048576"), "{found:?}");
    server.cmd(&["CONFIG", "SET", "client-query-buffer-limit", "2mb"]);
    assert_eq!(finding().await, None);
}
