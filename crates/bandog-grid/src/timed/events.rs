//! The events of a timed map.

use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::{Context, Poll},
};

use bandog_codec::Decode;
use bandog_core::{
    Error, ErrorKind, Result, Subscription,
    structures::{Bytes, EntryEvent, EntryEvents},
};
use futures_util::Stream;
use tokio::sync::mpsc;

use crate::{
    object::{Object, decode},
    store::Store,
};

/// Maximum number of events that are kept until they are read.
const BUFFER: usize = 1_024;

/// A change of a [`TimedMap`](crate::TimedMap).
#[derive(Debug, Clone)]
pub enum MapEvent<K, V> {
    /// An entry was written that did not exist.
    Created {
        /// The key.
        key: K,
        /// The value.
        value: V,
    },
    /// An entry was written that existed.
    Updated {
        /// The key.
        key: K,
        /// The value.
        value: V,
        /// The former value.
        old: V,
    },
    /// An entry was removed, by a caller or because the map was full.
    Removed {
        /// The key.
        key: K,
        /// The former value.
        value: V,
    },
    /// An entry has expired, and was removed.
    Expired {
        /// The key.
        key: K,
        /// The former value.
        value: V,
    },
    /// Events may be missing here, because the connection broke or the program read too slowly. A program that keeps a copy
    /// of the map reads it again.
    Gap,
    /// An event that the codec cannot read: `ErrorKind::Corrupt`.
    Corrupt(Error),
}

type Read<K, V> = Box<dyn Fn(EntryEvent) -> Option<MapEvent<K, V>> + Send + Sync>;

/// The events of a [`TimedMap`](crate::TimedMap), as a stream. Dropping it ends the subscription.
///
/// It keeps at most 1,024 events until they are read; a [`MapEvent::Gap`] takes the place of further ones. The stream ends if
/// the user has lost the right to subscribe.
pub struct MapEvents<K, V> {
    _subscription: Subscription,
    inbox: mpsc::Receiver<EntryEvent>,
    /// Whether the buffer was full.
    is_missing: Arc<AtomicBool>,
    read: Read<K, V>,
    /// Keeps the connections open.
    _store: Arc<Store>,
}

pub(super) async fn subscribe<K: 'static, V: 'static, C: Decode<V>>(
    object: &Object,
    codec: &C,
    is_by_operations: bool,
) -> Result<MapEvents<K, V>>
where
    C::Keys: Decode<K>,
{
    if !is_by_operations {
        let error = Error::new(ErrorKind::Unsupported, "a native timed map has no events; use one without .native()");
        return Err(error.at(&object.key));
    }
    let (sender, inbox) = mpsc::channel(BUFFER);
    let is_missing = Arc::new(AtomicBool::new(false));
    let (sender, full) = (Mutex::new(Some(sender)), is_missing.clone());
    let events = EntryEvents::new(move |event| {
        let mut sender = sender.lock().unwrap_or_else(PoisonError::into_inner);
        if event == EntryEvent::End {
            *sender = None;
        } else if let Some(sender) = &*sender
            && sender.try_send(event).is_err()
        {
            full.store(true, SeqCst);
            // If there is room again, the reader may have seen neither the event nor the mark.
            drop(sender.try_send(EntryEvent::Gap));
        }
    });
    let structures = &object.store.structures;
    let subscription =
        structures.subscribe_entries(&object.key, events).await.map_err(|error| error.during("events"))?;
    let (keys, values, name) = (codec.keys(), codec.clone(), object.key.clone());
    let read = move |event| {
        let key = |bytes: Bytes| decode::<_, K>(&keys, &bytes);
        let value = |bytes: Bytes| decode::<_, V>(&values, &bytes);
        let event = match event {
            EntryEvent::Created { field, value: of } => {
                key(field).and_then(|key| Ok(MapEvent::Created { key, value: value(of)? }))
            }
            EntryEvent::Updated { field, value: of, old } => {
                key(field).and_then(|key| Ok(MapEvent::Updated { key, value: value(of)?, old: value(old)? }))
            }
            EntryEvent::Removed { field, value: of } => {
                key(field).and_then(|key| Ok(MapEvent::Removed { key, value: value(of)? }))
            }
            EntryEvent::Expired { field, value: of } => {
                key(field).and_then(|key| Ok(MapEvent::Expired { key, value: value(of)? }))
            }
            EntryEvent::Gap => Ok(MapEvent::Gap),
            EntryEvent::Corrupt => Err(Error::new(ErrorKind::Corrupt, "a message on a channel of events is no event")),
            EntryEvent::End => return None,
        };
        Some(event.unwrap_or_else(|error| MapEvent::Corrupt(error.at(&name))))
    };
    let store = object.store.clone();
    Ok(MapEvents { _subscription: subscription, inbox, is_missing, read: Box::new(read), _store: store })
}

impl<K, V> MapEvents<K, V> {
    /// The next event. None if the subscription has ended.
    ///
    /// # Cancel safety
    /// If the future is dropped, no event is lost.
    pub async fn next(&mut self) -> Option<MapEvent<K, V>> {
        poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<MapEvent<K, V>>> {
        match self.inbox.poll_recv(context) {
            Poll::Ready(event) => Poll::Ready(event.and_then(&self.read)),
            Poll::Pending if self.is_missing.swap(false, SeqCst) => Poll::Ready(Some(MapEvent::Gap)),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<K, V> Stream for MapEvents<K, V> {
    type Item = MapEvent<K, V>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll(context)
    }
}

impl<K, V> fmt::Debug for MapEvents<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MapEvents").finish_non_exhaustive()
    }
}
