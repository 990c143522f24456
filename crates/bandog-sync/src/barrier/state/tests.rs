use bandog_core::{ClaimId, ClientId};

use super::*;

fn party(number: u32) -> Party {
    Party { number, claim: ClaimId { client: ClientId::random(), number: 7 }, fence: Fence::new(u64::from(number) + 1) }
}

fn visit(number: u32) -> Visit {
    Visit::new(party(number))
}

/// The barrier opens at the third arrival, and its record says who has passed.
#[test]
fn the_last_arrival_opens_and_leads() {
    let mut arrivals = Arrivals::new(3);
    let visits = [visit(0), visit(1), visit(2)];
    let generation = arrivals.generation;
    assert_eq!(arrivals.arrive(&visits[0], 3).unwrap(), Position::Waiting);
    assert_eq!(arrivals.arrive(&visits[1], 3).unwrap(), Position::Waiting);
    assert_eq!(arrivals.generation, generation);
    let again: Arrivals = arrivals.to_string().parse().unwrap();
    assert_eq!(again.to_string(), arrivals.to_string());
    assert_eq!(
        visits.each_ref().map(|visit| visit.position(&again, false)),
        [Position::Waiting, Position::Waiting, Position::Absent]
    );
    assert_eq!(arrivals.arrive(&visits[2], 3).unwrap(), Position::Passed { is_leader: true });
    assert_ne!(arrivals.generation, generation);
    let again: Arrivals = arrivals.to_string().parse().unwrap();
    assert_eq!(
        visits.each_ref().map(|visit| visit.position(&again, false)),
        [
            Position::Passed { is_leader: false },
            Position::Passed { is_leader: false },
            Position::Passed { is_leader: true }
        ]
    );
}

#[test]
fn absent_parties_are_removed() {
    let mut arrivals = Arrivals::new(2);
    let (first, second, third) = (visit(0), visit(1), visit(2));
    arrivals.arrive(&first, 2).unwrap();
    arrivals.arrive(&second, 2).unwrap();
    arrivals.arrive(&third, 2).unwrap();
    let names: Vec<_> = arrivals.parties().map(|party| party.number).collect();
    assert_eq!(names, [2, 0, 1]);
    arrivals.retain(&[false, true, false]);
    let names: Vec<_> = arrivals.parties().map(|party| party.number).collect();
    assert_eq!(names, [0], "the waiting third party and the passed second party have left");
    // A party with the number of another one shows that the other one has left.
    let mut arrivals = Arrivals::new(2);
    arrivals.arrive(&first, 2).unwrap();
    assert_eq!(arrivals.arrive(&visit(0), 2).unwrap(), Position::Waiting);
    assert_eq!(first.position(&arrivals, false), Position::Absent);
}

#[test]
fn the_number_of_parties_is_that_of_the_waiting_ones() {
    let mut arrivals = Arrivals::new(3);
    arrivals.arrive(&visit(0), 3).unwrap();
    let error = arrivals.arrive(&visit(1), 4).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misused);
    assert!(error.to_string().contains("3 parties") && error.to_string().contains("names 4"), "{error}");
    arrivals.retain(&[false]);
    assert_eq!(arrivals.arrive(&visit(1), 4).unwrap(), Position::Waiting, "no party waits, so the number can change");
}

/// A call that has lost its mutex may have been counted only if the barrier has opened since its arrival.
#[test]
fn a_lost_seat_is_replaced_while_the_barrier_is_closed() {
    let mut arrivals = Arrivals::new(2);
    let mut call = visit(0);
    assert_eq!(call.position(&arrivals, true), Position::Unseated);
    arrivals.arrive(&call, 2).unwrap();
    call.sends(&arrivals);
    assert_eq!(call.position(&arrivals, true), Position::Unseated);
    call.change_seat(party(1));
    assert_eq!(call.position(&arrivals, false), Position::Absent);

    // The former party still counts, until the record with the new one is written.
    let mut opened = arrivals.clone();
    let other = visit(5);
    assert_eq!(opened.arrive(&other, 2).unwrap(), Position::Passed { is_leader: true });
    assert_eq!(call.position(&opened, false), Position::Passed { is_leader: false });
    let held = [false, true];
    opened.retain(&held);
    assert_eq!(call.position(&opened, false), Position::Unknown);

    assert_eq!(arrivals.arrive(&call, 2).unwrap(), Position::Waiting, "one call is one party");
    call.sends(&arrivals);
    call.is_written();
    let mut without_us = Arrivals::new(2);
    assert_eq!(call.position(&without_us, false), Position::Absent, "the call holds its mutex, so it was not counted");
    assert_eq!(call.position(&without_us, true), Position::Unknown);
    without_us.arrive(&call, 2).unwrap();
    assert_eq!(call.position(&without_us, false), Position::Waiting);
}

#[test]
fn other_texts_are_corrupt() {
    let good = {
        let mut arrivals = Arrivals::new(2);
        arrivals.arrive(&visit(0), 2).unwrap();
        arrivals.to_string()
    };
    assert!(good.parse::<Arrivals>().is_ok());
    for text in ["", "3", "x 1", "3 1\nsleeping 1 2 3", &good[..good.len() - 2], &good.replace("waiting", "gone")] {
        assert_eq!(text.parse::<Arrivals>().unwrap_err().kind(), ErrorKind::Corrupt, "{text:?}");
    }
}
