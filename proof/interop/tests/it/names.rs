//! Both sides use the same keys and channels for a name.

use std::time::Instant;

use bandog_testkit::{Reply, eventually};

use crate::{
    neighbour::SOON,
    rig::{PROMPT, Rig, TTL, channel, token},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_name_is_the_same_on_both_sides() {
    both_ways("plain").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_with_a_hash_tag_is_the_same_on_both_sides() {
    both_ways("{tag}:a").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_with_a_hash_tag_inside_is_the_same_on_both_sides() {
    both_ways("a{b}c").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unicode_name_with_a_space_is_the_same_on_both_sides() {
    both_ways("中文 name").await;
}

/// Each side excludes the other, wakes it, and continues its sequence of fences.
async fn both_ways(name: &str) {
    let rig = Rig::start(TTL).await;
    let mut subscriber = rig.server.client();
    subscriber.cmd(&["SUBSCRIBE", &channel(name)]).expect("subscribed");
    let first = rig.java.fenced("a", name).lock();
    assert_eq!(rig.server.keys(), sorted([name.to_owned(), token(name)]));
    assert!(rig.ours.mutex(name).try_lock().await.expect("answered").is_none());

    let waiting = rig.ours_waits(name);
    let start = Instant::now();
    assert_eq!(rig.java.ask("a", &["unlock", name]), "freed");
    let (guard, granted) = waiting.await.expect("no panic");
    let to_us = granted - start;
    assert!(guard.fence().get() > first);
    // Java's unlock leaves a latch (an additional key) in Redis for a few milliseconds. On a busy machine our client has
    // waited for long enough to register.
    eventually(SOON, || {
        let mut keys = rig.server.keys();
        keys.retain(|key| !key.starts_with("bandog:client"));
        if keys == sorted([name.to_owned(), token(name)]) { Ok(()) } else { Err(keys) }
    });
    assert_eq!(rig.java.ask("a", &["try", name]), "busy");

    eventually(SOON, || rig.subscribers(name) == 1);
    let asked = rig.java.fenced("a", name).waits();
    eventually(SOON, || rig.subscribers(name) == 2);
    let start = Instant::now();
    let second = guard.fence().get();
    guard.release().await.expect("released");
    let third: u64 = asked.answer(TTL).parse().expect("a fence");
    let to_java = start.elapsed();
    assert!(third > second);
    assert_eq!(rig.java.ask("a", &["unlock", name]), "freed");
    // One message for each release: by Java, by Rust, by Java.
    let message = Reply::Array(["message", &channel(name), "0"].map(|part| Reply::Text(part.into())).into());
    for _ in 0..3 {
        assert_eq!(subscriber.read().expect("a message"), message);
    }

    let ms = |time: std::time::Duration| time.as_secs_f64() * 1e3;
    println!("{name:?}: to us {:.1} ms, to Java {:.1} ms", ms(to_us), ms(to_java));
    assert!(to_us < PROMPT * 10 && to_java < PROMPT * 10);
}

fn sorted(mut keys: [String; 2]) -> [String; 2] {
    keys.sort();
    keys
}
