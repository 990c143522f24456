//! The work of a slot grows with the number of its calls, and not with its square.

use std::{
    num::NonZeroU32,
    rc::Rc,
    sync::{Arc, atomic::AtomicU64},
    time::{Duration, Instant},
};

use bandog_core::{ClientId, Fence, Fences, Renewal, Step, Verdict};

use super::{super::*, TIMEOUT, world::TestCall};
use crate::engine::msg::Patience;

/// A slot of readers in which all of these callers have a turn of one hold, and the tickets of the turns.
fn readers(callers: &[Caller]) -> (Slot<TestCall>, SlotContext<TestCall>, HoldId, Vec<Ticket>) {
    let now = Moment::from_nanos(3_600_000_000_000);
    let mut cx = SlotContext::new(ClientId::random(), TIMEOUT, now, Arc::new(AtomicU64::new(1_000_000)));
    let mut slot = Slot::new(SlotId { key: Key::new("key").unwrap(), lane: Lane::Read });
    let (kind, ttl, fences) = (Kind::Read, Duration::from_secs(30), NonZeroU32::MIN);
    let terms = Terms { kind, ttl, watchdog: true, fences, max_hold: None, quiet: false };
    for (ticket, caller) in (1..).zip(callers) {
        let call = TestCall {
            ticket,
            kind,
            is_patient: true,
            downgrades: None,
            max_hold: None,
            owner: None,
            has_gone: Rc::default(),
        };
        slot.on(Event::Lock(NewCall { ticket, caller: *caller, terms, patience: Patience::Forever, call }), &mut cx);
    }
    let Some(Effect::Send(Step::Claim(claim))) = cx.effects.drain(..).next() else { panic!("no claim") };
    let (claim, fences) = (claim.id.number, Fences::ending(Fence::new(1), fences));
    let answer = Ok(Verdict::Granted { fences, valid_for: ttl });
    slot.on(Event::Claimed { claim, asked_at: now, answer }, &mut cx);
    let tickets = cx.effects.drain(..).filter_map(|effect| match effect {
        Effect::StartTurn { turn, .. } => Some(turn.ticket),
        _ => None,
    });
    let tickets: Vec<_> = tickets.collect();
    assert_eq!(tickets.len(), callers.len());
    (slot, cx, claim, tickets)
}

/// Asserts that the work for 8,000 turns takes less than six times as long as 16 times the work for 500 turns. It
/// would take 16 times as long if each step went through all turns. Other programs can slow a measurement down, so the
/// shortest one counts.
fn assert_scales(work: impl Fn(usize) -> Duration) {
    let few = (0..3).map(|_| (0..16).map(|_| work(500)).sum::<Duration>()).min().unwrap();
    let many = (0..3).map(|_| work(8_000)).min().unwrap();
    assert!(many < few * 6, "16 times 500 turns: {few:?}, 8,000 turns: {many:?}");
}

#[test]
fn the_guards_of_a_lost_hold_are_dropped_in_linear_time() {
    assert_scales(|turns| {
        let (mut slot, mut cx, hold, tickets) = readers(&vec![Caller::present(); turns]);
        slot.on(Event::Renewed { hold, asked_at: cx.now, answer: Ok(Renewal::Gone) }, &mut cx);
        assert!(!slot.is_held());
        let start = Instant::now();
        for ticket in tickets {
            slot.on(Event::TurnEnded { hold, ticket, report: None }, &mut cx);
            cx.effects.clear();
        }
        let elapsed = start.elapsed();
        assert!(slot.is_unused());
        elapsed
    });
}

#[test]
fn many_callers_find_their_turns_among_many_turns_in_linear_time() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let callers: Vec<_> = (0..8_000).map(|_| Caller::Task(runtime.spawn(async {}).id())).collect();
    let stranger = Caller::Task(runtime.spawn(async {}).id());
    assert_scales(|turns| {
        let (slot, ..) = readers(&callers[..turns]);
        assert_eq!(slot.turn_of(stranger), None);
        let start = Instant::now();
        assert!(callers[..turns].iter().all(|caller| slot.turn_of(*caller).is_some()));
        start.elapsed()
    });
}
