//! The files beside the database are deleted under the feet of those who have them open.

use std::fs;

use bandog_core::{Inspect, Leases, Level, Renewal};
use rusqlite::Connection;

use crate::{
    child::{SOON, start},
    obeying::{Other, is_open},
    support::{Place, TTL, claim, eventually, release, renew, take},
};

const BOTH: &[&str] = &["-wal", "-shm"];
const EACH: [&[&str]; 3] = [BOTH, &["-wal"], &["-shm"]];

fn delete(place: &Place, endings: &[&str]) {
    for ending in endings {
        fs::remove_file(place.path().with_file_name(format!("locks.db{ending}"))).unwrap();
    }
}

async fn is_whole(place: &Place) {
    let findings = place.open().check().await.unwrap();
    assert!(findings.iter().all(|finding| finding.level != Level::Danger), "{findings:?}");
}

#[tokio::test]
async fn a_lock_has_one_holder_after_somebody_new_has_opened_the_files() {
    for files in EACH {
        let place = Place::new();
        let (mut first, mut second) = (Other::at(&place.path()), Other::at(&place.path()));
        let old = first.take("k").unwrap();
        second.take("j").unwrap();
        delete(&place, files);
        let mut late = Other::at(&place.path());
        let new = late.take("k");
        if files == ["-shm"] {
            assert_eq!(new, None, "the log has it all");
            assert_eq!(first.ask("renew k"), "extended");
        } else {
            assert!(new.expect("what was in the log is lost") > old, "{files:?}");
            assert_eq!(first.ask("renew k"), "gone", "{files:?}");
        }
        assert_eq!((first.epoch(), second.epoch()), (2, 1), "whoever asks learns it");
        // From now on all see the same again.
        for (n, name) in ["a", "b", "c"].into_iter().enumerate() {
            let all = [&mut first, &mut second, &mut late];
            let mut granted: Vec<_> = all.into_iter().map(|other| other.take(name)).collect();
            granted.rotate_left(n);
            assert_eq!(granted.iter().flatten().count(), 1, "{files:?}: {granted:?}");
            assert_eq!(take(&place.open(), &claim(name, TTL)).await, None);
        }
        assert_eq!(second.epoch(), 2);
        is_whole(&place).await;
    }
}

#[tokio::test]
async fn a_record_is_swapped_once_after_somebody_new_has_opened_the_files() {
    for files in EACH {
        let place = Place::new();
        let mut first = Other::at(&place.path());
        let old: u64 = first.ask("put r 0 one").parse().unwrap();
        delete(&place, files);
        let mut late = Other::at(&place.path());
        if files == ["-shm"] {
            assert_eq!(late.ask("put r 0 two"), "differs");
            assert!(late.ask(&format!("put r {old} two")).parse::<u64>().unwrap() > old);
        } else {
            assert!(late.ask("put r 0 two").parse::<u64>().unwrap() > old, "versions rise");
        }
        assert_eq!(first.ask(&format!("put r {old} three")), "differs", "{files:?}");
        is_whole(&place).await;
    }
}

#[tokio::test]
async fn nothing_is_lost_when_one_who_has_the_files_open_asks_first() {
    for files in EACH {
        let place = Place::new();
        let (mut first, mut second) = (Other::at(&place.path()), Other::at(&place.path()));
        first.take("k").unwrap();
        second.take("j").unwrap();
        let version = first.ask("put r 0 one");
        delete(&place, files);
        assert_eq!(first.ask("renew k"), "extended", "{files:?}");
        let mut late = Other::at(&place.path());
        assert_eq!((late.take("k"), late.take("j")), (None, None), "{files:?}");
        assert_eq!(late.ask("put r 0 two"), "differs");
        assert_eq!(second.ask("renew j"), "extended", "{files:?}");
        assert!(second.ask(&format!("put r {version} two")).parse::<u64>().is_ok());
        assert_eq!(first.epoch(), 2, "whoever asks learns it");
        is_whole(&place).await;
    }
}

#[tokio::test]
async fn a_log_is_not_saved_under_the_feet_of_a_process_that_has_the_new_files_open() {
    for files in [BOTH, &["-wal"]] {
        let place = Place::new();
        let mut first = Other::at(&place.path());
        let raw = Connection::open(place.path()).unwrap();
        raw.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(())).unwrap();
        drop(raw);
        first.take("k").unwrap();
        delete(&place, files);
        let mut late = Other::at(&place.path()); // The tables are there, so it has written nothing.
        assert_eq!(first.ask("renew k"), "gone", "{files:?}");
        assert!(late.take("k").is_some());
        assert_eq!((first.take("k"), late.epoch()), (None, 1), "{files:?}");
        is_whole(&place).await;
    }
}

/// The write lock is awaited in files that were there when the request began.
#[tokio::test]
async fn a_request_that_was_waiting_when_the_files_were_deleted_is_done_in_the_new_ones() {
    for files in EACH {
        let place = Place::new();
        let mut first = Other::at(&place.path());
        let version = first.ask("put r 0 one");
        let writer = start("lock", &place.path(), TTL);
        writer.stdout_line("locked", SOON);
        first.tell("take k");
        first.waits_for_a_writer();
        delete(&place, files);
        let mut late = Other::at(&place.path());
        late.take("k").unwrap();
        late.tell("put r 0 two");
        late.answer();
        writer.kill();
        assert_eq!(first.answer(), "busy", "{files:?}");
        let _ = first.ask(&format!("put r {version} three"));
        is_whole(&place).await;
    }
}

#[tokio::test]
async fn a_process_that_is_stopped_in_a_write_into_a_deleted_log_is_waited_for_and_named() {
    let place = Place::new();
    let mut first = Other::at(&place.path());
    first.take("k").unwrap();
    let writer = start("lock", &place.path(), TTL);
    writer.stdout_line("locked", SOON);
    delete(&place, BOTH);
    let answer = first.ask("renew k");
    let pid = writer.pid().to_string();
    assert!(answer.contains(&pid) && answer.contains("deleted or replaced"), "{answer}");
    writer.kill();
    assert_eq!(first.ask("renew k"), "extended");
    assert_eq!(Other::at(&place.path()).take("k"), None, "nothing was lost");
}

#[tokio::test]
async fn a_process_that_ends_takes_nothing_from_those_who_opened_the_files_anew() {
    for files in EACH {
        let place = Place::new();
        let mut idle = Other::at(&place.path());
        idle.take("k").unwrap();
        delete(&place, files);
        let mut late = Other::at(&place.path());
        late.take("k");
        late.take("j").unwrap();
        late.end();
        idle.end();
        let mut last = Other::at(&place.path());
        assert_eq!((last.take("k"), last.take("j")), (None, None), "{files:?}");
        is_whole(&place).await;
    }
}

#[tokio::test]
async fn handles_of_one_process_go_on_together() {
    for files in EACH {
        let place = Place::new();
        let (first, second) = (place.open(), place.open());
        let (ours, theirs) = (claim("k", TTL), claim("j", TTL));
        take(&first, &ours).await.unwrap();
        take(&second, &theirs).await.unwrap();
        delete(&place, files);
        assert!(matches!(renew(&first, &ours).await, Renewal::Extended { .. }), "{files:?}");
        let mut late = Other::at(&place.path());
        assert_eq!((late.take("k"), late.take("j")), (None, None), "{files:?}");
        let new = late.take("new");
        assert!(new.is_some());
        for store in [&first, &second] {
            assert_eq!(take(store, &claim("new", TTL)).await, None, "{files:?}");
        }
        assert!(matches!(renew(&second, &theirs).await, Renewal::Extended { .. }), "{files:?}");
        assert_eq!((*first.profile().epoch.borrow(), *second.profile().epoch.borrow()), (2, 2));
        is_whole(&place).await;
    }
}

#[tokio::test]
async fn a_database_that_was_deleted_alone_is_new_to_every_process() {
    let place = Place::new();
    let mut first = Other::at(&place.path());
    let old = first.take("k").unwrap();
    delete(&place, &[""]);
    let mut late = Other::at(&place.path());
    assert!(late.take("k").expect("the new file knows of nobody") > old);
    assert_eq!(first.ask("renew k"), "gone");
    assert_eq!(first.take("k"), None);
    is_whole(&place).await;
}

#[tokio::test]
async fn files_that_were_deleted_while_nobody_had_them_open_take_what_was_not_in_the_database() {
    for files in EACH {
        let place = Place::new();
        let mut killed = Other::at(&place.path());
        let old = killed.take("k").unwrap();
        killed.process().kill();
        killed.process().wait(SOON);
        delete(&place, files);
        let mut late = Other::at(&place.path());
        let new = late.take("k");
        assert_eq!(new.is_none(), files == ["-shm"], "{files:?}");
        assert!(new.is_none_or(|new| new > old));
        is_whole(&place).await;
    }
}

#[tokio::test]
async fn what_sqlite_does_to_its_files_is_no_alarm() {
    let place = Place::new();
    let (mut other, ours) = (Other::at(&place.path()), claim("k", TTL));
    for round in 0..5 {
        let store = place.open();
        take(&store, &ours).await.unwrap();
        other.take(&format!("n{round}")).unwrap();
        let raw = Connection::open(place.path()).unwrap();
        for pragma in ["wal_checkpoint(passive)", "wal_checkpoint(restart)", "wal_checkpoint(truncate)"] {
            raw.query_row(&format!("pragma {pragma}"), [], |_| Ok(())).unwrap();
            release(&store, &ours).await;
            take(&store, &ours).await.unwrap();
        }
        raw.execute_batch("vacuum").unwrap();
        release(&store, &ours).await;
        assert_eq!((*store.profile().epoch.borrow(), other.epoch()), (1, 1));
    }
    eventually("this process has closed it", async || !is_open(&place.path())).await;
    other.end();
    assert!(!place.path().with_file_name("locks.db-wal").exists(), "the last one takes the log with it");
    let mut again = Other::at(&place.path());
    assert_eq!((again.take("n0"), again.epoch()), (None, 1));
}
