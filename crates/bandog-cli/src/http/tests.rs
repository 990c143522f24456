//! Parsing of the page's options.

use std::fs;

use super::{address, token};

#[test]
fn an_address_has_a_host_and_a_port() {
    for (text, meant) in
        [("127.0.0.1:8080", "127.0.0.1:8080"), ("[::1]:0", "[::1]:0"), ("localhost:80", "127.0.0.1:80")]
    {
        assert_eq!(address(text).unwrap().to_string(), meant);
    }
    for text in ["", "8080", ":8080", "127.0.0.1", "jobs.example:80", "127.0.0.1:99999", "http://127.0.0.1:80"] {
        assert!(address(text).unwrap_err().contains("127.0.0.1:8080"), "{text}");
    }
}

// Promise: P3
#[test]
fn a_token_is_read_from_its_file_and_never_printed() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("token");
    let read = |text: &str| {
        fs::write(&path, text).unwrap();
        token::read(Some(&path))
    };
    let token = read("0123456789abcdef\n").unwrap().unwrap();
    assert!(!format!("{token:?}").contains("0123"));
    for (text, word) in
        [("", "0 characters"), ("short", "5 characters"), ("0123456789 abcdef", "ASCII"), ("0123456789abcdeü", "ASCII")]
    {
        let fault = format!("{:?}", read(text).unwrap_err());
        assert!(fault.contains(word) && fault.contains("/token") && !fault.contains("01234"), "{fault}");
    }
    assert!(format!("{:?}", read(&"x".repeat(257)).unwrap_err()).contains("16 to 256"));
    assert!(format!("{:?}", token::read(Some(&place.path().join("none"))).unwrap_err()).contains("none"));
}
