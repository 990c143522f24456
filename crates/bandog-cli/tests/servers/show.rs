//! `bandog show` of objects, and of names that are a lock or something else.

use bandog_testkit::RedisServer;
use serde_json::{Value, json};

use crate::help::{Place, SOON};

/// A server, and a directory.
struct Store {
    redis: RedisServer,
    place: Place,
}

impl Store {
    fn start() -> Self {
        Self { redis: RedisServer::start(), place: Place::new() }
    }

    fn redis(&self, command: &str) {
        self.redis.cmd(&command.split(' ').collect::<Vec<_>>());
    }

    fn grid(&self, words: &str) {
        let words: Vec<_> = words.split(' ').collect();
        self.place.run(&[&["--url", &self.redis.url(), "grid"], words.as_slice()].concat()).assert_ended(0, &[]);
    }

    fn show(&self, name: &str) -> Value {
        self.place.show(name, &["--url", &self.redis.url()])
    }

    fn text(&self, name: &str) -> String {
        let ran = self.place.run(&["show", "--url", &self.redis.url(), "--", name]);
        ran.assert_ended(0, &[]);
        ran.stdout
    }

    /// The type of each object with this name, and whether a lock of this name is held.
    #[track_caller]
    fn assert_types(&self, name: &str, types: &[&str], is_held: bool) {
        let shown = self.show(name);
        let found: Vec<_> = shown["objects"].as_array().unwrap().iter().map(|object| &object["type"]).collect();
        assert_eq!(
            (found, &shown["held"]),
            (types.iter().map(|name| json!(name)).collect::<Vec<_>>().iter().collect(), &json!(is_held)),
            "{shown}"
        );
    }
}

const OWNER: &str = "0c1d2e3f-0000-4000-8000-000000000001:57";
const OTHER: &str = "0c1d2e3f-0000-4000-8000-000000000002:57";

#[test]
fn an_object_is_shown_with_the_command_that_reads_it() {
    let store = Store::start();
    for (name, words, command) in [
        ("m", "map m put a 1", "bandog grid map m list"),
        ("v", "value v set abc --ttl 1h", "bandog grid value v get"),
        ("s", "set s add a", "bandog grid set s list"),
        ("l", "list l push a", "bandog grid list l list"),
        ("z", "sorted z add 1 a", "bandog grid sorted z list"),
        ("x", "multimap x add k v", "bandog grid multimap x keys"),
        ("y", "multimap y add k v --list", "bandog grid multimap y keys --list"),
        ("b", "bloom b create 1000 0.01", "bandog grid bloom b count"),
    ] {
        store.grid(words);
        let shown = store.show(name);
        let objects = shown["objects"].as_array().unwrap();
        assert_eq!((objects.len(), &objects[0]["command"]), (1, &json!(command)), "{shown}");
        assert_eq!((&shown["name"], &shown["held"], &shown["kind"]), (&json!(name), &json!(false), &Value::Null));
        assert_eq!((&objects[0]["unsure"], objects[0]["ttl_ms"].is_null()), (&Value::Null, name != "v"), "{shown}");
        let text = store.text(name);
        assert!(text.contains(&format!("read it with: {command}\n")) && !text.contains("free"), "{text}");
        let words: Vec<_> = command.split(' ').skip(1).chain(["--url"]).collect();
        store.place.run(&[words.as_slice(), &[&store.redis.url()]].concat()).assert_ended(0, &[]);
    }
    store.redis.cmd(&["HSET", "it's", "a", "1"]);
    assert_eq!(store.show("it's")["objects"][0]["command"], r"bandog grid map 'it'\''s' list");
}

#[test]
fn a_queue_is_shown_with_its_taken_elements() {
    let store = Store::start();
    store.grid("queue q push a b c");
    let url = store.redis.url();
    let work = ["grid", "queue", "q", "work", "--url", &url, "--lease", "1h", "--", "sh", "-c", "echo in; sleep 1000"];
    let worker = store.place.start(&work);
    worker.stdout_line("in", SOON);
    let shown = store.show("q");
    let object = &shown["objects"][0];
    assert_eq!(
        (&object["type"], &object["ready"], &object["taken"]),
        (&json!("list"), &json!(2), &json!(1)),
        "{shown}"
    );
    let lease = object["lease_ms"].as_u64().unwrap();
    assert!((1..=3_600_000).contains(&lease), "{shown}");
    let text = store.text("q");
    assert!(text.contains("q: 2 elements can be taken, and 1 are taken; the first lease expires in "), "{text}");
    assert!(text.contains("bandog grid queue q list"), "{text}");
    // The key of the queue does not exist if all elements are taken.
    store.redis("LTRIM q 1 0");
    let object = &store.show("q")["objects"][0];
    assert_eq!(
        (&object["type"], &object["ready"], &object["taken"]),
        (&json!("list"), &json!(0), &json!(1)),
        "{object}"
    );
}

/// A lock is a hash on Redis, too: its fields are owners, and their values are counts.
#[test]
fn a_map_and_a_lock_are_told_apart_by_their_content() {
    let store = Store::start();
    let redis = |command: String| store.redis(&command);
    redis(format!("HSET lock {OWNER} 1"));
    store.assert_types("lock", &[], true);
    assert_eq!(store.show("lock")["kind"], "mutex");
    redis(format!("HSET read mode read {OWNER} 1 {OTHER} 2"));
    store.assert_types("read", &[], true);
    redis(format!("HSET text {OWNER} ann"));
    redis(format!("HSET two {OWNER} 1 {OTHER} 1"));
    redis(format!("HSET mixed {OWNER} 1 ann 1"));
    redis("HSET mode mode read x 1".into());
    redis("HSET map ann 1".into());
    for name in ["text", "two", "mixed", "mode", "map"] {
        store.assert_types(name, &["map"], false);
        let ran = store.place.run(&["release", name, "--force", "--url", &store.redis.url()]);
        assert_eq!(ran.code, 77, "{name}: {ran:?}");
        assert_eq!(store.redis.cmd(&["EXISTS", name]).int(), 1, "{name}");
    }
    // The lists do not mix them either.
    let list = store.place.run(&["ls", "--objects", "--json", "--url", &store.redis.url()]).stdout;
    let names: Vec<_> = list.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["name"].clone()).collect();
    assert_eq!(names, ["map", "mixed", "mode", "text", "two"]);
}

#[test]
fn a_lock_beside_helper_keys_of_an_object_is_both() {
    let store = Store::start();
    store.grid("bloom x create 1000 0.01");
    store.redis(&format!("HSET x {OWNER} 1"));
    store.assert_types("x", &["bloom"], true);
    let text = store.text("x");
    assert!(text.contains("mutex") && text.contains("read it with: bandog grid bloom x count"), "{text}");
    // A lock that was used before has a key with its fence.
    store.redis("SET redisson_lock_token:{y} 17");
    store.redis("RPUSH y a");
    store.assert_types("y", &["list"], false);
    store.redis("SET redisson_lock_token:{z} 17");
    store.assert_types("z", &[], false);
    assert!(store.text("z").contains("free"));
}

#[test]
fn a_number_may_be_a_latch_of_another_program() {
    let store = Store::start();
    store.redis("SET hits 5");
    let shown = store.show("hits");
    assert!(shown["objects"][0]["unsure"].as_str().unwrap().contains("latch"), "{shown}");
    assert!(store.text("hits").contains("the store does not say whether it is this: a latch of another program"));
    store.redis("SET hits -5");
    assert_eq!(store.show("hits")["objects"][0]["unsure"], Value::Null);
    // A latch of ours has a key with its operations.
    let url = store.redis.url();
    for name in ["import", "{import}:1"] {
        store.place.run(&["latch", name, "set", "3", "--url", &url]).assert_ended(0, &[]);
        store.place.run(&["latch", name, "down", "--url", &url]).assert_ended(0, &[]);
        let shown = store.show(name);
        assert_eq!((&shown["kind"], &shown["count"], &shown["objects"]), (&json!("latch"), &json!(2), &json!([])));
    }
    // With this layout, each string is a lock.
    store.redis("SET s ann");
    let shown = store.place.show("s", &["--url", &format!("{url}?layout=setnx")]);
    assert_eq!(shown["held"], true);
    assert!(shown["objects"][0]["unsure"].as_str().unwrap().contains("setnx"), "{shown}");
    assert_eq!(store.show("s")["objects"][0]["unsure"], Value::Null);
}

#[test]
fn a_user_with_the_rights_for_locks_sees_locks() {
    let store = Store::start();
    let url = store.redis.url().replace("redis://", &format!("redis://{}@", RedisServer::OPERATOR));
    store.redis(&format!("HSET lock {OWNER} 1"));
    let shown = store.place.show("lock", &["--url", &url]);
    assert_eq!((&shown["held"], &shown["objects"]), (&json!(true), &json!([])));
}
