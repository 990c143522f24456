//! The board: a record that gets a new version with each published change of jobs or pauses. When nodes notice the new
//! version, they read the change. The text of the board is the era, which is a random name of the store's data
//! ([`crate::recovery`]).

use bandog_core::{Records, Result, Swap, Swapped, Version};
use bandog_sync::Client;

use crate::{
    news::{ChangedJobs, add_news_item},
    records::{board_key, single_answer},
    recovery::new_era,
};

/// Publishes a change, and notifies every node. First, this function gives the board a new version with the same text.
/// Then it adds an item to the news (the record `schedule/news`), which names the changed jobs. `known`: the version
/// and the text of the board, if the caller knows them. If so, the function saves a round trip.
pub(crate) async fn publish_change(
    client: &Client,
    known: Option<(Version, String)>,
    changed: &ChangedJobs,
) -> Result<()> {
    let board = board_key()?;
    // `from`: the version of the board that the swap replaces.
    let (mut from, mut era) = match known {
        Some((version, era)) => (Some(version), era),
        None => (None, new_era()),
    };
    loop {
        let swap = Swap { notifies: true, ..Swap::new(board.clone(), from, era.clone()) };
        let swaps = client.records().swap(&[swap]).await?;
        match single_answer(swaps.each)? {
            Swapped::Differs(Some(record)) => (from, era) = (Some(record.version), record.value),
            // There is no board, because the store is new or has lost its data.
            Swapped::Differs(None) => (from, era) = (None, new_era()),
            Swapped::Done(Some(to)) => return add_news_item(client, from, to, changed).await,
            Swapped::Done(None) | Swapped::Early(_) | Swapped::NotHeld => return Ok(()),
        }
    }
}
