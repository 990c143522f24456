//! What `check` says of versions and of time that is over, and which file systems are refused.

use std::time::Duration;

use bandog_core::{Clock, Level};

use crate::{
    SqliteOptions,
    check::database::{integrity, version},
    disk::{FileSystem, Kind},
    open::{Purpose, Store, not_local},
    patience, sql,
};

#[test]
fn versions_that_may_damage_a_database_are_told() {
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
fn a_database_that_cannot_be_looked_through_in_time_is_told() {
    let place = tempfile::tempdir().unwrap();
    let options = SqliteOptions::at(place.path().join("locks.db"));
    patience::wait_until(Clock::system().now() + Duration::from_secs(10));
    let mut store = Store::open(&options, Purpose::Use).unwrap();
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

#[test]
fn file_systems_that_machines_share_are_refused_by_their_number() {
    // As `stat -f -c %t` prints them.
    let network =
        [0x6969, 0x517b, 0xfe53_4d42, 0xff53_4d42, 0x0102_1997, 0x6573_5546, 0x00c3_6400, 0x0bd0_0bd0, 0x0116_1970];
    for magic in network {
        let found = FileSystem::of_magic(magic);
        assert_eq!(found.kind, Kind::Network, "{magic:x}");
        let says = not_local("/mnt/locks.db".as_ref(), found.called());
        assert!(says.contains("/mnt/locks.db") && says.contains(found.called()) && says.contains("server"), "{says}");
    }
    for (magic, kind) in [
        (0xef53, Kind::Local),
        (0x5846_5342, Kind::Local),
        (0x9123_683e, Kind::Local),
        (0x794c_7630, Kind::Layered),
        (0x0102_1994, Kind::Memory),
        (0x1234_5678, Kind::Local),
    ] {
        assert_eq!(FileSystem::of_magic(magic).kind, kind, "{magic:x}");
    }
}
