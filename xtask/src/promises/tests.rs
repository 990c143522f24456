use super::*;

#[test]
fn rows_of_numbered_tables_are_promises() {
    let page = "## Locks\n| | promised | by |\n|---|---|---|\n| L1 | one holder | the store |\n| no | number | x |\n| L1 | again | x |\n\n| a | b |\n|---|---|\n| x | y |\n";
    let store = "# Redis\n## Faults\n| | what |\n|---|---|\n| a | b |\n## Promises\n| | what |\n|---|---|\n| RD1 | keys |\n| L1 | x |\n";
    let pages = [(PAGE, page.to_owned()), ("docs/redis.md", store.to_owned())];
    let (found, problems) = promises(&pages);
    let promise = |section, number, text, place: &str| Promise { section, number, text, place: place.to_owned() };
    let locks = promise("Locks", "L1", "one holder", "docs/GUARANTEES.md:4");
    assert_eq!(found, [locks, promise("Redis", "RD1", "keys", "docs/redis.md:9")]);
    assert_eq!(problems.len(), 3, "{problems:?}");
}

#[test]
fn comments_give_numbers_to_tests() {
    let code = "/// Text.\n// Promise: L1, RD18\n// Promise: L2\n#[expect(\n    x\n)]\n#[tokio::test]\nasync fn a() {}\n#[test]\nfn b() {}\n\
        fn help() {}\nfor_pairs! {\n    // Promise: X1\n    c:\n        one two;\n}\n";
    let (tests, problems) = sources::of_file("crates/bandog-redis/tests/it/keys.rs", code, None);
    assert_eq!(problems, [""; 0]);
    let found = |test: &Test| {
        let mentions =
            test.promises.iter().map(|one| format!("{} {}", one.number, one.place.rsplit_once(':').unwrap().1));
        (test.name.clone(), mentions.collect::<Vec<_>>().join(", "))
    };
    let expected = [("a", "L1 2, RD18 2, L2 3"), ("b", ""), ("c", "X1 13")];
    let expected = expected.map(|(test, mentions)| (format!("redis/keys::{test}"), mentions.to_owned()));
    assert_eq!(tests.iter().map(found).collect::<Vec<_>>(), expected);
}

#[test]
fn a_wrong_comment_is_a_problem() {
    for (code, at, problem) in [
        ("// Promise: L1\nfn help() {}\n", 1, "below is no test"),
        ("// Promise: L1\n\n#[test]\nfn a() {}\n", 1, "below is no test"),
        ("// Promise: L1\n/// Text.\n#[test]\nfn a() {}\n", 1, "below is no test"),
        ("#[test]\nfn a() {}\n// Promise: L1\n", 3, "below is no test"),
        ("// Promise: L1, L1\n#[test]\nfn a() {}\n", 1, "twice"),
        ("// Promise: L1,L2\n#[test]\nfn a() {}\n", 1, "write"),
        ("/// Promises: L1\n#[test]\nfn a() {}\n", 1, "write"),
        ("//promise: L1\n#[test]\nfn a() {}\n", 1, "write"),
    ] {
        let (_, problems) = sources::of_file("a.rs", code, None);
        let [found] = &problems[..] else { panic!("{problems:?} of {code}") };
        assert!(found.starts_with(&format!("a.rs:{at}: ")) && found.contains(problem), "{found} of {code}");
    }
}

#[test]
fn a_law_is_a_test_if_it_is_in_the_list() {
    let code = "// Promise: L1\npub async fn kept<W: World>(world: &W) {\n}\n\n// Promise: L2\npub async fn left_out<W>(world: &W) {\n}\n";
    let path = "crates/bandog-conformance/src/objects/maps.rs";
    let (tests, problems) = sources::of_file(path, code, Some(&["kept".to_owned()]));
    assert_eq!(tests.iter().map(|test| &test.name[..]).collect::<Vec<_>>(), ["object/maps::kept"]);
    assert_eq!(problems.len(), 1, "{problems:?}");
}

#[test]
fn every_promise_has_tests_and_every_number_a_promise() {
    let promise = |number| Promise { section: "", number, text: "", place: String::new() };
    let (tests, _) = sources::of_file("a.rs", "// Promise: L1, L3\n#[test]\nfn a() {}\n", None);
    assert_eq!(missing(&[promise("L1"), promise("L3")], &tests), [""; 0]);
    assert_eq!(missing(&[promise("L1"), promise("L2")], &tests).len(), 2);
}

#[test]
fn tests_of_all_kinds_are_found() {
    crate::step::enter_root().unwrap();
    let (tests, _) = sources::tests().unwrap();
    let is_found = |name| tests.iter().any(|test| test.name == name);
    assert!(is_found("law/basics::acquire_release"));
    assert!(is_found("object/take::take_expires"));
    assert!(!is_found("object/values::take_expires"));
    assert!(is_found("interop/kinds/fair::four_waiters_get_the_lock_in_their_order"));
    assert!(is_found("sync/blocking/threads::a_thousand_waiting_threads_get_the_lock"));
    assert!(is_found("sqlite/src/tests/boots::a_release_by_another_boot_frees_the_lock_immediately"));
    assert!(!is_found("sync/kit::held"), "a helper counted as a test");
    let text = "`law/a::b`, `Client::show`, `redis/x` and `sync/c/d::e_1`";
    assert_eq!(sources::names(text), ["law/a::b", "sync/c/d::e_1"]);
}
