//! The objects of the memory backend: the reference of all operations on objects.

mod bits;
mod bloom;
mod content;
mod list;
mod map;
mod multimap;
mod object;
mod page;
mod set;
mod several;
mod sorted;
mod table;
mod take;
mod taken;
mod terms;
mod value;

use self::{
    bits::Bits,
    bloom::Bloom,
    multimap::Multimap,
    object::Object,
    sorted::Sorted,
    terms::{Ids, List, Map, Set, overflow},
};
pub(super) use self::{
    page::{describe, objects, page},
    table::Objects,
};
use crate::{
    Key, Moment, Result,
    structures::{Action, BitsOp, ListOp, ObjectOp, Op, Reply, SetOp, TakeOp, Ttl},
};

/// Applies an operation. Returns the answer, and the key whose subscribers must be notified, if any: one that has more
/// elements than before.
pub(super) fn run(objects: &mut Objects, op: &Op, now: Moment) -> (Result<Reply>, Option<Key>) {
    let grows = match &op.action {
        Action::Set(SetOp::Move(_, to)) | Action::Take(TakeOp::MoveTo { to, .. }) => to,
        _ => &op.key,
    };
    let before = objects.ready(grows);
    let reply = reply(objects, op, now).map_err(|error| error.at(&op.key));
    let has_more = objects.ready(grows) > before;
    (reply, has_more.then(|| grows.clone()))
}

fn reply(objects: &mut Objects, Op { key, action }: &Op, now: Moment) -> Result<Reply> {
    match action {
        Action::Set(SetOp::Combine(how, others)) => return several::combine_sets(objects, *how, key, others),
        Action::Set(SetOp::Move(member, to)) => return several::move_member(objects, key, member, to),
        Action::Bits(BitsOp::Combine(how, others)) => return several::combine_bits(objects, *how, key, others),
        Action::Take(TakeOp::MoveTo { from, to, at, at_most }) => {
            return several::move_elements(objects, key, *from, (to, *at), *at_most, now);
        }
        Action::Object(_, ObjectOp::Expire(ttl)) => return Ok(Reply::Flag(objects.set_expiry(key, Some(now + *ttl)))),
        Action::Object(_, ObjectOp::Persist) => {
            let had_ttl = objects.of_keys.get(key).is_some_and(|object| object.expires.is_some());
            return Ok(Reply::Flag(had_ttl && objects.set_expiry(key, None)));
        }
        _ => {}
    }
    let object = objects.of_keys.entry(key.clone()).or_default();
    let expires = object.expires;
    let reply = apply(object, action, &mut objects.last_id, now);
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
        Action::Map(op) => object.change(|map: &mut Map| map::apply(map, op)),
        Action::Set(op) => object.change(|set: &mut Set| Ok(set::apply(set, op))),
        Action::List(ListOp::Push { end, elements, once }) => {
            // A name with other data is refused also if the answer is remembered.
            object.change(|_: &mut List| Ok(Reply::Done))?;
            if let Some(reply) = object.taken.remembered(once.as_ref(), now) {
                return Ok(reply);
            }
            let reply = object.change(|list: &mut List| Ok(list::push(list, *end, elements)))?;
            object.taken.remember(once.as_ref(), &reply, now);
            Ok(reply)
        }
        Action::List(op) => object.change(|list: &mut List| Ok(list::apply(list, op))),
        Action::Sorted(op) => object.change(|sorted: &mut Sorted| sorted.apply(op)),
        Action::Multimap(values, op) => object.change(|multimap: &mut Multimap| multimap.apply(*values, op, now)),
        Action::Bits(op) => object.change(|bits: &mut Bits| bits.apply(op)),
        Action::Bloom(op) => object.change(|bloom: &mut Option<Bloom>| bloom::apply(bloom, op)),
        Action::Take(op) => take::apply(object, op, last_id, now),
    }
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
