use crate::help::{Place, Ran};

/// Asserts that the command line is refused with these texts, and that no file was created.
#[track_caller]
fn refused(args: &[&str], words: &[&str]) {
    let place = Place::new();
    let ran = place.run(args);
    ran.assert_ended(64, words);
    assert!(ran.stderr.starts_with("bandog: "), "{}", ran.stderr);
    assert_eq!(ran.stdout, "");
    assert!(!place.path("state").exists(), "a file was created before the check");
}

fn lock<'a>(name: &'a str, options: &[&'a str]) -> Vec<&'a str> {
    Place::lock(name, options, "echo ran")
}

#[test]
fn bad_names_are_refused() {
    let long = "n".repeat(1025);
    for args in [lock("", &[]), vec!["show", ""]] {
        refused(&args, &["empty", "1 to 1024 bytes"]);
    }
    for args in [lock(&long, &[]), vec!["show", &long]] {
        refused(&args, &["1025 bytes", "at most 1024"]);
    }
    for args in [lock("a\u{1b}[31mb", &[]), vec!["show", "a\u{1b}[31mb"]] {
        refused(&args, &["control character", "\\u{1b}"]);
    }
    Place::new().run(&lock(&long[1..], &[])).assert_ended(0, &[]);
    Place::new().run(&["show", "--", "-x"]).assert_ended(0, &[]);
}

#[test]
fn bad_durations_are_refused() {
    for value in ["0s", "-5s", "99ms", "366d", "10", "soon", "", "99999999999999999999d"] {
        refused(&lock("x", &["--lease", value]), &[&format!("'{value}'"), "--lease", "between 100ms and 365d"]);
    }
    for value in ["-5s", "366d", "10", "soon", ""] {
        refused(&lock("x", &["--wait", value]), &[&format!("'{value}'"), "--wait", "between 0s and 365d"]);
        refused(&lock("x", &["--kill-after", value]), &[&format!("'{value}'"), "--kill-after", "between 0s and 365d"]);
    }
    let ran = Place::new().run(&lock("x", &["--wait", "\u{1b}[31m\u{7}\r"]));
    ran.assert_ended(64, &["--wait"]);
    assert!(!ran.stderr.contains(['\u{1b}', '\u{7}', '\r']), "{ran:?}");
}

#[test]
fn kill_after_has_a_maximum() {
    refused(&lock("x", &["--lease", "2s", "--kill-after", "2s"]), &["--kill-after is 2s", "between 0s and 1.96s"]);
    refused(&lock("x", &["--kill-after", "16s"]), &["--kill-after is 16s", "between 0s and 15s"]);
    let url = "sqlite:state/x.db?watchdog=2s";
    refused(&lock("x", &["--url", url, "--kill-after", "1001ms"]), &["--kill-after is 1.001s", "between 0s and 1s"]);
    Place::new().run(&lock("x", &["--url", url, "--kill-after", "1s"])).assert_ended(0, &[]);
}

#[test]
fn bad_urls_are_refused_without_their_secrets() {
    for (url, words) in [
        (
            "mongo://app:hunter2@db",
            [
                "mongo",
                "redis+quorum, rediss+quorum (also with valkey instead of redis), postgres, postgresql, mysql, mariadb, sqlite, zookeeper, zookeeper+tls and memory are known",
            ],
        ),
        ("app:hunter2@db", ["app", "write redis://, postgres:// or mysql:// in front of it"]),
        ("redis://app:hunter2@db?lease=3s", ["\"lease\"", "watchdog, timeout and prefix"]),
        ("redis://app:hunt?er2@db", ["%3F", "--url"]),
        ("redis:app:hunter2@db", ["redis://", "--url"]),
        ("redis://app:hunter2@db/notanumber", ["notanumber", "0 to 65535"]),
        (
            "redis+sentinel://h:1/orders?timeout=1ms&sentinel_password=top@hunter2",
            ["sentinel_password=***", "%40 for @"],
        ),
        ("redis+sentinel://h:1/orders?sentinel_password=top@hunter2?x", ["sentinel_password=***\"", "%3F for ?"]),
        ("redis+sentinel://h:1/orders?sentinel_password=hunter2@&timeout=1ms", ["sentinel_password=***", "--url"]),
        ("redis+sentinel://h:1/orders?sentinel_password=top#hunter2", ["sentinel_password=***\"", "%23 for #"]),
        ("redis+sentinel://h:1/orders?sentinel_password=top&hunter2", ["sentinel_password=***\"", "write %26 for &"]),
        ("redis+sentinel://h:1/o?sentinel_password=top&hunter2=x&timeout=1s", ["sentinel_password=***\"", "%26"]),
        ("redis+sentinel://h:1/o?sentinel_password=top&timeout=1s&key=hunter2", ["sentinel_password=***\"", "%26"]),
        ("redis://h?password=top&hunter2", ["password=***&***", "\"password\""]),
        ("postgres://h/db?password=top&hunter2=", ["db?password=***", "write %26 for &"]),
        ("redis+cluster://h1,app:hunter2@h2", ["after its first host", "%2C"]),
        ("redis+sentinel://h1,app:hunter2@h2/orders", ["after its first host", "%2C"]),
        ("redis+quorum://app:hunter2%h1,h2,h3", ["a port that is not a number", "redis+quorum://[user"]),
        ("redis+quorum://h1,app:hunter2@h2,h3,h4", ["after its first host", "redis+quorum://[user"]),
        ("memory:?watchdog=0s", ["watchdog", "100 ms and 365 days"]),
        ("memory:?timeout=1ms", ["1ms", "10 ms and 365 days"]),
        ("sqlite:", ["no file", "sqlite:PATH"]),
        ("sqlite:~/x.db", ["sqlite:/home/NAME/x.db", "$HOME"]),
        ("sqlite::memory:", ["names no file", "sqlite:PATH"]),
        ("sqlite://tmp/x.db", ["sqlite:///tmp/x.db", "sqlite:tmp/x.db"]),
        ("hunter2", ["not a URL", "redis://HOST"]),
    ] {
        let ran = Place::new().run(&lock("x", &["--url", url]));
        ran.assert_ended(64, &words);
        assert!(url == "hunter2" || !ran.stderr.contains("er2"), "{}", ran.stderr);
        Place::new().run(&["show", "x", "--url", url]).assert_ended(64, &words);
        Place::new().run(&["ls", "--url", url]).assert_ended(64, &words);
    }
}

#[test]
fn a_bad_command_line_is_refused() {
    refused(&["lock"], &["NAME"]);
    refused(&["lock", "x"], &["CMD"]);
    refused(&["lock", "x", "--"], &["CMD"]);
    refused(&["lock", "x", "true"], &["true"]);
    refused(&["lock", "x", "--wiat", "3s", "--", "true"], &["--wiat"]);
    refused(&["unlock", "x"], &["unlock"]);
    refused(&["release", "x"], &["--force"]);
    refused(&["release", "", "--force"], &["empty"]);
    refused(&["show", "-x"], &["use '-- -x'"]);
    refused(&["lock", "-x", "--", "true"], &["cannot begin with `-`"]);
    let bare = Place::new().run(&[]);
    bare.assert_ended(64, &["Usage: bandog", "Examples:"]);
}

#[test]
fn help_and_version_are_no_error_and_contain_no_secret() {
    let place = Place::new();
    for args in
        [&["--help"][..], &["-h"], &["--version"], &["help"], &["lock", "--help"], &["lock", "-h"], &["ls", "--help"]]
    {
        let mut command = place.bandog(args);
        command.env("BANDOG_URL", "redis://app:hunter2@db");
        let ran = Ran::from(command);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{args:?}");
        assert!(!ran.stdout.contains("hunter2") && !ran.stdout.contains("__"), "{}", ran.stdout);
    }
}
