//! Live objects: structs whose fields are in the store, with indexes.

mod at;
mod class;
mod coder;
mod condition;
mod matches;
mod number;
mod object;
mod stored;
mod target;

use std::{fmt, sync::Arc, time::Duration};

use bandog_codec::{Codec, TextJson};
use bandog_core::{
    Error, ErrorKind, Result,
    structures::{ObjectOp, Reply},
};
use futures_util::stream::Stream;

pub use self::{
    at::{FieldAt, LiveAt, NumberAt, Optional, Required},
    class::{FieldIndex, LiveClass, LiveField},
    coder::{FieldReader, FieldWriter, WrittenField, WrittenId},
    condition::{Condition, NumberField, ValueField},
    matches::Matches,
    number::{LiveInteger, LiveNumber},
    object::{Live, LiveAs},
    stored::{Saved, Stored},
};
use self::{
    matches::{LiveStore, MARK},
    target::Target,
};
use crate::{Call, pages::first, store::Store};

/// Maximum number of attempts of [`LiveObjects::update`].
const MAX_ATTEMPTS: u32 = 200;

/// The live objects of a class, as Redisson's `RLiveObjectService` has them. Created by [`Grid::live`](crate::Grid::live).
///
/// An object is a struct with `#[derive(bandog::Live)]`. Its fields are in the store, each on its own, and some have indexes.
/// A change of an object and the changes of its indexes are one step, so an index is never stale. An `Option` that is `None` is
/// absent in the store and in the index.
///
/// ```
/// # use bandog::grid::{ClientGrid, Saved};
/// # use futures_util::TryStreamExt;
/// #[derive(Debug, bandog::Live)]
/// #[live(name = "com.shop.User", index(email, age))]
/// struct User {
///     #[live(id)]
///     id: u64,
///     email: String,
///     age: u32,
///     nick: Option<String>,
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
/// let grid = bandog::connect("memory:").await?.grid();
/// let users = grid.live::<User>()?;
/// let ann = User { id: 7, email: "ann@example.com".to_owned(), age: 64, nick: None };
/// assert!(users.insert(&ann).await?);
///
/// assert_eq!(users.at(&7).age().add(1).await?, Some(65)); // one field and its index, in one step
///
/// let mut ann = users.load(&7).await?.expect("Ann was inserted");
/// ann.nick = Some("an".to_owned());
/// assert_eq!(ann.save().await?, Saved::Done); // Saved::Changed if another program has changed it since
///
/// let old: Vec<_> = users.find(User::age().ge(&65)).stream().try_collect().await?;
/// assert_eq!(old[0].email, "ann@example.com");
/// # Ok(()) }
/// ```
///
/// # In Java
/// The layout is that of `@REntity`, `@RId` and `@RIndex`: the class is the name of the Java class, and both sides use one codec
/// that writes keys and values alike, such as [`Kryo5`](bandog_codec::Kryo5). With the default codec, which does not, Java
/// finds no objects by an index of texts. Java changes an object and its index in several steps; a search here checks each
/// object.
///
/// # On a cluster
/// In the layout of Java, an object and the indexes of its class are in different slots. So a class with indexes is
/// `ErrorKind::Misused` there, unless it has `#[live(one_slot)]`: then all keys of the class are in one slot, with names that
/// Java does not know.
pub struct LiveObjects<T, C = TextJson>(LiveStore<T, C>);

impl<T: Live> LiveObjects<T> {
    pub(crate) fn new(store: &Arc<Store>) -> Self {
        Self(LiveStore::new(store.clone(), TextJson))
    }
}

impl<T, C> LiveObjects<T, C> {
    /// The same objects, with another codec. Default: [`TextJson`].
    #[must_use]
    pub fn codec<D: Codec>(self, codec: D) -> LiveObjects<T, D> {
        LiveObjects(LiveStore::new(self.0.store, codec))
    }
}

impl<T: LiveAs<C>, C: Codec> LiveObjects<T, C> {
    /// Writes an object that does not exist, with its indexes. Returns whether it was written; otherwise, nothing is changed.
    pub fn insert(&self, object: &T) -> Call<bool> {
        self.call(object.id(), |target| {
            let prepare = |to: &mut crate::call::Writer| {
                let mut to = FieldWriter::new(&target.codec, to);
                let mark = T::write_mark(MARK.1, &mut to)?;
                target.insert(mark, &object.write(&mut to)?)
            };
            target.object.write(prepare, Reply::flag)
        })
    }

    /// Reads an object, if it exists.
    pub fn load(&self, id: &T::Id) -> Call<Option<Stored<T, C>>> {
        let own = id.clone();
        self.call(id, |target| {
            let (object, action) = (target.object.clone(), target.load());
            object.call(action, move |reply| Stored::read(target, own, reply))
        })
    }

    /// Whether the object exists.
    pub fn contains(&self, id: &T::Id) -> Call<bool> {
        self.call(id, |target| target.object.whole(ObjectOp::Exists, Reply::flag))
    }

    /// Deletes an object, also from its indexes. Returns whether it existed.
    pub fn delete(&self, id: &T::Id) -> Call<bool> {
        self.call(id, |target| target.object.write(|_| target.delete(), Reply::flag))
    }

    /// The fields of the object in the store, each on its own: a value with a method for each field. This does no I/O.
    pub fn at(&self, id: &T::Id) -> T::At<C> {
        LiveAt::new(self.0.target(id)).into()
    }

    /// Changes an object, and returns it. `None`: it does not exist.
    ///
    /// There is no lock: the object is loaded, changed and saved, and `change` is called again if it was changed meanwhile. It
    /// must have no effects of its own.
    ///
    /// # Errors
    /// - Those of [`Stored::save`].
    /// - `ErrorKind::Overloaded`: others have changed the object during each of 200 attempts.
    ///
    /// # Cancel safety
    /// If the future is dropped, the store has all old or all new fields.
    pub async fn update(&self, id: &T::Id, mut change: impl FnMut(&mut T) + Send) -> Result<Option<T>> {
        for attempt in 0..MAX_ATTEMPTS {
            let Some(mut stored) = self.load(id).await? else { return Ok(None) };
            change(&mut stored);
            match stored.save().await? {
                Saved::Done => return Ok(Some(stored.into_inner())),
                // Others change the same object: the pause is a random part of a time that grows with the attempts.
                Saved::Changed => {
                    let micros = fastrand::u64(0..=100 * u64::from(attempt.min(50)));
                    tokio::time::sleep(Duration::from_micros(micros)).await;
                }
            }
        }
        let message = "others have changed the live object during each of 200 attempts";
        Err(Error::new(ErrorKind::Overloaded, message).at(&self.0.target(id)?.object.key))
    }

    /// The objects that fulfil a condition on indexed fields. `User::age()` is such a field; a field without an index has no
    /// such function.
    pub fn find(&self, condition: Condition<T, C>) -> Matches<T, C> {
        Matches::new(self.0.clone(), condition)
    }

    /// All objects, in no order. An object that is inserted or deleted meanwhile may be missing; each other object comes once
    /// or twice. An object that cannot be read is one error.
    ///
    /// The store examines the names of all its keys, as for Java's `findIds`: this is for operators, not for each request.
    pub fn stream(&self) -> impl Stream<Item = Result<Stored<T, C>>> + Send + Unpin + use<T, C> {
        self.0.all()
    }

    /// At most this number of objects, as [`LiveObjects::stream`].
    ///
    /// # Errors
    /// Those of a [`Call`]. `ErrorKind::Corrupt`: one of the objects cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn to_vec(&self, at_most: usize) -> Result<Vec<Stored<T, C>>> {
        first(self.stream(), at_most).await
    }

    fn call<A>(&self, id: &T::Id, call: impl FnOnce(Target<C>) -> Call<A>) -> Call<A> {
        match self.0.target(id) {
            Ok(target) => call(target),
            Err(error) => Call::known(Err(error)),
        }
    }
}

impl<T, C: Clone> Clone for LiveObjects<T, C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Live, C: fmt::Debug> fmt::Debug for LiveObjects<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveObjects")
            .field("class", &T::CLASS.name)
            .field("codec", &self.0.codec)
            .finish_non_exhaustive()
    }
}
