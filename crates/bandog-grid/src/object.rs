//! What all handles have: the store, the key, and the calls on an object as a whole.

use std::{sync::Arc, time::Duration};

use bandog_core::{
    Error, ErrorKind, Key, Result,
    structures::{Action, Bytes, ObjectOp, Reply, Structure},
};

use crate::{
    call::{Call, Writer},
    store::Store,
};

/// The longest ttl: 100 years. A store may refuse a longer one.
pub(crate) const MAX_TTL: Duration = Duration::from_secs(100 * 365 * 86_400);

/// An object of a store.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) store: Arc<Store>,
    pub(crate) key: Key,
    pub(crate) structure: Structure,
    prefix: usize,
}

impl Object {
    pub(crate) fn new(store: &Arc<Store>, name: &str, structure: Structure) -> Result<Self> {
        let key = store.client.key(name)?;
        let prefix = key.as_str().len() - name.len();
        Ok(Self { store: store.clone(), key, structure, prefix })
    }

    /// The name without the prefix of the client.
    pub(crate) fn name(&self) -> &str {
        &self.key.as_str()[self.prefix..]
    }

    /// A call without bytes of the user.
    pub(crate) fn call<T>(
        &self,
        action: impl Into<Action>,
        read: impl FnOnce(Reply) -> Result<T> + Send + 'static,
    ) -> Call<T> {
        Call::send(&self.store, &self.key, (action.into(), 0), read)
    }

    /// A call whose action has encoded values.
    pub(crate) fn write<T, A: Into<Action>>(
        &self,
        action: impl FnOnce(&mut Writer) -> Result<A>,
        read: impl FnOnce(Reply) -> Result<T> + Send + 'static,
    ) -> Call<T> {
        self.send(self.prepare(action), read)
    }

    /// An action with encoded values, and the number of their bytes.
    pub(crate) fn prepare<A: Into<Action>>(
        &self,
        action: impl FnOnce(&mut Writer) -> Result<A>,
    ) -> Result<(Action, usize)> {
        let mut writer = Writer::new(&self.store);
        action(&mut writer).map(|action| (action.into(), writer.bytes())).map_err(|error| error.at(&self.key))
    }

    /// A call of an action that was prepared.
    pub(crate) fn send<T>(
        &self,
        action: Result<(Action, usize)>,
        read: impl FnOnce(Reply) -> Result<T> + Send + 'static,
    ) -> Call<T> {
        match action {
            Ok(action) => Call::send(&self.store, &self.key, action, read),
            Err(error) => Call::known(Err(error)),
        }
    }

    pub(crate) fn whole<T>(&self, op: ObjectOp, read: impl FnOnce(Reply) -> Result<T> + Send + 'static) -> Call<T> {
        self.call(Action::Object(self.structure, op), read)
    }

    pub(crate) fn expire(&self, ttl: Duration) -> Call<bool> {
        match checked_ttl(ttl) {
            Ok(ttl) => self.whole(ObjectOp::Expire(ttl), Reply::flag),
            Err(error) => Call::known(Err(error.at(&self.key))),
        }
    }

    /// The keys of other objects, which must belong to the same grid.
    pub(crate) fn others<'a>(&self, others: impl Iterator<Item = &'a Self>) -> Result<Vec<Key>> {
        let key = |other: &Self| match Arc::ptr_eq(&self.store, &other.store) {
            true => Ok(other.key.clone()),
            false => Err(Error::misused(format!("{} belongs to another grid", other.name()))),
        };
        others.map(key).collect()
    }
}

/// A ttl that a store can have.
pub(crate) fn checked_ttl(ttl: Duration) -> Result<Duration> {
    match ttl > MAX_TTL {
        true => Err(Error::misused("the ttl is longer than 100 years; use persist, or no ttl")),
        false => Ok(ttl),
    }
}

/// Reads bytes of the store.
pub(crate) fn decode<C: bandog_codec::Decode<T>, T>(codec: &C, bytes: &[u8]) -> Result<T> {
    codec.decode(bytes).map_err(|error| Error::new(ErrorKind::Corrupt, error.to_string()))
}

/// Reads bytes of the store, if there are some.
pub(crate) fn decode_option<C: bandog_codec::Decode<T>, T>(codec: &C, bytes: Option<Bytes>) -> Result<Option<T>> {
    bytes.map(|bytes| decode(codec, &bytes)).transpose()
}

/// Reads all of these. One that cannot be read fails the call.
pub(crate) fn decode_all<C: bandog_codec::Decode<T>, T>(codec: &C, each: Vec<Bytes>) -> Result<Vec<T>> {
    each.iter().map(|bytes| decode(codec, bytes)).collect()
}

/// Defines a handle without a codec, or the methods that all handles have.
macro_rules! handle {
    ($(#[$docs:meta])* $name:ident) => {
        $(#[$docs])*
        #[derive(Debug, Clone)]
        pub struct $name {
            object: $crate::object::Object,
        }

        impl $name {
            pub(crate) fn new(object: $crate::object::Object) -> Self {
                Self { object }
            }

            $crate::object::whole_object!();
        }
    };
    ($(#[$docs:meta])* $name:ident<$($type:ident),+> $({ $($field:ident: $of:ty = $default:expr),+ })?) => {
        $(#[$docs])*
        pub struct $name<$($type,)+ C = bandog_codec::TextJson> {
            pub(crate) object: $crate::object::Object,
            pub(crate) codec: C,
            $($($field: $of,)+)?
            types: std::marker::PhantomData<fn() -> ($($type,)+)>,
        }

        impl<$($type,)+ C: bandog_codec::Codec> $name<$($type,)+ C> {
            pub(crate) fn new(object: $crate::object::Object, codec: C) -> Self {
                Self { object, codec, $($($field: $default,)+)? types: std::marker::PhantomData }
            }

            /// The same object, with another codec. Default: [`TextJson`](bandog_codec::TextJson).
            #[must_use]
            pub fn codec<D: bandog_codec::Codec>(self, codec: D) -> $name<$($type,)+ D> {
                $name { object: self.object, codec, $($($field: self.$field,)+)? types: std::marker::PhantomData }
            }

            $crate::object::whole_object!();
        }

        impl<$($type,)+ C: Clone> Clone for $name<$($type,)+ C> {
            fn clone(&self) -> Self {
                Self {
                    object: self.object.clone(),
                    codec: self.codec.clone(),
                    $($($field: self.$field.clone(),)+)?
                    types: std::marker::PhantomData,
                }
            }
        }

        impl<$($type,)+ C: std::fmt::Debug> std::fmt::Debug for $name<$($type,)+ C> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("key", &self.object.key)
                    .field("codec", &self.codec)
                    .finish_non_exhaustive()
            }
        }
    };
}

/// Defines the methods of an object as a whole.
macro_rules! whole_object {
    () => {
        /// The name, without the prefix of the client.
        pub fn name(&self) -> &str {
            self.object.name()
        }

        /// Whether the object exists. An object without elements does not exist.
        pub fn exists(&self) -> $crate::Call<bool> {
            self.object.whole(bandog_core::structures::ObjectOp::Exists, bandog_core::structures::Reply::flag)
        }

        /// Deletes the object, with all its keys in the store. Returns whether it existed.
        pub fn delete(&self) -> $crate::Call<bool> {
            self.object.whole(bandog_core::structures::ObjectOp::Delete, bandog_core::structures::Reply::flag)
        }

        /// Deletes the object after this time, with all its keys in the store. The time is rounded up to milliseconds.
        /// Returns whether the object exists; an object that does not exist gets no ttl.
        pub fn expire(&self, ttl: std::time::Duration) -> $crate::Call<bool> {
            self.object.expire(ttl)
        }

        /// Removes the ttl. Returns whether there was one.
        pub fn persist(&self) -> $crate::Call<bool> {
            self.object.whole(bandog_core::structures::ObjectOp::Persist, bandog_core::structures::Reply::flag)
        }

        /// The remaining time until the object is deleted.
        pub fn ttl(&self) -> $crate::Call<bandog_core::structures::Ttl> {
            self.object.whole(bandog_core::structures::ObjectOp::Ttl, bandog_core::structures::Reply::ttl)
        }
    };
}

pub(crate) use {handle, whole_object};
