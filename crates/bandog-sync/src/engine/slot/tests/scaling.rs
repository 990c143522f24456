//! The work of a slot grows with the number of its calls, and not with its square.

use std::{
    num::{NonZeroU8, NonZeroU32},
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use bandog_core::{ClientId, Fence, Fences, Key, Kind, Renewal, Step, Verdict};
use tokio::sync::oneshot;

use super::{
    super::{turn::turns_read, *},
    TIMEOUT,
};
use crate::{engine::call::Wait, lane::Lane, terms::Patience};

const TURNS: usize = 1000;

/// A slot of readers in which all of these callers have a turn of one hold, and the tickets of the turns.
fn readers(callers: &[Caller]) -> (Slot, SlotContext, HoldId, Vec<Ticket>) {
    let now = Moment::from_nanos(3_600_000_000_000);
    let mut cx = SlotContext::new(ClientId::random(), TIMEOUT, now, Arc::new(AtomicU64::new(1_000_000)));
    let mut slot = Slot::new(SlotId { key: Key::new("key").unwrap(), lane: Lane::Read });
    let (kind, ttl, fences) = (Kind::Read, Duration::from_secs(30), NonZeroU32::MIN);
    let terms = Terms { kind, ttl, watchdog: true, fences: NonZeroU8::MIN, max_hold: None, quiet: false };
    let mut answers = Vec::new();
    for (ticket, caller) in (1..).zip(callers.iter().copied()) {
        let (reply, answer) = oneshot::channel();
        answers.push(answer);
        let (owner, patience, wait) = (None, Patience::Forever, Wait::default());
        let (can_deadlock, max_waiters) = (false, None);
        let call = Call { ticket, owner, caller, terms, patience, can_deadlock, max_waiters, reply, wait };
        slot.on(Event::Lock(Box::new(call)), &mut cx);
    }
    let Some(Effect::Send(Step::Claim(claim))) = cx.effects.drain(..).next() else { panic!("no claim") };
    let (claim, fences) = (claim.id.number, Fences::ending(Fence::new(1), fences));
    let answer = Ok(Verdict::Granted { fences, valid_for: ttl, followers: Vec::new() });
    slot.on(Event::Claimed { claim, asked_at: now, answer, has_older_call: false }, &mut cx);
    let tickets = cx.effects.drain(..).filter_map(|effect| match effect {
        Effect::StartTurn { call, .. } => Some(call.ticket),
        _ => None,
    });
    let tickets: Vec<_> = tickets.collect();
    assert_eq!(tickets.len(), callers.len());
    (slot, cx, claim, tickets)
}

#[test]
fn the_end_of_a_turn_of_a_lost_hold_does_not_read_the_other_turns() {
    let (mut slot, mut cx, hold, tickets) = readers(&vec![Caller::present(); TURNS]);
    slot.on(Event::Renewed { hold, asked_at: cx.now, answer: Ok(Renewal::Gone) }, &mut cx);
    assert!(!slot.is_held());
    let before = turns_read();
    for ticket in tickets {
        slot.on(Event::TurnEnded { hold, ticket, report: None }, &mut cx);
    }
    assert!(slot.is_unused());
    assert_few_reads(before);
}

/// Many callers that wait ask whether a turn is theirs. `stranger`: a caller without a turn.
pub(super) fn strangers_do_not_read_the_turns(stranger: Caller) {
    let caller = Caller::present();
    let (slot, ..) = readers(&vec![caller; TURNS]);
    let before = turns_read();
    for _ in 0..TURNS {
        assert_eq!((slot.turn_of(stranger), slot.turn_of(caller).is_some()), (None, true));
    }
    assert_few_reads(before);
}

/// Asserts that not more than a few turns were read for each turn.
fn assert_few_reads(before: usize) {
    let reads = turns_read() - before;
    assert!(reads <= TURNS * 4, "{reads} reads of {TURNS} turns");
}
