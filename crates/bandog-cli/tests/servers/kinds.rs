//! The kinds of locks on a Redis server.

use bandog_testkit::RedisServer;

use crate::help::{Place, SOON, ends};

#[test]
fn each_kind_is_shown_with_its_fence() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let url = redis.url();
    let store = ["--url", &url];
    let kinds = [
        ("a", &["--fair"][..], "fair", "/owner"),
        ("b", &["--shared"], "read-write", "/mode"),
        ("c", &["--exclusive"], "read-write", "/mode"),
        ("d", &["--permits", "2", "--of", "5"], "semaphore", "/permits"),
    ];
    for (name, options, kind, field) in kinds {
        let mut holder =
            place.start(&Place::lock(name, &[options, &store].concat(), "echo $BANDOG_FENCE; read word; exit 0"));
        let fence = holder.stdout_line("", SOON);
        let row = place.show(name, &store);
        assert_eq!((&row["kind"], &row["held"]), (&kind.into(), &true.into()), "{row}");
        assert_eq!(row["holders"][0]["fence"].to_string(), fence, "{row}");
        assert!(row["holders"][0].pointer(field).is_some(), "{row}");
        holder.close_stdin();
        ends(&mut holder, 0);
    }
    let other = place.run(&Place::lock("d", &[&["--permits", "1", "--of", "7"][..], &store].concat(), "exit 0"));
    other.assert_ended(64, &["5 permits", "7", "bandog limit NAME N"]);
}

/// The error says what the name is in use as and what to do, and neither the cause nor the log confuses the reader.
#[test]
fn a_name_of_another_kind_is_named_with_its_kind() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let url = redis.url();
    let store = ["--url", &url];
    place.run(&["latch", "parts", "set", "3", "--url", &url]).assert_ended(0, &[]);
    let sem = &[&["--permits", "1", "--of", "5"][..], &store].concat();
    place.run(&Place::lock("gpu", sem, "exit 0")).assert_ended(0, &[]);
    for name in ["parts", "gpu"] {
        for kind in [&[][..], &["--fair"], &["--shared"], &["--exclusive"]] {
            let ran = place.run(&Place::lock(name, &[kind, &store].concat(), "exit 0"));
            let hint = format!("redis-cli DEL \"{name}\"");
            ran.assert_ended(77, &["in use as a semaphore or a latch", "another name", &hint]);
            for word in ["WRONGTYPE", "layout", "password", "could not be released"] {
                assert!(!ran.stderr.contains(word), "{name} {kind:?} {word}: {}", ran.stderr);
            }
        }
    }
    let many = place.run(&Place::lock("big", &[&["--permits", "1025", "--of", "2000"][..], &store].concat(), "exit 0"));
    many.assert_ended(64, &["at most 1024 permits"]);
    assert!(!many.stderr.contains("bandog limit"), "{}", many.stderr);
}
