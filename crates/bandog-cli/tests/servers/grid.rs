//! `bandog grid` over a real Redis server: what the commands of Redis see, and what other types print.

use bandog_testkit::{RedisServer, Reply};
use serde_json::{Value, json};

use crate::help::{Place, Ran, SOON, ends};

/// A server, and a directory.
struct Grid {
    redis: RedisServer,
    place: Place,
}

impl Grid {
    fn start() -> Self {
        Self { redis: RedisServer::start(), place: Place::new() }
    }

    /// The words of `bandog grid` with these words.
    fn run(&self, words: &str) -> Ran {
        let words: Vec<_> = words.split(' ').collect();
        self.run_words(&words)
    }

    fn run_words(&self, words: &[&str]) -> Ran {
        let url = self.redis.url();
        self.place.run(&[&["--url", url.as_str(), "grid"], words].concat())
    }

    /// Asserts the output and the exit code of each command.
    #[track_caller]
    fn assert(&self, cases: &[(&str, &str, i32)]) {
        for (words, output, code) in cases {
            let ran = self.run(words);
            assert_eq!((ran.stdout.as_str(), ran.code), (*output, *code), "{words}: {ran:?}");
            assert_eq!(ran.stderr, "", "{words}");
        }
    }

    /// The objects that a command with `--json` prints.
    fn json(&self, words: &str) -> Vec<Value> {
        let ran = self.run(&format!("{words} --json"));
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[track_caller]
    fn assert_redis(&self, command: &str, reply: &str) {
        let words: Vec<_> = command.split(' ').collect();
        assert_eq!(self.redis.cmd(&words).text(), reply, "{command}");
    }
}

#[test]
fn values_are_written_replaced_and_deleted() {
    let grid = Grid::start();
    grid.assert(&[
        ("value x get", "", 75),
        ("value x delete", "", 75),
        ("value x set open", "", 0),
        ("value x get", "open\n", 0),
        ("value x swap closed shut", "", 75),
        ("value x swap open shut", "", 0),
    ]);
    grid.assert_redis("GET x", "shut");
    assert_eq!(grid.redis.cmd(&["PTTL", "x"]).int(), -1);
    grid.assert(&[("value x set soon --ttl 1h", "", 0)]);
    assert!((1..=3_600_000).contains(&grid.redis.cmd(&["PTTL", "x"]).int()));
    grid.assert(&[("value x delete", "", 0), ("value x get", "", 75)]);
    grid.run("value x get --ttl 1h").assert_ended(64, &["--ttl belongs to `set`"]);
    grid.run("value x set").assert_ended(64, &["`set` takes V, and 0 arguments are given"]);
    // A script gets a text as it is; a list has one line for each result.
    grid.run_words(&["value", "x", "set", "a\n\tb"]).assert_ended(0, &[]);
    grid.assert(&[("value x get", "a\n\tb\n", 0), ("list l push a", "1\n", 0)]);
    grid.run_words(&["list", "l", "push", "a\n\tb"]).assert_ended(0, &[]);
    grid.assert(&[("list l list", "a\na\\n\\tb\n", 0)]);
    assert_eq!(grid.json("list l list"), [json!({"value": "a"}), json!({"value": "a\n\tb"})]);
}

#[test]
fn counters_add() {
    let grid = Grid::start();
    grid.assert(&[
        ("counter x get", "0\n", 0),
        ("counter x add 5", "5\n", 0),
        ("counter x add -7", "-2\n", 0),
        ("counter y add 1 --ttl 1h", "1\n", 0),
    ]);
    grid.assert_redis("GET x", "-2");
    assert!(grid.redis.cmd(&["PTTL", "y"]).int() > 0);
    assert_eq!(grid.json("counter x get"), [json!({"value": -2})]);
    for words in ["counter x add much", "counter x add 1.5", "counter x add 9223372036854775808"] {
        grid.run(words).assert_ended(64, &["no number"]);
    }
}

/// Each answer has at most 1 MiB of elements, and all of them together have each element, in the order of the list.
#[test]
fn lists_of_long_elements_are_read_in_several_answers() {
    let grid = Grid::start();
    let elements: Vec<String> = (10..50).map(|number: u32| number.to_string().repeat(100 * 1024)).collect();
    for element in &elements {
        grid.redis.cmd(&["RPUSH", "l", element]);
    }
    for words in ["list l list", "queue l list"] {
        grid.redis.cmd(&["CONFIG", "RESETSTAT"]);
        let ran = grid.run(words);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{words}");
        assert!(ran.stdout.lines().eq(&elements), "{words}: {} lines", ran.stdout.lines().count());
        assert!(grid.redis.calls("evalsha") >= 8, "{words}: {} scripts", grid.redis.calls("evalsha"));
    }
    let ran = grid.run("queue l list --limit 1");
    assert_eq!(ran.stdout.lines().count(), 1);
}

#[test]
fn maps_have_entries() {
    let grid = Grid::start();
    grid.assert(&[
        ("map x get a", "", 75),
        ("map x list", "", 75),
        ("map x put a 1", "", 0),
        ("map x insert a 2", "1\n", 0),
        ("map x insert b 3", "", 0),
        ("map x insert-new b 4", "", 75),
        ("map x insert-new c 5", "", 0),
        ("map x get b", "3\n", 0),
        ("map x len", "3\n", 0),
        ("map x remove c", "", 0),
        ("map x remove c", "", 75),
    ]);
    grid.assert_redis("HGET x a", "2");
    let list = grid.run("map x list").stdout;
    let mut lines: Vec<_> = list.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["a\t2", "b\t3"]);
    assert_eq!(grid.json("map x list --limit 1").len(), 1);
}

#[test]
fn a_large_map_is_listed_in_pages() {
    let grid = Grid::start();
    let fields: Vec<_> = (0..3_000).flat_map(|at| [format!("key-{at}"), at.to_string()]).collect();
    let command: Vec<_> = ["HSET", "x"].into_iter().chain(fields.iter().map(String::as_str)).collect();
    grid.redis.cmd(&command);
    let ran = grid.run("map x list");
    let lines: std::collections::BTreeSet<_> = ran.stdout.lines().collect();
    assert_eq!((ran.code, lines.len()), (0, 3_000));
}

#[test]
fn sets_have_members() {
    let grid = Grid::start();
    grid.assert(&[
        ("set x list", "", 75),
        ("set x add a b", "2\n", 0),
        ("set x add b c", "1\n", 0),
        ("set x contains a", "a\n", 0),
        ("set x contains a z b", "a\nb\n", 75),
        ("set x contains z", "", 75),
        ("set x remove b c z", "2\n", 0),
        ("set x remove z", "", 75),
        ("set x list", "a\n", 0),
        ("set x len", "1\n", 0),
        ("set x add -- -v --json", "2\n", 0),
    ]);
    assert_eq!(grid.redis.cmd(&["SISMEMBER", "x", "--json"]).int(), 1);
    // The name of an object may be any word.
    grid.assert(&[("set list add a", "1\n", 0), ("set -- -x add a", "1\n", 0)]);
    assert_eq!(grid.redis.cmd(&["SCARD", "-x"]).int(), 1);
}

#[test]
fn lists_have_indexes() {
    let grid = Grid::start();
    grid.assert(&[
        ("list x push a b c", "3\n", 0),
        ("list x get 0", "a\n", 0),
        ("list x get -1", "c\n", 0),
        ("list x get 3", "", 75),
        ("list x set 1 B", "", 0),
        ("list x set 7 q", "", 75),
        ("list x remove 0", "a\n", 0),
        ("list x list", "B\nc\n", 0),
        ("list x len", "2\n", 0),
    ]);
    assert_eq!(grid.redis.cmd(&["LRANGE", "x", "0", "-1"]).texts(), ["B", "c"]);
}

#[test]
fn sorted_sets_have_scores() {
    let grid = Grid::start();
    grid.assert(&[
        ("sorted x add 2.5 a", "1\n", 0),
        ("sorted x add -1 b", "1\n", 0),
        ("sorted x add 3 a", "0\n", 0),
        ("sorted x score a", "3\n", 0),
        ("sorted x score z", "", 75),
        ("sorted x rank a", "1\n", 0),
        ("sorted x rank z", "", 75),
        ("sorted x top 1", "3\ta\n", 0),
        ("sorted x list", "-1\tb\n3\ta\n", 0),
        ("sorted x remove b", "", 0),
        ("sorted x remove b", "", 75),
    ]);
    grid.assert_redis("ZSCORE x a", "3");
    assert_eq!(grid.json("sorted x list"), [json!({"score": 3.0, "value": "a"})]);
    grid.run("sorted x add high a").assert_ended(64, &["SCORE"]);
}

#[test]
fn multimaps_have_two_forms() {
    let grid = Grid::start();
    grid.assert(&[
        ("multimap x add k v", "1\n", 0),
        ("multimap x add k v", "0\n", 0),
        ("multimap x get k", "v\n", 0),
        ("multimap x get z", "", 75),
        ("multimap x keys", "k\n", 0),
        ("multimap x remove k v", "", 0),
        ("multimap x remove k v", "", 75),
        ("multimap y add k v --list", "1\n", 0),
        ("multimap y add k v --list", "1\n", 0),
        ("multimap y get k --list", "v\nv\n", 0),
    ]);
}

#[test]
fn bits_are_set_and_cleared() {
    let grid = Grid::start();
    grid.assert(&[
        ("bits x set 9", "0\n", 0),
        ("bits x set 9", "1\n", 0),
        ("bits x get 9", "1\n", 0),
        ("bits x get 8", "", 75),
        ("bits x count", "1\n", 0),
    ]);
    assert_eq!(grid.redis.cmd(&["GETBIT", "x", "9"]).int(), 1);
    grid.assert(&[("bits x clear 9", "1\n", 0), ("bits x count", "0\n", 0)]);
    grid.run("bits x set -1").assert_ended(64, &["no number"]);
}

#[test]
fn bloom_filters_are_created_first() {
    let grid = Grid::start();
    grid.run("bloom x add a").assert_ended(75, &["create it first"]);
    grid.assert(&[
        ("bloom x create 1000 0.01", "", 0),
        ("bloom x create 1000 0.01", "", 0),
        ("bloom x add a b", "2\n", 0),
        ("bloom x add a", "0\n", 0),
        ("bloom x contains a", "a\n", 0),
        ("bloom x contains a z", "a\n", 75),
        ("bloom x count", "2\n", 0),
    ]);
    grid.assert_redis("HGET {x}:config expectedInsertions", "1000");
    grid.run("bloom x create 9 0.5").assert_ended(64, &["the filter has"]);
}

#[test]
fn queues_have_two_ends() {
    let grid = Grid::start();
    grid.assert(&[
        ("queue x pop", "", 75),
        ("queue x push b c", "2\n", 0),
        ("queue x push-front a z", "4\n", 0),
        ("queue x list", "z\na\nb\nc\n", 0),
        ("queue x pop", "z\n", 0),
        ("queue x pop-back", "c\n", 0),
        ("queue x len", "2\n", 0),
    ]);
    assert_eq!(grid.redis.cmd(&["LRANGE", "x", "0", "-1"]).texts(), ["a", "b"]);
    // Nothing stays taken.
    assert_eq!(grid.redis.cmd(&["EXISTS", "bandog:taken:{x}", "bandog:leases:{x}"]).int(), 0);
    grid.run("queue x push a --wait 1s").assert_ended(64, &["--wait belongs to"]);
    grid.run("queue x pop --count 1").assert_ended(64, &["belong to `work`"]);
    grid.run("queue x work --idle 0s").assert_ended(64, &["needs a command"]);
}

#[test]
fn a_pop_waits_for_an_element() {
    let grid = Grid::start();
    let url = grid.redis.url();
    let mut pop = grid.place.start(&["grid", "queue", "x", "pop", "--wait", "1m", "--url", &url]);
    grid.assert(&[("queue x push a", "1\n", 0)]);
    pop.stdout_line("a", SOON);
    ends(&mut pop, 0);
    grid.assert(&[("queue x pop --wait 1ms", "", 75)]);
}

#[test]
fn an_element_that_was_not_printed_stays() {
    let grid = Grid::start();
    grid.assert(&[("queue x push a", "1\n", 0)]);
    let script = format!("{} grid queue x pop --url {} > /dev/full", env!("CARGO_BIN_EXE_bandog"), grid.redis.url());
    Ran::from(grid.place.command(&["bash", "-c", &script])).assert_ended(71, &["cannot print"]);
    let script = format!("{} grid queue x pop --url {} >&-", env!("CARGO_BIN_EXE_bandog"), grid.redis.url());
    Ran::from(grid.place.command(&["bash", "-c", &script])).assert_ended(64, &["standard output is closed"]);
    grid.redis.cmd(&["RPUSH", "y", "a"]);
    grid.run("queue y pop --codec json").assert_ended(77, &["\"y\": TextJson: expected JSON"]);
    grid.assert(&[("queue x pop", "a\n", 0), ("queue y pop", "a\n", 0)]);
}

/// The lines of the record of Java's codec: a value and its bytes.
fn recorded(value: &str) -> Vec<u8> {
    let record = include_str!("../../../../proof/interop/golden/codec-kryo5.txt");
    let hex = record.lines().find_map(|line| line.strip_prefix(value)?.strip_prefix(" => ")).unwrap();
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn each_codec_writes_the_bytes_of_java() {
    let grid = Grid::start();
    let bytes = |key: &str| match grid.redis.cmd(&["GET", key]) {
        Reply::Text(text) => text.into_bytes(),
        Reply::Bytes(bytes) => bytes,
        other => panic!("{other:?}"),
    };
    for (word, java) in [
        ("5", "Integer 5"),
        ("5L", "Long 5"),
        ("\"abc\"", "String \"abc\""),
        ("true", "Boolean true"),
        ("1.5", "Double 3ff8000000000000"),
    ] {
        grid.run_words(&["value", "k", "set", "--codec", "kryo5", word]).assert_ended(0, &[]);
        assert_eq!(bytes("k"), recorded(java), "{word}");
        let ran = grid.run("value k get --codec kryo5");
        assert_eq!(ran.stdout, format!("{word}\n"));
    }
    grid.run_words(&["value", "j", "set", "--codec", "json", "{ \"b\": 1.50, \"a\": [\"\u{1f600}\"] }"])
        .assert_ended(0, &[]);
    assert_eq!(bytes("j"), br#"{"a":["\uD83D\uDE00"],"b":1.5}"#);
    assert_eq!(grid.json("value j get --codec json"), [json!({"value": {"a": ["\u{1f600}"], "b": 1.5}})]);
    // A key is text with json, and a scalar with kryo5.
    grid.run("map m put key 5 --codec json").assert_ended(0, &[]);
    grid.assert_redis("HGET m key", "5");
    grid.run("map n put 1 5L --codec kryo5").assert_ended(0, &[]);
    let entry = json!({"key": 1, "key_type": "Integer", "value": 5, "type": "Long"});
    assert_eq!(grid.json("map n list --codec kryo5"), [entry]);
    grid.run("value k set abc --codec json").assert_ended(64, &["no JSON", "in quotes"]);
    grid.run("value k set 3000000000 --codec kryo5").assert_ended(64, &["ends in L"]);
}

#[test]
fn an_entry_that_cannot_be_read_is_reported_and_the_others_are_printed() {
    let grid = Grid::start();
    grid.redis.cmd(&["HSET", "x", "a", "1", "b", "nonsense", "c", "2"]);
    let ran = grid.run("map x list --codec json");
    ran.assert_ended(77, &["\"x\": the value of the key b: TextJson: expected JSON"]);
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    let mut lines: Vec<_> = ran.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["a\t1", "c\t2"]);
    let ran = grid.run("map x get b --codec json --json");
    ran.assert_ended(77, &["expected JSON"]);
    let object: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(object["error"].as_str().unwrap().contains("expected JSON"), "{object}");
}

#[test]
fn a_name_with_data_of_another_type_is_refused() {
    let grid = Grid::start();
    grid.redis.cmd(&["SET", "x", "1"]);
    for words in ["map x list", "map x put a 1", "queue x push a", "queue x pop", "queue x work --idle 0s -- true"] {
        let ran = grid.run(words);
        assert_eq!((ran.code, ran.stdout.as_str()), (77, ""), "{words}: {ran:?}");
    }
    grid.assert_redis("GET x", "1");
    grid.redis.cmd(&["RPUSH", "y", "a"]);
    grid.place.run(&["show", "y", "--url", &grid.redis.url()]).assert_ended(0, &[]);
}

#[test]
fn a_store_without_objects_says_so() {
    let place = Place::new();
    for url in ["postgres://ann@127.0.0.1:1/shop", "mysql://ann@127.0.0.1:1/shop", "sqlite:locks.db"] {
        let ran = place.run(&["grid", "map", "x", "list", "--url", url]);
        ran.assert_ended(64, &["has no maps, queues and other objects; Redis and memory have them"]);
    }
    assert!(!place.path("locks.db").exists());
    // The memory of a process ends with it, and it works there.
    for (words, code) in [("value x set 1", 0), ("value x get", 75), ("queue x work --idle 0s -- true", 0)] {
        let words: Vec<_> = words.split(' ').collect();
        let ran = place.run(&[&["--url", "memory:", "grid"], words.as_slice()].concat());
        assert_eq!(ran.code, code, "{ran:?}");
    }
}

#[test]
fn a_server_that_does_not_answer_is_unavailable() {
    let grid = Grid::start();
    grid.redis.kill();
    for words in ["map x list", "queue x push a", "queue x work --idle 0s -- true"] {
        let ran = grid.run(words);
        assert_eq!(ran.code, 69, "{words}: {ran:?}");
    }
}

#[test]
fn ls_lists_objects_without_internal_keys() {
    let grid = Grid::start();
    let url = format!("{}?prefix=shop:", grid.redis.url());
    let list = |words: &[&str]| grid.place.run(&[&["ls", "--objects", "--url", &url], words].concat());
    let ran = list(&[]);
    assert_eq!((ran.code, ran.stdout.lines().last()), (0, Some("there is no object")), "{ran:?}");
    for words in [
        "map m put a 1",
        "queue q push a b",
        "queue q pop",
        "value v set abc --ttl 1h",
        "bloom a create 9 0.1",
        "bloom b create 9 0.1",
        "bloom b add a",
    ] {
        let words: Vec<_> = words.split(' ').collect();
        grid.place.run(&[&["--url", &url, "grid"], words.as_slice()].concat()).assert_ended(0, &[]);
    }
    for words in ["multimap x add k v", "multimap y add k v --list"] {
        let words: Vec<_> = words.split(' ').collect();
        grid.place.run(&[&["--url", &url, "grid"], words.as_slice()].concat()).assert_ended(0, &[]);
    }
    grid.redis.cmd(&["SET", "other", "1"]);
    // A fair mutex that is held has a fence, a queue and a row of its client.
    let held = grid.place.start(&Place::lock("lock", &["--fair", "--url", &url], "echo in; read word"));
    held.stdout_line("in", SOON);
    let rows: Vec<Value> = list(&["--json"]).stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let found: Vec<_> =
        rows.iter().map(|row| [&row["name"], &row["type"], &row["size"]].map(Value::to_string).join(" ")).collect();
    let expected = [
        "\"a\" \"bloom\" 1",
        "\"b\" \"bloom\" 1",
        "\"m\" \"map\" 1",
        "\"q\" \"list\" 1",
        "\"v\" \"value\" 3",
        "\"x\" \"multimap\" 1",
        "\"y\" \"list multimap\" 1",
    ];
    assert_eq!(found, expected);
    assert!(rows[4]["ttl_ms"].as_u64().unwrap() > 0 && rows[2]["ttl_ms"].is_null(), "{rows:?}");
    let table = list(&["[mq]"]).stdout;
    assert!(table.ends_with("there is no object\n"), "{table}");
    let table = list(&["?"]).stdout;
    assert_eq!(
        table.lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>(),
        ["NAME", "TYPE", "SIZE", "EXPIRES", "IN"]
    );
    assert_eq!(table.lines().count(), 9, "{table}");
}

#[test]
fn entries_of_a_journal_are_appended_and_listed_with_their_groups() {
    let grid = Grid::start();
    grid.assert(&[("journal x list", "", 75), ("journal x groups", "", 75), ("journal x len", "0\n", 0)]);
    let appended = grid.run("journal x append a b");
    let ids: Vec<_> = appended.stdout.lines().collect();
    assert!(appended.code == 0 && ids.len() == 2 && ids[0].contains('-'), "{appended:?}");
    grid.redis.cmd(&["XGROUP", "CREATE", "x", "billing", ids[0]]);
    grid.assert(&[
        ("journal x list", &format!("{}\ta\n{}\tb\n", ids[0], ids[1]), 0),
        ("journal x list --limit 1", &format!("{}\ta\n", ids[0]), 0),
        ("journal x groups", "billing\t1\t0\n", 0),
    ]);
    assert_eq!(grid.json("journal x list --limit 1"), [json!({"id": ids[0], "value": "a"})]);
    assert_eq!(grid.json("journal x groups"), [json!({"group": "billing", "ready": 1, "taken": 0})]);
    grid.assert(&[("journal x len", "2\n", 0)]);
}

#[test]
fn messages_of_a_topic_are_published_and_printed() {
    let grid = Grid::start();
    let url = grid.redis.url();
    grid.assert(&[("topic x publish nobody", "0\n", 0)]);
    grid.run("topic x publish a --count 1").assert_ended(64, &["--count belongs to `subscribe`"]);
    let words = ["grid", "topic", "x", "subscribe", "--count", "2", "--url", &url];
    let mut subscriber = grid.place.start(&words);
    bandog_testkit::eventually(SOON, || grid.run("topic x publish first").stdout == "1\n");
    subscriber.stdout_line("first", SOON);
    grid.assert(&[("topic x publish second", "1\n", 0)]);
    subscriber.stdout_line("second", SOON);
    ends(&mut subscriber, 0);
}
