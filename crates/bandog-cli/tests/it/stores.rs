use std::{fs, os::unix::fs::PermissionsExt};

use bandog_testkit::RedisServer;

use crate::help::{Place, Ran, SOON, ends};

#[test]
fn without_a_url_the_locks_are_in_the_state_directory() {
    let place = Place::new();
    place.run(&["lock", "x", "--", "true"]).assert_ended(0, &[]);
    let file = place.path("state/bandog/locks.db");
    assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn without_xdg_state_home_the_state_directory_is_under_home() {
    let place = Place::new();
    for odd in [None, Some(""), Some("relative")] {
        let mut command = place.bandog(&["lock", "x", "--", "true"]);
        match odd {
            Some(odd) => command.env("XDG_STATE_HOME", odd),
            None => command.env_remove("XDG_STATE_HOME"),
        };
        command.env("HOME", place.path("home"));
        Ran::from(command).assert_ended(0, &[]);
        assert!(place.path("home/.local/state/bandog/locks.db").exists());
        fs::remove_dir_all(place.path("home")).unwrap();
    }
    let mut command = place.bandog(&["lock", "x", "--", "true"]);
    command.env_remove("XDG_STATE_HOME").env_remove("HOME");
    Ran::from(command).assert_ended(64, &["HOME", "--url", "BANDOG_URL"]);
}

#[test]
fn the_option_wins_over_the_variable_and_the_variable_over_the_default() {
    let place = Place::new();
    let run = |args: &[&str]| {
        let mut command = place.bandog(args);
        command.env("BANDOG_URL", "sqlite:variable.db");
        Ran::from(command).assert_ended(0, &[]);
    };
    run(&["lock", "x", "--", "true"]);
    assert!(place.path("variable.db").exists() && !place.path("option.db").exists());
    run(&["lock", "x", "--url", "sqlite:option.db", "--", "true"]);
    assert!(place.path("option.db").exists() && !place.path("state").exists());
}

#[test]
fn an_empty_variable_does_not_select_the_default_store() {
    let place = Place::new();
    for args in [&["lock", "x", "--", "true"][..], &["show", "x"], &["ls"]] {
        let mut command = place.bandog(args);
        command.env("BANDOG_URL", "");
        Ran::from(command).assert_ended(64, &["BANDOG_URL is empty"]);
    }
}

// Promise: C10
#[test]
fn white_space_around_a_url_is_not_a_part_of_it() {
    let place = Place::new();
    let whole = format!("sqlite:{}", place.path("l.db").display());
    // Two commands with these URLs exclude each other.
    let nested = format!("{} lock x --wait 0s -- true; echo \"$?|$BANDOG_URL\"", env!("CARGO_BIN_EXE_bandog"));
    for url in ["sqlite:l.db\n", "\r\n sqlite:l.db\t\r\n", "SQLite:l.db "] {
        let by_option = place.bandog(&Place::lock("x", &["--url", url], &nested));
        let mut by_variable = place.bandog(&Place::lock("x", &[], &nested));
        by_variable.env("BANDOG_URL", url);
        for command in [by_option, by_variable] {
            let ran = Ran::from(command);
            assert_eq!(ran.stdout, format!("75|{whole}\n"), "{ran:?}");
        }
        let mut outer =
            place.bandog(&Place::lock("x", &["--url", url], &nested.replace("--wait", "--url sqlite:l.db --wait")));
        outer.env_remove("BANDOG_HELD");
        assert_eq!(Ran::from(outer).stdout, format!("75|{whole}\n"));
    }
    let names = fs::read_dir(place.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<_> = names.filter(|name| !name.to_string_lossy().starts_with("l.db-")).collect();
    assert_eq!(names, ["l.db"], "a lock is in another file");
}

// Promise: C10
#[test]
fn quotes_and_control_characters_in_a_url_are_refused_by_name() {
    let place = Place::new();
    for (url, words) in [
        ("\"sqlite:l.db\"", "the quote \""),
        ("'redis://:hunter2@db'\n", "the quote '"),
        ("redis://:hunter2@db\n\nredis://db", "a line feed inside"),
        ("sqlite:l\r.db", "a carriage return inside"),
        ("Memory:x", "exists in one process only"),
        (" \n", "BANDOG_URL is empty"),
    ] {
        let mut command = place.bandog(&["lock", "x", "--", "true"]);
        command.env("BANDOG_URL", url);
        let ran = Ran::from(command);
        ran.assert_ended(64, &[words]);
        assert!(!ran.stderr.contains("hunter2"), "{ran:?}");
    }
}

#[test]
fn queries_create_no_database() {
    let place = Place::new();
    for args in [&["show", "x"][..], &["ls"], &["ls", "z*"]] {
        let ran = place.run(args);
        ran.assert_ended(0, &[]);
        assert!(ran.stdout.contains("no lock was ever taken here") && ran.stderr.is_empty(), "{ran:?}");
        let ran = place.run(&[args, &["--url", "sqlite:gone.db"]].concat());
        ran.assert_ended(69, &["bandog: ", "gone.db", "from --url", "does not exist"]);
        let mut command = place.bandog(args);
        command.env("BANDOG_URL", "sqlite:sub/gone.db?timeout=1s");
        Ran::from(command).assert_ended(69, &["sub/gone.db\"", "from BANDOG_URL"]);
    }
    assert_eq!(place.show("x", &[])["held"], false);
    assert_eq!(place.run(&["ls", "--json"]).stdout, "");
    place.run(&["release", "x", "--force"]).assert_ended(75, &["\"x\"", "is free"]);
    place.run(&["release", "x", "--force", "--url", "sqlite:gone.db"]).assert_ended(69, &["gone.db"]);
    assert_eq!(fs::read_dir(place.path("")).unwrap().count(), 0);
}

/// Something has made the file, and no client its tables.
#[test]
fn an_empty_file_is_named_as_one() {
    let place = Place::new();
    fs::write(place.path("empty.db"), "").unwrap();
    let url = ["--url", "sqlite:empty.db"];
    for args in [&["show", "x"][..], &["ls"], &["doctor"], &["jobs", "ls"]] {
        place.run(&[args, &url].concat()).assert_ended(69, &["empty.db", "is an empty file"]);
    }
    place.run(&[&["lock", "x"][..], &url, &["--", "true"]].concat()).assert_ended(0, &[]);
    place.run(&[&["ls"][..], &url].concat()).assert_ended(0, &[]);
}

#[test]
fn a_store_of_one_process_is_refused() {
    let place = Place::new();
    for args in [
        &["lock", "x", "--url", "memory:", "--", "true"][..],
        &["show", "x", "--url", "memory:m"],
        &["ls", "--url", "memory:"],
    ] {
        place.run(args).assert_ended(64, &["bandog: memory:", "excludes no other process", "sqlite:PATH"]);
    }
}

#[test]
fn the_child_knows_its_lock() {
    let place = Place::new();
    let script = r#"echo "$BANDOG_NAME|${BANDOG_URL-none}|$BANDOG_FENCE""#;
    let fence = |ran: &Ran, head: &str| -> u64 { ran.stdout.trim().strip_prefix(head).unwrap().parse().unwrap() };
    let first = fence(&place.run(&Place::lock("a name", &[], script)), "a name|none|");
    let second = fence(&place.run(&Place::lock("a name", &[], script)), "a name|none|");
    assert!(second > first);
    let url = "sqlite:a@b:c.db?watchdog=3s";
    // The child gets the absolute path, so that it uses the same file if it changes its directory.
    let whole = format!("sqlite:{}?watchdog=3s", place.path("a@b:c.db").display());
    fence(&place.run(&Place::lock("ü", &["--url", url], script)), &format!("ü|{whole}|"));
    let mut command = place.bandog(&Place::lock("x", &[], script));
    command.env("BANDOG_URL", url);
    fence(&command.into(), &format!("x|{whole}|"));
}

#[test]
fn a_command_under_a_lock_can_query_it() {
    let place = Place::new();
    let bandog = env!("CARGO_BIN_EXE_bandog");
    let script = format!("{bandog} show x --json; {bandog} lock x --wait 0s -- true; echo $?; echo $BANDOG_FENCE");
    let ran = place.run(&Place::lock("x", &["--url", "sqlite:a.db"], &script));
    let lines: Vec<&str> = ran.stdout.lines().collect();
    let row: serde_json::Value = serde_json::from_str(lines[0]).unwrap();
    assert_eq!((&row["held"], lines[1]), (&true.into(), "75"));
    assert_eq!(row["fence"].to_string(), lines[2], "`show` does not print the fence in use");
}

#[test]
fn a_file_that_is_no_database_is_not_changed() {
    let place = Place::new();
    fs::write(place.path("letter"), "Dear all,\n".repeat(1000)).unwrap();
    let ran = place.run(&["lock", "x", "--url", "sqlite:letter", "--", "true"]);
    ran.assert_ended(77, &["letter", "--url"]);
    assert_eq!(place.lines("letter").len(), 1000);
}

#[test]
fn a_directory_without_write_permission_is_reported() {
    let place = Place::new();
    let ran = place.run(&["lock", "x", "--wait", "0s", "--url", "sqlite:/proc/no/such.db", "--", "true"]);
    assert!(matches!(ran.code, 69 | 77), "{ran:?}");
    assert!(ran.stderr.contains("/proc/no/such.db") && ran.stderr.contains("from --url"), "{}", ran.stderr);
}

#[test]
fn a_relative_path_is_the_same_file_for_a_child_in_another_directory() {
    let place = Place::new();
    let script = format!("mkdir -p sub && cd sub && {} show x --json", env!("CARGO_BIN_EXE_bandog"));
    let mut bandog = place.start(&["lock", "x", "--url", "sqlite:here.db", "--", "sh", "-c", &script]);
    let line = bandog.stdout_line("held", SOON);
    assert!(line.contains("\"held\":true"), "{line}");
    ends(&mut bandog, 0);
    assert!(!place.path("sub/here.db").exists());
}

#[test]
fn a_command_logs_in_with_the_password_file_of_its_parent() {
    let (place, redis) = (Place::new(), RedisServer::start());
    let rights = ["ACL", "SETUSER", "till", "on", ">hunter2", "~*", "&*", "+@all"];
    assert_eq!(redis.cmd(&rights).text(), "OK");
    let file = place.path("password");
    let url = format!("redis://till@{}?password_file={}", redis.addr(), file.display());
    let nested = format!("{} lock y --wait 0s -- true; echo \"$?|$BANDOG_URL\"", env!("CARGO_BIN_EXE_bandog"));
    let lock = || place.run(&Place::lock("x", &["--url", &url], &nested));
    lock().assert_ended(64, &[&format!("the file {} of ?password_file= cannot be read", file.display())]);
    std::fs::write(&file, "wrong-2\n").unwrap();
    let refused = lock();
    refused.assert_ended(77, &[&format!("the password in the file {}", file.display())]);
    assert!(!format!("{refused:?}").contains("wrong-2"), "{refused:?}");
    std::fs::write(&file, "hunter2\n").unwrap();
    assert_eq!(lock().stdout.trim(), format!("0|{url}"));
}
