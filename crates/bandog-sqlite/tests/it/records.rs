//! Records: the same as the reference, between processes, and after bad days.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use bandog_core::{
    Backend, Clock, ErrorKind, Holding, Key, Leases, Line, Memory, Pattern, Reading, Record, Records, Step, Swap,
    Swapped, Version,
};
use bandog_sqlite::Sqlite;
use rusqlite::Connection;

use crate::support::{Place, TTL, claim, eventually, release, take};

const HOUR: Duration = Duration::from_secs(3600);

pub(crate) fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

pub(crate) async fn swap(store: &impl Records, swap: Swap) -> Swapped {
    store.swap(&[swap]).await.unwrap().each.remove(0).unwrap()
}

/// The version that it has now.
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
async fn a_record_is_made_swapped_and_deleted() {
    let place = Place::new();
    let (here, there) = (place.open(), place.open());
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
    assert!(put(&there, "r", None, "four").await > second, "a version came twice");
}

#[tokio::test]
async fn a_version_is_the_machine_s_time_and_the_time_is_always_told() {
    let place = Place::new();
    let store = place.open();
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
async fn lines_stand_in_their_slots_and_go_with_their_record() {
    let place = Place::new();
    let store = place.open();
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
    assert_eq!(store.history(&key("r")).await.unwrap(), [], "an old history has come back");
    assert_eq!(store.history(&key("other")).await.unwrap(), [line("a", "theirs")]);
}

#[tokio::test]
async fn conditions_are_looked_at_in_their_order() {
    let place = Place::new();
    let (store, ours) = (place.open(), claim("lock", TTL));
    let holding = |id| Some(Holding { key: ours.key.clone(), id });
    let all =
        Swap { not_before: Some(SystemTime::now() + HOUR), held: holding(ours.id), ..Swap::new(key("r"), None, "") };
    let Swapped::Early(missing) = swap(&store, all.clone()).await else { panic!() };
    assert!(HOUR - Duration::from_secs(60) < missing && missing < HOUR, "{missing:?}");
    let due = Swap { not_before: Some(SystemTime::now()), ..all.clone() };
    assert_eq!(swap(&store, due.clone()).await, Swapped::NotHeld);
    take(&store, &ours).await.unwrap();
    assert_eq!(swap(&store, Swap { held: holding(claim("lock", TTL).id), ..due.clone() }).await, Swapped::NotHeld);
    assert!(matches!(swap(&store, due.clone()).await, Swapped::Done(Some(_))));
    assert!(matches!(swap(&store, all).await, Swapped::Differs(Some(_))), "the version comes first");
    release(&store, &ours).await;
    let from = get(&store, "r").await.map(|record| record.version);
    assert_eq!(swap(&store, Swap { from, ..due }).await, Swapped::NotHeld);
}

#[tokio::test]
async fn a_holding_stands_until_its_lease_ends() {
    let place = Place::new();
    let (store, brief, lasting) = (place.open(), claim("brief", Duration::from_millis(100)), claim("lasting", TTL));
    let holdings = [&brief, &lasting].map(|claim| Holding { key: claim.key.clone(), id: claim.id });
    let held = async || {
        let reading = place.open().read(&[], &holdings).await.unwrap();
        reading.held.into_iter().map(Result::unwrap).collect::<Vec<_>>()
    };
    assert_eq!(held().await, [false, false]);
    store.apply(&[Step::Claim(lasting.clone()), Step::Claim(brief)]).await;
    assert!(held().await[1]);
    eventually("it has run out", async || held().await == [false, true]).await;
    let next = claim("lasting", TTL);
    store.apply(&[Step::Pass { from: lasting, to: next }]).await;
    assert_eq!(held().await, [false, false]);
}

#[tokio::test]
async fn records_and_locks_do_not_meet_and_names_may_be_odd() {
    let place = Place::new();
    let store = place.open();
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

/// The reference and this backend are asked the same at random, and answer the same.
#[tokio::test]
async fn it_answers_what_the_reference_answers() {
    let (place, memory) = (Place::new(), Memory::new(Clock::system()));
    let (mut real, mut model) = (Asked::new(place.open()), Asked::new(memory));
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
        let (a, b) = (real.ask(&step, &asked, &claims).await, model.ask(&step, &asked, &claims).await);
        assert_eq!(a, b, "round {round}: {asked:?}");
    }
}

/// A store, and the versions that it has told of.
struct Asked<B> {
    store: B,
    known: BTreeMap<String, Option<Version>>,
}

impl<B: Backend> Asked<B> {
    fn new(store: B) -> Self {
        Self { store, known: BTreeMap::new() }
    }

    /// What it answers, without versions and times, which are its own.
    async fn ask(&mut self, step: &Step, asked: &[[u64; 6]], claims: &[bandog_core::Claim; 2]) -> Vec<String> {
        self.store.apply(std::slice::from_ref(step)).await;
        let swaps: Vec<Swap> = asked.iter().map(|numbers| self.swap(numbers, claims)).collect();
        let mut said = Vec::new();
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
            said.push(text);
        }
        let names = self.store.names(&Pattern::all()).await.unwrap();
        let holdings = claims.each_ref().map(|claim| Holding { key: claim.key.clone(), id: claim.id });
        let reading = self.store.read(&names, &holdings).await.unwrap();
        for (name, record) in names.iter().zip(reading.records) {
            let history = self.store.history(name).await.unwrap();
            said.push(format!("{name:?} {:?} {history:?}", record.unwrap().unwrap().value));
        }
        said.push(format!("{:?}", reading.held.into_iter().map(Result::unwrap).collect::<Vec<_>>()));
        said
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
            key,
        }
    }
}

#[tokio::test]
async fn one_bad_record_fails_by_itself() {
    let place = Place::new();
    let store = place.open();
    let good = put(&store, "good", None, "").await;
    for name in ["negative", "zero"] {
        put(&store, name, None, "").await;
    }
    let raw = Connection::open(place.path()).unwrap();
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
    assert_eq!(reading.remove(1).unwrap(), None, "half of a swap was done");
    assert_eq!(reading.remove(0).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(store.history(&key("half")).await.unwrap(), []);
}

#[tokio::test]
async fn who_must_find_a_database_makes_none_and_changes_none() {
    let place = Place::new();
    let looking = Sqlite::new(place.options().must_exist()).unwrap();
    let fails = async || {
        let errors = [
            looking.read(&[key("r")], &[]).await.unwrap_err(),
            looking.names(&Pattern::all()).await.unwrap_err(),
            looking.history(&key("r")).await.unwrap_err(),
            looking.swap(&[Swap::new(key("r"), None, "")]).await.unwrap_err(),
        ];
        errors.map(|error| (error.kind(), error.verb()))
    };
    let verbs = ["read", "names", "history", "swap"].map(|verb| (ErrorKind::Unavailable, Some(verb)));
    assert_eq!(fails().await, verbs);
    assert!(!place.path().exists());
    assert_eq!(get(&place.open(), "r").await, None);
    put(&looking, "r", None, "found").await;
}
