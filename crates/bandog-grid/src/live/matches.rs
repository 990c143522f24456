//! Reads many live objects.

use std::{collections::VecDeque, fmt, marker::PhantomData, sync::Arc};

use bandog_codec::Codec;
use bandog_core::{
    Error, ErrorKind, PORTION, Portion, Result,
    structures::{Bytes, Cursor, Op, Part, Reply},
};
use futures_util::stream::{BoxStream, Stream, unfold};

use super::{
    coder::{FieldReader, FieldWriter},
    condition::Condition,
    object::LiveAs,
    stored::Stored,
    target::Target,
};
use crate::{call::Writer, pages::first, store::Store};

/// Maximum number of objects that are read in one round trip.
const PAGE: usize = 100;
/// Number of objects in the first round trip, before it is known how long they are.
const FIRST_PAGE: usize = 32;
/// The number of names that the store examines for a page of all objects.
const NAMES: usize = 1_000;
/// The name of the mark that each object has, and its value.
pub(crate) const MARK: (&str, &str) = ("redisson_live_object", "1");

/// A class of live objects in a store.
pub(crate) struct LiveStore<T, C> {
    pub(crate) store: Arc<Store>,
    pub(crate) codec: C,
    types: PhantomData<fn() -> T>,
}

impl<T: LiveAs<C>, C: Codec> LiveStore<T, C> {
    /// The object with this id, while it is not read.
    pub(crate) fn target(&self, id: &T::Id) -> Result<Target<C>> {
        let mut writer = Writer::new(&self.store);
        let mut to = FieldWriter::new(&self.codec, &mut writer);
        let id = T::write_id(id, &mut to)?;
        let mark = T::write_name(MARK.0, &mut to)?;
        let names = T::CLASS.fields.iter().map(|field| T::write_name(field.name, &mut to)).collect::<Result<_>>()?;
        Target::new(&self.store, self.codec.clone(), T::CLASS, id, (mark, names))
    }

    /// Reads objects, a page of them in one round trip. Those that do not exist are left out. One that cannot be read is one error.
    /// `page` is the number of objects of a page, which depends on the length of those before.
    async fn load(&self, ids: Vec<Result<T::Id>>, page: &mut usize) -> Vec<Result<Stored<T, C>>> {
        let (mut read, mut targets) = (Vec::new(), Vec::new());
        for id in ids {
            match id.and_then(|id| Ok((self.target(&id)?, id))) {
                Ok(target) => targets.push(target),
                Err(error) => read.push(Err(error)),
            }
        }
        let ops: Vec<_> =
            targets.iter().map(|(target, _)| Op { key: target.object.key.clone(), action: target.load() }).collect();
        let mut replies = Vec::new();
        while replies.len() < ops.len() {
            let rest = &ops[replies.len()..];
            let part = &rest[..rest.len().min(*page).min(self.store.limits.operations.max(1))];
            let answers = self.store.run(part, &[]).await;
            let bytes: usize = answers.iter().flatten().map(length).sum();
            let is_late = answers.iter().any(|answer| matches!(answer, Err(error) if error.maybe_applied()));
            if is_late && part.len() > 1 {
                *page = (part.len() / 4).max(1); // The wire may be too slow for so many.
                continue;
            }
            if is_late {
                // Not one arrives. The others are not waited for.
                let error = answers.into_iter().find_map(Result::err);
                let error = || Err(error.clone().unwrap_or_else(|| Error::unavailable("the store does not answer")));
                replies.resize_with(ops.len(), error);
                break;
            }
            // As many as have a portion of bytes together, if they are as long as these.
            *page = (PORTION * part.len() / bytes.max(1)).min(*page * 4).clamp(1, PAGE);
            replies.extend(answers);
        }
        for ((target, id), reply) in targets.into_iter().zip(replies) {
            let key = target.object.key.clone();
            let stored = reply.and_then(|reply| Stored::read(target, id, reply)).map_err(|error| error.at(&key));
            read.extend(stored.transpose());
        }
        read
    }

    fn id_of(&self, member: &[u8]) -> Result<T::Id> {
        T::read_member(member, &FieldReader::new(&self.codec, Vec::new()))
    }

    /// A page of the ids of all objects.
    async fn page(&self, from: &Cursor) -> Result<(Vec<Result<T::Id>>, Option<Cursor>)> {
        let all = self.store.client.key(&T::CLASS.objects())?;
        let page = self.store.structures.page(&all, Part::Live, from, Portion::new(NAMES, PORTION)).await?;
        let id = |name: &Bytes| {
            let id = std::str::from_utf8(name).ok().and_then(|name| T::CLASS.id_of(name));
            let id = id.ok_or_else(|| Error::new(ErrorKind::Corrupt, "the name of a live object has no id"))?;
            T::read_id(&id, &FieldReader::new(&self.codec, Vec::new()))
        };
        Ok((page.items.iter().map(id).collect(), page.next))
    }

    /// All objects.
    pub(crate) fn all(&self) -> BoxStream<'static, Result<Stored<T, C>>> {
        stream(Source::All(Some(Cursor::default())), self.clone(), None)
    }
}

impl<T, C> LiveStore<T, C> {
    pub(crate) fn new(store: Arc<Store>, codec: C) -> Self {
        Self { store, codec, types: PhantomData }
    }
}

impl<T, C: Clone> Clone for LiveStore<T, C> {
    fn clone(&self) -> Self {
        Self::new(self.store.clone(), self.codec.clone())
    }
}

/// The objects that fulfil a condition. Created by [`LiveObjects::find`](crate::LiveObjects::find).
///
/// The indexes give the ids, in one round trip; all of them are in the memory of this process. Then the objects are read, at most
/// 100 and about 1 MiB in a round trip, and each is checked: an entry of an index that Java has left behind is skipped.
///
/// An object that is changed meanwhile may be missing; none comes twice.
#[must_use = "nothing is read until the objects are asked for"]
pub struct Matches<T, C> {
    objects: LiveStore<T, C>,
    condition: Condition<T, C>,
}

impl<T: LiveAs<C>, C: Codec> Matches<T, C> {
    pub(crate) fn new(objects: LiveStore<T, C>, condition: Condition<T, C>) -> Self {
        Self { objects, condition }
    }

    /// The objects, in no order. An object that cannot be read is one error; an error of the store ends the stream.
    pub fn stream(self) -> impl Stream<Item = Result<Stored<T, C>>> + Send + Unpin + use<T, C> {
        stream(Source::Index, self.objects, Some(self.condition))
    }

    /// At most this number of objects, in no order.
    ///
    /// # Errors
    /// Those of a [`Call`](crate::Call). `ErrorKind::Corrupt`: one of the objects cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn load(self, at_most: usize) -> Result<Vec<Stored<T, C>>> {
        first(self.stream(), at_most).await
    }

    /// The ids of the objects, in no order. The objects are read and checked.
    ///
    /// # Errors
    /// As [`Matches::load`].
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn ids(self) -> Result<Vec<T::Id>> {
        Ok(self.load(usize::MAX).await?.iter().map(|object| object.id().clone()).collect())
    }
}

impl<T, C> fmt::Debug for Matches<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Matches").finish_non_exhaustive()
    }
}

/// The bytes of the fields of an object.
fn length(reply: &Reply) -> usize {
    match reply {
        Reply::Options(fields) => fields.iter().flatten().map(Vec::len).sum(),
        _ => 0,
    }
}

/// The ids that a stream reads next.
enum Source {
    /// All objects, from this page.
    All(Option<Cursor>),
    /// The members of indexes, which are not read.
    Index,
    Members(VecDeque<Bytes>),
}

/// The objects of a source that fulfil the condition.
fn stream<T: LiveAs<C>, C: Codec>(
    source: Source,
    objects: LiveStore<T, C>,
    condition: Option<Condition<T, C>>,
) -> BoxStream<'static, Result<Stored<T, C>>> {
    let state = (source, VecDeque::new(), objects, condition, FIRST_PAGE);
    Box::pin(unfold(state, |(mut source, mut ready, objects, condition, mut page)| async move {
        loop {
            if let Some(object) = ready.pop_front() {
                return Some((object, (source, ready, objects, condition, page)));
            }
            let ids = match next_ids(&mut source, &objects, condition.as_ref()).await {
                Ok(Some(ids)) => ids,
                Ok(None) => return None,
                Err(error) => return Some((Err(error), (Source::All(None), ready, objects, condition, page))),
            };
            let fulfils = |object: &Result<Stored<T, C>>| match (&condition, object) {
                (Some(condition), Ok(object)) => condition.holds(object),
                (None, _) | (_, Err(_)) => true,
            };
            ready.extend(objects.load(ids, &mut page).await.into_iter().filter(fulfils));
        }
    }))
}

/// The next ids. None: there are no more.
async fn next_ids<T: LiveAs<C>, C: Codec>(
    source: &mut Source,
    objects: &LiveStore<T, C>,
    condition: Option<&Condition<T, C>>,
) -> Result<Option<Vec<Result<T::Id>>>> {
    if let (Source::Index, Some(condition)) = (&*source, condition) {
        let members = condition.members(&objects.store, &T::CLASS, &objects.codec).await?;
        *source = Source::Members(members.into_iter().collect());
    }
    match source {
        Source::All(Some(cursor)) => {
            let (ids, next) = objects.page(cursor).await?;
            *source = Source::All(next);
            Ok(Some(ids))
        }
        Source::Members(members) if !members.is_empty() => {
            let page = members.drain(..members.len().min(PAGE));
            Ok(Some(page.map(|member| objects.id_of(&member)).collect()))
        }
        Source::All(None) | Source::Index | Source::Members(_) => Ok(None),
    }
}
