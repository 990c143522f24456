use super::{escaped, escaped_lines, redacted, secrets};

fn sanitized(words: &[&str], message: &str) -> String {
    redacted(message, &secrets(words.iter().copied().map(std::ffi::OsString::from)))
}

#[test]
fn a_url_in_the_wrong_place_is_printed_without_its_password() {
    for word in [
        "redis://app:s3cret@db:6379",
        "--redis://app:s3cret@db",
        "--urlredis://app:s3cret@db",
        "--wait=redis://app:s3cret@db",
        "redis:app:s3cret@db",
        "rediss:/app:s3cret@db",
        "REDIS://app:s3cret@db",
        "valkey:app:s3cret@db",
        "redis://app:s3\"c'ret@db",
    ] {
        for message in [format!("cannot read {word}"), format!("no job {word:?}, use '-- {word}'"), word.to_owned()] {
            let message = sanitized(&["bandog", "ls", word], &message);
            assert!(message.contains("***@db") && !message.contains("ret@"), "{message}");
        }
    }
    let value = sanitized(&["bandog", "--wait=redis://app:s3cret@db"], "'redis://app:s3cret@db' is no duration");
    assert_eq!(value, "'redis://app:***@db' is no duration");
    let both = ["redis://u:a@b", "redis://u:a@b:s3cret@h"];
    assert_eq!(sanitized(&both, both[1]), "redis://u:***@h");
}

#[test]
fn names_are_printed_unchanged() {
    for name in ["mail@night", "a=b", "sqlite:///tmp/a:b@c", "redis@night", "cache:redis@eu:1", "s3://bucket:daily/x"] {
        let message = format!("the store knows no job {name:?}");
        assert_eq!(sanitized(&["bandog", "jobs", "show", name], &message), message);
    }
}

#[test]
fn control_and_direction_characters_are_escaped() {
    let name = "a\u{1b}[2J\u{202e}b\u{7f}\u{200b}c\nd \"e\" 'f' \\ 中 é";
    let out = "a\\u{1b}[2J\\u{202e}b\\u{7f}\\u{200b}c\\nd \"e\" 'f' \\ 中 é";
    assert_eq!(escaped(name), out);
    assert_eq!(escaped_lines(name), out.replace("\\n", "\n"));
}
