use serde_json::Value;

use crate::help::{Place, SOON, ends};

#[test]
fn show_prints_a_held_lock_and_a_free_one() {
    let place = Place::new();
    let mut holder = place.start(&Place::lock("x", &[], "echo $BANDOG_FENCE; read word; exit 0"));
    let fence: u64 = holder.stdout_line("", SOON).parse().unwrap();
    let row = place.show("x", &[]);
    assert_eq!((&row["name"], &row["held"], &row["fence"]), (&"x".into(), &true.into(), &fence.into()));
    assert!(row["owner"].as_str().unwrap().contains(':'));
    let ttl = row["ttl_ms"].as_u64().unwrap();
    assert!((1..=30_000).contains(&ttl), "{ttl}");
    assert!(row["store"].as_str().unwrap().ends_with("state/bandog/locks.db"));
    holder.close_stdin();
    ends(&mut holder, 0);
    let row = place.show("x", &[]);
    assert_eq!(
        (&row["name"], &row["held"], &row["owner"], &row["ttl_ms"]),
        (&"x".into(), &false.into(), &Value::Null, &Value::Null)
    );
    assert_eq!(place.show("never used", &[])["held"], false);
}

#[test]
fn ls_lists_the_locks_that_are_held() {
    let place = Place::new();
    place.run(&["lock", "order-0", "--", "true"]).assert_ended(0, &[]);
    let holders = ["order-2", "order-1", "stock"].map(|name| {
        let holder = place.start(&Place::lock(name, &[], "echo in; read word"));
        holder.stdout_line("in", SOON);
        holder
    });
    let list = |args: &[&str]| -> Vec<String> {
        let ran = place.run(&[&["ls", "--json"], args].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
        let rows = ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        rows.inspect(|row| assert_eq!(row["held"], true)).map(|row| row["name"].as_str().unwrap().into()).collect()
    };
    assert_eq!(list(&[]), ["order-1", "order-2", "stock"]);
    assert_eq!(list(&["order-*"]), ["order-1", "order-2"]);
    assert_eq!(list(&["order-?"]), ["order-1", "order-2"]);
    assert!(list(&["nothing"]).is_empty());
    drop(holders);
}

#[test]
fn people_get_tables() {
    let place = Place::new();
    let holder = place.start(&Place::lock("x", &["--lease", "1h"], "echo $BANDOG_FENCE; read word"));
    let fence = holder.stdout_line("", SOON);
    for args in [&["show", "x"][..], &["ls"]] {
        let ran = place.run(args);
        let lines: Vec<&str> = ran.stdout.lines().collect();
        let store = "state/bandog/locks.db (the default without --url and BANDOG_URL)";
        assert!(lines[0].starts_with("in sqlite:/") && lines[0].ends_with(store), "{ran:?}");
        assert!(lines[1].starts_with("NAME  "), "{ran:?}");
        assert!(lines[2].starts_with("x ") && lines[2].contains(&fence) && lines[2].contains("59m"), "{ran:?}");
        assert_eq!((ran.code, lines.len(), ran.stderr.as_str()), (0, 3, ""));
    }
    let none = place.run(&["ls", "z*"]);
    assert!(none.code == 0 && none.stdout.contains("no held lock or latch matches"), "{none:?}");
    let free = place.run(&["show", "y"]);
    assert!(free.stdout.contains("free"), "{free:?}");
}

#[test]
fn the_latches_of_a_store_that_does_not_exist_are_open() {
    let place = Place::new();
    for (words, stdout) in [(&["count"][..], "0\n"), (&["down"], "0\n"), (&["wait"], "")] {
        let ran = place.run(&[&["latch", "parts"], words].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (0, stdout), "{words:?}");
        assert!(ran.stderr.contains("was never used, so all its latches are open"), "{ran:?}");
    }
    assert!(!place.path("state").exists(), "only `set` creates the database");
    let missing = place.run(&["latch", "parts", "wait", "--url", "sqlite:nowhere.db"]);
    missing.assert_ended(69, &["does not exist", "`bandog latch NAME set N`"]);
    let deleted = place.run(&["latch", "parts", "delete", "--json"]);
    assert!(deleted.code == 0 && deleted.stdout.contains(r#""deleted":false"#), "{deleted:?}");
    assert!(!place.path("state").exists(), "only `set` creates the database");
    place.run(&["latch", "parts", "set", "2"]).assert_ended(0, &[]);
    assert_eq!(place.run(&["latch", "parts", "down"]).stdout, "1\n");
}

/// A reader of a table sees that no option and no variable has named the store.
#[test]
fn a_table_says_that_its_store_is_the_default() {
    let place = Place::new();
    let default = "locks.db (the default without --url and BANDOG_URL)\n";
    let first_line = |args: &[&str]| {
        let ran = place.run(args);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.stdout.split_inclusive('\n').next().unwrap_or_default().to_owned()
    };
    for args in [&["ls"][..], &["show", "x"]] {
        assert!(first_line(args).ends_with(default), "no store yet: {args:?}");
    }
    place.run(&["latch", "x", "set", "2"]).assert_ended(0, &[]);
    for args in [&["ls"][..], &["show", "x"], &["ls", "z*"], &["show", "y"]] {
        assert!(first_line(args).ends_with(default), "{args:?}");
        let named = [args, &["--url", "sqlite:state/bandog/locks.db"]].concat();
        assert!(first_line(&named).ends_with("locks.db\n"), "{named:?}");
    }
}

#[test]
fn the_store_can_be_named_before_the_command() {
    let place = Place::new();
    place.run(&["--url", "sqlite:a.db", "lock", "x", "--", "true"]).assert_ended(0, &[]);
    assert!(place.path("a.db").exists() && !place.path("state").exists());
    for args in [
        &["--url=sqlite:a.db", "show", "x"][..],
        &["--url", "sqlite:a.db", "ls"],
        &["--url", "sqlite:a.db", "jobs", "ls"],
        &["jobs", "--url", "sqlite:a.db", "ls"],
        &["-v", "--url", "sqlite:a.db", "latch", "x", "count"],
        &["--url", "sqlite:other.db", "ls", "--url", "sqlite:a.db"],
    ] {
        place.run(args).assert_ended(0, &[]);
        assert!(!place.path("state").exists() && !place.path("other.db").exists(), "{args:?}");
    }
    place.run(&["--url", "sqlite:b.db", "ls"]).assert_ended(69, &["b.db\" (from --url) does not exist"]);
    for args in [&["--url", "sqlite:a.db", "cron", "explain", "@daily"][..], &["completions", "bash", "--url", "x"]] {
        place.run(args).assert_ended(64, &["uses no store, so it has no --url"]);
    }
    assert!(!place.run(&["cron", "next", "--help"]).stdout.contains("--url"));
    assert!(place.run(&["--help"]).stdout.contains("--url <URL>"));
}
