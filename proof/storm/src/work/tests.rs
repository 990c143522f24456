//! Tests of the checker. A correct history must pass. For each law, there is also a history that breaks the law.

mod deliveries;
mod limits;

use bandog::work::{ElementId, Phase};

use super::{
    check::check,
    history::{Call, End, Handling, History, How, Note, Op, Queue, There, Work},
};
use crate::{
    calls::{Event, JUDGE, Outcome},
    fault::{Fault, FaultKind},
    history::{CallId, Nanos},
};

const MS: Nanos = 1_000_000;
const SECOND: Nanos = 1_000_000_000;
const QUEUE: Queue = Queue::Plain(0);

/// The element that the push of this value adds.
fn element(value: u64) -> ElementId {
    ElementId { client: 1, number: value }
}

fn push(value: u64) -> Op {
    Op::Push { value, key: 0, once: 0, parts: 0, bytes: 9 }
}

fn keyed(value: u64) -> Op {
    Op::Push { value, key: 7, once: 0, parts: 0, bytes: 9 }
}

fn once(value: u64) -> Op {
    Op::Push { value, key: 0, once: 9, parts: 0, bytes: 9 }
}

fn pushed(value: u64) -> Outcome {
    Outcome::Pushed { element: element(value), is_new: true }
}

/// A fault that lasts between these times in milliseconds.
fn fault(kind: FaultKind, client: Option<u32>, from: u64, to: u64) -> Fault {
    Fault { kind, from: from * MS, to: to * MS, client, name: None }
}

impl History {
    /// Adds a call that takes a millisecond. `at`: the time of its begin, in milliseconds.
    fn call(&mut self, at: u64, queue: Queue, op: Op, outcome: Outcome) -> &mut Call {
        let calls = &mut self.recorded.calls;
        let (id, begin) = (1_000 + calls.len() as CallId, at * MS);
        let (limit, outcome) = (SECOND, Some(outcome));
        calls.push(Call { client: 0, id, task: 0, object: queue, op, begin, limit, end: begin + MS, outcome });
        calls.last_mut().unwrap()
    }

    /// Adds an acknowledged push.
    fn push(&mut self, at: u64, op: Op) {
        let Op::Push { value, .. } = op else { panic!("{op:?}") };
        self.call(at, QUEUE, op, pushed(value));
    }

    /// Adds a handling of client 1 that takes 5 ms, with a lease of a second. `at`: the time of its begin, in milliseconds.
    fn handle(&mut self, at: u64, value: u64, fence: u64, attempt: u32, end: End) -> &mut Handling {
        let (id, begin, left) = (self.handlings.len() as CallId, at * MS, Some((at * MS + 5 * MS, end)));
        let (queue, until) = (QUEUE, begin + SECOND);
        let element = element(value);
        self.handlings.push(Handling { client: 1, id, queue, element, value, fence, attempt, begin, until, left });
        self.handlings.last_mut().unwrap()
    }

    /// Adds a handling that settles the element, and the answer of the store.
    fn settle(&mut self, at: u64, value: u64, fence: u64, attempt: u32, how: How) {
        let handling = self.handle(at, value, fence, attempt, End::Settles(how)).id;
        self.call(at + 5, QUEUE, Op::Settle { handling, how }, Outcome::Ok).client = 1;
    }

    fn handling(&mut self, value: u64) -> &mut Handling {
        self.handlings.iter_mut().rev().find(|handling| handling.value == value).unwrap()
    }

    fn fault(&mut self, fault: Fault) {
        self.recorded.disturbances.faults.push(fault);
    }

    fn there(&mut self, value: u64, phase: Phase, attempt: u32) {
        self.there.push(There { queue: QUEUE, element: element(value), phase, attempt, names_limit: false });
    }
}

/// Asserts that the history breaks exactly these laws.
#[track_caller]
fn breaks(history: &History, laws: &[&str]) {
    let mut history = history.clone();
    history.recorded.calls.sort_by_key(|call| (call.begin, call.client, call.id));
    history.handlings.sort_by_key(|handling| (handling.begin, handling.client, handling.id));
    let findings = check(&history);
    assert_eq!(findings.laws().into_keys().collect::<Vec<_>>(), laws, "{:?}", findings.violations);
}

/// Asserts that a history which begins with the good one breaks exactly these laws.
#[track_caller]
fn with(laws: &[&str], change: impl FnOnce(&mut History)) {
    let mut history = good();
    change(&mut history);
    breaks(&history, laws);
}

/// Element 1 fails once. Elements 2 and 3 have the same key. Element 5 waits for 4. The push 7 finds 6.
fn good() -> History {
    let mut history = History::default();
    history.push(0, push(1));
    history.push(10, keyed(2));
    history.push(20, keyed(3));
    history.push(30, push(4));
    history.push(30, Op::Push { value: 5, key: 0, once: 0, parts: 1, bytes: 9 });
    history.push(50, once(6));
    history.call(60, QUEUE, once(7), Outcome::Pushed { element: element(6), is_new: false });
    history.handle(100, 1, 1, 1, End::Error);
    history.handle(110, 2, 2, 1, End::Ok);
    history.handle(120, 3, 3, 1, End::Ok);
    history.handle(130, 4, 4, 1, End::Ok);
    history.handle(140, 5, 5, 1, End::Ok);
    history.settle(150, 6, 6, 1, How::Done);
    history.handle(200, 1, 7, 2, End::Ok);
    history
}

#[test]
fn a_good_history_passes() {
    breaks(&good(), &[]);
    let findings = check(&good());
    assert_eq!((findings.counts["elements pushed"], findings.counts["elements delivered"]), (6, 7));
}

#[test]
fn an_acknowledged_element_is_done_removed_or_there() {
    with(&["lost"], |history| history.push(70, push(8)));
    let killed = |history: &mut History| {
        history.push(70, push(8));
        history.handle(80, 8, 8, 1, End::Ok).left = None;
        history.recorded.disturbances.killed.insert(1, 85 * MS);
    };
    with(&["lost"], killed);
    with(&["lost"], |history| {
        killed(history);
        history.fault(fault(FaultKind::Stop, None, 70, 90));
    });
    with(&[], |history| {
        killed(history);
        history.fault(fault(FaultKind::Flushed, None, 90, 95));
    });
    with(&["lost"], |history| {
        history.fault(fault(FaultKind::Flushed, None, 40, 45));
        history.push(70, push(8));
    });
    with(&[], |history| {
        history.push(70, push(8));
        history.there(8, Phase::Dead, 5);
    });
    let removal = |client| {
        move |history: &mut History| {
            history.push(70, push(8));
            history.call(90, QUEUE, Op::Remove(element(8)), Outcome::Found(1)).client = client;
        }
    };
    with(&[], removal(0));
    // The judge removes what is there, so its removal proves nothing.
    with(&["lost"], removal(JUDGE));
    with(&["lost"], |history| {
        removal(0)(history);
        history.recorded.calls.last_mut().unwrap().outcome = Some(Outcome::Found(0));
    });
    // The store may still refuse the settlement.
    with(&["lost"], |history| {
        history.push(70, push(8));
        history.settle(80, 8, 8, 1, How::Done);
        history.recorded.calls.last_mut().unwrap().outcome = Some(Outcome::Lost);
    });
    with(&[], |history| _ = history.call(70, QUEUE, push(8), Outcome::Unclear));
}

#[test]
fn only_pushed_elements_are_handled() {
    with(&["unknown"], |history| _ = history.handle(300, 8, 8, 1, End::Ok));
    let handled = |outcome| {
        move |history: &mut History| {
            history.call(70, QUEUE, push(8), outcome);
            history.handle(300, 8, 8, 1, End::Ok);
        }
    };
    with(&[], handled(Outcome::Unclear));
    with(&["unknown"], handled(Outcome::Refused));
    with(&["unknown"], |history| {
        history.push(310, push(8));
        history.handle(300, 8, 8, 1, End::Ok);
    });
    with(&["unknown"], |history| {
        history.call(70, Queue::Plain(1), push(8), Outcome::Unclear);
        history.handle(300, 8, 8, 1, End::Ok);
    });
}

#[test]
fn a_push_and_an_id_of_once_add_one_element() {
    let twice = |history: &mut History| {
        history.call(70, QUEUE, push(8), Outcome::Unclear);
        history.handle(300, 8, 8, 1, End::Ok);
        history.handle(310, 8, 9, 1, End::Ok).element = element(9);
    };
    with(&["once"], twice);
    with(&[], |history| {
        twice(history);
        history.fault(fault(FaultKind::Flushed, None, 305, 306));
    });
    with(&["once"], |history| {
        history.push(80, once(8));
        history.handle(300, 8, 8, 1, End::Ok);
    });
    with(&["once"], |history| {
        history.call(80, QUEUE, once(8), Outcome::Unclear);
        history.handle(300, 8, 8, 1, End::Ok);
    });
    with(&[], |history| _ = history.call(80, QUEUE, once(8), Outcome::Unclear));
}

#[test]
fn one_handler_has_an_element_or_a_key() {
    let overlap = |value, begin: u64| {
        move |history: &mut History| {
            let first = history.handlings.iter_mut().find(|handling| handling.value == value).unwrap();
            first.left = Some((begin * MS + MS, first.left.unwrap().1));
        }
    };
    with(&["holders"], overlap(1, 200));
    with(&["holders"], overlap(2, 120));
    with(&[], overlap(1, 198));
    // The first handler knows that its lease is over, or was killed before it has extended it.
    with(&[], |history| {
        overlap(1, 200)(history);
        history.handlings[0].until = 199 * MS;
    });
    with(&["reason"], |history| (history.handlings[0].left, history.handlings[0].until) = (None, 199 * MS));
    with(&[], |history| {
        overlap(1, 200)(history);
        history.fault(fault(FaultKind::Flushed, None, 150, 151));
    });
}

#[test]
fn elements_with_a_key_come_in_the_order_of_their_pushes() {
    let swapped = |history: &mut History| {
        (history.handling(2).begin, history.handling(2).fence) = (125 * MS, 3);
        history.handling(2).left = Some((126 * MS, End::Ok));
        history.handling(3).fence = 2;
    };
    with(&["order"], swapped);
    // The pushes overlap, or an operator has retried the first one.
    with(&[], |history| {
        swapped(history);
        history.recorded.calls[1].end = 20 * MS;
    });
    with(&[], |history| {
        swapped(history);
        history.call(112, QUEUE, Op::Retry(element(2)), Outcome::Found(1));
    });
    with(&["order"], |history| {
        swapped(history);
        // One push has added both.
        (history.recorded.calls[2].begin, history.recorded.calls[2].end) = (10 * MS, 11 * MS);
    });
}

#[test]
fn an_element_waits_for_its_parts() {
    let early = |history: &mut History| (history.handling(5).begin, history.handling(5).fence) = (120 * MS, 8);
    with(&["parts"], early);
    with(&[], |history| {
        early(history);
        history.fault(fault(FaultKind::Flushed, None, 100, 101));
    });
    with(&["parts"], |history| {
        history.handling(4).left = Some((135 * MS, End::Error));
        history.handle(300, 4, 9, 2, End::Ok);
    });
}

#[test]
fn calls_end_in_time_and_without_errors() {
    let late = |history: &mut History| history.recorded.calls[0].end = 3 * SECOND;
    with(&["late"], late);
    with(&[], |history| {
        late(history);
        history.fault(fault(FaultKind::Stop, Some(0), 500, 2_500));
    });
    with(&["errors"], |history| _ = history.call(300, QUEUE, Op::Status, Outcome::Broken));
    with(&["errors"], |history| _ = history.call(300, QUEUE, Op::Status, Outcome::Denied));
    with(&[], |history| {
        history.call(300, QUEUE, Op::Status, Outcome::Denied);
        history.fault(fault(FaultKind::RightMissing, None, 290, 310));
    });
}

#[test]
fn a_push_that_is_too_large_is_refused_and_no_other_is() {
    let of = |bytes, outcome: Outcome| {
        move |history: &mut History| {
            _ = history.call(70, QUEUE, Op::Push { value: 8, key: 0, once: 0, parts: 0, bytes }, outcome);
        }
    };
    let large = (1 << 20) + 1;
    with(&[], of(large, Outcome::TooLarge));
    with(&[], of(large, Outcome::Cancelled));
    with(&["sizes"], of(large, Outcome::Unclear));
    with(&["sizes"], of(1 << 20, Outcome::TooLarge));
    // A session keeps the limit of the server at its begin.
    with(&[], |history| {
        of(600 << 10, Outcome::TooLarge)(history);
        history.fault(fault(FaultKind::SmallPackets, None, 10, 20));
    });
    with(&["sizes"], |history| {
        of(600 << 10, Outcome::TooLarge)(history);
        history.fault(fault(FaultKind::SmallPackets, None, 80, 90));
    });
    with(&["sizes"], |history| {
        of(300 << 10, Outcome::TooLarge)(history);
        history.fault(fault(FaultKind::SmallPackets, None, 10, 20));
    });
    // All elements of a call are refused with it.
    with(&[], |history| {
        of(large, Outcome::TooLarge)(history);
        history.call(70, QUEUE, push(9), Outcome::TooLarge);
    });
    with(&["sizes"], |history| {
        of(large, Outcome::TooLarge)(history);
        history.call(71, QUEUE, push(9), Outcome::TooLarge);
    });
    with(&["unknown"], |history| {
        of(large, Outcome::TooLarge)(history);
        history.handle(300, 8, 8, 1, End::Ok);
    });
    with(&["sizes"], |history| _ = history.call(300, QUEUE, Op::Status, Outcome::TooLarge));
}

#[test]
fn nothing_is_left() {
    for phase in [Phase::Ready, Phase::Delayed, Phase::Taken] {
        with(&["empty"], |history| {
            history.push(70, push(8));
            history.there(8, phase, 0);
        });
    }
    // An element waits for one that is dead or was removed, and for nothing else.
    let waits = |part: fn(&mut History)| {
        move |history: &mut History| {
            history.push(70, push(8));
            history.push(70, Op::Push { value: 9, key: 0, once: 0, parts: 1, bytes: 9 });
            history.there(9, Phase::Blocked, 0);
            part(history);
        }
    };
    with(&[], waits(|history| history.there(8, Phase::Dead, 5)));
    with(&[], waits(|history| _ = history.call(90, QUEUE, Op::Remove(element(8)), Outcome::Found(1))));
    with(&["empty"], waits(|history| _ = history.handle(300, 8, 8, 1, End::Ok)));
    with(&["empty"], |history| {
        history.push(70, keyed(8));
        history.there(8, Phase::Blocked, 0);
    });
    with(&["empty"], |history| history.there(5, Phase::Blocked, 0));
    with(&["left"], |history| history.left.push("bandog:work:x".to_owned()));
}

#[test]
fn the_lines_of_a_history_are_read_as_they_were_written() {
    let op = |op| Event::Began { call: 1, at: 2, task: 3, object: Queue::Rated, op, limit: 4 };
    let note = Event::Other;
    let handling = 5;
    let lines: [Event<Work>; 21] = [
        op(Op::Push { value: 1, key: 2, once: 3, parts: 4, bytes: 5 }),
        op(Op::Remove(element(6))),
        op(Op::Retry(element(6))),
        op(Op::RetryAll),
        op(Op::Pause),
        op(Op::Resume),
        op(Op::Limit(3)),
        op(Op::Rate(4)),
        op(Op::Status),
        op(Op::List(Phase::Dead)),
        op(Op::Result(element(6))),
        op(Op::Stop),
        op(Op::Settle { handling, how: How::Retry }),
        Event::Ended { call: 1, at: 2, outcome: pushed(7) },
        note(Note::Begun {
            handling,
            at: 6,
            queue: Queue::Limited,
            element: element(7),
            value: 8,
            fence: 9,
            attempt: 10,
            until: 11,
        }),
        note(Note::Held { handling, until: 6 }),
        note(Note::Left { handling, at: 6, end: End::Dropped }),
        note(Note::Left { handling, at: 6, end: End::Settles(How::Fail) }),
        note(Note::Left { handling, at: 6, end: End::Answers(7) }),
        note(Note::There {
            queue: Queue::Plain(1),
            element: element(8),
            phase: Phase::Blocked,
            attempt: 9,
            names_limit: true,
        }),
        note(Note::Unread { value: 3, at: 4 }),
    ];
    lines.into_iter().for_each(Event::is_read_as_written);
}
