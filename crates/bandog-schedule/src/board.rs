//! The board: a record whose version changes whenever nodes have to read something. Its text is the era of the store's
//! data ([`crate::recovery`]).

use bandog_core::{Records, Result, Swap, Swapped, Version};
use bandog_sync::Client;

use crate::{
    news::{ChangedJobs, add_news_item},
    records::{board_key, single_answer},
    recovery::new_era,
};

/// Gives the board a new version with the same text, and adds a news item (the entry of the record `schedule/news` that
/// names the changed jobs). This notifies every node. `known` is the board as the caller knows it, which saves a round
/// trip.
pub(crate) async fn publish_change(
    client: &Client,
    known: Option<(Version, String)>,
    changed: &ChangedJobs,
) -> Result<()> {
    let board = board_key()?;
    let (mut from, mut era) = match known {
        Some((version, era)) => (Some(version), era),
        None => (None, new_era()),
    };
    loop {
        let swap = Swap { notifies: true, ..Swap::new(board.clone(), from, era.clone()) };
        let swaps = client.swap(&[swap]).await?;
        match single_answer(swaps.each)? {
            Swapped::Differs(Some(record)) => (from, era) = (Some(record.version), record.value),
            // There is no board: the store has lost it.
            Swapped::Differs(None) => (from, era) = (None, new_era()),
            Swapped::Done(Some(to)) => return add_news_item(client, from, to, changed).await,
            Swapped::Done(None) | Swapped::Early(_) | Swapped::NotHeld => return Ok(()),
        }
    }
}
