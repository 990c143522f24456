//! Tests of the checker. A correct history must pass. For each law, there is also a history that breaks the law.

use super::{
    check::check,
    history::{Call, Heard, HeardEvent, History, How, Kind, Object, Objects, Op, Subscription},
};
use crate::{
    calls::{Event, JUDGE, Outcome, item},
    fault::{Fault, FaultKind},
    history::Nanos,
};

const MS: Nanos = 1_000_000;
const SECOND: Nanos = 1_000_000_000;
const QUEUE: Object = Object(Kind::Queue, 0);

/// A history of calls that follow each other: each takes a millisecond, and begins 10 ms after the one before.
fn of(calls: &[(u32, Object, Op, Outcome)]) -> History {
    let mut history = History::default();
    for ((client, object, op, outcome), at) in calls.iter().copied().zip(1..) {
        let (begin, id) = (at * 10 * MS, at);
        let outcome = Some(outcome);
        history.recorded.calls.push(Call {
            client,
            id,
            task: 0,
            object,
            op,
            begin,
            limit: SECOND,
            end: begin + MS,
            outcome,
        });
    }
    history
}

fn taken(element: u64, fence: u64, delivery: u32) -> Outcome {
    Outcome::Taken { element, fence, delivery }
}

fn settle(of: u64, how: How, held: bool) -> Op {
    Op::Settle { of, how, held }
}

/// A fault that lasts from the call with the one number to the call with the other number.
fn fault(kind: FaultKind, client: Option<u32>, from: u64, to: u64) -> Fault {
    Fault { kind, from: from * 10 * MS, to: to * 10 * MS, client, name: None }
}

/// Asserts that the history breaks exactly these laws.
#[track_caller]
fn breaks(history: &History, laws: &[&str]) {
    let findings = check(history);
    assert_eq!(findings.laws().into_keys().collect::<Vec<_>>(), laws, "{:?}", findings.violations);
}

/// Element 5 is pushed, taken, released, taken again and done; element 6 is pushed and popped.
fn good() -> History {
    of(&[
        (0, QUEUE, Op::Push(5), Outcome::Ok),
        (0, QUEUE, Op::ExactPush(6), Outcome::Ok),
        (1, QUEUE, Op::Take, taken(5, 7, 1)),
        (1, QUEUE, settle(3, How::Release, true), Outcome::Ok),
        (2, QUEUE, Op::Take, taken(5, 8, 2)),
        (2, QUEUE, settle(5, How::Done, true), Outcome::Ok),
        (1, QUEUE, Op::Pop, Outcome::Found(6)),
        (1, QUEUE, Op::Pop, Outcome::No),
    ])
}

/// The correct history in which the holder of element 5 is stopped, instead of releasing it.
fn overtaken() -> History {
    let mut history = good();
    let mut settled = history.recorded.calls.remove(3);
    (settled.begin, settled.end) = (90 * MS, 91 * MS);
    (settled.op, settled.outcome) = (settle(3, How::Done, false), Some(Outcome::Lost));
    history.recorded.calls.push(settled);
    history.recorded.disturbances.faults.push(fault(FaultKind::Stop, Some(1), 3, 9));
    history
}

#[test]
fn good_histories_pass() {
    breaks(&good(), &[]);
    breaks(&overtaken(), &[]);
}

#[test]
fn a_lost_element_is_seen_and_excused_only_if_the_store_may_have_lost_it() {
    let mut history = good();
    history.recorded.calls[6].outcome = Some(Outcome::No);
    breaks(&history, &["lost"]);
    history.recorded.disturbances.faults = vec![fault(FaultKind::Flushed, None, 4, 4)];
    breaks(&history, &[]);
    history.recorded.disturbances.faults = vec![fault(FaultKind::Flushed, None, 1, 1)];
    breaks(&history, &["lost"]);
    // A replica has all writes that were made a second before it took over.
    history.recorded.disturbances.faults = vec![fault(FaultKind::MasterKilled, None, 90, 90)];
    breaks(&history, &[]);
    history.recorded.disturbances.faults = vec![fault(FaultKind::MasterKilled, None, 150, 150)];
    breaks(&history, &["lost"]);
}

#[test]
fn a_client_that_is_killed_in_a_pop_excuses_one_element() {
    let mut history = good();
    (history.recorded.calls[6].outcome, history.recorded.calls[6].end) = (None, 70 * MS);
    history.recorded.disturbances.killed.insert(1, 70 * MS);
    breaks(&history, &[]);
    history.recorded.calls[5].outcome = Some(Outcome::No);
    history.recorded.calls[4].outcome = Some(Outcome::No);
    history.recorded.calls[2].outcome = Some(Outcome::No);
    breaks(&history, &["lost"]);
}

#[test]
fn an_unclear_push_may_be_there_and_a_refused_one_must_not() {
    let mut history = good();
    history.recorded.calls[1].outcome = Some(Outcome::Unclear);
    breaks(&history, &[]);
    history.recorded.calls[1].outcome = Some(Outcome::Refused);
    breaks(&history, &["unknown"]);
}

#[test]
fn an_element_that_nobody_has_pushed_is_seen() {
    let mut history = good();
    history.recorded.calls[7].outcome = Some(Outcome::Found(9));
    breaks(&history, &["unknown"]);
    // A pop that ended before the push.
    let mut history = good();
    history.recorded.calls[1].begin = 100 * MS;
    breaks(&history, &["unknown"]);
}

#[test]
fn an_element_that_is_popped_twice_is_seen_unless_its_client_died_at_once() {
    let mut history = good();
    history.recorded.calls[7].outcome = Some(Outcome::Found(6));
    breaks(&history, &["twice"]);
    history.recorded.disturbances.killed.insert(1, 72 * MS);
    breaks(&history, &[]);
    history.recorded.disturbances.killed.insert(1, 3 * SECOND);
    breaks(&history, &["twice"]);
    history.recorded.disturbances.killed.clear();
    history.recorded.disturbances.faults = vec![fault(FaultKind::Failover, None, 7, 8)];
    breaks(&history, &[]);
    history.recorded.disturbances.faults = vec![fault(FaultKind::RightMissing, None, 7, 8)];
    breaks(&history, &["twice"]);
}

#[test]
fn a_popped_element_comes_again_after_an_outage_of_30_seconds() {
    let again = |outage: Nanos| {
        let mut history = good();
        let second = &mut history.recorded.calls[7];
        (second.client, second.outcome) = (2, Some(Outcome::Found(6)));
        (second.begin, second.end) = (40 * SECOND, 40 * SECOND + MS);
        let (from, to) = (75 * MS, 75 * MS + outage);
        let fault = Fault { kind: FaultKind::Outage, from, to, client: None, name: None };
        history.recorded.disturbances.faults.push(fault);
        history
    };
    breaks(&again(20 * SECOND), &["twice"]);
    breaks(&again(30 * SECOND), &[]);
}

#[test]
fn an_element_that_comes_after_it_is_done_is_seen() {
    for (op, outcome) in [(Op::Pop, Outcome::Found(5)), (Op::Take, taken(5, 9, 3))] {
        let mut history = good();
        (history.recorded.calls[7].op, history.recorded.calls[7].outcome) = (op, Some(outcome));
        let findings = check(&history);
        assert!(findings.laws().contains_key("twice"), "{:?}", findings.violations);
    }
    // For two holders, the end of the element succeeds.
    let mut history = overtaken();
    history.recorded.calls[7].outcome = Some(Outcome::Ok);
    breaks(&history, &["twice"]);
}

#[test]
fn a_delivery_without_a_reason_is_seen() {
    let mut history = overtaken();
    history.recorded.disturbances.faults.clear();
    breaks(&history, &["reason"]);
    // Another client was stopped.
    history.recorded.disturbances.faults = vec![fault(FaultKind::Stop, Some(2), 3, 9)];
    breaks(&history, &["reason"]);
    history.recorded.disturbances.faults.clear();
    history.recorded.disturbances.stalls = vec![(None, 30 * MS, 90 * MS)];
    breaks(&history, &[]);
}

#[test]
fn a_holder_that_believes_in_a_lost_element_is_seen() {
    let mut history = overtaken();
    history.recorded.calls[7].op = settle(3, How::Done, true);
    breaks(&history, &["holders"]);
    history.recorded.disturbances.faults.push(fault(FaultKind::Flushed, None, 4, 4));
    breaks(&history, &[]);
}

#[test]
fn fences_and_deliveries_that_do_not_increase_are_seen() {
    for outcome in [taken(5, 6, 2), taken(5, 7, 2), taken(5, 8, 1)] {
        let mut history = good();
        history.recorded.calls[4].outcome = Some(outcome);
        let findings = check(&history);
        assert!(findings.laws().contains_key("fences"), "{:?}", findings.violations);
    }
    // Another element of the same queue has the same fence.
    let history = of(&[
        (0, QUEUE, Op::Push(5), Outcome::Ok),
        (0, QUEUE, Op::Push(6), Outcome::Ok),
        (1, QUEUE, Op::Take, taken(5, 8, 1)),
        (2, QUEUE, Op::Take, taken(6, 8, 1)),
    ]);
    breaks(&history, &["fences"]);
}

#[test]
fn a_value_that_is_not_the_last_one_is_seen() {
    let map = Object(Kind::Map, 0);
    let write = |value| Op::Write { key: 1, value };
    let with = |outcome, found| {
        of(&[
            (0, map, write(5), Outcome::Ok),
            (0, map, write(6), outcome),
            (JUDGE, map, Op::Read { key: 1 }, Outcome::Found(found)),
        ])
    };
    breaks(&with(Outcome::Ok, 6), &[]);
    breaks(&with(Outcome::Ok, 5), &["values"]);
    breaks(&with(Outcome::Unclear, 5), &[]);
    breaks(&with(Outcome::Unclear, 6), &[]);
    breaks(&with(Outcome::Unclear, 0), &["values"]);
    breaks(&with(Outcome::Refused, 6), &["values"]);
    let mut history = with(Outcome::Ok, 0);
    history.recorded.disturbances.faults = vec![fault(FaultKind::Flushed, None, 3, 3)];
    breaks(&history, &[]);
    history.recorded.disturbances.faults = vec![fault(FaultKind::Flushed, None, 1, 1)];
    breaks(&history, &["values"]);
}

#[test]
fn a_version_with_two_successors_or_none_is_seen() {
    let value = Object(Kind::Value, 0);
    let swap = |from, to| Op::Swap { key: 0, from: Some(from), to };
    let with = |second: Op, outcome, last| {
        of(&[
            (0, value, swap(0, 5), Outcome::Ok),
            (1, value, swap(5, 6), Outcome::Ok),
            (0, value, second, outcome),
            (JUDGE, value, Op::Read { key: 0 }, Outcome::Found(last)),
        ])
    };
    breaks(&with(swap(6, 7), Outcome::Ok, 7), &[]);
    breaks(&with(swap(5, 7), Outcome::No, 6), &[]);
    breaks(&with(swap(5, 7), Outcome::Ok, 7), &["versions"]);
    // The version 6 has vanished.
    breaks(&with(swap(5, 7), Outcome::No, 8), &["versions"]);
    breaks(&with(swap(6, 8), Outcome::Unclear, 8), &[]);
    let update = Op::Swap { key: 0, from: None, to: 7 };
    breaks(&with(update, Outcome::Found(6), 7), &[]);
    breaks(&with(update, Outcome::Found(5), 7), &["versions"]);
    breaks(&with(update, Outcome::Cancelled, 7), &[]);
    breaks(&with(update, Outcome::Cancelled, 8), &["versions"]);
    // An update without an answer was applied if its version was read.
    let mut history = with(update, Outcome::Cancelled, 9);
    history.recorded.calls.push(Call { op: swap(7, 9), id: 9, begin: 35 * MS, ..history.recorded.calls[2] });
    breaks(&history, &[]);
    let mut history = with(swap(5, 7), Outcome::Ok, 7);
    history.recorded.disturbances.faults = vec![fault(FaultKind::MasterStopped, None, 2, 3)];
    breaks(&history, &[]);
}

#[test]
fn an_addition_that_counts_twice_or_not_at_all_is_seen() {
    let with = |kind, outcome, sum| {
        let counter = Object(kind, 0);
        of(&[
            (0, counter, Op::Add(10), Outcome::Found(10)),
            (0, counter, Op::Add(3), Outcome::Found(13)),
            (0, counter, Op::Add(5), outcome),
            (JUDGE, counter, Op::Sum, Outcome::Found(sum)),
        ])
    };
    for kind in [Kind::Counter, Kind::ExactCounter] {
        breaks(&with(kind, Outcome::Found(18), 18), &[]);
        breaks(&with(kind, Outcome::Unclear, 18), &[]);
        breaks(&with(kind, Outcome::Unclear, 13), &[]);
        breaks(&with(kind, Outcome::Refused, 18), &["sums"]);
        breaks(&with(kind, Outcome::Found(18), 13), &["sums"]);
        breaks(&with(kind, Outcome::Found(18), 23), &["sums"]);
        breaks(&with(kind, Outcome::Found(9), 18), &["sums"]);
    }
    // A part of an exact addition.
    breaks(&with(Kind::ExactCounter, Outcome::Unclear, 15), &["sums"]);
    let mut history = with(Kind::Counter, Outcome::Found(5), 5);
    history.recorded.disturbances.faults = vec![fault(FaultKind::Flushed, None, 2, 2)];
    breaks(&history, &[]);
    history.recorded.calls[3].outcome = Some(Outcome::Found(4));
    breaks(&history, &["sums"]);
}

#[test]
fn a_number_that_is_given_twice_is_seen() {
    let ids = Object(Kind::Ids, 0);
    let mut history = of(&[(0, ids, Op::Next, Outcome::Found(1)), (1, ids, Op::Next, Outcome::Found(1))]);
    breaks(&history, &["numbers"]);
    history.recorded.disturbances.faults = vec![fault(FaultKind::Flushed, None, 2, 2)];
    breaks(&history, &[]);
}

#[test]
fn an_item_that_a_filter_has_forgotten_is_seen() {
    let bloom = Object(Kind::Bloom, 0);
    let with = |inserted| of(&[(0, bloom, Op::Insert(5), inserted), (JUDGE, bloom, Op::Contains(5), Outcome::No)]);
    breaks(&with(Outcome::Ok), &["filter"]);
    breaks(&with(Outcome::Unclear), &[]);
    let mut history = with(Outcome::Ok);
    history.recorded.disturbances.faults = vec![fault(FaultKind::Flushed, None, 2, 2)];
    breaks(&history, &[]);
}

/// Three messages of publisher 9, and what a subscriber that was there before got.
fn messages(heard: &[Heard]) -> History {
    let topic = Object(Kind::Topic, 0);
    let publish = |number| (0, topic, Op::Publish { publisher: 9, number }, Outcome::Ok);
    let mut history = of(&[publish(1), publish(2), publish(3)]);
    let events = heard.iter().copied().zip(1..).map(|(heard, at)| (if at == 1 { 1 } else { at * SECOND }, heard));
    history.subscriptions.insert((topic, 1, 0), Subscription { events: events.collect() });
    history
}

#[test]
fn messages_that_are_missing_or_come_twice_are_seen() {
    let message = |number| Heard::Message { publisher: 9, number };
    let begin = Heard::Subscribed;
    breaks(&messages(&[begin, message(1), message(2), message(3)]), &[]);
    breaks(&messages(&[begin, message(1), message(3)]), &["messages"]);
    breaks(&messages(&[begin, message(2), message(3)]), &["messages"]);
    breaks(&messages(&[begin, message(1), Heard::Gap, message(3)]), &[]);
    breaks(&messages(&[begin, Heard::Gap, message(2), message(3)]), &[]);
    breaks(&messages(&[begin, message(1), message(2), message(2)]), &["messages"]);
    breaks(&messages(&[begin, message(1), Heard::Gap, message(1)]), &["messages"]);
    breaks(&messages(&[begin, message(1), message(2), message(3), message(4)]), &["messages"]);
    breaks(&messages(&[begin, message(1), message(2), message(3), Heard::Deaf]), &["messages"]);
    // Between the nodes of a cluster, messages can be lost and overtaken, and none comes twice.
    for (heard, laws) in [
        ([begin, message(1), message(3), message(2)], &[][..]),
        ([begin, message(1), message(2), message(2)], &["messages"]),
    ] {
        let mut history = messages(&heard);
        history.relays = true;
        breaks(&history, &["messages"]);
        history.recorded.disturbances.faults = vec![fault(FaultKind::MasterStopped, None, 1, 2)];
        breaks(&history, laws);
    }
    let repeated = messages(&[begin, message(1), message(2), Heard::Gap, message(2)]);
    breaks(&repeated, &["messages"]);
    breaks(&History { relays: true, ..repeated }, &[]);
    // The first message was published before the subscription.
    let mut history = messages(&[begin, message(2), message(3)]);
    history.subscriptions.values_mut().for_each(|subscription| subscription.events[0].0 = 15 * MS);
    breaks(&history, &[]);
    // A message whose publication was refused, or not confirmed.
    for (outcome, laws) in [(Outcome::Refused, &["messages"][..]), (Outcome::Unclear, &[])] {
        let mut history = messages(&[begin, message(1), message(2), message(3)]);
        history.recorded.calls[1].outcome = Some(outcome);
        breaks(&history, laws);
    }
    // One without an answer may be overtaken by later ones.
    let mut overtaken = messages(&[begin, message(1), message(3), message(2)]);
    breaks(&overtaken, &["messages"]);
    overtaken.recorded.calls[1].outcome = Some(Outcome::Unclear);
    breaks(&overtaken, &[]);
}

#[test]
fn a_late_call_is_seen_unless_its_process_was_stopped() {
    let mut history = good();
    history.recorded.calls[7].end = 5 * SECOND;
    breaks(&history, &["late"]);
    history.recorded.disturbances.stalls = vec![(Some(1), 80 * MS, 4 * SECOND)];
    breaks(&history, &[]);
    history.recorded.disturbances.stalls[0].0 = Some(2);
    breaks(&history, &["late"]);
    // A client that is killed in a call does not end it.
    (history.recorded.calls[7].outcome, history.recorded.calls[7].end) = (None, Nanos::MAX);
    breaks(&history, &[]);
}

#[test]
fn errors_that_no_call_may_get_are_seen() {
    let mut history = good();
    history.recorded.calls[7].outcome = Some(Outcome::Broken);
    breaks(&history, &["errors"]);
    history.recorded.calls[7].outcome = Some(Outcome::Denied);
    breaks(&history, &["errors"]);
    history.recorded.disturbances.faults = vec![fault(FaultKind::RightMissing, None, 7, 9)];
    breaks(&history, &[]);
}

#[test]
fn a_key_that_is_left_is_seen() {
    let history = History { left: vec!["bandog:taken:{q}".into()], ..good() };
    breaks(&history, &["left"]);
}

#[test]
fn a_line_that_is_written_is_read_again() {
    let ops = [
        Op::Push(1),
        Op::ExactPush(2),
        Op::Pop,
        Op::Take,
        settle(3, How::Done, true),
        settle(4, How::Release, false),
        settle(4, How::Drop, false),
        Op::Write { key: 1, value: 2 },
        Op::Read { key: 1 },
        Op::Swap { key: 1, from: Some(0), to: 2 },
        Op::Swap { key: 1, from: None, to: 2 },
        Op::Add(1),
        Op::Sum,
        Op::Next,
        Op::Insert(1),
        Op::Contains(1),
        Op::Publish { publisher: 1, number: 2 },
    ];
    let began = |op| Event::<Objects>::Began { call: 1, at: 2, task: 3, object: QUEUE, op, limit: 4 };
    let outcomes = [
        Outcome::Ok,
        Outcome::No,
        Outcome::Found(1),
        taken(1, 2, 3),
        Outcome::Lost,
        Outcome::Refused,
        Outcome::Unclear,
        Outcome::Cancelled,
        Outcome::Denied,
        Outcome::Broken,
    ];
    let ended = |outcome| Event::Ended { call: 1, at: 2, outcome };
    let message = Heard::Message { publisher: 1, number: 2 };
    let heard = |heard| Event::Other(HeardEvent { subscription: 1, at: 2, object: QUEUE, heard });
    let all = ops.map(began).into_iter().chain(outcomes.map(ended));
    let all = all.chain([Heard::Subscribed, message, Heard::Gap, Heard::Deaf].map(heard));
    for event in all.chain([Event::Killed { at: 1 }, Event::Stalled { from: 1, to: 2 }]) {
        event.is_read_as_written();
    }
}

#[test]
fn what_has_expired_does_not_come_back() {
    let fleeting = Object(Kind::Fleeting, 3);
    let lend = Op::Lend { key: 3, value: 7, ttl: 5 };
    let read = |outcome| (0, fleeting, Op::Read { key: 3 }, outcome);
    // A call begins each 10 ms.
    let mut history = of(&[(0, fleeting, lend, Outcome::Ok), read(Outcome::Found(7)), read(Outcome::Found(0))]);
    breaks(&history, &[]);
    history.recorded.calls[1].begin = 67 * MS;
    breaks(&history, &["ttls"]);
    history.recorded.calls[0].outcome = Some(Outcome::Unclear);
    breaks(&history, &[]);
    history.recorded.calls[1].begin = 11 * SECOND;
    breaks(&history, &["ttls"]);
    history.recorded.disturbances.faults.push(fault(FaultKind::Outage, None, 0, 200));
    breaks(&history, &[]);
    history.recorded.calls[0].outcome = Some(Outcome::No);
    breaks(&history, &["ttls"]);
    breaks(&of(&[read(Outcome::Found(9))]), &["ttls"]);
}

#[test]
fn a_value_that_is_too_large_is_refused_and_no_other_is() {
    let largest = 512 << 10;
    let is_large = |number: &u64| item::size(*number, largest) > largest;
    let (large, small) = ((1..).find(is_large).unwrap(), (1..).find(|number| !is_large(number)).unwrap());
    let with = |element, outcome| {
        let mut history = of(&[(0, QUEUE, Op::Push(element), outcome)]);
        history.largest = largest;
        history
    };
    breaks(&with(large, Outcome::TooLarge), &[]);
    breaks(&with(small, Outcome::TooLarge), &["sizes"]);
    breaks(&with(large, Outcome::Ok), &["lost", "sizes"]);
    breaks(&with(large, Outcome::Cancelled), &[]);
}

#[test]
fn a_copy_has_a_value_that_was_written() {
    let map = Object(Kind::Map, 0);
    let peek = |value| (0, map, Op::Peek { key: 1 }, Outcome::Found(value));
    let write = |value| (0, map, Op::Write { key: 1, value }, Outcome::Ok);
    breaks(&of(&[write(5), write(6), peek(5), peek(0)]), &[]);
    breaks(&of(&[write(5), peek(7)]), &["values"]);
}
