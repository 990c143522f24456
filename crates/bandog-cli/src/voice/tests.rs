use super::without_passwords;

#[test]
fn a_url_in_the_wrong_place_is_told_without_its_password() {
    let told = |words: &[&str], message: &str| {
        without_passwords(message.to_owned(), words.iter().copied().map(std::ffi::OsString::from))
    };
    for word in [
        "redis://app:s3cret@db:6379",
        "--redis://app:s3cret@db",
        "--urlredis://app:s3cret@db",
        "--wait=redis://app:s3cret@db",
        "redis:app:s3cret@db",
        "rediss:/app:s3cret@db",
        "REDIS://app:s3cret@db",
        "redis://app:s3\"cret@db",
    ] {
        for message in [format!("cannot read {word}"), format!("no job {word:?}, use '-- {word}'"), word.to_owned()] {
            let told = told(&["bandog", "ls", word], &message);
            assert!(told.contains("***@db") && !told.contains("cret"), "{told}");
        }
    }
    let value = told(&["bandog", "--wait=redis://app:s3cret@db"], "'redis://app:s3cret@db' is no duration");
    assert_eq!(value, "'redis://app:***@db' is no duration");
    for name in ["mail@night", "a=b", "sqlite:///tmp/a:b@c", "order-1"] {
        let message = format!("the store knows no job {name:?}");
        assert_eq!(told(&["bandog", "jobs", "show", name], &message), message);
    }
}
