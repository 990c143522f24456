//! Elements that are taken: they belong to their taker until they are settled or their lease expires.

use super::{
    journal::Journal,
    list,
    object::Object,
    sorted::Sorted,
    taken::{Delivered, Lease},
    terms::{List, Set, random},
};
use crate::{
    Moment, Portion, Result,
    structures::{Bytes, End, Reply, Source, TakeEnd, TakeOp, TakenElement},
};

pub(super) fn apply(object: &mut Object, op: &TakeOp, last_id: &mut u64, now: Moment) -> Result<Reply> {
    let expires = object.expires;
    let reply = change(object, op, last_id, now);
    // The content may have been empty for a moment, which has removed the ttl.
    object.expires = expires.filter(|_| object.exists());
    reply
}

fn change(object: &mut Object, op: &TakeOp, last_id: &mut u64, now: Moment) -> Result<Reply> {
    match op {
        TakeOp::Take { from, at_most, bytes, lease, once, done } => {
            expire(object, from, now)?;
            done.iter().for_each(|id| _ = object.taken.leases.remove(id));
            let mut portion = Portion::new(*at_most as usize, *bytes as usize);
            if let Some(before) = object.taken.remembered(Some(once), now)? {
                let elements = take_again(object, before.taken()?.0, portion)?;
                let reply = Reply::Taken { elements, is_cut: false };
                object.taken.remember(Some(once), &reply, now);
                return Ok(reply);
            }
            let (mut elements, mut is_cut) = (Vec::new(), false);
            while !portion.is_full()
                && let Some(element) = pop(object, from)?
            {
                let length = element.bytes.len();
                let element = Delivered { deliveries: element.deliveries.saturating_add(1), ..element };
                let lease = Lease { element, from: from.clone(), until: now + *lease };
                is_cut = !portion.takes(length);
                if is_cut {
                    settle(object, lease, TakeEnd::Undelivered)?;
                    break;
                }
                *last_id += 1;
                let Delivered { bytes, deliveries, score, entry } = lease.element.clone();
                elements.push(TakenElement { id: *last_id, delivery: deliveries, score, entry, bytes });
                object.taken.leases.insert(*last_id, lease);
            }
            let reply = Reply::Taken { elements, is_cut };
            object.taken.remember(Some(once), &reply, now);
            Ok(reply)
        }
        TakeOp::Settle { from, ids, end } => {
            expire(object, from, now)?;
            let mut flags = Vec::new();
            // The last one that was taken returns first, so that their order stays.
            for id in ids.iter().rev() {
                let lease = object.taken.leases.remove(id);
                flags.push(lease.is_some());
                if let Some(lease) = lease {
                    settle(object, lease, *end)?;
                }
            }
            flags.reverse();
            Ok(Reply::Flags(flags))
        }
        TakeOp::Extend { from, ids, lease } => {
            expire(object, from, now)?;
            let until = now + *lease;
            let mut extend = |id| object.taken.leases.get_mut(id).map(|lease| lease.until = lease.until.max(until));
            Ok(Reply::Flags(ids.iter().map(|id| extend(id).is_some()).collect()))
        }
        TakeOp::Count(from) => {
            expire(object, from, now)?;
            match from {
                Source::Group(group) => {
                    let (ready, taken) = (object.journal(|journal| journal.ready(group)), object.taken.count(from));
                    Ok(Reply::Queue { ready, taken })
                }
                _ => Ok(Reply::Queue { ready: object.ready(), taken: object.taken.leases.len() as u64 }),
            }
        }
        TakeOp::Peek { from, skip, at_most, bytes } => {
            expire(object, from, now)?;
            let mut portion = Portion::new(*at_most as usize, *bytes as usize);
            let elements = peek(object, from, *skip as usize, *at_most as usize)?;
            Ok(Reply::List(elements.into_iter().take_while(|element| portion.takes(element.len())).collect()))
        }
        // An operation on several objects is applied by `move_to`.
        TakeOp::MoveTo { .. } => Ok(Reply::Done),
    }
}

/// What a repeated call gets of the elements that it has got before, and that it still has. The others go back.
fn take_again(object: &mut Object, before: Vec<TakenElement>, mut portion: Portion) -> Result<Vec<TakenElement>> {
    let has = |element: &TakenElement| object.taken.leases.contains_key(&element.id);
    let (got, others): (Vec<_>, Vec<_>) =
        before.into_iter().filter(has).partition(|element| portion.takes(element.bytes.len()));
    // The last one that was taken returns first, so that their order stays.
    for element in others.iter().rev() {
        if let Some(lease) = object.taken.leases.remove(&element.id) {
            settle(object, lease, TakeEnd::Undelivered)?;
        }
    }
    Ok(got)
}

/// Makes elements available again whose lease has expired. It also checks the structure of the object.
pub(super) fn expire(object: &mut Object, from: &Source, now: Moment) -> Result<()> {
    match from {
        Source::List(_) => object.change(|_: &mut List| Ok(Reply::Done)),
        Source::Sorted(_) => object.change(|_: &mut Sorted| Ok(Reply::Done)),
        Source::Set => object.change(|_: &mut Set| Ok(Reply::Done)),
        Source::Group(_) => object.change(|_: &mut Option<Journal>| Ok(Reply::Done)),
    }?;
    let leases = &mut object.taken.leases;
    let ids: Vec<u64> = leases.iter().filter(|(_, lease)| lease.until <= now).map(|(id, _)| *id).collect();
    let expired: Vec<Lease> = ids.iter().filter_map(|id| leases.remove(id)).collect();
    for Lease { element, from, .. } in expired {
        match from {
            Source::List(_) => object.taken.again.push_back(element),
            Source::Sorted(_) | Source::Set | Source::Group(_) => give_back(object, &from, element)?,
        }
    }
    Ok(())
}

fn settle(object: &mut Object, Lease { element, from, .. }: Lease, end: TakeEnd) -> Result<()> {
    match (end, &from) {
        (TakeEnd::Done, _) => Ok(()),
        (TakeEnd::Again, Source::List(_)) => {
            object.taken.again.push_front(element);
            Ok(())
        }
        (TakeEnd::Undelivered, Source::List(_)) if element.deliveries > 1 => {
            object.taken.again.push_front(Delivered { deliveries: element.deliveries - 1, ..element });
            Ok(())
        }
        (TakeEnd::Undelivered, Source::Group(_)) => {
            give_back(object, &from, Delivered { deliveries: element.deliveries - 1, ..element })
        }
        (TakeEnd::Undelivered | TakeEnd::Again, _) => give_back(object, &from, element),
    }
}

/// Puts an element back where it was.
fn give_back(object: &mut Object, from: &Source, element: Delivered) -> Result<()> {
    let Delivered { bytes, score, .. } = &element;
    match from {
        Source::List(end) => object.change(|list: &mut List| Ok(list::push(list, *end, std::slice::from_ref(bytes)))),
        Source::Set => object.change(|set: &mut Set| {
            set.insert(bytes.clone());
            Ok(Reply::Done)
        }),
        Source::Sorted(_) => object.change(|sorted: &mut Sorted| {
            // A member that was inserted meanwhile keeps its new score.
            if let (Some(score), false) = (score, sorted.contains(bytes)) {
                sorted.insert(*score, bytes);
            }
            Ok(Reply::Done)
        }),
        Source::Group(group) => object.change(|journal: &mut Option<Journal>| {
            if let Some(journal) = journal {
                journal.give_back(group, element.clone());
            }
            Ok(Reply::Done)
        }),
    }?;
    Ok(())
}

/// Takes the next element out.
pub(super) fn pop(object: &mut Object, from: &Source) -> Result<Option<Delivered>> {
    if let (Source::List(_), Some(element)) = (from, object.taken.again.pop_front()) {
        return Ok(Some(element));
    }
    let mut popped = None;
    match from {
        Source::List(end) => object.change(|list: &mut List| {
            popped = match end {
                End::Front => list.pop_front(),
                End::Back => list.pop_back(),
            }
            .map(|bytes| (bytes, None));
            Ok(Reply::Done)
        }),
        Source::Sorted(end) => object.change(|sorted: &mut Sorted| {
            popped = sorted.pop(*end).map(|(member, score)| (member, Some(score)));
            Ok(Reply::Done)
        }),
        Source::Set => object.change(|set: &mut Set| {
            let member = if set.is_empty() { None } else { set.iter().nth(random(set.len())).cloned() };
            popped = member.and_then(|member| set.take(&member)).map(|member| (member, None));
            Ok(Reply::Done)
        }),
        Source::Group(group) => {
            let mut popped = None;
            object.change(|journal: &mut Option<Journal>| {
                popped = journal.as_mut().and_then(|journal| journal.pop(group));
                Ok(Reply::Done)
            })?;
            return Ok(popped);
        }
    }?;
    Ok(popped.map(|(bytes, score)| Delivered { bytes, deliveries: 0, score, entry: None }))
}

/// The next elements after the first ones, which stay where they are.
fn peek(object: &mut Object, from: &Source, skip: usize, at_most: usize) -> Result<Vec<Bytes>> {
    let until = skip.saturating_add(at_most);
    let again: Vec<Bytes> = object.taken.again.iter().map(|element| element.bytes.clone()).collect();
    let first = match from {
        Source::List(end) => object.change(|list: &mut List| {
            let elements: Vec<Bytes> = match end {
                End::Front => list.iter().take(until).cloned().collect(),
                End::Back => list.iter().rev().take(until).cloned().collect(),
            };
            Ok(Reply::List(again.into_iter().chain(elements).take(until).collect()))
        }),
        Source::Sorted(end) => object.change(|sorted: &mut Sorted| {
            let last = i64::try_from(until).unwrap_or(i64::MAX) - 1;
            Ok(Reply::List(sorted.slice(*end, 0, last).into_iter().map(|(member, _)| member).collect()))
        }),
        Source::Set => object.change(|set: &mut Set| Ok(Reply::List(set.iter().take(until).cloned().collect()))),
        Source::Group(group) => Ok(Reply::List(object.journal(|journal| journal.peek(group, until)))),
    };
    Ok(first?.list()?.into_iter().skip(skip).collect())
}
