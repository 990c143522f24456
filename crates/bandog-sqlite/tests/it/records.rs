//! Records: their answers, compared with those of the reference backend (`Memory`), several processes, and faults.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, SystemTime},
};

use bandog_core::{
    Backend, Clock, ErrorKind, Holding, Key, Leases, Line, Memory, Pattern, Reading, Record, Records, Released, Step,
    Swap, Swapped, Version,
};
use bandog_sqlite::Sqlite;
use rusqlite::Connection;

use crate::{
    child::{SOON, start},
    support::{TTL, TestDir, busy, claim, eventually, release, take},
};

const HOUR: Duration = Duration::from_secs(3600);

pub(crate) fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

pub(crate) async fn swap(store: &impl Records, swap: Swap) -> Swapped {
    store.swap(&[swap]).await.unwrap().each.remove(0).unwrap()
}

/// Writes a record. Returns its new version.
pub(crate) async fn put(store: &impl Records, name: &str, from: Option<Version>, to: &str) -> Option<Version> {
    match swap(store, Swap::new(key(name), from, to)).await {
        Swapped::Done(version) => version,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn get(store: &impl Records, name: &str) -> Option<Record> {
    read(store, &[name]).await.records.remove(0).unwrap()
}

async fn read(store: &impl Records, names: &[&str]) -> Reading {
    store.read(&names.iter().map(|name| key(name)).collect::<Vec<_>>(), &[]).await.unwrap()
}

fn line(slot: &str, value: &str) -> Line {
    Line { slot: slot.into(), value: value.into() }
}

#[tokio::test]
async fn a_record_is_created_swapped_and_deleted() {
    let dir = TestDir::new();
    let (here, there) = (dir.open(), dir.open());
    assert_eq!(get(&here, "r").await, None);
    let first = put(&here, "r", None, "one").await;
    assert_eq!(get(&there, "r").await, Some(Record { version: first.unwrap(), value: "one".into() }));
    let second = put(&there, "r", first, "two").await;
    assert!(second > first);
    for stale in [None, first, Version::new(u64::MAX)] {
        let differs = swap(&here, Swap::new(key("r"), stale, "stale")).await;
        assert_eq!(differs, Swapped::Differs(Some(Record { version: second.unwrap(), value: "two".into() })));
    }
    assert_eq!(swap(&here, Swap { to: None, ..Swap::new(key("r"), second, "") }).await, Swapped::Done(None));
    assert_eq!(get(&there, "r").await, None);
    assert_eq!(swap(&here, Swap::new(key("r"), second, "three")).await, Swapped::Differs(None));
    assert!(put(&there, "r", None, "four").await > second, "a version was used twice");
}

#[tokio::test]
async fn a_version_is_the_machine_s_time_and_the_time_is_always_returned() {
    let dir = TestDir::new();
    let store = dir.open();
    let before = SystemTime::now();
    let made = store.swap(&[Swap::new(key("r"), None, "")]).await.unwrap();
    let read = store.read(&[], &[]).await.unwrap();
    let after = SystemTime::now();
    assert!(before <= made.now && made.now <= read.now && read.now <= after);
    let Ok(Swapped::Done(Some(version))) = made.each[0] else { panic!("{made:?}") };
    assert_eq!(version, Version::after(None, made.now));
    assert!(store.swap(&[]).await.unwrap().each.is_empty());
}

#[tokio::test]
async fn lines_are_stored_by_slot_and_deleted_with_their_record() {
    let dir = TestDir::new();
    let store = dir.open();
    let with = |from, lines| Swap { lines, ..Swap::new(key("r"), from, "") };
    let first = put(&store, "other", None, "").await;
    swap(&store, Swap { lines: vec![line("a", "theirs")], ..Swap::new(key("other"), first, "") }).await;
    let Swapped::Done(version) = swap(&store, with(None, vec![line("b", "1"), line("a", "2"), line("b", "3")])).await
    else {
        panic!()
    };
    assert_eq!(store.history(&key("r")).await.unwrap(), [line("a", "2"), line("b", "3")]);
    assert!(matches!(swap(&store, with(None, vec![line("a", "refused")])).await, Swapped::Differs(_)));
    let Swapped::Done(version) = swap(&store, with(version, vec![line("a\u{e4} '%", "x\0\n")])).await else { panic!() };
    assert_eq!(store.history(&key("r")).await.unwrap(), [line("a", "2"), line("a\u{e4} '%", "x\0\n"), line("b", "3")]);
    swap(&store, Swap { to: None, ..with(version, vec![line("c", "last")]) }).await;
    assert_eq!(store.history(&key("r")).await.unwrap(), []);
    put(&store, "r", None, "").await;
    assert_eq!(store.history(&key("r")).await.unwrap(), [], "the old history was not deleted");
    assert_eq!(store.history(&key("other")).await.unwrap(), [line("a", "theirs")]);
}

#[tokio::test]
async fn conditions_are_checked_in_their_order() {
    let dir = TestDir::new();
    let (store, ours) = (dir.open(), claim("lock", TTL));
    let holding = |id| Some(Holding { key: ours.key.clone(), id });
    let all =
        Swap { not_before: Some(SystemTime::now() + HOUR), held: holding(ours.id), ..Swap::new(key("r"), None, "") };
    let Swapped::Early(time_left) = swap(&store, all.clone()).await else { panic!("the swap is not early") };
    assert!(HOUR - Duration::from_secs(60) < time_left && time_left < HOUR, "{time_left:?}");
    let due = Swap { not_before: Some(SystemTime::now()), ..all.clone() };
    assert_eq!(swap(&store, due.clone()).await, Swapped::NotHeld);
    take(&store, &ours).await.unwrap();
    assert_eq!(swap(&store, Swap { held: holding(claim("lock", TTL).id), ..due.clone() }).await, Swapped::NotHeld);
    assert!(matches!(swap(&store, due.clone()).await, Swapped::Done(Some(_))));
    assert!(matches!(swap(&store, all).await, Swapped::Differs(Some(_))), "the version was not checked first");
    release(&store, &ours).await;
    let from = get(&store, "r").await.map(|record| record.version);
    assert_eq!(swap(&store, Swap { from, ..due }).await, Swapped::NotHeld);
}

#[tokio::test]
async fn a_holding_is_valid_until_its_lease_expires() {
    let dir = TestDir::new();
    let (store, brief, lasting) = (dir.open(), claim("brief", Duration::from_millis(100)), claim("lasting", TTL));
    let holdings = [&brief, &lasting].map(|claim| Holding { key: claim.key.clone(), id: claim.id });
    let held = async || {
        let reading = dir.open().read(&[], &holdings).await.unwrap();
        reading.held.into_iter().map(Result::unwrap).collect::<Vec<_>>()
    };
    assert_eq!(held().await, [false, false]);
    store.apply(&[Step::Claim(lasting.clone()), Step::Claim(brief)]).await;
    assert!(held().await[1]);
    eventually("the first hold has expired", async || held().await == [false, true]).await;
    let next = claim("lasting", TTL);
    store.apply(&[Step::Pass { from: Box::new(lasting), to: next }]).await;
    assert_eq!(held().await, [false, false]);
}

#[tokio::test]
async fn records_and_locks_with_the_same_names_are_independent_and_names_may_be_unusual() {
    let dir = TestDir::new();
    let store = dir.open();
    let long = "\u{1f415}".repeat(256);
    let odd = ["a", "A", "a ", "'; drop table record; --", "%_*?[]\\", "\u{e4}", "a\u{308}", &long, "job/x:y"];
    let mut versions = BTreeMap::new();
    for name in odd {
        take(&store, &claim(name, TTL)).await.unwrap();
        versions.insert(name, put(&store, name, None, name).await.unwrap());
    }
    let mut sorted = odd;
    sorted.sort_unstable();
    let names = store.names(&Pattern::all()).await.unwrap();
    assert_eq!(names.iter().map(Key::as_str).collect::<Vec<_>>(), sorted);
    let reading = read(&store, &odd).await;
    for (name, record) in odd.iter().zip(reading.records) {
        assert_eq!(record.unwrap(), Some(Record { version: versions[name], value: (*name).into() }));
    }
    let one = store.names(&Pattern::exactly(&key("%_*?[]\\"))).await.unwrap();
    assert_eq!(one, [key("%_*?[]\\")]);
    assert_eq!(store.names(&Pattern::new("a*")).await.unwrap().len(), 3);
}

/// The reference backend and this backend get the same random requests. Their answers must be equal.
#[tokio::test]
async fn the_answers_are_those_of_the_reference_backend() {
    let (dir, memory) = (TestDir::new(), Memory::new(Clock::system()));
    let (mut sqlite, mut reference) = (StoreUnderTest::new(dir.open()), StoreUnderTest::new(memory));
    let mut seed = 0x62_64_6f_67_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let claims = ["x", "y"].map(|name| claim(name, TTL));
    for round in 0..400 {
        let claim = &claims[usize::try_from(random(2)).unwrap()];
        let step = if random(2) == 0 { Step::Claim(claim.clone()) } else { Step::Release(claim.clone()) };
        let asked: Vec<[u64; 6]> = (0..random(5)).map(|_| [3, 4, 8, 3, 3, 3].map(&mut random)).collect();
        let answers = sqlite.request(&step, &asked, &claims).await;
        let expected = reference.request(&step, &asked, &claims).await;
        assert_eq!(answers, expected, "round {round}: {asked:?}");
    }
}

/// A store, and the versions that it has returned.
struct StoreUnderTest<B> {
    store: B,
    known: BTreeMap<String, Option<Version>>,
}

impl<B: Backend> StoreUnderTest<B> {
    fn new(store: B) -> Self {
        Self { store, known: BTreeMap::new() }
    }

    /// Sends the requests. Returns the answers without versions and times, which differ between stores.
    async fn request(&mut self, step: &Step, asked: &[[u64; 6]], claims: &[bandog_core::Claim; 2]) -> Vec<String> {
        self.store.apply(std::slice::from_ref(step)).await;
        let swaps: Vec<Swap> = asked.iter().map(|numbers| self.swap(numbers, claims)).collect();
        let mut answers = Vec::new();
        for (swap, answer) in swaps.iter().zip(self.store.swap(&swaps).await.unwrap().each) {
            let (text, version) = match answer.unwrap() {
                Swapped::Done(version) => (format!("done {}", version.is_some()), version),
                Swapped::Differs(record) => {
                    let version = record.as_ref().map(|record| record.version);
                    (format!("differs {:?}", record.map(|record| record.value)), version)
                }
                Swapped::Early(_) => ("early".into(), swap.from),
                Swapped::NotHeld => ("not held".into(), swap.from),
            };
            self.known.insert(swap.key.to_string(), version);
            answers.push(text);
        }
        let names = self.store.names(&Pattern::all()).await.unwrap();
        let holdings = claims.each_ref().map(|claim| Holding { key: claim.key.clone(), id: claim.id });
        let reading = self.store.read(&names, &holdings).await.unwrap();
        for (name, record) in names.iter().zip(reading.records) {
            let history = self.store.history(name).await.unwrap();
            answers.push(format!("{name:?} {:?} {history:?}", record.unwrap().unwrap().value));
        }
        answers.push(format!("{:?}", reading.held.into_iter().map(Result::unwrap).collect::<Vec<_>>()));
        answers
    }

    fn swap(&self, [name, from, to, lines, not_before, held]: &[u64; 6], claims: &[bandog_core::Claim; 2]) -> Swap {
        let key = key(["a", "b", "b/c"][usize::try_from(*name).unwrap()]);
        let known = self.known.get(key.as_str()).copied().flatten();
        let claim = claims.get(usize::try_from(*held).unwrap());
        Swap {
            from: if *from == 0 { None } else { known },
            to: (*to > 1).then(|| to.to_string()),
            lines: (0..*lines).map(|n| line(&n.to_string(), &to.to_string())).collect(),
            not_before: match not_before {
                0 => None,
                1 => Some(SystemTime::now() - HOUR),
                _ => Some(SystemTime::now() + HOUR),
            },
            held: claim.map(|claim| Holding { key: claim.key.clone(), id: claim.id }),
            notifies: *lines > 0,
            key,
        }
    }
}

#[tokio::test]
async fn a_bad_record_does_not_affect_the_other_swaps() {
    let dir = TestDir::new();
    let store = dir.open();
    let good = put(&store, "good", None, "").await;
    for name in ["negative", "zero"] {
        put(&store, name, None, "").await;
    }
    let raw = Connection::open(dir.path()).unwrap();
    raw.execute_batch(
        "update record set version = -5 where name = 'negative'; update record set version = 0 where name = 'zero';
         create trigger picky before insert on line when new.slot = 'bad' begin select raise(abort, 'no'); end",
    )
    .unwrap();
    let bad = |name| Swap::new(key(name), good, "changed");
    let half = Swap { lines: vec![line("fine", ""), line("bad", "")], ..Swap::new(key("half"), None, "half") };
    let swaps = [bad("negative"), half, Swap::new(key("good"), good, "changed"), bad("zero")];
    let each = store.swap(&swaps).await.unwrap().each;
    let kinds: Vec<_> = each.iter().map(|each| each.as_ref().map_err(bandog_core::Error::kind).err()).collect();
    assert_eq!(kinds, [Some(ErrorKind::Corrupt), Some(ErrorKind::Unavailable), None, Some(ErrorKind::Corrupt)]);
    let error = each[0].as_ref().unwrap_err();
    assert_eq!((error.verb(), error.key(), error.maybe_applied()), (Some("swap"), Some(&key("negative")), false));
    let mut reading = read(&store, &["negative", "half", "good"]).await.records;
    assert_eq!(reading.remove(2).unwrap().unwrap().value, "changed");
    assert_eq!(reading.remove(1).unwrap(), None, "half of a swap was applied");
    assert_eq!(reading.remove(0).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(store.history(&key("half")).await.unwrap(), []);
}

#[tokio::test]
async fn a_handle_that_must_not_create_a_database_reports_that_it_is_missing() {
    let dir = TestDir::new();
    let handle = Sqlite::new(dir.options().must_exist()).unwrap();
    let fails = async || {
        let errors = [
            handle.read(&[key("r")], &[]).await.unwrap_err(),
            handle.names(&Pattern::all()).await.unwrap_err(),
            handle.history(&key("r")).await.unwrap_err(),
            handle.swap(&[Swap::new(key("r"), None, "")]).await.unwrap_err(),
        ];
        errors.map(|error| (error.kind(), error.verb()))
    };
    let verbs = ["read", "names", "history", "swap"].map(|verb| (ErrorKind::Unavailable, Some(verb)));
    assert_eq!(fails().await, verbs);
    assert!(!dir.path().exists());
    assert_eq!(get(&dir.open(), "r").await, None);
    put(&handle, "r", None, "found").await;
}

// Promise: SQ7
#[tokio::test]
async fn a_waiting_swap_blocks_no_queries_and_no_refused_requests() {
    let dir = TestDir::new();
    let (store, held) = (dir.open(), claim("held", TTL));
    take(&store, &held).await.unwrap();
    let version = put(&store, "r", None, "").await;
    let writer = Connection::open(dir.path()).unwrap();
    writer.execute_batch("begin immediate").unwrap();
    let swapping = swap(&store, Swap::new(key("r"), version, "later"));
    let reading = async {
        for _ in 0..20 {
            busy(&store, &claim("held", TTL)).await;
            assert_eq!(get(&store, "r").await.unwrap().value, "");
            let refused = Swap { not_before: Some(SystemTime::now() + HOUR), ..Swap::new(key("other"), None, "") };
            assert!(matches!(swap(&dir.open(), refused).await, Swapped::Early(_)), "the swap was not refused");
        }
        writer.execute_batch("rollback").unwrap();
    };
    let (swapped, ()) = tokio::join!(swapping, reading);
    assert!(matches!(swapped, Swapped::Done(_)));
}

#[tokio::test]
async fn a_swap_that_timed_out_in_the_queue_was_not_applied() {
    let dir = TestDir::new();
    // The writer gives up before the caller: with this timeout, 100 ms before.
    let store = Sqlite::new(dir.options().timeout(Duration::from_secs(2))).unwrap();
    let version = put(&store, "r", None, "").await;
    let writer = Connection::open(dir.path()).unwrap();
    writer.execute_batch("begin immediate").unwrap();
    let error = store.swap(&[Swap::new(key("r"), version, "never")]).await.unwrap_err();
    assert_eq!((error.kind(), error.verb(), error.maybe_applied()), (ErrorKind::Unavailable, Some("swap"), false));
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    writer.execute_batch("rollback").unwrap();
    assert_eq!(get(&store, "r").await.unwrap().value, "");
    put(&store, "r", version, "at last").await;
}

// Promise: SQ7
#[tokio::test]
async fn locks_are_taken_and_released_while_records_are_swapped() {
    let dir = TestDir::new();
    let store = dir.open();
    let done = AtomicBool::new(false);
    let locking = async {
        for n in 0..300 {
            let ours = claim(&format!("k{}", n % 7), TTL);
            take(&store, &ours).await.unwrap();
            assert_eq!(release(&store, &ours).await, Released::Freed { others: Some(0) });
        }
        done.store(true, Ordering::Relaxed);
    };
    let swapping = async |name: &str| {
        let (mut version, mut count) = (None, 0);
        while !done.load(Ordering::Relaxed) {
            version = put(&store, name, version, &"x".repeat(count % 5000)).await;
            count += 1;
        }
        count
    };
    let ((), a, b, c) = tokio::join!(locking, swapping("a"), swapping("b"), swapping("c"));
    assert!(a > 0 && b > 0 && c > 0, "{a} {b} {c}");
}

// Promise: SQ9
#[test]
fn processes_that_swap_one_record_lose_no_increment() {
    const LONG: Duration = Duration::from_secs(120); // The machine may be busy with other programs.
    const EACH: u64 = 500;
    let dir = TestDir::new();
    let children: Vec<_> = (0..4).map(|_| start("increment", &dir.path(), TTL)).collect();
    let mut versions = BTreeSet::new();
    for mut child in children {
        assert!(child.wait(LONG).success(), "{:?}", child.stderr());
        for line in child.stdout().iter().filter_map(|line| line.strip_prefix("swapped ")) {
            assert!(versions.insert(line.to_owned()), "two swaps were answered with the version {line}");
        }
    }
    assert_eq!(versions.len(), 4 * usize::try_from(EACH).unwrap());
    let raw = Connection::open(dir.path()).unwrap();
    let count: String = raw.query_row("select value from record where name = 'r'", [], |row| row.get(0)).unwrap();
    assert_eq!(count, (4 * EACH).to_string());
}

/// The role `increment` of a child: it increments the record repeatedly.
pub(crate) async fn increment(store: &Sqlite) {
    let mut record = get(store, "r").await;
    let mut done = 0;
    while done < 500 {
        let count: u64 = record.as_ref().map_or(0, |record| record.value.parse().unwrap());
        let from = record.as_ref().map(|record| record.version);
        let next = (count + 1).to_string();
        record = match swap(store, Swap::new(key("r"), from, &*next)).await {
            Swapped::Done(version) => {
                let version = version.unwrap();
                println!("swapped {version}");
                done += 1;
                Some(Record { version, value: next })
            }
            Swapped::Differs(present) => present,
            other => panic!("{other:?}"),
        };
    }
}

// Promise: SQ9
#[tokio::test]
async fn answered_swaps_of_killed_processes_are_kept_and_each_swap_is_done_completely_or_not_at_all() {
    let dir = TestDir::new();
    let mut min_counts: BTreeMap<String, u64> = BTreeMap::new();
    for round in 0..6 {
        let children: Vec<_> = (0..3).map(|_| start("traffic", &dir.path(), TTL)).collect();
        for child in &children {
            // Each child is killed after an answer, at a different point of its work.
            for _ in 0..5 + round * 7 {
                child.stdout_line("answered", SOON);
            }
            child.kill();
        }
        for mut child in children {
            child.wait(SOON);
            let lines = child.stdout();
            let answered = lines.iter().filter_map(|line| line.strip_prefix("answered ")?.split_once(' '));
            for (name, count) in answered {
                // If the kill has cut off the last line, the line contains a smaller number.
                min_counts
                    .entry(name.into())
                    .and_modify(|most| *most = (*most).max(count.parse().unwrap()))
                    .or_insert(0);
            }
        }
        let store = dir.open();
        for (name, most) in &min_counts {
            let found = get(&store, name).await.expect("an answered record is missing");
            let count: u64 = found.value.parse().unwrap();
            assert!(count >= *most, "{name} is {count}, but {most} was answered");
            let history = store.history(&key(name)).await.unwrap();
            assert_eq!(history, [line("a", &found.value), line("b", &found.value)], "half of a swap was applied");
        }
        let raw = Connection::open(dir.path()).unwrap();
        let found: String = raw.query_row("pragma integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(found, "ok");
    }
    assert_eq!(min_counts.len(), 18);
}

/// The role `traffic` of a child: it writes rising numbers to a record and its history until it is killed.
pub(crate) async fn traffic(store: &Sqlite) {
    let name = format!("r{}", std::process::id());
    let (mut version, mut count) = (None, 0u64);
    loop {
        count += 1;
        let lines = ["a", "b"].map(|slot| line(slot, &count.to_string())).into();
        let next = Swap { lines, ..Swap::new(key(&name), version, count.to_string()) };
        let Swapped::Done(done) = swap(store, next).await else { panic!("another process has swapped it") };
        version = done;
        println!("answered {name} {count}");
    }
}
