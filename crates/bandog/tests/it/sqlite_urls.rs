//! URLs of SQLite: URLs with good paths, and URLs that would create the file in an unexpected directory.

use bandog::{ConnectOptions, ErrorKind};

/// Checks that the URL is refused with an error that contains all these texts.
#[track_caller]
fn refused(url: &str, texts: &[&str]) {
    let error = ConnectOptions::parse(url).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused, "{error}");
    for text in texts {
        assert!(error.to_string().contains(text), "{error} does not contain {text:?}");
    }
}

#[test]
fn ordinary_and_unusual_paths_are_accepted() {
    let paths = [
        "/abs/x.db",
        "///abs/x.db",
        "x.db",
        "sub/x.db",
        "./~/x.db",
        "./~x.db",
        "~x.db",
        "../x.db",
        "a:b.db",
        "memory",
        "x~/y.db",
        "/home/me/:memory:.db",
    ];
    for path in paths {
        assert!(ConnectOptions::parse(format!("sqlite:{path}?watchdog=1s")).is_ok(), "{path}");
    }
}

#[test]
fn a_tilde_that_no_shell_has_replaced_is_refused() {
    for url in ["sqlite:~/x.db", "sqlite://~/x.db", "sqlite:~/x.db?watchdog=1s"] {
        refused(url, &["sqlite:/home/NAME/x.db", "\"sqlite:$HOME/x.db\"", "sqlite:./~/x.db"]);
    }
    refused("sqlite:~", &["sqlite:/home/NAME/locks.db"]);
    refused("sqlite:~ada/x.db", &["begins with ~ada", "sqlite:./~ada/x.db"]);
}

/// With the blank, the file would be another one, and two programs would hold one lock.
#[test]
fn a_blank_at_an_end_of_the_path_is_refused() {
    for url in
        ["sqlite: /d/x.db", "sqlite:\t x.db", "sqlite:/d/x.db ?watchdog=1s", "sqlite:// /x.db", "sqlite:\u{a0}x.db"]
    {
        let error = ConnectOptions::parse(url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misused, "{url:?}: {error}");
    }
    refused("sqlite: /d/x.db", &["begins or ends with a blank", "another file"]);
    assert!(ConnectOptions::parse("sqlite:/d/my x.db").is_ok() && ConnectOptions::parse("sqlite:./ x.db").is_ok());
}

#[test]
fn a_variable_that_no_shell_has_replaced_is_refused() {
    for path in ["$HOME/x.db", "${HOME}/x.db", "/data/$USER/x.db", "/data/x-${USER}.db"] {
        refused(&format!("sqlite:{path}"), &["no shell has replaced it", "write the whole path"]);
    }
    assert!(ConnectOptions::parse("sqlite:/d/a$b.db").is_ok());
}

#[test]
fn a_database_in_memory_is_refused_in_every_spelling() {
    for rest in [
        ":memory:",
        "//:memory:",
        "///:memory:",
        "/:memory:",
        ":MEMORY:",
        "memory:",
        "sub/:memory:",
        ":memory:?cache=shared",
    ] {
        refused(&format!("sqlite:{rest}"), &["memory: for locks of one process", "sqlite:PATH"]);
    }
    for rest in ["file::memory:", "file:x.db", "file:/tmp/x.db?mode=memory", "//file:x.db", ":memory:x"] {
        refused(&format!("sqlite:{rest}"), &["memory: for locks of one process", "sqlite:PATH"]);
    }
}

#[test]
fn a_relative_path_after_two_slashes_is_refused() {
    refused("sqlite://tmp/x.db", &["sqlite:///tmp/x.db for the absolute path /tmp/x.db", "sqlite:tmp/x.db for a path"]);
    refused("sqlite://x.db", &["sqlite:///x.db", "sqlite:x.db"]);
    refused("sqlite://./x.db", &["sqlite:./x.db"]);
    refused("sqlite:", &["names no file"]);
    refused("sqlite://", &["names no file"]);
}
