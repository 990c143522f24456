//! The changes of a map of which programs keep copies.
//!
//! The server reports each write to the map by any program (`CLIENT TRACKING`). The channel of `RLocalCachedMap`
//! says which entries, for the writers that keep copies.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use bandog_codec::{hash::h128_bytes, pack::LocalCacheMessage};
use bandog_core::{
    Result, Subscription,
    messages::{Message, Sink},
    structures::{MapChange, MapChanges},
};
use bandog_redis_net::{KeyChange, KeyChanges, Servers};
use tokio::runtime::Handle;

use crate::{command::Command, names, pages, scripts::SCRIPTS};

pub(crate) async fn track(servers: &Arc<Servers>, name: &str, changes: MapChanges) -> Result<Subscription> {
    // Until the server reports changes, there are no copies, so messages are not needed.
    let is_reported = Arc::new(AtomicBool::new(false));
    let (weak, own, report, has_begun) =
        (Arc::downgrade(servers), name.to_owned(), changes.clone(), is_reported.clone());
    let sink = Sink::of_messages(move |message| {
        let report = |change| {
            if has_begun.load(SeqCst) {
                report.report(change);
            }
        };
        let Some(Message::Payload(payload) | Message::Matched(_, payload)) = message else {
            return report(MapChange::Written); // Messages may be missing.
        };
        match LocalCacheMessage::decode(&payload) {
            Ok(LocalCacheMessage::Invalidate { hashes, .. }) => report(MapChange::Entries(hashes)),
            Ok(LocalCacheMessage::Update { entries, .. }) => {
                report(MapChange::Entries(entries.iter().map(|(key, _)| h128_bytes(key)).collect()));
            }
            Ok(LocalCacheMessage::Clear { request, answer, .. }) => {
                report(MapChange::Written);
                // The program of Java waits for an answer of each subscriber.
                if let (true, Some(servers), Ok(runtime)) = (answer, weak.upgrade(), Handle::try_current()) {
                    let [semaphore, channel] = names::clear_semaphore(&own, &request);
                    drop(runtime.spawn(async move {
                        let answer = Command::script(&SCRIPTS.answer, [semaphore]).arg(channel);
                        // Without it, the other program waits for its own timeout.
                        drop(pages::call(&servers, &[answer]).await);
                    }));
                }
            }
            Err(_) => report(MapChange::Written),
        }
    });
    let messages = servers.subscribe(&names::copies(name), sink).await?;
    let own = name.to_owned();
    let report = KeyChanges::new(move |change| {
        let has_begun = is_reported.load(SeqCst);
        changes.report(match change {
            KeyChange::Any => MapChange::Any,
            KeyChange::Denied(error) => MapChange::Denied(error.clone()),
            KeyChange::Lost if has_begun => MapChange::Lost,
            KeyChange::Key(key) if has_begun && key == own.as_bytes() => MapChange::Written,
            KeyChange::Key(_) | KeyChange::Lost => return, // A longer name, or reports have not begun.
        });
        is_reported.store(true, SeqCst);
    });
    let keys = servers.track(name, report).await?;
    Ok(Subscription::new(move || drop((messages, keys))))
}
