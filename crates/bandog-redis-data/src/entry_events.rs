//! The events of a timed map, which its script publishes.

use bandog_codec::pack::CacheEvent;
use bandog_core::{
    Result, Subscription,
    messages::{Message, Sink},
    structures::{EntryEvent, EntryEvents},
};
use bandog_redis_net::Servers;

use crate::{names, pack, pages};

/// Subscribes to the four channels of the events, and then makes the script publish.
pub(crate) async fn subscribe(servers: &Servers, name: &str, events: EntryEvents) -> Result<Subscription> {
    let mut subscriptions = Vec::new();
    for (channel, read) in names::timed_events(name).iter().zip([created, updated, removed, expired]) {
        let events = events.clone();
        let sink = Sink::of_messages(move |message| {
            events.report(match message {
                Some(Message::Payload(payload) | Message::Matched(_, payload)) => {
                    CacheEvent::decode(&payload).ok().and_then(read).unwrap_or(EntryEvent::Corrupt)
                }
                Some(Message::Gap) => EntryEvent::Gap,
                None => EntryEvent::End,
            });
        });
        subscriptions.push(servers.subscribe_strictly(channel, sink).await?);
    }
    pages::call(servers, &[pack::listen(name)]).await?;
    Ok(Subscription::new(move || drop(subscriptions)))
}

fn created(CacheEvent { key, value, old }: CacheEvent<'_>) -> Option<EntryEvent> {
    old.is_none().then(|| EntryEvent::Created { field: key.into(), value: value.into() })
}

fn updated(CacheEvent { key, value, old }: CacheEvent<'_>) -> Option<EntryEvent> {
    old.map(|old| EntryEvent::Updated { field: key.into(), value: value.into(), old: old.into() })
}

fn removed(CacheEvent { key, value, old }: CacheEvent<'_>) -> Option<EntryEvent> {
    old.is_none().then(|| EntryEvent::Removed { field: key.into(), value: value.into() })
}

fn expired(CacheEvent { key, value, old }: CacheEvent<'_>) -> Option<EntryEvent> {
    old.is_none().then(|| EntryEvent::Expired { field: key.into(), value: value.into() })
}
