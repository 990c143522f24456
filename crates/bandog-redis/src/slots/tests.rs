use bandog_redis_net::slot;

use super::*;

#[test]
fn names_with_a_brace_need_a_tag() {
    for name in ["orders", "{tag}:a", "a{b}c", "a{b}c{", "{a}}"] {
        assert!(check(name).is_ok(), "{name}");
    }
    for name in ["a{b", "{}x", "a}b{c", "a}b", "}{"] {
        assert!(check(name).unwrap_err().to_string().contains("Redis Cluster"), "{name}");
    }
}

#[test]
fn the_records_and_sessions_of_a_prefix_are_in_one_slot() {
    for prefix in ["", "shop:", "my-job/:", "schedule/:", "{shop}:", "a{b}c:", "x}:", "barrier:", "barrier/:", "a:b:"] {
        let names = ["job/mail", "job/a{b}", "schedule/board", "schedule/paused", "barrier/x"];
        let records = names.map(|name| placed_record(&format!("{prefix}{name}")).into_owned());
        let locks = ["schedule/node/7", "barrier/x/3"].map(|name| placed_lock(&format!("{prefix}{name}")).into_owned());
        let slots: Vec<u16> = records.iter().chain(&locks).map(|name| slot(name.as_bytes())).collect();
        assert!(slots.iter().all(|other| *other == slots[0]), "{prefix}: {records:?} {locks:?}");
        for (name, placed) in names.iter().chain(&["schedule/node/7", "barrier/x/3"]).zip(records.iter().chain(&locks))
        {
            let plain = if name.ends_with(char::is_numeric) { plain_lock(placed) } else { plain_record(placed) };
            assert_eq!(plain, format!("{prefix}{name}"));
            assert_eq!(check(placed).ok(), Some(()), "{placed}");
        }
    }
    assert_ne!(placed_record("job/x"), placed_record("/job/x"));
}

#[test]
fn the_locks_of_users_keep_their_names() {
    for name in [
        "orders",
        "job/x",
        "schedule/x",
        "{shop}:job/x",
        "my-barrier/1",
        "my-barrier/x/1",
        "barrier/1",
        "barrier//1",
        "barrier/x",
        "barrier/x/y",
        "barrier/x/1/",
        "toll/barrier/x/1",
        "my-schedule/node/1",
        "orders/schedule/node/1",
        "schedule/node/",
        "schedule/node/x",
        "{my-/}bandog:barrier/1",
    ] {
        assert_eq!(placed_lock(name), name);
        assert_eq!(plain_lock(name), name);
    }
}

/// Clients of other versions use these keys for the locks.
#[test]
fn the_names_that_bandog_makes_keep_their_places() {
    for (name, placed) in [
        ("barrier/x/3", "{/}bandog:barrier/x/3"),
        ("schedule/node/12", "{/}bandog:schedule/node/12"),
        ("shop:barrier/a:b/c/3", "{shop:/}bandog:barrier/a:b/c/3"),
        ("shop:barrier/barrier/1/2", "{shop:/}bandog:barrier/barrier/1/2"),
        ("a:b:schedule/node/0", "{a:b:/}bandog:schedule/node/0"),
        ("my-job/:schedule/node/1", "{my-/}bandog:job/:schedule/node/1"),
        ("{shop}:barrier/x/3", "{shop}:barrier/x/3"),
    ] {
        assert_eq!(placed_lock(name), placed);
        assert_eq!(plain_lock(placed), name);
    }
    assert_eq!(placed_record("shop:barrier/x"), "{shop:/}bandog:barrier/x");
    assert_eq!(placed_record("shop:job/x"), "{shop:/}bandog:job/x");
}

/// A name and the name that it gets on a cluster are never two names that can both be used.
#[test]
fn a_name_with_an_added_tag_cannot_be_used() {
    let names = ["shop:schedule/node/1", "shop:barrier/x/3", "shop:job/mail", "barrier/x", "job/a{b}"];
    for name in names {
        assert!(check_lock(name).is_ok() && check_record(name).is_ok(), "{name}");
        for (place, check) in [
            (placed_lock as fn(&str) -> Cow<'_, str>, check_lock as fn(&str) -> Result<()>),
            (placed_record, check_record),
        ] {
            let placed = place(name);
            if placed != name {
                assert_eq!(place(&placed), placed);
                let error = check(&placed).unwrap_err();
                assert!(error.to_string().contains(&format!("{name:?} is stored under this name")), "{error}");
            }
        }
    }
    // No name gets these names.
    for name in ["{shop:/}bandog:schedule/x", "{shop:/}bandog:schedule/node/x", "{{a}:/}bandog:job/x", "{shop:/}x"] {
        assert!(check_lock(name).is_ok(), "{name}");
    }
    assert!(check_lock("{shop:/}bandog:job/mail").is_ok(), "a lock of this name keeps it");
}
