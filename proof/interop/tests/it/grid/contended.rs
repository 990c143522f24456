//! Threads of Java and tasks of Rust change one object at the same time. Each reports its successful changes, and the
//! sum of all reports must be what the object has at the end.
//!
//! Each test runs for two seconds, or for a minute with `BANDOG_TEST_LONG=1`.

mod journal;
mod killed;
mod queue;

use std::{
    collections::BTreeSet,
    env, fs,
    ops::Deref,
    time::{Duration, Instant},
};

use bandog::{
    ErrorKind,
    grid::{
        Grid, Map, Multimap,
        codec::{Decode, Encode, Kryo5, Text, TextJson, TypedJson},
    },
};
use bandog_interop::counter::Counter;
use tokio::task::JoinHandle;

use super::side::{HOUR, Side, Texts, s};
use crate::{counter_file::CounterFile, neighbour::PendingAnswer};

/// The number of JVMs, and of clients of bandog.
const SIDES: usize = 2;
/// The number of threads of each JVM, and of tasks of each client.
const EACH: usize = 2;

/// The time for which all change the object.
fn span() -> Duration {
    Duration::from_secs(if env::var_os("BANDOG_TEST_LONG").is_some() { 60 } else { 2 })
}

/// The time for which all change the object, as a word.
fn millis() -> String {
    span().as_millis().to_string()
}

/// The maximum time of a storm with its last answers.
fn limit() -> Duration {
    span() + Duration::from_secs(60)
}

impl Side {
    /// Starts a command on each thread of each JVM. `args` gives the arguments after the time, for the number of the
    /// thread.
    fn their_storms(&self, kind: &str, name: &str, args: impl Fn(usize) -> Vec<String>) -> Vec<PendingAnswer> {
        let millis = millis();
        let storm = |thread: usize| {
            let args = args(thread);
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let words = [&[kind, "storm", name, &millis], &args[..]].concat();
            self.javas[thread % SIDES].command(&format!("storm {thread}"), &words)
        };
        (0..SIDES * EACH).map(storm).collect()
    }

    /// Starts tasks that call `step` with the number of the task again and again.
    fn our_storms<T: Default + Send + 'static>(&self, step: impl AsyncStep<T>) -> Vec<JoinHandle<T>> {
        let until = Instant::now() + span();
        let storm = |task: usize| {
            let (grid, step) = (self.grids[task % SIDES].clone(), step.clone());
            tokio::spawn(async move {
                let mut report = T::default();
                while Instant::now() < until {
                    report = step.clone().run(grid.clone(), task, report).await;
                }
                report
            })
        };
        (0..SIDES * EACH).map(storm).collect()
    }
}

/// One change of an object, which is added to the report.
trait AsyncStep<T>: Clone + Send + 'static {
    fn run(self, grid: Grid, task: usize, report: T) -> impl Future<Output = T> + Send;
}

impl<T, F, R> AsyncStep<T> for F
where
    F: Fn(Grid, usize, T) -> R + Clone + Send + 'static,
    R: Future<Output = T> + Send,
{
    fn run(self, grid: Grid, task: usize, report: T) -> impl Future<Output = T> + Send {
        self(grid, task, report)
    }
}

/// Waits for answers, which have no errors.
fn answers(pending: Vec<PendingAnswer>) -> Vec<String> {
    let answer = |pending: PendingAnswer| {
        let answer = pending.answer(limit());
        assert!(!answer.starts_with("error "), "{answer}");
        answer
    };
    pending.into_iter().map(answer).collect()
}

async fn reports<T>(tasks: Vec<JoinHandle<T>>) -> Vec<T> {
    let mut reports = Vec::new();
    for task in tasks {
        reports.push(task.await.expect("no panic"));
    }
    reports
}

/// The sum of the numbers of each answer, which may have a letter for their type.
fn sums(answers: &[String], reports: &[Vec<i64>], count: usize) -> Vec<i64> {
    let numbers = |answer: &String| answer.split('\t').map(number).collect();
    let mut sums = vec![0; count];
    let mut changes = 0;
    for each in answers.iter().map(numbers).chain(reports.iter().cloned()) {
        let each: Vec<i64> = each;
        assert!(each.len() == count || each.is_empty(), "{each:?}");
        each.iter().zip(&mut sums).for_each(|(add, sum)| *sum += add);
        changes += usize::from(!each.is_empty());
    }
    assert_eq!(changes, 2 * SIDES * EACH, "each thread and each task has changed the object");
    sums
}

fn number(word: &str) -> i64 {
    word.trim_start_matches(char::is_alphabetic).parse().unwrap_or_else(|_| panic!("no number: {word}"))
}

fn random(below: usize) -> usize {
    let bytes = std::hash::BuildHasher::hash_one(&std::collections::hash_map::RandomState::new(), below);
    usize::try_from(bytes % below as u64).expect("small")
}

/// Adds to the number of this index of a report.
fn add(report: &mut Vec<i64>, count: usize, index: usize, by: i64) {
    report.resize(count, 0);
    report[index] += by;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_have_the_sum_of_all_additions() {
    let side = Side::start(SIDES).await;
    let theirs = side.their_storms("long", "n", |_| Vec::new());
    let ours = side.our_storms(async |grid: Grid, _: usize, sum: i64| {
        let counter = grid.counter("n").unwrap();
        let by = random(9) as i64 + 1;
        if by > 3 {
            counter.add(by).await.unwrap();
            return sum + by;
        }
        let before = counter.get().await.unwrap();
        sum + if counter.swap(before, before + by).await.unwrap() { by } else { 0 }
    });
    let (ours, theirs) = (reports(ours).await, answers(theirs));
    let sum = ours.iter().sum::<i64>() + theirs.iter().map(|sum| number(sum)).sum::<i64>();
    assert_eq!(side.grid().counter("n").unwrap().get().await.unwrap(), sum);
    println!("the sum is {sum}: {ours:?} {theirs:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn float_counters_have_the_sum_of_all_additions() {
    let side = Side::start(SIDES).await;
    let theirs = side.their_storms("double", "n", |_| Vec::new());
    let ours = side.our_storms(async |grid: Grid, _: usize, sum: f64| {
        let counter = grid.float_counter("n").unwrap();
        let by = (random(9) + 1) as f64 / 4.0;
        if by >= 1.0 {
            counter.add(by).await.unwrap();
            return sum + by;
        }
        let before = counter.get().await.unwrap();
        sum + if counter.swap(before, before + by).await.unwrap() { by } else { 0.0 }
    });
    let (ours, theirs) = (reports(ours).await, answers(theirs));
    let sum = ours.iter().sum::<f64>() + theirs.iter().map(|sum| sum[1..].parse::<f64>().unwrap()).sum::<f64>();
    assert_eq!(side.grid().float_counter("n").unwrap().get().await.unwrap(), sum);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_ids_are_different() {
    let side = Side::start(SIDES).await;
    let folder = tempfile::tempdir().unwrap();
    let path = |thread: usize| folder.path().join(thread.to_string()).display().to_string();
    assert_eq!(side.java("ids", "init", "ids", &["1", "7"]), "btrue");
    let theirs = side.their_storms("ids", "ids", |thread| vec![path(thread)]);
    let handles: Vec<_> = side.grids.iter().map(|grid| grid.ids("ids").unwrap()).collect();
    let ours = side.our_storms(move |_: Grid, task: usize, mut ids: Vec<i64>| {
        let handle = handles[task % SIDES].clone();
        async move {
            ids.push(handle.next().await.unwrap());
            ids
        }
    });
    let mut ids: Vec<i64> = reports(ours).await.concat();
    let (mine, theirs) = (ids.len(), answers(theirs).len());
    for thread in 0..theirs {
        ids.extend(lines(&path(thread)).iter().map(|line| line.parse::<i64>().unwrap()));
    }
    let (all, different) = (ids.len(), ids.iter().collect::<BTreeSet<_>>().len());
    assert_eq!(all, different);
    assert!(mine > 0 && all > mine && ids.iter().all(|id| *id > 0));
    println!("{all} ids, {mine} of Rust");
}

fn lines(path: &str) -> Vec<String> {
    fs::read_to_string(path).expect("a file").lines().map(str::to_owned).collect()
}

/// `update` beside `replace(key, old, new)` of Java, and beside its `addAndGet` (`+`).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn updates_of_maps_lose_no_addition() {
    let side = Side::start(SIDES).await;
    for kind in ["map", "timed"] {
        updates(&side, kind, "kryo5", "l", Kryo5).await;
        updates(&side, kind, "text", "s", Text).await;
        updates(&side, kind, "typed-json", "i", TypedJson).await;
        updates(&side, kind, "text-json", "i", TextJson).await;
        updates(&side, kind, "text", "+", Text).await;
    }
}

/// A map of this kind.
fn map_of<C: bandog::grid::codec::Codec>(grid: &Grid, kind: &str, name: &str, codec: C) -> Map<String, i64, C> {
    match kind {
        "timed" => grid.timed_map(name).unwrap().codec(codec).lasting(HOUR).unwrap().deref().clone(),
        _ => grid.map(name).unwrap().codec(codec),
    }
}

async fn updates<C>(side: &Side, kind: &'static str, codec: &str, letter: &str, c: C)
where
    C: Decode<i64> + Encode<i64> + bandog::grid::codec::Codec<Keys: Encode<str> + Encode<String>>,
{
    let name = format!("{kind}-{codec}-{letter}");
    let theirs = side.their_storms(&format!("{kind} {codec}"), &name, |_| vec![letter.to_owned()]);
    let (of, codec) = (name.clone(), c.clone());
    let ours = side.our_storms(move |grid: Grid, _: usize, sum: i64| {
        let map = map_of(&grid, kind, &of, codec.clone());
        async move {
            let key = format!("k{}", random(4));
            match map.update(&key, |old| Some(old.unwrap_or_default() + 1)).await {
                Ok(_) => sum + 1,
                Err(error) if error.kind() == ErrorKind::Overloaded => sum,
                Err(error) => panic!("{error}"),
            }
        }
    });
    let (ours, theirs) = (reports(ours).await, answers(theirs));
    let sum = ours.iter().sum::<i64>() + theirs.iter().map(|sum| number(sum)).sum::<i64>();
    let map = map_of(side.grid(), kind, &name, c);
    let mut found = 0;
    for key in 0..4 {
        found += map.get(&format!("k{key}")).await.unwrap().expect("an entry");
    }
    assert_eq!(found, sum, "{name}");
    assert!(ours.iter().all(|sum| *sum > 0) && theirs.iter().all(|sum| number(sum) > 0), "{ours:?} {theirs:?}");
    println!("{name}: {ours:?} {theirs:?}");
}

/// A counter in a file, which only the lock of an entry protects.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_of_entries_lose_no_addition() {
    const TIMES: u64 = 500;
    let side = Side::start(SIDES).await;
    let counter = CounterFile::new();
    let count = |thread: usize| {
        let words = ["map kryo5", "count", "map", "sk", counter.path(), &TIMES.to_string()];
        side.javas[thread % SIDES].command(&format!("count {thread}"), &words)
    };
    let theirs: Vec<_> = (0..SIDES * EACH).map(count).collect();
    let mut ours = Vec::new();
    for task in 0..SIDES * EACH {
        let map: Map<String, String, Kryo5> = side.grids[task % SIDES].map("map").unwrap().codec(Kryo5);
        let path = counter.path.clone();
        ours.push(tokio::spawn(async move {
            let (counter, lock) = (Counter::open(&path).unwrap(), map.lock("k").unwrap());
            for _ in 0..TIMES {
                let guard = lock.lock().await.unwrap();
                counter.add(0).unwrap();
                guard.release().await.unwrap();
            }
        }));
    }
    reports(ours).await;
    answers(theirs);
    assert_eq!(counter.count(), 2 * (SIDES * EACH) as u64 * TIMES);
}

const MEMBERS: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_change_of_a_set_succeeds_once() {
    let side = Side::start(SIDES).await;
    let theirs = side.their_storms("set text", "set", |_| vec![MEMBERS.to_string()]);
    let ours = side.our_storms(async |grid: Grid, _: usize, mut net: Vec<i64>| {
        let set = grid.set::<String>("set").unwrap().codec(Text);
        let member = random(MEMBERS);
        let name = format!("m{member}");
        match random(5) {
            0 => {
                if let Some(popped) = set.pop().await.unwrap() {
                    add(&mut net, MEMBERS, usize::try_from(number(&popped)).unwrap(), -1);
                }
            }
            1 | 2 => {
                let removed = set.remove(&name).await.unwrap();
                add(&mut net, MEMBERS, member, -i64::from(removed));
            }
            _ => {
                let inserted = set.insert(&name).await.unwrap();
                add(&mut net, MEMBERS, member, i64::from(inserted));
            }
        }
        net
    });
    let ours = reports(ours).await;
    let net = sums(&answers(theirs), &ours, MEMBERS);
    let set = side.grid().set::<String>("set").unwrap().codec(Text);
    for (member, net) in net.iter().enumerate() {
        assert_eq!(i64::from(set.contains(&format!("m{member}")).await.unwrap()), *net, "m{member}");
    }
    assert_eq!(i64::try_from(set.len().await.unwrap()).unwrap(), net.iter().sum::<i64>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_element_of_a_list_is_there_or_was_removed_once() {
    let side = Side::start(SIDES).await;
    let folder = tempfile::tempdir().unwrap();
    let path = |thread: usize| folder.path().join(thread.to_string()).display().to_string();
    let theirs = side.their_storms("list kryo5", "list", |thread| vec![format!("j{thread}-"), path(thread)]);
    let ours = side.our_storms(async |grid: Grid, task: usize, (pushed, mut removed): (usize, Vec<String>)| {
        let list = grid.list::<String>("list").unwrap().codec(Kryo5);
        if random(3) > 0 {
            list.push(&format!("r{task}-{pushed}")).await.unwrap();
            return (pushed + 1, removed);
        }
        if list.len().await.unwrap() > 20 {
            removed.extend(list.remove(-(random(4) as i64)).await.unwrap());
        }
        (pushed, removed)
    });
    let (ours, theirs) = (reports(ours).await, answers(theirs));
    let mut pushed = BTreeSet::new();
    let mut found = Vec::new();
    for (task, (count, removed)) in ours.iter().enumerate() {
        pushed.extend((0..*count).map(|number| format!("r{task}-{number}")));
        found.extend(removed.iter().cloned());
    }
    for (thread, count) in theirs.iter().enumerate() {
        pushed.extend((0..number(count)).map(|number| format!("j{thread}-{number}")));
        found.extend(lines(&path(thread)));
    }
    let removed = found.len();
    found.extend(side.grid().list::<String>("list").unwrap().codec(Kryo5).slice(0, -1).await.unwrap());
    assert_eq!(found.len(), pushed.len());
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), pushed);
    println!("{} elements, of which {removed} were removed", pushed.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scores_have_the_sum_of_all_additions() {
    let side = Side::start(SIDES).await;
    let theirs = side.their_storms("sorted kryo5", "sorted", |_| vec![MEMBERS.to_string()]);
    let ours = side.our_storms(async |grid: Grid, _: usize, mut net: Vec<i64>| {
        let set = grid.sorted_set::<String>("sorted").unwrap().codec(Kryo5);
        let (member, by) = (random(MEMBERS), random(9) as i64 + 1);
        if by > 1 {
            set.add(&format!("m{member}"), by as f64).await.unwrap();
            add(&mut net, MEMBERS, member, by);
        } else if let Some((popped, score)) = set.pop_max().await.unwrap() {
            let score: i64 = score.to_string().parse().expect("an integer");
            add(&mut net, MEMBERS, usize::try_from(number(&popped)).unwrap(), -score);
        }
        net
    });
    let ours = reports(ours).await;
    let net = sums(&answers(theirs), &ours, MEMBERS);
    let set = side.grid().sorted_set::<String>("sorted").unwrap().codec(Kryo5);
    for (member, net) in net.iter().enumerate() {
        let score = set.score(&format!("m{member}")).await.unwrap();
        assert_eq!(score.unwrap_or_default(), *net as f64, "m{member}");
    }
}

/// The number of keys, and of values of each key.
const KEYS: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_change_of_a_multimap_succeeds_once() {
    let side = Side::start(SIDES).await;
    multimap(&side, true, "setmultimap kryo5", Kryo5).await;
    multimap(&side, true, "setmultimapcache text", Text).await;
    multimap(&side, false, "listmultimap typed-json", TypedJson).await;
    multimap(&side, false, "listmultimapcache text-json", TextJson).await;
}

async fn multimap<C: Texts>(side: &Side, is_set: bool, kind: &str, c: C) {
    let name = kind.replace(' ', "-");
    let handle = {
        let name = name.clone();
        move |grid: &Grid| -> Multimap<String, String, C> {
            let map = if is_set { grid.set_multimap(&name) } else { grid.list_multimap(&name) };
            map.unwrap().codec(c.clone())
        }
    };
    let theirs = side.their_storms(kind, &name, |_| vec![KEYS.to_string()]);
    let of = handle.clone();
    let ours = side.our_storms(move |grid: Grid, _: usize, mut net: Vec<i64>| {
        let map = of(&grid);
        async move {
            let (key, value) = (random(KEYS), random(KEYS));
            let (key_name, value_name) = (format!("k{key}"), format!("v{value}"));
            let by = if random(2) == 0 {
                i64::from(map.insert(&key_name, &value_name).await.unwrap())
            } else {
                -i64::from(map.remove(&key_name, &value_name).await.unwrap())
            };
            add(&mut net, KEYS * KEYS, key * KEYS + value, by);
            net
        }
    });
    let ours = reports(ours).await;
    let net = sums(&answers(theirs), &ours, KEYS * KEYS);
    let map = handle(side.grid());
    let mut keys = BTreeSet::new();
    for (at, net) in net.iter().enumerate() {
        let (key, value) = (format!("k{}", at / KEYS), format!("v{}", at % KEYS));
        let found = map.get(&key).await.unwrap().iter().filter(|found| **found == value).count();
        assert_eq!(i64::try_from(found).unwrap(), *net, "{kind}: {key} {value}");
        let answer = side.java(kind, "all", &name, &[&s(&key)]);
        assert_eq!(answer.split('\t').filter(|found| *found == s(&value)).count(), found, "{kind}: {key} {value}");
        if *net > 0 {
            keys.insert(key);
        }
    }
    let sum = net.iter().sum::<i64>();
    assert_eq!(map.keys_len().await.unwrap(), keys.len() as u64);
    let theirs: BTreeSet<String> = side.java_texts(kind, "keys", &name, &[]).into_iter().collect();
    assert_eq!(theirs, keys, "{kind}");
    assert_eq!(
        (i64::try_from(map.len().await.unwrap()).unwrap(), side.java(kind, "size", &name, &[])),
        (sum, format!("i{sum}"))
    );
    // The names of the values have 22 characters, and each value key belongs to a key.
    let hashes = side.server.cmd(&["HVALS", &name]).texts();
    assert!(hashes.iter().all(|hash| hash.len() == 22), "{hashes:?}");
    let mut expected: Vec<String> = hashes.iter().map(|hash| format!("{{{name}}}:{hash}")).collect();
    if !expected.is_empty() {
        expected.push(name.clone());
    }
    expected.sort();
    assert_eq!(side.keys_of(&name), expected, "{kind}");
}

/// The number of bits.
const BITS: usize = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_change_of_a_bit_is_answered_once() {
    let side = Side::start(SIDES).await;
    let theirs = side.their_storms("bits", "bits", |_| vec![BITS.to_string()]);
    let ours = side.our_storms(async |grid: Grid, _: usize, mut net: Vec<i64>| {
        let (bit, to) = (random(BITS), random(3) > 0);
        let from = grid.bits("bits").unwrap().set(bit as u64, to).await.unwrap();
        add(&mut net, BITS, bit, i64::from(to) - i64::from(from));
        net
    });
    let ours = reports(ours).await;
    let net = sums(&answers(theirs), &ours, BITS);
    let bits = side.grid().bits("bits").unwrap();
    let all: Vec<u64> = (0..BITS as u64).collect();
    let found: Vec<i64> = bits.get_all(&all).await.unwrap().into_iter().map(i64::from).collect();
    assert_eq!(found, net);
    assert_eq!(side.java("bits", "count", "bits", &[]), format!("l{}", net.iter().sum::<i64>()));
}

/// Both sides insert items at the same time, and find all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bloom_filters_have_no_false_negatives() {
    const ITEMS: usize = 50_000;
    let side = Side::start(SIDES).await;
    assert_eq!(side.java("bloom kryo5", "init", "storm", &["100000", "0.01"]), "btrue");
    let many = |verb: &'static str| {
        let words = |prefix: &str| {
            let words = ["bloom kryo5", verb, "storm", prefix, &(ITEMS / 2).to_string()].map(str::to_owned);
            words.iter().map(String::as_str).collect::<Vec<_>>().join("\t")
        };
        [0, 1].map(|java: usize| {
            let words = words(&format!("j{java}-"));
            side.javas[java].command("a", &words.split('\t').collect::<Vec<_>>())
        })
    };
    let theirs = many("add-many");
    let items = |prefix: &str, from: usize| -> Vec<String> {
        (from..from + 1_000).map(|number| format!("{prefix}{number}")).collect()
    };
    let bloom = side.grid().bloom::<String>("storm").unwrap().codec(Kryo5).open().await.unwrap().expect("exists");
    for from in (0..ITEMS).step_by(1_000) {
        bloom.insert_all(&items("r", from)).await.unwrap();
    }
    answers(theirs.into());
    // Rust finds all items, and so does Java.
    for (prefix, count) in [("r", ITEMS), ("j0-", ITEMS / 2), ("j1-", ITEMS / 2)] {
        for from in (0..count).step_by(1_000) {
            assert!(!bloom.contains_all(&items(prefix, from)).await.unwrap().contains(&false), "{prefix}{from}");
        }
    }
    for answer in answers(many("contains-many").into()) {
        assert_eq!(answer, format!("l{}", ITEMS / 2));
    }
    let answer = side.javas[0].command("a", &["bloom kryo5", "contains-many", "storm", "r", &ITEMS.to_string()]);
    assert_eq!(answer.answer(limit()), format!("l{ITEMS}"));
    assert_eq!(side.java("bloom kryo5", "count", "storm", &[]), format!("l{}", bloom.count().await.unwrap()));
    let others: Vec<String> = (0..1_000).map(|number| format!("other{number}")).collect();
    let false_positives = bloom.contains_all(&others).await.unwrap().into_iter().filter(|found| *found).count();
    assert!(false_positives < 100, "{false_positives}");
}
