//! Single values and counters.

use super::{
    number::{Number, finite, number},
    object::Object,
};
use crate::{
    Moment, Result,
    structures::{Bytes, CounterOp, FloatOp, Once, Reply, SetTtl, ValueOp},
};

pub(super) fn apply(object: &mut Object, op: &ValueOp, now: Moment) -> Result<Reply> {
    let (mut expires, mut is_written) = (None, false);
    let before = object.expires;
    if let (ValueOp::SetNew(..), true) = (op, object.content.is_some()) {
        return Ok(Reply::Flag(false)); // Also if the content has another structure.
    }
    let reply = object.change(|value: &mut Option<Bytes>| {
        Ok(match op {
            ValueOp::Get => Reply::Bytes(value.clone()),
            ValueOp::Set(new, ttl) => {
                *value = Some(new.clone());
                is_written = true;
                expires = match ttl {
                    SetTtl::Clear => None,
                    SetTtl::Keep => before,
                    SetTtl::For(ttl) => Some(now + *ttl),
                };
                Reply::Done
            }
            ValueOp::SetNew(new, ttl) => {
                is_written = value.is_none();
                if is_written {
                    *value = Some(new.clone());
                    expires = ttl.map(|ttl| now + ttl);
                }
                Reply::Flag(is_written)
            }
            ValueOp::Swap { from, to } => {
                is_written = value == from;
                if is_written {
                    value.clone_from(to);
                }
                Reply::Flag(is_written)
            }
            ValueOp::Take => Reply::Bytes(value.take()),
        })
    })?;
    if is_written {
        object.expires = expires;
    }
    Ok(reply)
}

enum Count<'a, N> {
    Get,
    Set(N),
    Add { by: N, expires: Option<Moment>, once: Option<&'a Once> },
    Swap(N, N),
}

pub(super) fn count(object: &mut Object, op: &CounterOp, now: Moment) -> Result<Reply> {
    let op = match op {
        CounterOp::Get => Count::Get,
        CounterOp::Set(number) => Count::Set(*number),
        CounterOp::Add { by, expiring, once } => {
            Count::Add { by: *by, expires: expiring.map(|ttl| now + ttl), once: once.as_ref() }
        }
        CounterOp::Swap(from, to) => Count::Swap(*from, *to),
    };
    counted(object, op, now)
}

pub(super) fn count_float(object: &mut Object, op: &FloatOp, now: Moment) -> Result<Reply> {
    let op = match op {
        FloatOp::Get => Count::Get,
        FloatOp::Set(number) => Count::Set(finite(*number)?),
        FloatOp::Add { by, expiring, once } => {
            Count::Add { by: *by, expires: expiring.map(|ttl| now + ttl), once: once.as_ref() }
        }
        FloatOp::Swap(from, to) => Count::Swap(*from, finite(*to)?),
    };
    counted(object, op, now)
}

fn counted<N: Number>(object: &mut Object, op: Count<'_, N>, now: Moment) -> Result<Reply> {
    let once = if let Count::Add { once, .. } = op { once } else { None };
    if let Some(reply) = object.taken.remembered(once, now)? {
        return Ok(reply);
    }
    let before = object.expires;
    let mut expires = before;
    let reply = object.change(|value: &mut Option<Bytes>| {
        let current: N = number(value.as_ref())?;
        let mut write = |number: N| *value = Some(number.to_string().into_bytes());
        Ok(match op {
            Count::Get => current.reply(),
            Count::Set(number) => {
                write(number);
                expires = None;
                Reply::Done
            }
            Count::Add { by, expires: expires_new, .. } => {
                let sum = current.plus(by)?;
                if value.is_none() {
                    expires = expires_new;
                }
                *value = Some(sum.to_string().into_bytes());
                sum.reply()
            }
            Count::Swap(from, to) => {
                let is_equal = current == from;
                if is_equal {
                    write(to);
                    expires = None;
                }
                Reply::Flag(is_equal)
            }
        })
    })?;
    if object.content.is_some() {
        object.expires = expires;
    }
    object.taken.remember(once, &reply, now);
    Ok(reply)
}
