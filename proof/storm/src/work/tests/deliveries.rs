//! Histories of elements that come several times.

use super::{End, FaultKind, History, How, MS, Op, Outcome, Phase, QUEUE, element, fault, push, with};

#[test]
fn fences_are_unique() {
    with(&["fences"], |history| history.handling(3).fence = 2);
    with(&["fences"], |history| history.handling(1).fence = 1);
    with(&[], |history| history.handling(4).fence = 5);
}

#[test]
fn attempts_increase_by_one() {
    let of = |attempt, first_end| {
        move |history: &mut History| {
            history.handling(1).attempt = attempt;
            history.handlings[0].left = Some((105 * MS, first_end));
        }
    };
    with(&["attempts"], of(1, End::Error));
    with(&["attempts"], of(3, End::Error));
    with(&["attempts"], of(1, End::Panic));
    with(&[], of(1, End::Dropped));
    with(&[], of(1, End::Settles(How::HandBack)));
    with(&["attempts"], |history| history.handling(4).attempt = 2);
    with(&[], |history| {
        history.handling(4).attempt = 2;
        history.recorded.disturbances.blocked.push((Some(3), 40 * MS, 50 * MS));
    });
    // An answer with the element was lost.
    with(&[], |history| {
        of(3, End::Error)(history);
        history.fault(fault(FaultKind::Stop, Some(1), 110, 120));
    });
    with(&[], |history| {
        of(1, End::Error)(history);
        history.call(150, QUEUE, Op::RetryAll, Outcome::Found(1));
    });
    with(&["attempts"], |history| {
        of(1, End::Error)(history);
        history.call(150, QUEUE, Op::RetryAll, Outcome::Found(0));
    });
}

#[test]
fn deliveries_are_limited_and_used() {
    let failed = |attempts| {
        move |history: &mut History| {
            history.push(70, push(8));
            for attempt in 1..=attempts {
                history.handle(300 + u64::from(attempt) * 10, 8, 10 + u64::from(attempt), attempt, End::Error);
            }
            history.there(8, Phase::Dead, attempts);
        }
    };
    with(&[], failed(5));
    with(&["deliveries"], failed(6));
    with(&["deliveries"], failed(4));
    with(&[], |history| {
        failed(4)(history);
        history.handling(8).left = Some((345 * MS, End::Settles(How::Fail)));
    });
}

#[test]
fn an_element_that_is_done_or_given_up_does_not_come_again() {
    let again = |how| {
        move |history: &mut History| {
            history.push(70, push(8));
            history.settle(300, 8, 8, 1, how);
            history.handle(400, 8, 9, 2, End::Ok);
        }
    };
    let stopped = fault(FaultKind::Stop, Some(1), 290, 299);
    with(&["reason", "twice"], again(How::Done));
    with(&["reason", "twice"], again(How::Fail));
    with(&["twice"], |history| {
        again(How::Done)(history);
        history.fault(stopped);
    });
    // The store has not acknowledged that it is done.
    with(&[], |history| {
        again(How::Done)(history);
        history.recorded.calls.last_mut().unwrap().outcome = Some(Outcome::Unclear);
        history.fault(stopped);
    });
    with(&[], |history| {
        again(How::Fail)(history);
        history.call(350, QUEUE, Op::Retry(element(8)), Outcome::Found(1));
    });
    // The operator was faster than the answer to the handler.
    with(&[], |history| {
        again(How::Fail)(history);
        history.recorded.calls.last_mut().unwrap().end = 320 * MS;
        history.call(310, QUEUE, Op::RetryAll, Outcome::Found(1));
    });
    with(&["reason", "twice"], |history| {
        again(How::Done)(history);
        history.call(350, QUEUE, Op::Retry(element(8)), Outcome::Found(1));
    });
    with(&[], again(How::Retry));
    with(&[], again(How::HandBack));
}

#[test]
fn an_element_comes_again_for_a_reason() {
    let again = |history: &mut History| _ = history.handle(300, 4, 8, 2, End::Ok);
    with(&["reason"], again);
    with(&[], |history| {
        again(history);
        history.fault(fault(FaultKind::Stop, Some(1), 130, 140));
    });
    with(&["reason"], |history| {
        again(history);
        history.fault(fault(FaultKind::Stop, Some(2), 130, 140));
    });
    // In a database, the stopped one can have locks.
    with(&[], |history| {
        again(history);
        history.recorded.disturbances.has_locks = true;
        history.fault(fault(FaultKind::Stop, Some(2), 130, 140));
    });
    let killed = |history: &mut History| {
        again(history);
        history.handlings.iter_mut().find(|handling| handling.value == 4).unwrap().left = None;
        (history.handlings[3].until, history.handling(5).begin) = (290 * MS, 310 * MS);
        history.handling(5).left = Some((311 * MS, End::Ok));
    };
    with(&["reason"], killed);
    with(&[], |history| {
        killed(history);
        history.recorded.disturbances.killed.insert(1, 150 * MS);
    });
}

#[test]
fn a_payload_that_panics_uses_a_delivery() {
    let skips = |at: u64| {
        move |history: &mut History| {
            history.handling(1).attempt = 3;
            history.unread.insert(1, vec![at * MS]);
        }
    };
    with(&[], skips(150));
    with(&["attempts"], skips(90));
    with(&["attempts"], |history| {
        skips(150)(history);
        history.handling(1).attempt = 4;
    });
    with(&[], |history| {
        history.handling(4).attempt = 2;
        history.unread.insert(4, vec![100 * MS]);
    });
}

#[test]
fn a_result_that_is_too_large_makes_its_element_dead_with_an_error_that_says_so() {
    let large = (1 << 20) + 1;
    let dead = |bytes, names_limit| {
        move |history: &mut History| {
            history.push(70, push(8));
            history.handle(300, 8, 8, 1, End::Answers(bytes));
            history.there(8, Phase::Dead, 1);
            history.there.last_mut().unwrap().names_limit = names_limit;
        }
    };
    with(&[], dead(large, true));
    with(&["sizes"], dead(large, false));
    with(&["deliveries"], dead(600 << 10, true));
    with(&[], |history| {
        dead(600 << 10, true)(history);
        history.fault(fault(FaultKind::SmallPackets, None, 10, 20));
    });
    // It is neither done nor delivered again.
    with(&["lost"], |history| {
        dead(large, true)(history);
        history.there.clear();
    });
    with(&["reason"], |history| {
        history.handling(4).left = Some((135 * MS, End::Answers(large)));
        history.handle(150, 4, 9, 2, End::Ok);
        history.handling(5).begin = 160 * MS;
        (history.handling(5).fence, history.handling(5).left) = (10, Some((165 * MS, End::Ok)));
    });
    with(&[], |history| {
        history.push(70, push(8));
        history.handle(300, 8, 8, 1, End::Answers(1 << 20));
    });
}
