//! Multimaps.

use std::collections::BTreeMap;

use crate::{
    Error, ErrorKind, Moment, Result,
    structures::{Bytes, MultimapOp, Reply, Values},
};

/// Keys with their values. The first key decides whether the values of all keys are sets or lists.
#[derive(Debug, Default)]
pub(super) struct Multimap {
    of_keys: BTreeMap<Bytes, KeyValues>,
    values: Option<Values>,
}

#[derive(Debug, Default)]
struct KeyValues {
    values: Vec<Bytes>,
    expires: Option<Moment>,
}

impl Multimap {
    pub(super) fn is_empty(&self) -> bool {
        self.of_keys.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.of_keys.len()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &Bytes> {
        self.of_keys.keys()
    }

    pub(super) fn values(&self) -> Values {
        self.values.unwrap_or(Values::Set)
    }

    pub(super) fn apply(&mut self, values: Values, op: &MultimapOp, now: Moment) -> Result<Reply> {
        self.of_keys.retain(|_, of_key| of_key.expires.is_none_or(|at| now < at));
        if self.is_empty() {
            self.values = Some(values);
        }
        if self.values != Some(values) {
            return Err(Error::new(ErrorKind::Denied, "the name has data of another structure"));
        }
        let of_key = |key: &Bytes| self.of_keys.get(key).map_or(&[][..], |of_key| &of_key.values);
        Ok(match op {
            MultimapOp::Insert(key, value) => {
                let is_new = values == Values::List || !of_key(key).contains(value);
                if is_new {
                    self.of_keys.entry(key.clone()).or_default().values.push(value.clone());
                }
                Reply::Flag(is_new)
            }
            MultimapOp::Remove(key, value) => {
                let position = of_key(key).iter().position(|other| other == value);
                if let (Some(position), Some(of_key)) = (position, self.of_keys.get_mut(key)) {
                    of_key.values.remove(position);
                    if of_key.values.is_empty() {
                        self.of_keys.remove(key);
                    }
                }
                Reply::Flag(position.is_some())
            }
            MultimapOp::RemoveAll(key) => {
                Reply::List(self.of_keys.remove(key).map(|of_key| of_key.values).unwrap_or_default())
            }
            MultimapOp::Get(key) => Reply::List(of_key(key).to_vec()),
            MultimapOp::Contains(key, value) => Reply::Flag(of_key(key).contains(value)),
            MultimapOp::Len => Reply::Int(self.of_keys.values().map(|of_key| of_key.values.len() as i64).sum()),
            MultimapOp::KeysLen => Reply::Int(self.of_keys.len() as i64),
            MultimapOp::ExpireKey(key, ttl) => {
                let of_key = self.of_keys.get_mut(key);
                Reply::Flag(of_key.map(|of_key| of_key.expires = Some(now + *ttl)).is_some())
            }
        })
    }
}
