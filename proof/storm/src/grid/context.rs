//! A client of the grid.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Mutex as StdMutex, PoisonError},
};

use bandog::{
    Client, Error, ErrorKind, Result,
    grid::{Bloom, ClientGrid, Grid, Ids},
};
use tokio::sync::Mutex;

use super::history::{Kind, Object, Objects};
use crate::{
    calls::{self, Outcome, Recorder},
    settings::Profile,
};

/// Number of items and rate of false positives of the Bloom filter.
const BLOOM: (u64, f64) = (100_000, 0.01);
/// Number of ids in a block: small, so that many blocks are reserved.
const BLOCK: u64 = 5;

/// The state that the tasks of one client share.
pub(super) struct Context {
    pub(super) grid: Grid,
    pub(super) number: u32,
    pub(super) ids: Ids,
    bloom: Mutex<Option<Bloom<u64>>>,
    recorder: Recorder<Objects>,
    /// The weather of the run.
    profile: Profile,
    /// The number of the last message of each task at each topic.
    published: StdMutex<BTreeMap<(u32, Object), u64>>,
}

impl Context {
    pub(super) fn open(client: &Client, number: u32, path: &Path, profile: Profile) -> Self {
        let grid = client.grid();
        let ids = grid.ids(Object(Kind::Ids, 0).name()).expect("the store has objects").block(BLOCK);
        let recorder = Recorder::open(path);
        Self { grid, number, ids, bloom: Mutex::default(), recorder, profile, published: StdMutex::default() }
    }

    /// Whether the calls have the weather of this profile.
    pub(super) fn has(&self, profile: Profile) -> bool {
        self.profile.has(profile)
    }

    /// The number of the next message of this task at this topic.
    pub(super) fn next_message(&self, task: u32, object: Object) -> u64 {
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        let number = published.entry((task, object)).or_default();
        *number += 1;
        *number
    }

    /// The Bloom filter, which is made or opened.
    pub(super) async fn bloom(&self) -> Result<Bloom<u64>> {
        if let Some(bloom) = &*self.bloom.lock().await {
            return Ok(bloom.clone());
        }
        let opened = self.grid.bloom(Object(Kind::Bloom, 0).name())?.create_or_open(BLOOM.0, BLOOM.1).await?;
        *self.bloom.lock().await = Some(opened.clone());
        Ok(opened)
    }

    /// Opens the Bloom filter again at its next use, because the store has lost it.
    pub(super) async fn forget_bloom(&self) {
        *self.bloom.lock().await = None;
    }
}

impl calls::Context for Context {
    type Words = Objects;

    fn client(&self) -> u32 {
        self.number
    }

    fn recorder(&self) -> &Recorder<Objects> {
        &self.recorder
    }

    fn outcome(object: Object, error: &Error) -> Outcome {
        match (Outcome::of(error), error.kind(), object.0) {
            // The store has lost the filter, or has no sharded channels.
            (Outcome::Broken, ErrorKind::Misused, Kind::Bloom) => Outcome::Refused,
            (Outcome::Broken, ErrorKind::Unsupported, Kind::Sharded) => Outcome::Refused,
            // The name has data of another type or of another program.
            (Outcome::Broken, ErrorKind::Corrupt, Kind::Strange) => Outcome::Refused,
            (Outcome::Denied, _, Kind::Strange) => Outcome::Refused,
            (outcome, ..) => outcome,
        }
    }
}
