//! The jobs of a store, for operators, for the `bandog` command and for the web page. A process that uses this module
//! needs no scheduler.

mod commands;
mod forget;
mod pauses;
mod queries;
mod similar;

use std::{collections::HashSet, time::SystemTime};

use bandog_core::{ClientId, Error, Holding, Key, Member, Pattern, Record, Records, Result};
use bandog_sync::Client;

use crate::{
    job::check_name,
    records::{BATCH, JOB_PREFIX, job_key, single_answer},
    state::{JobState, LiveRun},
    trigger::Trigger,
};

/// Maximum length of the reason of a pause or a reset, in bytes of UTF-8.
pub const MAX_REASON: usize = 4096;
/// Maximum number of attempts to change a record. If several processes change a record at the same time, only one
/// process succeeds, and the other processes try again.
const MAX_ATTEMPTS: u32 = 1000;
/// Maximum number of names in the error about an unknown job.
const MAX_LISTED_NAMES: usize = 10;

/// The jobs of a store: their settings, their histories, and commands to them. Cheap to clone.
///
/// Nodes notice a command immediately. If the store has no notifications, or a notification is lost, nodes notice the
/// command within a second. Commands are stored, so they also apply to nodes that start later. If a run is requested
/// while no node has the job, the run waits until a node with the job starts ([`Jobs::nodes`] lists the nodes).
#[derive(Debug, Clone)]
pub struct Jobs {
    client: Client,
    /// The name of the operator.
    by: String,
}

impl Jobs {
    /// The jobs in this client's store under the client's prefix.
    pub fn over(client: &Client) -> Self {
        let Member { host, program, .. } = Member::here(ClientId::random());
        Self { client: client.clone(), by: format!("{program}@{host}") }
    }

    /// Sets the name of the operator, which is recorded with pauses and resets. Default: the name of this program and
    /// of the machine.
    #[must_use]
    pub fn by(mut self, name: impl Into<String>) -> Self {
        self.by = name.into();
        self
    }

    /// A job's record and the store's time.
    async fn record(&self, name: &str) -> Result<(Record, SystemTime)> {
        check_name(name)?;
        let reading = self.client.records().read(&[job_key(name)?], &[]).await?;
        match single_answer(reading.records)? {
            Some(record) => Ok((record, reading.now)),
            None => Err(self.unknown_job(name).await),
        }
    }

    /// The sessions of these runs that have expired. A session is a renewed lock that proves that a node is alive.
    async fn ended<'a>(&self, live: impl Iterator<Item = &'a LiveRun>) -> Result<HashSet<Holding>> {
        let sessions: Vec<Holding> = live.filter_map(LiveRun::holding).collect::<HashSet<_>>().into_iter().collect();
        let mut ended = HashSet::new();
        for some in sessions.chunks(BATCH) {
            // For each of these sessions: whether it is held.
            let stands = self.client.records().read(&[], some).await?.held;
            let gone = some.iter().zip(stands).filter(|(_, stands)| matches!(stands, Ok(false)));
            ended.extend(gone.map(|(session, _)| session.clone()));
        }
        Ok(ended)
    }

    /// The error about an unknown job. It names similar jobs or, if there are none, some of the known jobs.
    async fn unknown_job(&self, name: &str) -> Error {
        let known: Vec<String> = match self.client.records().names(&Pattern::all().after(JOB_PREFIX)).await {
            Ok(keys) => keys.iter().map(|key| name_of(key).to_owned()).collect(),
            Err(error) => return error,
        };
        let near = similar::similar_names(name, &known);
        let hint = match (&near[..], &known[..]) {
            (_, []) => "it knows none".to_owned(),
            ([], known) => {
                let dots = if known.len() > MAX_LISTED_NAMES { ", …" } else { "" };
                format!("it knows {}{dots}", quoted(&known[..known.len().min(MAX_LISTED_NAMES)], ", "))
            }
            (near, _) => format!("did you mean {}?", quoted(near, " or ")),
        };
        Error::misused(format!("the store knows no job {name:?}; {hint}"))
    }
}

/// The names in quotation marks. `between`: the text between two names.
fn quoted(names: &[impl AsRef<str>], between: &str) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("{:?}", name.as_ref())).collect();
    quoted.join(between)
}

/// The name of the job whose record has this key.
fn name_of(key: &Key) -> &str {
    key.as_str().strip_prefix(JOB_PREFIX).unwrap_or(key.as_str())
}

/// The job's trigger, or an error if this version of bandog cannot read the trigger.
fn readable_trigger(name: &str, state: &JobState) -> Result<Trigger> {
    let trigger = state.spec.as_ref().and_then(|spec| spec.trigger());
    trigger.ok_or_else(|| {
        Error::misused(format!(
            "job {name:?} was written by another version of bandog, and this version cannot read it"
        ))
    })
}

/// Checks the length of a reason, and returns the reason.
fn check_reason(reason: &str) -> Result<String> {
    if reason.len() > MAX_REASON {
        return Err(Error::misused(format!("the reason has {} bytes; the maximum is {MAX_REASON}", reason.len())));
    }
    Ok(reason.to_owned())
}
