//! Laws of subscribers and their subscriptions.

use bandog_core::messages::Message;
use tokio::time::timeout;

use super::{
    MessageWorld,
    kit::{SOON, Subscriber, eventually_subscribed, matched, matching, one, payload, plain, publish, sharded},
};

/// Law 308: subscribers of one process share a subscription, which lasts as long as one of them.
pub async fn subscribers_share_a_subscription<W: MessageWorld>(world: &W) {
    let (store, other) = (world.messages(), world.messages());
    for channels in [one(&plain("c")), one(&sharded("c")), matching("c*")] {
        let mut subscribers = Vec::new();
        for _ in 0..10 {
            subscribers.push(Subscriber::of(&store, &channels).await);
        }
        assert_eq!(world.subscriptions(&channels).await.unwrap_or(1), 1, "{channels:?}");
        publish(&other, &plain("c"), "plain").await;
        publish(&other, &sharded("c"), "sharded").await;
        let expected = match &channels {
            channels if *channels == one(&plain("c")) => payload("plain"),
            channels if *channels == one(&sharded("c")) => payload("sharded"),
            _ => matched("c", "plain"),
        };
        for subscriber in &mut subscribers {
            assert_eq!(subscriber.next().await, expected);
        }
        let last = subscribers.pop();
        drop(subscribers);
        assert_eq!(world.subscriptions(&channels).await.unwrap_or(1), 1, "{channels:?}");
        drop(last);
        eventually_subscribed(world, &channels, 0).await;
    }
}

/// Law 309: a dropped subscription ends, and its inbox gives the messages that it has.
pub async fn subscriptions_end_when_they_are_dropped<W: MessageWorld>(world: &W) {
    let store = world.messages();
    let mut witness = Subscriber::of(&store, &one(&plain("c"))).await;
    for channels in [one(&plain("c")), matching("c")] {
        let subscriber = Subscriber::of(&store, &channels).await;
        publish(&store, &plain("c"), "a").await;
        assert_eq!(witness.next().await, payload("a"));
        let rest = subscriber.end().await;
        assert!(rest.len() <= 1, "{rest:?}");
        publish(&store, &plain("c"), "b").await;
        assert_eq!(witness.next().await, payload("b"));
    }
}

/// Law 310: a subscription that follows a dropped one gets all messages, and no gap.
pub async fn subscriptions_can_follow_each_other<W: MessageWorld>(world: &W) {
    let store = world.messages();
    for channels in [one(&plain("c")), one(&sharded("c")), matching("c")] {
        for number in 0..50_u8 {
            let mut subscriber = Subscriber::of(&store, &channels).await;
            publish(&store, &plain("c"), [number]).await;
            publish(&store, &sharded("c"), [number]).await;
            let (Message::Payload(bytes) | Message::Matched(_, bytes)) = subscriber.next().await else {
                panic!("a gap without a reason");
            };
            assert_eq!(*bytes, [number]);
        }
    }
}

/// Law 311: a subscriber that reads slowly gets a gap in place of the messages that its queue cannot keep. It loses nothing
/// else, and others lose nothing.
pub async fn subscribers_that_are_slow_get_a_gap<W: MessageWorld>(world: &W) {
    let (publisher, store) = (world.messages(), world.messages());
    for channel in [plain("c"), sharded("c")] {
        let mut slow = Subscriber::with_limit(&store, &one(&channel), 3).await;
        let mut fast = Subscriber::of(&store, &one(&channel)).await;
        for number in 0..1_000_u32 {
            publish(&publisher, &channel, number.to_be_bytes()).await;
        }
        for number in 0..1_000_u32 {
            assert_eq!(fast.next().await, payload(number.to_be_bytes()));
        }
        for number in 0..3_u32 {
            assert_eq!(slow.next().await, payload(number.to_be_bytes()));
        }
        assert_eq!(slow.next().await, Message::Gap);
        for text in ["x", "y"] {
            publish(&publisher, &channel, text).await;
            assert_eq!(slow.next().await, payload(text));
        }
    }
}

/// Law 312: after a lost connection, a subscription is renewed. The gap is in the place of the messages that may be missing.
pub async fn subscribers_get_a_gap_after_a_lost_connection<W: MessageWorld>(world: &W) {
    let (publisher, store) = (world.messages(), world.messages());
    let (plain, sharded) = (plain("c"), sharded("c"));
    let mut subscribers = Vec::new();
    for channels in [one(&plain), one(&sharded), matching("c"), one(&plain)] {
        subscribers.push(Subscriber::of(&store, &channels).await);
    }
    for _ in 0..3 {
        if !world.break_connections().await {
            println!("this store has no connections");
            return;
        }
        for subscriber in &mut subscribers {
            assert_eq!(subscriber.next().await, Message::Gap);
        }
        let sent = async {
            // The connection of the publisher was broken, too.
            for channel in [&plain, &sharded] {
                while publisher.publish(&[(channel.clone(), b"after".to_vec())]).await[0].is_err() {}
            }
        };
        timeout(SOON, sent).await.expect("the messages are published");
        for subscriber in &mut subscribers {
            let mut message = subscriber.next().await;
            while message == Message::Gap {
                message = subscriber.next().await;
            }
            assert!(message == payload("after") || message == matched("c", "after"), "{message:?}");
        }
    }
}

/// Law 313: a backend subscribes to many channels at the same time.
pub async fn subscribers_of_many_channels_get_their_messages<W: MessageWorld>(world: &W) {
    let (publisher, store) = (world.messages(), world.messages());
    let mut subscribers = Vec::new();
    for number in 0..300 {
        let name = format!("channel {number}");
        let channel = if number % 2 == 0 { plain(&name) } else { sharded(&name) };
        subscribers.push((Subscriber::of(&store, &one(&channel)).await, channel, name));
    }
    for (_, channel, name) in &subscribers {
        publish(&publisher, channel, name).await;
    }
    for (subscriber, _, name) in &mut subscribers {
        assert_eq!(subscriber.next().await, payload(name));
    }
    for (subscriber, channel, _) in subscribers {
        assert_eq!(subscriber.end().await, []);
        eventually_subscribed(world, &one(&channel), 0).await;
    }
}
