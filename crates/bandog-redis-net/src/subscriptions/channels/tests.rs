use std::sync::atomic::{AtomicUsize, Ordering};

use bandog_core::Notifier;

use super::*;

/// A sink, and a function that returns the number of its messages and gaps so far.
fn counter() -> (Sink, impl Fn() -> usize) {
    let count = Arc::new(AtomicUsize::new(0));
    let notified = count.clone();
    (Sink::of(Notifier::new(move || _ = notified.fetch_add(1, Ordering::Relaxed))), move || {
        count.load(Ordering::Relaxed)
    })
}

#[test]
fn many_subscribers_share_one_subscription() {
    let mut channels = Channels::default();
    let (sink, notified) = counter();
    let ids: Vec<u64> = (0..3).map(|_| channels.add("c", sink.clone()).id).collect();
    assert_eq!(channels.next_request("c"), Some(ChannelRequest::Subscribe));
    assert_eq!(channels.next_request("c"), None, "a request was sent before the answer to the previous one");
    channels.subscribed("c");
    assert!(channels.add("c", sink).outcome.is_none(), "the caller waits for a confirmation that has come already");
    channels.message("c", b"0");
    assert_eq!(notified(), 4);
    for id in ids {
        channels.remove("c", id);
        assert_eq!(channels.next_request("c"), None, "the channel still has a subscriber");
    }
    channels.remove("c", 4);
    assert_eq!(channels.next_request("c"), Some(ChannelRequest::Unsubscribe));
    channels.unsubscribed("c");
    assert!(!channels.is_needed());
}

#[test]
fn a_subscriber_added_while_the_channel_is_unsubscribed_is_subscribed_anew() {
    let mut channels = Channels::default();
    let (sink, _) = counter();
    let id = channels.add("c", sink.clone()).id;
    channels.next_request("c");
    channels.subscribed("c");
    channels.remove("c", id);
    assert_eq!(channels.next_request("c"), Some(ChannelRequest::Unsubscribe));
    let mut added = channels.add("c", sink);
    assert_eq!(channels.next_request("c"), None, "a request was sent before UNSUBSCRIBE was answered");
    channels.unsubscribed("c");
    assert_eq!(channels.next_request("c"), Some(ChannelRequest::Subscribe));
    channels.subscribed("c");
    assert_eq!(added.outcome.as_mut().unwrap().try_recv().unwrap().unwrap(), SubscribeOutcome::Subscribed);
}

#[test]
fn a_subscriber_removed_before_the_confirmation_leaves_no_subscription() {
    let mut channels = Channels::default();
    let id = channels.add("c", counter().0).id;
    channels.next_request("c");
    channels.remove("c", id);
    assert_eq!(channels.next_request("c"), None);
    channels.subscribed("c");
    assert_eq!(channels.next_request("c"), Some(ChannelRequest::Unsubscribe));
    channels.unsubscribed("c");
    assert!(!channels.is_needed());
}

#[test]
fn a_subscription_without_an_answer_is_ended_before_it_is_requested_again() {
    let mut channels = Channels::default();
    let mut added = channels.add("c", counter().0);
    channels.next_request("c");
    channels.unsure("c", &Error::unavailable("late"));
    assert!(added.outcome.as_mut().unwrap().try_recv().unwrap().is_err());
    assert_eq!(channels.next_request("c"), Some(ChannelRequest::Unsubscribe));
    channels.unsubscribed("c");
    assert_eq!(channels.next_request("c"), Some(ChannelRequest::Subscribe));
}

#[test]
fn after_a_lost_connection_each_subscriber_is_notified_when_it_is_subscribed_again() {
    let mut channels = Channels::default();
    let (sink, notified) = counter();
    channels.add("c", sink);
    let gone = channels.add("gone", counter().0).id;
    for channel in ["c", "gone"] {
        channels.next_request(channel);
        channels.subscribed(channel);
    }
    channels.remove("gone", gone);
    channels.connection_lost();
    assert_eq!(channels.names().count(), 1, "the channel without subscribers was kept after the connection was lost");
    assert!(!channels.is_subscribed("c"));
    assert_eq!(channels.next_request("c"), Some(ChannelRequest::Subscribe));
    assert_eq!(notified(), 0);
    channels.subscribed("c");
    assert_eq!(notified(), 1);
}

#[test]
fn a_refusal_answers_waiting_callers_and_notifies_confirmed_subscribers() {
    let mut channels = Channels::default();
    let (sink, notified) = counter();
    channels.add("c", sink);
    channels.next_request("c");
    channels.subscribed("c");
    channels.connection_lost();
    let mut waiting = channels.add("c", counter().0);
    channels.next_request("c");
    channels.refused("c", &Ok(SubscribeOutcome::Denied));
    assert_eq!(notified(), 1);
    assert_eq!(waiting.outcome.as_mut().unwrap().try_recv().unwrap().unwrap(), SubscribeOutcome::Denied);
}
