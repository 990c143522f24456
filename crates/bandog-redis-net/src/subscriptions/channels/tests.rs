use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use bandog_core::Notifier;
use futures_util::FutureExt;

use super::*;

fn source(name: &str) -> Source {
    Source::Plain(name.into())
}

/// A sink, and a function that returns the number of its messages and gaps so far.
fn counter() -> (Sink, impl Fn() -> usize) {
    let count = Arc::new(AtomicUsize::new(0));
    let notified = count.clone();
    (Sink::of(Notifier::new(move || _ = notified.fetch_add(1, Ordering::Relaxed))), move || {
        count.load(Ordering::Relaxed)
    })
}

/// The value of this counter after all calls of the sinks.
fn told(channels: &mut Channels, count: impl Fn() -> usize) -> usize {
    let reports = Mutex::new(std::mem::take(&mut channels.reports));
    Reports::unlock(reports.lock().unwrap(), &reports, |reports| reports);
    count()
}

#[test]
fn many_subscribers_share_one_subscription() {
    let mut channels = Channels::default();
    let (sink, notified) = counter();
    let ids: Vec<u64> = (0..3).map(|_| channels.add(&source("c"), sink.clone()).id).collect();
    assert_eq!(channels.next_request(&source("c")), Some(ChannelRequest::Subscribe));
    assert_eq!(channels.next_request(&source("c")), None, "a request was sent before the answer to the previous one");
    channels.subscribed(&source("c"));
    assert!(
        channels.add(&source("c"), sink).outcome.is_none(),
        "the caller waits for a confirmation that has come already"
    );
    channels.message(&source("c"), None, b"0");
    assert_eq!(told(&mut channels, &notified), 4);
    for id in ids {
        channels.remove(&source("c"), id);
        assert_eq!(channels.next_request(&source("c")), None, "the channel still has a subscriber");
    }
    channels.remove(&source("c"), 4);
    assert_eq!(channels.next_request(&source("c")), Some(ChannelRequest::Unsubscribe));
    channels.unsubscribed(&source("c"));
    assert!(!channels.is_needed());
}

#[test]
fn a_subscriber_added_while_the_channel_is_unsubscribed_is_subscribed_anew() {
    let mut channels = Channels::default();
    let (sink, _) = counter();
    let id = channels.add(&source("c"), sink.clone()).id;
    channels.next_request(&source("c"));
    channels.subscribed(&source("c"));
    channels.remove(&source("c"), id);
    assert_eq!(channels.next_request(&source("c")), Some(ChannelRequest::Unsubscribe));
    let mut added = channels.add(&source("c"), sink);
    assert_eq!(channels.next_request(&source("c")), None, "a request was sent before UNSUBSCRIBE was answered");
    channels.unsubscribed(&source("c"));
    assert_eq!(channels.next_request(&source("c")), Some(ChannelRequest::Subscribe));
    channels.subscribed(&source("c"));
    let outcome = added.outcome.as_mut().unwrap().try_recv().unwrap().unwrap();
    assert!(matches!(outcome, SubscribeOutcome::Subscribed), "{outcome:?}");
}

#[test]
fn a_subscriber_removed_before_the_confirmation_leaves_no_subscription() {
    let mut channels = Channels::default();
    let id = channels.add(&source("c"), counter().0).id;
    channels.next_request(&source("c"));
    channels.remove(&source("c"), id);
    assert_eq!(channels.next_request(&source("c")), None);
    channels.subscribed(&source("c"));
    assert_eq!(channels.next_request(&source("c")), Some(ChannelRequest::Unsubscribe));
    channels.unsubscribed(&source("c"));
    assert!(!channels.is_needed());
}

#[test]
fn a_subscription_without_an_answer_is_ended_before_it_is_requested_again() {
    let mut channels = Channels::default();
    let mut added = channels.add(&source("c"), counter().0);
    channels.next_request(&source("c"));
    channels.unsure(&source("c"), &Error::unavailable("late"));
    assert!(added.outcome.as_mut().unwrap().try_recv().unwrap().is_err());
    assert_eq!(channels.next_request(&source("c")), Some(ChannelRequest::Unsubscribe));
    channels.unsubscribed(&source("c"));
    assert_eq!(channels.next_request(&source("c")), Some(ChannelRequest::Subscribe));
}

#[test]
fn after_a_lost_connection_each_subscriber_is_notified_when_it_is_subscribed_again() {
    let mut channels = Channels::default();
    let (sink, notified) = counter();
    channels.add(&source("c"), sink);
    let gone = channels.add(&source("gone"), counter().0).id;
    for channel in ["c", "gone"] {
        channels.next_request(&source(channel));
        channels.subscribed(&source(channel));
    }
    channels.remove(&source("gone"), gone);
    channels.connection_lost();
    assert_eq!(channels.sources().count(), 1, "the channel without subscribers was kept after the connection was lost");
    assert!(!channels.is_subscribed(&source("c")));
    assert_eq!(channels.next_request(&source("c")), Some(ChannelRequest::Subscribe));
    assert_eq!(told(&mut channels, &notified), 0);
    channels.subscribed(&source("c"));
    assert_eq!(told(&mut channels, &notified), 1);
}

#[test]
fn a_refusal_answers_waiting_callers_and_ends_confirmed_subscribers() {
    let mut channels = Channels::default();
    let (sink, notified) = counter();
    let (queue, mut messages) = Sink::queue(1);
    channels.add(&source("c"), sink);
    channels.add(&source("c"), queue);
    channels.next_request(&source("c"));
    channels.subscribed(&source("c"));
    channels.connection_lost();
    let mut waiting = channels.add(&source("c"), counter().0);
    channels.next_request(&source("c"));
    channels.refused(&source("c"), &Ok(SubscribeOutcome::Denied(Error::unavailable("no right"))));
    assert_eq!((told(&mut channels, &notified), messages.next().now_or_never()), (1, Some(None)));
    let outcome = waiting.outcome.as_mut().unwrap().try_recv().unwrap().unwrap();
    assert!(matches!(outcome, SubscribeOutcome::Denied(_)), "{outcome:?}");
}

fn payload(text: &str) -> Message {
    Message::Payload(text.as_bytes().into())
}

#[test]
fn a_gap_is_where_messages_are_missing() {
    let mut channels = Channels::default();
    let (sink, mut messages) = Sink::queue(9);
    channels.add(&source("c"), sink);
    channels.next_request(&source("c"));
    channels.message(&source("c"), None, b"first");
    channels.subscribed(&source("c"));
    channels.connection_lost();
    channels.next_request(&source("c"));
    // The message arrives before the task has seen the confirmation.
    channels.message(&source("c"), None, b"second");
    channels.subscribed(&source("c"));
    let mut next = || messages.next().now_or_never().flatten();
    told(&mut channels, || 0);
    assert_eq!([next(), next(), next()], [Some(payload("first")), Some(Message::Gap), Some(payload("second"))]);
    // An unsure subscription is ended and made again.
    channels.unsure(&source("c"), &Error::unavailable("late"));
    assert_eq!(channels.next_request(&source("c")), Some(ChannelRequest::Unsubscribe));
    channels.message(&source("c"), None, b"third");
    channels.unsubscribed(&source("c"));
    channels.next_request(&source("c"));
    channels.message(&source("c"), None, b"fifth");
    told(&mut channels, || 0);
    assert_eq!([next(), next(), next()], [Some(Message::Gap), Some(payload("fifth")), None]);
}

#[test]
fn a_new_subscriber_gets_nothing_of_the_former_subscription() {
    let mut channels = Channels::default();
    let id = channels.add(&source("c"), counter().0).id;
    channels.next_request(&source("c"));
    channels.subscribed(&source("c"));
    channels.remove(&source("c"), id);
    channels.next_request(&source("c"));
    let (sink, mut messages) = Sink::queue(9);
    channels.add(&source("c"), sink);
    channels.message(&source("c"), None, b"before a hole");
    channels.unsubscribed(&source("c"));
    channels.next_request(&source("c"));
    channels.subscribed(&source("c"));
    channels.message(&source("c"), None, b"after");
    told(&mut channels, || 0);
    assert_eq!(messages.next().now_or_never(), Some(Some(payload("after"))));
}
