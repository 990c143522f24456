//! Conditions on indexed fields.

use std::{borrow::Borrow, collections::BTreeSet, fmt, sync::Arc};

use bandog_codec::{Codec, Encode};
use bandog_core::{
    Result,
    structures::{Action, Bytes, MultimapOp, Op, Scores, SortedOp, Values},
};

use super::{class::LiveClass, number::LiveNumber};
use crate::{call::Writer, store::Store};

/// An indexed field that is a number.
pub struct NumberField<T, V> {
    name: &'static str,
    get: fn(&T) -> Option<&V>,
}

/// An indexed field that is no number.
pub struct ValueField<T, V> {
    name: &'static str,
    get: fn(&T) -> Option<&V>,
}

/// A condition on indexed fields. An object without the field does not fulfil one.
///
/// It is evaluated in two steps: the indexes give the ids that can fulfil it, and then each of these objects is read and
/// checked.
pub struct Condition<T, C> {
    lookup: Lookup<C>,
    holds: Arc<dyn Fn(&T) -> bool + Send + Sync>,
}

/// Writes the value of a condition with a codec.
type WriteValue<C> = Arc<dyn Fn(&C, &mut Writer) -> Result<Bytes> + Send + Sync>;

/// What the indexes are asked.
enum Lookup<C> {
    Numbers(&'static str, Scores),
    Value(&'static str, WriteValue<C>),
    Both(Box<[Self; 2]>),
    Any(Box<[Self; 2]>),
}

impl<T: 'static, V: LiveNumber> NumberField<T, V> {
    #[doc(hidden)]
    pub const fn __new(name: &'static str, get: fn(&T) -> Option<&V>) -> Self {
        Self { name, get }
    }

    fn condition<C>(&self, min: f64, max: f64, holds: impl Fn(&V) -> bool + Send + Sync + 'static) -> Condition<T, C> {
        let get = self.get;
        Condition {
            lookup: Lookup::Numbers(self.name, Scores { min, max }),
            holds: Arc::new(move |object| get(object).is_some_and(&holds)),
        }
    }

    /// The number is equal.
    pub fn eq<C>(&self, value: &V) -> Condition<T, C> {
        let value = *value;
        self.condition(value.number(), value.number(), move |of| *of == value)
    }

    /// The number is less.
    pub fn lt<C>(&self, value: &V) -> Condition<T, C> {
        let value = *value;
        self.condition(f64::NEG_INFINITY, value.number(), move |of| *of < value)
    }

    /// The number is less or equal.
    pub fn le<C>(&self, value: &V) -> Condition<T, C> {
        let value = *value;
        self.condition(f64::NEG_INFINITY, value.number(), move |of| *of <= value)
    }

    /// The number is greater.
    pub fn gt<C>(&self, value: &V) -> Condition<T, C> {
        let value = *value;
        self.condition(value.number(), f64::INFINITY, move |of| *of > value)
    }

    /// The number is greater or equal.
    pub fn ge<C>(&self, value: &V) -> Condition<T, C> {
        let value = *value;
        self.condition(value.number(), f64::INFINITY, move |of| *of >= value)
    }

    /// The number is in this range, whose ends are included.
    pub fn between<C>(&self, min: &V, max: &V) -> Condition<T, C> {
        let (min, max) = (*min, *max);
        self.condition(min.number(), max.number(), move |of| min <= *of && *of <= max)
    }
}

impl<T: 'static, V: 'static> ValueField<T, V> {
    #[doc(hidden)]
    pub const fn __new(name: &'static str, get: fn(&T) -> Option<&V>) -> Self {
        Self { name, get }
    }

    /// The value is equal.
    pub fn eq<C, Q>(&self, value: &Q) -> Condition<T, C>
    where
        V: Borrow<Q>,
        C: Encode<Q>,
        Q: PartialEq + ToOwned<Owned: Send + Sync + 'static> + ?Sized + 'static,
    {
        let (get, value) = (self.get, Arc::new(value.to_owned()));
        let written = value.clone();
        Condition {
            lookup: Lookup::Value(self.name, Arc::new(move |codec, to| to.write(codec, (*written).borrow()))),
            holds: Arc::new(move |object| get(object).is_some_and(|of| of.borrow() == (*value).borrow())),
        }
    }
}

impl<T: 'static, C> Condition<T, C> {
    /// Both conditions are fulfilled.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let (first, second) = (self.holds, other.holds);
        let holds = Arc::new(move |object: &T| first(object) && second(object));
        Self { lookup: Lookup::Both(Box::new([self.lookup, other.lookup])), holds }
    }

    /// At least one of the conditions is fulfilled.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let (first, second) = (self.holds, other.holds);
        let holds = Arc::new(move |object: &T| first(object) || second(object));
        Self { lookup: Lookup::Any(Box::new([self.lookup, other.lookup])), holds }
    }

    /// Whether the object fulfils the condition.
    pub fn holds(&self, object: &T) -> bool {
        (self.holds)(object)
    }
}

impl<T, C: Codec> Condition<T, C> {
    /// The members of the indexes that can fulfil the condition. All indexes are asked in one round trip.
    pub(crate) async fn members(&self, store: &Store, class: &LiveClass, codec: &C) -> Result<BTreeSet<Bytes>> {
        let (mut ops, mut writer) = (Vec::new(), Writer::new(store));
        self.lookup.ops(store, class, codec, &mut writer, &mut ops)?;
        let mut found = Vec::new();
        for (op, reply) in ops.iter().zip(store.run(&ops, &[writer.bytes()]).await) {
            let members = match op.action {
                Action::Sorted(_) => reply?.scored()?.into_iter().map(|(member, _)| member).collect(),
                _ => reply?.list()?.into_iter().collect(),
            };
            found.push(members);
        }
        Ok(self.lookup.members(&mut found.into_iter()))
    }
}

impl<C: Codec> Lookup<C> {
    /// Adds the operations that ask the indexes, from the left to the right.
    fn ops(&self, store: &Store, class: &LiveClass, codec: &C, to: &mut Writer, ops: &mut Vec<Op>) -> Result<()> {
        let mut add = |field: &str, action: Action| {
            ops.push(Op { key: store.client.key(&class.index(field))?, action });
            Ok(())
        };
        match self {
            Self::Numbers(field, scores) => add(field, SortedOp::Between(*scores, u32::MAX).into()),
            Self::Value(field, write) => add(field, Action::Multimap(Values::Set, MultimapOp::Get(write(codec, to)?))),
            Self::Both(parts) | Self::Any(parts) => {
                parts.iter().try_for_each(|part| part.ops(store, class, codec, to, ops))
            }
        }
    }

    /// Combines the members that the indexes gave.
    fn members(&self, found: &mut impl Iterator<Item = BTreeSet<Bytes>>) -> BTreeSet<Bytes> {
        match self {
            Self::Numbers(..) | Self::Value(..) => found.next().unwrap_or_default(),
            Self::Both(parts) => {
                let [first, second] = [parts[0].members(found), parts[1].members(found)];
                first.intersection(&second).cloned().collect()
            }
            Self::Any(parts) => {
                let [mut first, second] = [parts[0].members(found), parts[1].members(found)];
                first.extend(second);
                first
            }
        }
    }
}

impl<C> Clone for Lookup<C> {
    fn clone(&self) -> Self {
        match self {
            Self::Numbers(field, scores) => Self::Numbers(field, *scores),
            Self::Value(field, write) => Self::Value(field, write.clone()),
            Self::Both(parts) => Self::Both(parts.clone()),
            Self::Any(parts) => Self::Any(parts.clone()),
        }
    }
}

impl<T, C> Clone for Condition<T, C> {
    fn clone(&self) -> Self {
        Self { lookup: self.lookup.clone(), holds: self.holds.clone() }
    }
}

impl<T, C> fmt::Debug for Condition<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Condition")
    }
}

/// A field is shown by its name.
macro_rules! debug {
    ($($field:ident),*) => {$(
        impl<T, V> fmt::Debug for $field<T, V> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($field)).field(&self.name).finish()
            }
        }
    )*};
}

debug!(NumberField, ValueField);
