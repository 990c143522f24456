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
    other.assert_ended(64, &["5 permits", "7"]);
}
