//! One journal: threads of Java and tasks of Rust append entries, and each group gets each entry once.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bandog::grid::{Grid, Group, Journal, codec::Text};

use super::{SIDES, answers, limit, lines, millis, number, random, reports, span};
use crate::grid::side::Side;

/// The number of tasks that take from the group of Rust.
const TAKERS: usize = 3;

fn journal(grid: &Grid) -> Journal<String, Text> {
    grid.journal("journal").unwrap().codec(Text)
}

/// What a taker has seen.
#[derive(Default)]
struct Seen {
    done: Vec<String>,
    dropped: Vec<String>,
    released: Vec<String>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_group_of_a_journal_gets_each_entry_once() {
    let begin = Instant::now();
    let side = Side::start(SIDES).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("read").display().to_string();
    let java = |number: usize, thread: &str, words: &[&str]| {
        side.javas[number].command(thread, &[&["stream text", words[0], "journal"], &words[1..]].concat())
    };
    side.java("stream text", "create-group", "journal", &["java"]);
    let reads = java(0, "read", &["read-until-end", "java", &path]);
    let is_over = Arc::new(AtomicBool::new(false));
    let mut takers = Vec::new();
    for number in 0..TAKERS {
        let group = journal(&side.grids[number % SIDES]).group("rust").from_oldest().await.unwrap();
        takers.push(tokio::spawn(consume(group, is_over.clone())));
    }
    let adds: Vec<_> =
        (0..SIDES).map(|number| java(number, "add", &["storm", &millis(), &format!("j{number}-")])).collect();
    let until = Instant::now() + span();
    let appends: Vec<_> =
        (0..SIDES).map(|number| tokio::spawn(append(journal(&side.grids[number]), number, until))).collect();

    let appended = reports(appends).await;
    let added: Vec<usize> = answers(adds).iter().map(|count| usize::try_from(number(count)).unwrap()).collect();
    is_over.store(true, Relaxed);
    let seen: Vec<Seen> = reports(takers).await;
    let journal = journal(side.grid());
    let group = journal.group("rust").await.unwrap();
    assert_eq!((group.len().await.unwrap(), group.taken_len().await.unwrap()), (0, 0));
    journal.append("end").await.unwrap();
    assert_eq!(reads.answer(limit()), lines(&path).len().to_string());

    let mut all = BTreeSet::new();
    for (prefix, counts) in [("r", &appended), ("j", &added)] {
        for (number, count) in counts.iter().enumerate() {
            all.extend((0..*count).map(|entry| format!("{prefix}{number}-{entry}")));
        }
    }
    let done: Vec<String> = seen.iter().flat_map(|seen| seen.done.iter().cloned()).collect();
    let returned: Vec<[usize; 3]> =
        seen.iter().map(|seen| [seen.done.len(), seen.released.len(), seen.dropped.len()]).collect();
    println!(
        "{} entries, {} of Rust; done, released and dropped by each taker {returned:?}; {:.1} s",
        all.len(),
        appended.iter().sum::<usize>(),
        begin.elapsed().as_secs_f64()
    );
    for (name, found) in [("rust", done), ("java", lines(&path))] {
        let mut times = BTreeMap::new();
        for entry in found {
            *times.entry(entry).or_insert(0) += 1;
        }
        let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).take(5).collect();
        assert!(twice.is_empty(), "{name}: twice: {twice:?}");
        let lost: Vec<_> = all.iter().filter(|entry| !times.contains_key(*entry)).take(5).collect();
        assert!(lost.is_empty(), "{name}: lost: {lost:?}");
        assert_eq!(times.len(), all.len(), "{name}");
    }
    assert_eq!(journal.len().await.unwrap(), all.len() as u64 + 1);
    assert!(returned.iter().all(|counts| counts.iter().all(|count| *count > 0)), "{returned:?}");
}

/// Appends entries until this time, one or several at once, and returns their number.
async fn append(journal: Journal<String, Text>, number: usize, until: Instant) -> usize {
    let group = journal.group("rust").await.unwrap();
    let mut appended = 0;
    while Instant::now() < until {
        if group.len().await.unwrap() > 2_000 {
            tokio::time::sleep(Duration::from_millis(2)).await;
            continue;
        }
        let count = random(5) + 1;
        let entries: Vec<String> = (0..count).map(|more| format!("r{number}-{}", appended + more)).collect();
        journal.append_all(&entries).await.unwrap();
        appended += count;
    }
    appended
}

/// Takes entries and drops, releases or ends them, until nothing is appended any more and the group has none.
async fn consume(group: Group<String, Text>, is_over: Arc<AtomicBool>) -> Seen {
    let mut seen = Seen::default();
    loop {
        let over = is_over.load(Relaxed);
        let Some(entry) = group.take(Duration::from_millis(100)).await.unwrap() else {
            if over && group.len().await.unwrap() == 0 && group.taken_len().await.unwrap() == 0 {
                return seen;
            }
            continue;
        };
        let value = entry.clone();
        match random(10) {
            0 => {
                drop(entry);
                seen.dropped.push(value);
            }
            1 => {
                entry.release().await.unwrap();
                seen.released.push(value);
            }
            _ => {
                entry.done().await.unwrap();
                seen.done.push(value);
            }
        }
    }
}
