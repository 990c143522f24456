//! The findings of `check` about versions and timeouts, and the refused file systems.

use std::time::Duration;

use bandog_core::{Clock, Level};

use crate::{
    SqliteOptions,
    check::database::{integrity, version},
    disk::{FileSystem, FileSystemKind},
    open::not_local,
    sql,
    tests::open_store,
};

#[test]
fn versions_that_may_damage_a_database_are_reported() {
    for (number, level) in [
        (3_044_005, Level::Advice),
        (3_044_006, Level::Fine),
        (3_050_002, Level::Advice),
        (3_050_007, Level::Fine),
        (3_051_002, Level::Advice),
        (3_051_003, Level::Fine),
        (3_054_001, Level::Fine),
    ] {
        assert_eq!(version(number, true).level, level, "{number}");
    }
    assert!(version(3_054_001, false).says.contains("older version"));
}

#[test]
fn a_database_that_cannot_be_checked_in_time_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let options = SqliteOptions::at(dir.path().join("locks.db"));
    let mut store = open_store(&options);
    let filling = store.conn.unchecked_transaction().unwrap();
    for n in 0..20_000 {
        filling.prepare_cached(sql::WANT).unwrap().execute((format!("lock-{n}"), 1)).unwrap();
    }
    filling.commit().unwrap();
    let finding = integrity(&mut store, &options, Clock::system().now());
    assert!(finding.level == Level::Advice && finding.says.contains("too large"), "{finding:?}");
    let finding = integrity(&mut store, &options, Clock::system().now() + Duration::from_secs(60));
    assert_eq!(finding.level, Level::Fine, "{finding:?}");
}

// Promise: SQ18
#[test]
fn file_systems_that_machines_share_are_refused_by_their_number() {
    // These are the numbers that `stat -f -c %t` prints.
    let network =
        [0x6969, 0x517b, 0xfe53_4d42, 0xff53_4d42, 0x0102_1997, 0x6573_5546, 0x00c3_6400, 0x0bd0_0bd0, 0x0116_1970];
    for magic in network {
        let found = FileSystem::of_magic(magic);
        assert_eq!(found.kind, FileSystemKind::Network, "{magic:x}");
        let says = not_local("/mnt/locks.db".as_ref(), found.display_name());
        assert!(
            says.contains("/mnt/locks.db") && says.contains(found.display_name()) && says.contains("server"),
            "{says}"
        );
    }
    for (magic, kind) in [
        (0xef53, FileSystemKind::Local),
        (0x5846_5342, FileSystemKind::Local),
        (0x9123_683e, FileSystemKind::Local),
        (0x794c_7630, FileSystemKind::Layered),
        (0x0102_1994, FileSystemKind::Memory),
        (0x1234_5678, FileSystemKind::Local),
    ] {
        assert_eq!(FileSystem::of_magic(magic).kind, kind, "{magic:x}");
    }
}
