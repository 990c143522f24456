//! Pauses of all jobs, and of nodes.

use std::{collections::BTreeMap, time::SystemTime};

use bandog_core::{Error, Key, Pattern, Record, Records, Result, Swap, Swapped};
use bandog_cron::Time;

use super::{Jobs, MAX_ATTEMPTS, check_reason, commands::apply_to_record, name_of};
use crate::{
    Paused, Pauses,
    news::ChangedJobs,
    nodes::check_node,
    pauses::{AllJobsPause, StoredPauses, pauses_key},
    plan::Command,
    records::{BATCH, JOB_PREFIX, single_answer},
    state::format_time,
    trigger::UnixMs,
};

/// Maximum number of paused nodes.
const MAX_PAUSED_NODES: usize = 1000;

impl Jobs {
    /// Stops the ticks of all jobs under the client's prefix until [`Jobs::resume_all`]. This includes jobs that are
    /// registered later. Runs under way continue, and [`Jobs::run`] and [`Jobs::backfill`] still start runs. Pauses of
    /// single jobs stay in effect. A second pause of all jobs replaces the first one.
    ///
    /// If a job was registered before this call, no node claims a tick of the job after the call has returned. If a job
    /// is registered during the call, nodes might claim its ticks for one more second. Jobs with
    /// [`crate::Scope::EachNode`] are not in the store and are not paused.
    ///
    /// # Errors
    /// `Misused` for a reason of more than [`crate::MAX_REASON`] bytes; else as
    /// [`Records::swap`](bandog_core::Records::swap). After any other error, the pause might be in effect for some jobs
    /// already, and might take effect for the other jobs within half a minute. In that case, repeat the call.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the command might take effect for all jobs or for some.
    /// Repeat the call.
    pub async fn pause_all(&self, reason: &str) -> Result<()> {
        let pauses = self.change(StoredPauses::of, |pauses, now| {
            pauses.all = pauses.all.next(Some(self.paused(reason, now)?), now);
            Ok(())
        });
        self.write_to_jobs(&pauses.await?.all).await.map(|_| ())
    }

    /// Ends the pause of all jobs. From now on, their ticks run again. Jobs that are also paused by [`Jobs::pause`]
    /// stay paused. Ticks during the pause are recorded as skipped. Returns false if there was no pause of all jobs. If
    /// the record of pauses cannot be parsed, this call replaces the record, which also ends the pauses of nodes.
    ///
    /// # Errors
    /// As [`Jobs::pause_all`].
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the command might take effect for all jobs or for some.
    /// Repeat the call.
    pub async fn resume_all(&self) -> Result<bool> {
        let mut was_paused = false;
        // A record that cannot be parsed is replaced, because no scheduler can start while such a record exists.
        let read = |record: Option<&Record>| Ok(StoredPauses::of(record).unwrap_or_default());
        let pauses = self.change(read, |pauses, now| {
            was_paused = pauses.all.paused.is_some();
            pauses.all = pauses.all.next(None, now);
            Ok(())
        });
        let all = pauses.await?.all;
        // An earlier `resume_all` might have changed the record of pauses, and then failed before it changed the
        // records of all jobs. So the jobs' records are written even if there is no pause now.
        Ok(self.write_to_jobs(&all).await? || was_paused)
    }

    /// Pauses a node. Until [`Jobs::resume_node`], the node claims no tick, and other nodes claim the ticks instead.
    /// The pause starts immediately, or within a second if the notification is lost. Runs under way on the node
    /// continue. `node` is a name from [`Jobs::nodes`] or from a history (`host:pid`). The name of a machine without a
    /// pid pauses all nodes of the machine, including nodes that start later. A node can be paused before it starts.
    ///
    /// # Errors
    /// `Misused` for a name that no node can have (1 to [`crate::MAX_NODE`] bytes without control characters), for a
    /// reason of more than [`crate::MAX_REASON`] bytes, and when 1,000 nodes are paused already; else as
    /// [`Records::swap`](bandog_core::Records::swap).
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the command might still take effect.
    pub async fn pause_node(&self, node: &str, reason: &str) -> Result<()> {
        check_node(node)?;
        self.change(StoredPauses::of, |pauses, now| {
            if pauses.nodes.len() >= MAX_PAUSED_NODES && !pauses.nodes.contains_key(node) {
                let message = format!("{MAX_PAUSED_NODES} nodes are paused already; resume those that no longer exist");
                return Err(Error::misused(message));
            }
            pauses.nodes.insert(node.to_owned(), self.paused(reason, now)?);
            Ok(())
        })
        .await?;
        self.notify_nodes(&ChangedJobs::none()).await;
        Ok(())
    }

    /// Ends the pause of a node, or of the nodes of a machine. Returns false if there was no pause with this name.
    ///
    /// # Errors
    /// As [`Records::swap`](bandog_core::Records::swap).
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the command might still take effect.
    pub async fn resume_node(&self, node: &str) -> Result<bool> {
        let mut was_paused = false;
        self.change(StoredPauses::of, |pauses, _| {
            was_paused = pauses.nodes.remove(node).is_some();
            Ok(())
        })
        .await?;
        self.notify_nodes(&ChangedJobs::none()).await;
        Ok(was_paused)
    }

    /// The pauses of all jobs and of nodes.
    ///
    /// # Errors
    /// As [`Records::read`](bandog_core::Records::read).
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn pauses(&self) -> Result<Pauses> {
        let StoredPauses { all, nodes } = StoredPauses::of(self.stored_pauses().await?.0.as_ref())?;
        Ok(Pauses { all: all.paused, nodes })
    }

    /// A pause by this operator.
    pub(super) fn paused(&self, reason: &str, now: UnixMs) -> Result<Paused> {
        Ok(Paused { by: self.by.clone(), reason: check_reason(reason)?, at: format_time(now) })
    }

    /// The record of pauses, if there is one, and the store's time.
    pub(super) async fn stored_pauses(&self) -> Result<(Option<Record>, SystemTime)> {
        let reading = self.client.records().read(&[pauses_key()?], &[]).await?;
        Ok((single_answer(reading.records)?, reading.now))
    }

    /// Changes the record of pauses, which nodes read with each poll. `read`: parses the record. `change`: changes the
    /// pauses. Its second argument is the store's time.
    async fn change(
        &self,
        read: impl Fn(Option<&Record>) -> Result<StoredPauses>,
        mut change: impl FnMut(&mut StoredPauses, UnixMs) -> Result<()>,
    ) -> Result<StoredPauses> {
        let (mut record, mut now) = self.stored_pauses().await?;
        for _ in 0..MAX_ATTEMPTS {
            let was = read(record.as_ref())?;
            let mut next = was.clone();
            change(&mut next, Time::from(now).millisecond())?;
            if next == was {
                return Ok(next);
            }
            let swap = Swap::new(pauses_key()?, record.map(|record| record.version), next.write()?);
            let swaps = self.client.records().swap(&[swap]).await?;
            match single_answer(swaps.each)? {
                Swapped::Done(_) => return Ok(next),
                Swapped::Differs(other) => (record, now) = (other, swaps.now),
                Swapped::Early(_) | Swapped::NotHeld => break,
            }
        }
        Err(Error::unavailable("other processes keep changing the pauses; repeat the call"))
    }

    /// Writes a pause or resume of all jobs into the record of each job. The change gives each record a new version. So
    /// if a node has planned a claim from the old version, the store refuses the claim. Returns true if an earlier
    /// pause of all jobs was in effect for at least one job.
    async fn write_to_jobs(&self, all: &AllJobsPause) -> Result<bool> {
        let mut was_paused = false;
        for some in self.client.records().names(&Pattern::all().after(JOB_PREFIX)).await?.chunks(BATCH) {
            let mut left = some.to_vec();
            for _ in 0..MAX_ATTEMPTS {
                left = self.write_to_some_jobs(left, all, &mut was_paused).await?;
                if left.is_empty() {
                    break;
                }
            }
            if let Some(key) = left.first() {
                return Err(super::commands::conflict(name_of(key)));
            }
        }
        self.notify_nodes(&ChangedJobs::All).await;
        Ok(was_paused)
    }

    /// Writes a pause or resume of all jobs into these records. Sets `was_paused` if an earlier pause of all jobs was
    /// in effect for one of these jobs. Returns the keys of the records that another process has changed at the same
    /// time.
    async fn write_to_some_jobs(&self, keys: Vec<Key>, all: &AllJobsPause, was_paused: &mut bool) -> Result<Vec<Key>> {
        let reading = self.client.records().read(&keys, &[]).await?;
        let now = Time::from(reading.now).millisecond();
        let mut changed = BTreeMap::new();
        for (key, record) in keys.into_iter().zip(reading.records) {
            let Some(record) = record? else { continue };
            match apply_to_record(name_of(&key), &record, now, &mut |state, _| {
                *was_paused |= state.all_paused().is_some();
                Ok(Command::SetAllJobsPause(all.clone()))
            }) {
                Ok((Some(state), lines, _)) => {
                    changed.insert(key.clone(), Swap { lines, ..Swap::new(key, Some(record.version), state) });
                }
                Ok((None, ..)) => {}
                // This version of bandog cannot parse the record. Nodes that can parse it apply the pause after their
                // next poll.
                Err(error) => {
                    tracing::warn!(job = name_of(&key), %error, "the job's record cannot be read: the pause of all jobs was not written into it")
                }
            }
        }
        let (keys, swaps): (Vec<Key>, Vec<Swap>) = changed.into_iter().unzip();
        if swaps.is_empty() {
            return Ok(Vec::new());
        }
        let mut again = Vec::new();
        for (key, answer) in keys.into_iter().zip(self.client.records().swap(&swaps).await?.each) {
            if let Swapped::Differs(Some(_)) = answer? {
                again.push(key);
            }
        }
        Ok(again)
    }
}
