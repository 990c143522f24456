//! Random server replies for fuzz tests of the functions that read replies.

use bandog_testkit::fuzz;
use redis::Value;

/// Checks a property with random replies that resemble these samples of RESP. The property returns whether the reply
/// could be read.
pub(crate) fn replies(name: &str, samples: &[&str], property: impl Fn(Value) -> bool) {
    // Pieces of RESP that are inserted into the samples.
    let words =
        ["\r\n", "$-1\r\n", "*-1\r\n", "_\r\n", ":0\r\n", ":-1\r\n", "$0\r\n\r\n", "*0\r\n", "-ERR x\r\n", "%1\r\n"];
    let samples: Vec<&[u8]> = samples.iter().map(|sample| sample.as_bytes()).collect();
    fuzz::bytes(name, &samples, &words, |bytes| redis::parse_redis_value(bytes).is_ok_and(&property));
}
