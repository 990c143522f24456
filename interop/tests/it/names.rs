//! Both sides make the same keys and channels of a name.

use std::time::Instant;

use bandog_testkit::{Reply, eventually};

use crate::{
    java::SOON,
    rig::{PROMPT, Rig, TTL, channel, token},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain() {
    both_ways("plain").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_hash_tag() {
    both_ways("{tag}:a").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_hash_tag_inside() {
    both_ways("a{b}c").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unicode_with_a_space() {
    both_ways("中文 name").await;
}

/// Each side keeps the other out, wakes it, and counts its fences on.
async fn both_ways(name: &str) {
    let rig = Rig::start(TTL).await;
    let mut bell = rig.server.client();
    bell.cmd(&["SUBSCRIBE", &channel(name)]).expect("subscribed");
    let first: u64 = rig.java.ask("a", &["fence", name]).parse().expect("a fence");
    assert_eq!(rig.server.keys(), sorted([name.to_owned(), token(name)]));
    assert!(rig.ours.mutex(name).try_lock().await.expect("answered").is_none());

    let waiting = rig.ours_waits(name);
    let start = Instant::now();
    assert_eq!(rig.java.ask("a", &["unlock", name]), "freed");
    let (guard, granted) = waiting.await.expect("no panic");
    let to_us = granted - start;
    assert!(guard.fence().get() > first);
    // The latch that Java's unlock leaves behind lives a few milliseconds longer.
    eventually(SOON, || rig.server.keys() == sorted([name.to_owned(), token(name)]));
    assert_eq!(rig.java.ask("a", &["try", name]), "busy");

    eventually(SOON, || rig.listeners(name) == 1);
    let asked = rig.java.tell("a", &["fence", name]);
    eventually(SOON, || rig.listeners(name) == 2);
    let start = Instant::now();
    let second = guard.fence().get();
    guard.release().await.expect("released");
    let third: u64 = asked.answer(TTL).parse().expect("a fence");
    let to_java = start.elapsed();
    assert!(third > second);
    assert_eq!(rig.java.ask("a", &["unlock", name]), "freed");
    // Java's, ours, Java's.
    let told = Reply::Array(["message", &channel(name), "0"].map(|part| Reply::Text(part.into())).into());
    for _ in 0..3 {
        assert_eq!(bell.read().expect("a message"), told);
    }

    let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
    println!("{name:?}: to us {:.1} ms, to Java {:.1} ms", ms(to_us), ms(to_java));
    assert!(to_us < PROMPT * 10 && to_java < PROMPT * 10);
}

fn sorted(mut keys: [String; 2]) -> [String; 2] {
    keys.sort();
    keys
}
