use super::*;

#[test]
fn an_owner_is_a_uuid_and_a_number() {
    for owner in ["957c1da6-54c9-4017-93c7-a4ef987df61c:19", "957C1DA6-54C9-4017-93C7-A4EF987DF61C:-42"] {
        assert!(is_owner(owner), "{owner}");
    }
    for other in
        ["", "mode", "rust:1", "957c1da6-54c9-4017-93c7-a4ef987df61c", "957c1da6-54c9-4017-93c7-a4ef987df61c:x"]
    {
        assert!(!is_owner(other), "{other}");
    }
}

#[test]
fn a_pattern_becomes_a_glob_that_matches_at_least_as_much() {
    for (pattern, glob) in [
        ("*", "*"),
        ("order-?", "order\\-*"),
        ("a***?b", "a*b"),
        ("a\\*b", "a\\*b"),
        ("a\\**", "a\\**"),
        ("a\\\\*", "a\\\\*"),
        ("[x]^", "\\[x\\]\\^"),
        ("end\\", "end\\\\"),
        ("中?", "中*"),
    ] {
        assert_eq!(redis_glob(&Pattern::new(pattern)), glob, "{pattern}");
    }
}
