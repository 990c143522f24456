//! The objects of the memory backend: the reference of all operations on objects.

mod bits;
mod bloom;
mod cache;
mod content;
mod journal;
mod list;
mod live;
mod map;
mod multimap;
mod number;
mod object;
mod page;
mod set;
mod several;
mod sorted;
mod table;
mod take;
mod taken;
mod terms;
mod timed;
mod value;

use self::{
    bits::Bits,
    bloom::Bloom,
    content::Structure,
    journal::Journal,
    multimap::Multimap,
    object::Object,
    sorted::Sorted,
    taken::Taken,
    terms::{Ids, List, Map, Set, overflow},
    timed::Timed,
};
pub(super) use self::{
    journal::wall_millis,
    page::{describe, objects, page},
    table::Objects,
};
use crate::{
    Key, Moment, Result,
    structures::{Action, BitsOp, JournalOp, ListOp, ObjectOp, Once, Op, Reply, SetOp, TakeOp, Ttl},
};

/// Applies an operation. Returns the answer, and the key whose subscribers must be notified, if any: one that has more
/// elements than before, or that of a cache in which a fill may have ended.
///
/// `wall` is the wall clock in ms since 1970.
pub(super) fn run(objects: &mut Objects, op: &Op, now: Moment, wall: u64) -> (Result<Reply>, Option<Key>) {
    if let Action::Cache(action) = &op.action {
        let (reply, has_ended) = objects.caches.entry(op.key.clone()).or_default().apply(action, now, wall);
        objects.caches.retain(|_, cache| cache.has_entries(now));
        return (Ok(reply), has_ended.then(|| op.key.clone()));
    }
    let grows = match &op.action {
        Action::Set(SetOp::Move(_, to)) | Action::Take(TakeOp::MoveTo { to, .. }) => to,
        _ => &op.key,
    };
    let before = objects.ready(grows);
    let reply = reply(objects, op, now, wall).map_err(|error| error.at(&op.key));
    let has_more = objects.ready(grows) > before;
    (reply, has_more.then(|| grows.clone()))
}

fn reply(objects: &mut Objects, Op { key, action }: &Op, now: Moment, wall: u64) -> Result<Reply> {
    match action {
        Action::Set(SetOp::Combine(how, others)) => return several::combine_sets(objects, *how, key, others),
        Action::Set(SetOp::Move(member, to)) => return several::move_member(objects, key, member, to),
        Action::Bits(BitsOp::Combine(how, others)) => return several::combine_bits(objects, *how, key, others),
        Action::Take(TakeOp::MoveTo { from, to, at, at_most }) => {
            return several::move_elements(objects, key, *from, (to, *at), *at_most, now);
        }
        Action::Live(op) => return live::apply(objects, key, op, now),
        Action::Object(_, ObjectOp::Expire(ttl)) => return Ok(Reply::Flag(objects.set_expiry(key, Some(now + *ttl)))),
        Action::Object(_, ObjectOp::Persist) => {
            let had_ttl = objects.of_keys.get(key).is_some_and(|object| object.expires.is_some());
            return Ok(Reply::Flag(had_ttl && objects.set_expiry(key, None)));
        }
        _ => {}
    }
    let object = objects.of_keys.entry(key.clone()).or_default();
    let expires = object.expires;
    let reply = match action {
        Action::Journal(op) => journal(object, op, now, wall),
        Action::Timed(_, op) => object.change(|timed: &mut Timed| timed.apply(op, now, &mut objects.events)),
        _ => apply(object, action, &mut objects.last_id, now),
    };
    objects.settle(key, expires);
    reply
}

fn apply(object: &mut Object, action: &Action, last_id: &mut u64, now: Moment) -> Result<Reply> {
    match action {
        Action::Object(_, op) => Ok(whole(object, op, now)),
        Action::Value(op) => value::apply(object, op, now),
        Action::Counter(op) => value::count(object, op, now),
        Action::Float(op) => value::count_float(object, op, now),
        Action::Ids { size } => object.change(|ids: &mut Option<Ids>| {
            let ids = ids.get_or_insert(Ids { next: 1, size: *size });
            let first = ids.next;
            ids.next = first.checked_add_unsigned(ids.size).ok_or_else(overflow)?;
            Ok(Reply::Block { first, size: ids.size })
        }),
        Action::Map(op) | Action::Copied(op) => object.change(|map: &mut Map| map::apply(map, op)),
        Action::Set(op) => object.change(|set: &mut Set| Ok(set::apply(set, op))),
        Action::List(ListOp::Push { end, elements, once }) => {
            exactly(object, once.as_ref(), now, |list: &mut List, _| list::push(list, *end, elements))
        }
        Action::List(op) => object.change(|list: &mut List| Ok(list::apply(list, op))),
        Action::Sorted(op) => object.change(|sorted: &mut Sorted| sorted.apply(op)),
        Action::Multimap(values, op) => object.change(|multimap: &mut Multimap| multimap.apply(*values, op, now)),
        Action::Bits(op) => object.change(|bits: &mut Bits| bits.apply(op)),
        Action::Bloom(op) => object.change(|bloom: &mut Option<Bloom>| bloom::apply(bloom, op)),
        Action::Take(op) => take::apply(object, op, last_id, now),
        // These need more than the object.
        Action::Journal(_) | Action::Timed(..) | Action::Live(_) | Action::Cache(_) => Ok(Reply::Done),
    }
}

fn journal(object: &mut Object, op: &JournalOp, now: Moment, wall: u64) -> Result<Reply> {
    let once = match op {
        JournalOp::Append { once, .. } => once.as_ref(),
        _ => None,
    };
    exactly(object, once, now, |journal: &mut Option<Journal>, taken| journal::apply(journal, op, taken, wall))
}

/// Changes the content, or gives the answer that is remembered.
fn exactly<C: Structure>(
    object: &mut Object,
    once: Option<&Once>,
    now: Moment,
    change: impl FnOnce(&mut C, &mut Taken) -> Reply,
) -> Result<Reply> {
    // A name with other data is refused also if the answer is remembered.
    object.change(|_: &mut C| Ok(Reply::Done))?;
    if let Some(reply) = object.taken.remembered(once, now)? {
        return Ok(reply);
    }
    let (expires, mut taken) = (object.expires, std::mem::take(&mut object.taken));
    let reply = object.change(|content| Ok(change(content, &mut taken)));
    object.taken = taken;
    object.expires = expires.filter(|_| object.exists());
    let reply = reply?;
    object.taken.remember(once, &reply, now);
    Ok(reply)
}

fn whole(object: &mut Object, op: &ObjectOp, now: Moment) -> Reply {
    match op {
        ObjectOp::Exists => Reply::Flag(object.exists()),
        ObjectOp::Delete => {
            let existed = object.exists();
            *object = Object::default();
            Reply::Flag(existed)
        }
        ObjectOp::Ttl => Reply::Ttl(match (object.exists(), object.expires) {
            (false, _) => Ttl::Absent,
            (true, None) => Ttl::Unlimited,
            (true, Some(at)) => Ttl::Left(at.since(now)),
        }),
        ObjectOp::Expire(_) | ObjectOp::Persist => Reply::Done,
    }
}
