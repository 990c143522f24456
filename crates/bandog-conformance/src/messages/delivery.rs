//! Laws of the delivery of messages.

use bandog_core::{Pattern, messages::Message};

use super::{
    MessageWorld,
    kit::{Subscriber, matched, matching, one, payload, plain, publish, publish_all, sharded},
};

/// Law 301: a message reaches the subscribers of this moment, in each process, and is not stored.
pub async fn messages_reach_the_subscribers_of_this_moment<W: MessageWorld>(world: &W) {
    let (ours, theirs) = (world.messages(), world.messages());
    for channel in [plain("news"), sharded("news")] {
        assert_eq!(publish(&ours, &channel, "too early").await, 0);
        let mut first = Subscriber::of(&ours, &one(&channel)).await;
        let mut second = Subscriber::of(&theirs, &one(&channel)).await;
        publish(&ours, &channel, "a").await;
        assert_eq!([first.next().await, second.next().await], [payload("a"), payload("a")]);
        let mut third = Subscriber::of(&ours, &one(&channel)).await;
        publish(&theirs, &channel, "b").await;
        for subscriber in [&mut first, &mut second, &mut third] {
            assert_eq!(subscriber.next().await, payload("b"));
        }
    }
}

/// Law 302: the messages of one publisher on a channel arrive in their order, and none is missing.
pub async fn messages_of_a_publisher_keep_their_order<W: MessageWorld>(world: &W) {
    let (publisher, store) = (world.messages(), world.messages());
    for channel in [plain("c"), sharded("c")] {
        let mut subscriber = Subscriber::of(&store, &one(&channel)).await;
        let mut pattern = Subscriber::of(&store, &matching("c")).await;
        for batch in 0..20 {
            let numbers = batch * 100..(batch + 1) * 100;
            let messages: Vec<_> =
                numbers.map(|number: u32| (channel.clone(), number.to_be_bytes().to_vec())).collect();
            publish_all(&publisher, &messages).await;
        }
        for number in 0..2_000_u32 {
            assert_eq!(subscriber.next().await, payload(number.to_be_bytes()));
            if channel == plain("c") {
                assert_eq!(pattern.next().await, matched("c", number.to_be_bytes()));
            }
        }
    }
}

/// Law 303: a payload of any bytes arrives as it is, also an empty or a large one.
pub async fn messages_of_any_bytes_arrive<W: MessageWorld>(world: &W) {
    let store = world.messages();
    let all_bytes: Vec<u8> = (0..=255).cycle().take(512 * 1024).collect();
    for channel in [plain("c"), sharded("c")] {
        let mut subscriber = Subscriber::of(&store, &one(&channel)).await;
        for bytes in [&b""[..], b"\0", b"\r\n", &[0xff, 0xfe], &all_bytes] {
            publish(&store, &channel, bytes).await;
            assert!(subscriber.next().await == payload(bytes), "{} bytes", bytes.len());
        }
    }
}

/// Law 304: a subscriber of a channel gets no message of another one. A plain and a sharded channel with the same name are
/// two channels.
pub async fn messages_of_other_channels_do_not_arrive<W: MessageWorld>(world: &W) {
    let store = world.messages();
    let all = [plain("c"), sharded("c"), plain("c2"), plain("C"), sharded("c:x"), plain("*")];
    for channel in &all {
        let mut subscriber = Subscriber::of(&store, &one(channel)).await;
        for other in all.iter().filter(|other| *other != channel) {
            publish(&store, other, "other").await;
        }
        publish(&store, channel, "own").await;
        assert_eq!(subscriber.next().await, payload("own"), "{channel:?}");
        assert_eq!(subscriber.end().await, [], "{channel:?}");
    }
}

/// Law 305: a pattern has the meaning that it has for names of locks, and its messages have the names of their channels.
pub async fn messages_match_patterns<W: MessageWorld>(world: &W) {
    let (publisher, store) = (world.messages(), world.messages());
    let names = ["a", "ab", "abc", "a*", "a?", "[ab]", "a\\", "a-b", "^a", "中", "a中", "x:a"];
    for glob in ["*", "a", "a?", "a*", "?", "[ab]", "a\\*", "a\\?", "a\\\\", "a-*", "x:*", "^a", "none", "??"] {
        let mut subscriber = Subscriber::of(&store, &matching(glob)).await;
        for name in names {
            publish(&publisher, &plain(name), glob).await;
        }
        let pattern = Pattern::new(glob);
        let mut missing: Vec<_> = names.into_iter().filter(|name| pattern.matches(name)).collect();
        // Channels on different servers have no common order, and messages for the former pattern can be late.
        while !missing.is_empty() {
            let message = subscriber.next().await;
            match missing.iter().position(|name| message == matched(name, glob)) {
                Some(at) => _ = missing.remove(at),
                None => assert!(is_late(&message, &pattern, glob), "{glob}: {message:?}"),
            }
        }
        for message in subscriber.end().await {
            assert!(is_late(&message, &pattern, glob), "{glob}: {message:?}");
        }
    }
}

/// Whether this is a message for another pattern on a channel that matches this one.
fn is_late(message: &Message, pattern: &Pattern, glob: &str) -> bool {
    matches!(message, Message::Matched(channel, text) if pattern.matches(channel.as_str()) && **text != *glob.as_bytes())
}

/// Law 306: no pattern matches a message on a sharded channel.
pub async fn messages_of_sharded_channels_match_no_pattern<W: MessageWorld>(world: &W) {
    let store = world.messages();
    let mut subscriber = Subscriber::of(&store, &matching("n*")).await;
    let mut own = Subscriber::of(&store, &one(&sharded("news"))).await;
    publish(&store, &sharded("news"), "sharded").await;
    assert_eq!(own.next().await, payload("sharded"));
    publish(&store, &plain("news"), "plain").await;
    assert_eq!(subscriber.next().await, matched("news", "plain"));
}

/// Law 307: a batch has an answer for each message, and none of nothing.
pub async fn messages_are_answered_one_by_one<W: MessageWorld>(world: &W) {
    let store = world.messages();
    assert!(store.publish(&[]).await.is_empty());
    let channels = [plain("a"), sharded("b"), plain("c"), sharded("d"), plain("a")];
    let mut subscriber = Subscriber::of(&store, &one(&plain("a"))).await;
    let answers = publish_all(&store, &channels.map(|channel| (channel, b"x".to_vec()))).await;
    assert_eq!([answers[1], answers[2], answers[3]], [0; 3]);
    assert!(answers[0] > 0 && answers[4] > 0, "{answers:?}");
    assert_eq!([subscriber.next().await, subscriber.next().await], [payload("x"), payload("x")]);
}
