use super::*;

#[test]
fn rows_of_numbered_tables_are_promises() {
    let page = "## Locks\n| | promised | by |\n|---|---|---|\n| L1 | one holder | the store |\n| no | number | x |\n| L1 | again | x |\n\n| a | b |\n|---|---|\n| x | y |\n";
    let store = "# Redis\n## Faults\n| | what |\n|---|---|\n| a | b |\n## Promises\n| | what |\n|---|---|\n| RD1 | keys |\n| L1 | x |\n";
    let pages = [(PAGE, page.to_owned()), ("docs/redis.md", store.to_owned())];
    let (found, problems) = promises(&pages);
    let locks = Promise { section: "Locks", number: "L1", text: "one holder" };
    assert_eq!(found, [locks, Promise { section: "Redis", number: "RD1", text: "keys" }]);
    assert_eq!(problems.len(), 3, "{problems:?}");
}

#[test]
fn every_number_has_tests_and_every_test_a_number() {
    let tests = tests_by_number("# a comment\nL1\n  law/a::b\n\nL3\n  law/a::c\n");
    let promise = |number| Promise { section: "", number, text: "" };
    assert_eq!(missing(&[promise("L1"), promise("L3")], &tests), [""; 0]);
    assert_eq!(missing(&[promise("L1"), promise("L2")], &tests).len(), 2);
}

#[test]
fn a_wrong_name_is_found() {
    crate::step::enter_root().unwrap();
    assert!(named::home("law/basics::acquire_release").is_some());
    assert!(named::home("object/take::take_expires").is_some());
    assert!(named::home("object/values::take_expires").is_none());
    assert!(named::home("sync/blocking/threads::a_thousand_waiting_threads_get_the_lock").is_some());
    assert!(named::home("sqlite/src/tests/boots::a_release_by_another_boot_frees_the_lock_immediately").is_some());
    assert!(named::home("law/basics::acquire_releases").is_none());
    assert!(named::home("law/nothing::acquire_release").is_none());
    assert!(named::home("sync/kit::held").is_none(), "a helper counted as a test");
    let text = "`law/a::b`, `Client::show`, `redis/x` and `sync/c/d::e_1`";
    assert_eq!(named::names(text), ["law/a::b", "sync/c/d::e_1"]);
}
