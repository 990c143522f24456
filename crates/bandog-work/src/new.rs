//! Elements that are pushed when a builder is awaited.

use std::{
    future::IntoFuture,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bandog_core::{
    Error, Result,
    queues::{ElementId, Headers, MAX_ORDER_KEY, NewElement, OnceId, Priority, Pushed, Queues, When, envelope},
};
use futures_util::future::BoxFuture;

use crate::{sender, shared::Shared};

/// The longest delay, window and time of a result: 10 years.
const MAX_TIME: Duration = Duration::from_secs(3650 * 86_400);

/// An element that is pushed when this is awaited. Created by [`WorkQueue::push`](crate::WorkQueue::push).
///
/// Awaiting gives the id of the element, and whether it is new.
///
/// # Errors
/// - `ErrorKind::Misused`: an option is not allowed, the value cannot be encoded, or it has more than 1 MiB.
/// - `ErrorKind::Unavailable`: the store has not answered in three timeouts. The element may be pushed
///   ([`Error::maybe_applied`]); with [`Push::once`], pushing again is harmless.
/// - `ErrorKind::Overloaded`: 64 MiB wait to be pushed.
///
/// # Cancel safety
/// If the future is dropped after its first poll, the element is pushed in the background.
#[must_use = "an element is pushed when this is awaited"]
#[derive(Debug)]
pub struct Push {
    pub(crate) shared: Arc<Shared>,
    /// With the payload alone.
    pub(crate) element: Result<NewElement>,
    headers: Headers,
}

impl Push {
    pub(crate) fn new(shared: &Arc<Shared>, payload: Result<Vec<u8>>) -> Self {
        Self { shared: shared.clone(), element: payload.map(unnamed), headers: Headers::default() }
    }

    /// The element as a store keeps it.
    fn closed(self) -> Result<NewElement> {
        let Self { element, headers, .. } = self;
        element.map(|element| closed(element, &headers))
    }

    fn with(mut self, set: impl FnOnce(&mut NewElement) -> Result<()>) -> Self {
        if let Ok(element) = &mut self.element
            && let Err(error) = set(element)
        {
            self.element = Err(error.at(&self.shared.key));
        }
        self
    }

    /// It is ready after this time of the store's clock. Default: at once.
    pub fn after(self, delay: Duration) -> Self {
        self.with(|element| {
            element.when = When::After(checked("the delay", delay)?);
            Ok(())
        })
    }

    /// It is ready at this time of the store's clock.
    pub fn at(self, time: SystemTime) -> Self {
        self.with(|element| {
            element.when = When::At(time);
            Ok(())
        })
    }

    /// Its priority, from 0 to [`MAX_PRIORITY`](crate::MAX_PRIORITY): elements with a greater one are delivered first.
    /// Default: 0.
    pub fn priority(self, priority: u8) -> Self {
        self.with(|element| {
            element.priority = Priority::new(priority)?;
            Ok(())
        })
    }

    /// Of all pushes with the same id, one adds an element within this time, also if the element is done meanwhile. The
    /// others get its id, and [`Pushed::is_new`] is false. The id must have from 1 to 255 bytes.
    pub fn once(self, id: impl AsRef<str>, window: Duration) -> Self {
        self.with(|element| {
            let id = text("the id of once", id.as_ref())?;
            element.once = Some(OnceId { id, window: checked("the window of once", window)? });
            Ok(())
        })
    }

    /// Elements with the same key are delivered one after another, in the order of their pushes. The next one is delivered when
    /// the one before is done, dead or removed, also if that one waits to be repeated. The key must have from 1 to 255 bytes.
    pub fn key(self, key: impl AsRef<str>) -> Self {
        self.with(|element| {
            element.order_key = Some(text("the key", key.as_ref())?);
            Ok(())
        })
    }

    /// A name and a value that travel with the element, such as the context of a trace: the handler finds them with
    /// [`Delivery::header`](crate::Delivery::header), in each delivery. A later one replaces one with the same name. Default: none.
    ///
    /// The name has from 1 to 255 bytes. All headers of an element have at most 4 KiB, with 4 bytes more for each.
    /// In a store that keeps elements of older programs, a push with headers may be `ErrorKind::Unsupported`; the error says what
    /// to do.
    pub fn header(mut self, name: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        let set = self.headers.set(name.as_ref(), value.as_ref());
        self.with(|_| set)
    }

    /// The result of the element is kept for this time after its end: see [`WorkQueue::find`](crate::WorkQueue::find).
    /// Default: not at all.
    pub fn keep_result(self, time: Duration) -> Self {
        self.with(|element| {
            element.keep_result = Some(checked("the time of the result", time)?);
            Ok(())
        })
    }
}

impl IntoFuture for Push {
    type Output = Result<Pushed>;
    type IntoFuture = BoxFuture<'static, Result<Pushed>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let shared = self.shared.clone();
            let pushed = sender::push(&shared, vec![self.closed()?]).await?;
            pushed.first().copied().ok_or_else(|| Error::unavailable("the push was not answered").ambiguous())
        })
    }
}

/// Elements that are pushed in one step when this is awaited. Created by
/// [`WorkQueue::push_all`](crate::WorkQueue::push_all). Errors and cancel safety are those of [`Push`]; the most are
/// 10,000 elements and 16 MiB.
#[must_use = "elements are pushed when this is awaited"]
#[derive(Debug)]
pub struct PushAll {
    pub(crate) shared: Arc<Shared>,
    elements: Result<Vec<NewElement>>,
    /// The headers of each. None: the elements are as a store keeps them.
    headers: Option<Headers>,
}

impl PushAll {
    pub(crate) fn new(shared: &Arc<Shared>, payloads: impl Iterator<Item = Result<Vec<u8>>>) -> Self {
        let elements = payloads.map(|payload| payload.map(unnamed)).collect();
        Self { shared: shared.clone(), elements, headers: Some(Headers::default()) }
    }

    /// The elements as a store keeps them.
    fn closed(self) -> Result<Vec<NewElement>> {
        match self.headers {
            Some(headers) => Ok(self.elements?.into_iter().map(|element| closed(element, &headers)).collect()),
            None => self.elements,
        }
    }

    /// As [`Push::after`], for each.
    pub fn after(self, delay: Duration) -> Self {
        self.each(|push| push.after(delay))
    }

    /// As [`Push::at`], for each.
    pub fn at(self, time: SystemTime) -> Self {
        self.each(|push| push.at(time))
    }

    /// As [`Push::priority`], for each.
    pub fn priority(self, priority: u8) -> Self {
        self.each(|push| push.priority(priority))
    }

    /// As [`Push::key`], for each: they are delivered one after another.
    pub fn key(self, key: impl AsRef<str>) -> Self {
        self.each(|push| push.key(&key))
    }

    /// As [`Push::header`], for each.
    pub fn header(mut self, name: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        if let Some(headers) = &mut self.headers
            && let Err(error) = headers.set(name.as_ref(), value.as_ref())
        {
            self.elements = self.elements.and(Err(error.at(&self.shared.key)));
        }
        self
    }

    /// As [`Push::keep_result`], for each.
    pub(crate) fn keep_results(self, time: Duration) -> Self {
        self.each(|push| push.keep_result(time))
    }

    /// Pushes one more element of this queue, which is ready when all others are done. While one of them is dead, it waits. Its id
    /// is the last one. It has options of its own, but not [`Push::once`]: the others would wait for an element of an earlier
    /// push. A batch has one last element:
    ///
    /// ```compile_fail
    /// # use bandog::work::{ClientWork, WorkQueue};
    /// # async fn two(queue: WorkQueue<String>, text: String) -> bandog::Result<()> {
    /// queue.push_all(&[text.clone()]).then(queue.push(&text)).then(queue.push(&text)).await?;
    /// # Ok(()) }
    /// ```
    pub fn then(self, last: Push) -> PushBatch {
        let shared = self.shared.clone();
        let elements = self.closed().and_then(|mut elements| {
            if last.shared.key != shared.key {
                let [parts, last] = [&shared, &last.shared].map(|shared| shared.name().to_owned());
                let message = format!("the last element is for the queue {last:?}, and the others are for {parts:?}");
                return Err(Error::misused(message));
            }
            let mut last = last.closed()?;
            if last.once.is_some() {
                return Err(Error::misused("the element after all others cannot have `once`"));
            }
            last.waits_for = u32::try_from(elements.len()).map_err(|_| Error::misused("too many elements"))?;
            for element in &mut elements {
                element.before = Some(ElementId { client: 0, number: 0 });
            }
            elements.insert(0, last);
            Ok(elements)
        });
        PushBatch(Self { shared, elements, headers: None })
    }

    fn each(mut self, set: impl Fn(Push) -> Push) -> Self {
        if let Ok(elements) = self.elements {
            let shared = &self.shared;
            let set = |element| {
                set(Push { shared: shared.clone(), element: Ok(element), headers: Headers::default() }).element
            };
            self.elements = elements.into_iter().map(set).collect();
        }
        self
    }
}

impl IntoFuture for PushAll {
    type Output = Result<Vec<Pushed>>;
    type IntoFuture = BoxFuture<'static, Result<Vec<Pushed>>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let shared = self.shared.clone();
            let elements = self.closed()?;
            let has_last = has_last(&elements);
            let mut pushed = sender::push(&shared, elements).await?;
            if has_last && !pushed.is_empty() {
                pushed.rotate_left(1);
            }
            Ok(pushed)
        })
    }
}

/// Elements, and one that is ready when all others are done. They are pushed in one step when this is awaited. Created by
/// [`PushAll::then`]. Errors and cancel safety are those of [`PushAll`].
#[must_use = "elements are pushed when this is awaited"]
#[derive(Debug)]
pub struct PushBatch(pub(crate) PushAll);

impl IntoFuture for PushBatch {
    type Output = Result<Vec<Pushed>>;
    type IntoFuture = BoxFuture<'static, Result<Vec<Pushed>>>;

    fn into_future(self) -> Self::IntoFuture {
        self.0.into_future()
    }
}

/// Whether the first element is that of [`PushAll::then`].
#[doc(hidden)]
pub fn has_last(elements: &[NewElement]) -> bool {
    elements.first().is_some_and(|element| element.waits_for > 0)
}

/// The element as a store keeps it: with an envelope, if it has headers.
fn closed(mut element: NewElement, headers: &Headers) -> NewElement {
    element.payload = envelope::close(headers, element.payload);
    element
}

/// An element that has no id yet.
fn unnamed(payload: Vec<u8>) -> NewElement {
    NewElement::new(ElementId { client: 0, number: 0 }, payload)
}

fn checked(what: &str, time: Duration) -> Result<Duration> {
    if time > MAX_TIME {
        return Err(Error::misused(format!("{what} is longer than 10 years")));
    }
    Ok(time)
}

fn text(what: &str, text: &str) -> Result<Arc<str>> {
    if text.is_empty() || text.len() > MAX_ORDER_KEY || text.contains('\0') {
        return Err(Error::misused(format!(
            "{what} has {} bytes; it must have from 1 to {MAX_ORDER_KEY}, and no character 0",
            text.len()
        )));
    }
    Ok(text.into())
}

/// Elements for a transaction of the program: their store, and the push, whose elements have their ids.
#[doc(hidden)]
pub trait IntoPush: Sized {
    /// The store, and the push.
    fn into_push(self) -> Result<(Arc<dyn Queues>, bandog_core::queues::Push)>;
}

impl IntoPush for PushAll {
    fn into_push(self) -> Result<(Arc<dyn Queues>, bandog_core::queues::Push)> {
        let shared = self.shared.clone();
        let elements = sender::named(&shared, self.closed()?)?;
        let push = bandog_core::queues::Push { queue: shared.key.clone(), elements };
        Ok((shared.queues.clone(), push))
    }
}

impl IntoPush for PushBatch {
    fn into_push(self) -> Result<(Arc<dyn Queues>, bandog_core::queues::Push)> {
        self.0.into_push()
    }
}

impl IntoPush for Push {
    fn into_push(self) -> Result<(Arc<dyn Queues>, bandog_core::queues::Push)> {
        let shared = self.shared.clone();
        let elements = self.closed().map(|element| vec![element]);
        PushAll { shared, elements, headers: None }.into_push()
    }
}
