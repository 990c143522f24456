//! Jobs from outside: for operators, the command and the page. No scheduler need run in this process.

mod forget;
mod look;
mod near;
mod pauses;
mod say;

use std::{collections::HashSet, time::SystemTime};

use bandog_core::{ClientId, Error, Holding, Key, Member, Pattern, Record, Records, Result};
use bandog_sync::Client;

use crate::{
    dispatch::{PREFIX, key, only},
    job::check_name,
    state::{JobState, Live},
    trigger::Trigger,
};

/// The longest reason of a pause or a reset, in bytes of UTF-8.
pub const MAX_REASON: usize = 4096;
/// Records in one call.
const BATCH: usize = 256;
/// So often a word is said again when the record changes at the same time. Of those who change it at a time one succeeds.
const TRIES: u32 = 1000;
/// So many names are told to somebody who asks for one that is not there.
const NAMED: usize = 10;

/// The jobs of a store: what they are, what they did, and words to them. Cheap to clone.
///
/// Nodes notice a word at once, and within a second where the store cannot ring or a ring is lost. Words are kept in the
/// store, so they hold for nodes that start later too; a run that is asked for while no node has the job waits until one
/// does ([`Jobs::nodes`]).
#[derive(Debug, Clone)]
pub struct Jobs {
    client: Client,
    by: String,
}

impl Jobs {
    /// The jobs of this client's store, under its prefix.
    pub fn over(client: &Client) -> Self {
        let Member { host, program, .. } = Member::here(ClientId::random());
        Self { client: client.clone(), by: format!("{program}@{host}") }
    }

    /// Who speaks, for the records of pauses. Default: the running program and its machine.
    #[must_use]
    pub fn by(mut self, who: impl Into<String>) -> Self {
        self.by = who.into();
        self
    }

    /// A job's record as it is, and the store's time.
    async fn record(&self, name: &str) -> Result<(Record, SystemTime)> {
        check_name(name)?;
        let reading = self.client.read(&[key(name)?], &[]).await?;
        match only(reading.records)? {
            Some(record) => Ok((record, reading.now)),
            None => Err(self.no_such(name).await),
        }
    }

    /// Those of these runs' sessions that have ended.
    async fn ended<'a>(&self, live: impl Iterator<Item = &'a Live>) -> Result<HashSet<Holding>> {
        let sessions: Vec<Holding> = live.filter_map(Live::holding).collect::<HashSet<_>>().into_iter().collect();
        let mut ended = HashSet::new();
        for some in sessions.chunks(BATCH) {
            let stands = self.client.read(&[], some).await?.held;
            let gone = some.iter().zip(stands).filter(|(_, stands)| matches!(stands, Ok(false)));
            ended.extend(gone.map(|(session, _)| session.clone()));
        }
        Ok(ended)
    }

    /// Tells of names that are near, or else of some that there are.
    async fn no_such(&self, name: &str) -> Error {
        let known: Vec<String> = match self.client.names(&Pattern::all().after(PREFIX)).await {
            Ok(keys) => keys.iter().map(|key| name_of(key).to_owned()).collect(),
            Err(error) => return error,
        };
        let near = near::near(name, &known);
        let hint = match (&near[..], &known[..]) {
            (_, []) => "it knows none".to_owned(),
            ([], known) => {
                let dots = if known.len() > NAMED { ", …" } else { "" };
                format!("it knows {}{dots}", quoted(&known[..known.len().min(NAMED)], ", "))
            }
            (near, _) => format!("did you mean {}?", quoted(near, " or ")),
        };
        Error::misused(format!("the store knows no job {name:?}; {hint}"))
    }
}

fn quoted(names: &[impl AsRef<str>], between: &str) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("{:?}", name.as_ref())).collect();
    quoted.join(between)
}

fn name_of(key: &Key) -> &str {
    key.as_str().strip_prefix(PREFIX).unwrap_or(key.as_str())
}

fn trigger(name: &str, state: &JobState) -> Result<Trigger> {
    let trigger = state.spec.as_ref().and_then(|spec| spec.trigger());
    trigger.ok_or_else(|| {
        Error::misused(format!("job {name:?} was written by a version of bandog that this one cannot read"))
    })
}

/// A reason that fits into a record.
fn short(reason: &str) -> Result<String> {
    if reason.len() > MAX_REASON {
        return Err(Error::misused(format!("the reason has {} bytes; it may have {MAX_REASON}", reason.len())));
    }
    Ok(reason.to_owned())
}
