//! Consumers are killed while they take elements: nothing is lost, and only what a killed process had comes again.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use bandog::grid::Queue;

use super::{answers, lines, millis, number, span};
use crate::grid::side::Side;

/// The time after which a consumer is killed.
const LIFE: Duration = Duration::from_millis(300);

/// What happened to an element.
#[derive(Debug, Default)]
struct Fate {
    /// The number of consumers that have got it.
    taken: usize,
    /// The number of consumers that have finished it.
    done: usize,
}

/// Processes that are killed one after the other, and the files with their reports.
struct Consumers {
    url: String,
    mode: &'static str,
    folder: tempfile::TempDir,
    files: Vec<PathBuf>,
}

impl Consumers {
    fn start(&mut self) -> Child {
        let path = self.folder.path().join(self.files.len().to_string());
        let mut command = Command::new(env!("CARGO_BIN_EXE_bandog-interop-consumer"));
        command.args([&self.url, "queue", self.mode]).stdin(Stdio::null());
        command.stdout(File::create(&path).expect("a file"));
        self.files.push(path);
        command.spawn().expect("a process")
    }
}

fn kill(mut child: Child) {
    assert!(child.try_wait().expect("a status").is_none(), "a consumer has failed");
    child.kill().expect("killed");
    child.wait().expect("ended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_consumers_lose_nothing_that_they_take() {
    killed_consumers("take").await;
}

/// The lease of an element that is popped is 30 s, so this is a long proof.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_consumers_lose_nothing_that_they_pop() {
    if std::env::var_os("BANDOG_TEST_LONG").is_some() {
        killed_consumers("pop").await;
    }
}

async fn killed_consumers(mode: &'static str) {
    let side = Side::start(1).await;
    let queue: Queue<String> = side.grid().queue("queue").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let polls = folder.path().join("polls").display().to_string();
    let java = |thread: &str, words: &[&str]| {
        side.javas[0].command(thread, &[&["queue text-json", words[0], "queue"], &words[1..]].concat())
    };
    let poller = java("poll", &["poll-for-long", &millis(), &polls]);
    let offers = java("offer", &["produce", &millis(), "j"]);
    let mut consumers = Consumers { url: side.server.url(), mode, folder, files: Vec::new() };
    let mut running = vec![consumers.start(), consumers.start()];
    let (until, mut pushed) = (Instant::now() + span(), 0);
    let mut killed_at = Instant::now();
    while Instant::now() < until {
        if queue.push(&format!("r{pushed}")).await.unwrap() > 500 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        pushed += 1;
        if killed_at.elapsed() > LIFE {
            killed_at = Instant::now();
            kill(running.remove(0));
            running.push(consumers.start());
        }
    }
    let offered = number(&answers(vec![offers])[0]);
    running.into_iter().for_each(kill);
    answers(vec![poller]);

    let mut fates: BTreeMap<String, Fate> = BTreeMap::new();
    let mut see = |name: &str, taken: usize, done: usize| {
        let fate = fates.entry(name.to_owned()).or_default();
        fate.taken += taken;
        fate.done += done;
    };
    // What the killed processes had comes back here.
    let mut returned = 0;
    while let Some(element) = queue.take(Duration::from_secs(if mode == "take" { 5 } else { 35 })).await.unwrap() {
        see(&element, 1, 1);
        returned += usize::from(element.delivery() > 1);
        element.done().await.unwrap();
    }
    let polled = lines(&polls);
    polled.iter().for_each(|element| see(element, 1, 1));
    for file in &consumers.files {
        for line in fs::read_to_string(file).unwrap().lines() {
            match line.split_once(' ') {
                Some(("took", element)) => see(element, 1, 0),
                Some(("done", element)) => see(element, 0, 1),
                _ => assert_eq!(line, "ready"),
            }
        }
    }
    let all = (0..pushed).map(|number| format!("r{number}")).chain((0..offered).map(|number| format!("j{number}")));
    let lost: Vec<String> = all.clone().filter(|element| !fates.contains_key(element)).take(5).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    assert_eq!(fates.len(), all.count());
    let unfinished: usize = fates.values().map(|fate| fate.taken - fate.done).sum();
    let again = fates.values().filter(|fate| fate.taken > 1).count();
    println!(
        "{} elements; {} processes were killed; Java polled {}; {returned} came back at the end, {again} twice",
        fates.len(),
        consumers.files.len(),
        polled.len()
    );
    if mode == "take" {
        // A process has one element at a time, so only that one can come again.
        assert!(fates.values().all(|fate| fate.done <= 1), "{fates:?}");
        assert!(unfinished <= consumers.files.len(), "{unfinished}");
    }
    assert!(again <= consumers.files.len(), "{again}");
    assert_eq!((queue.len().await.unwrap(), queue.taken_len().await.unwrap()), (0, 0));
}
