//! Pauses of all jobs, and of nodes.

use std::{collections::BTreeMap, time::SystemTime};

use bandog_core::{Error, Key, Pattern, Record, Records, Result, Swap, Swapped};
use bandog_cron::Time;

use super::{BATCH, Jobs, TRIES, name_of, say::said, short};
use crate::{
    Paused, Pauses,
    dispatch::{PREFIX, only},
    news::Changed,
    nodes::check_node,
    pauses::{All, Standing, standing},
    plan::Word,
    state::time,
    trigger::Ms,
};

/// Nodes that may be paused at a time.
const NODES: usize = 1000;

impl Jobs {
    /// Stops the ticks of all jobs under the client's prefix until [`Jobs::resume_all`], also of those that are registered
    /// later. What runs goes on; what is asked for with [`Jobs::run`] and [`Jobs::backfill`] runs. Pauses of single jobs
    /// stay what they are. A pause of all while all are paused takes the place of the one before.
    ///
    /// When this has returned, no tick of a job that was registered before it was called is claimed any more; of jobs that
    /// are registered at the same time, none a second later. Jobs of which each node runs every tick
    /// ([`crate::Scope::EachNode`]) are not in the store, and are not reached.
    ///
    /// # Errors
    /// `Misused` for a reason of more than [`crate::MAX_REASON`] bytes; else as [`Records::swap`](bandog_core::Records::swap). The pause may
    /// stand then, for some jobs at once and for the rest within half a
    /// minute: say it again.
    ///
    /// # Cancel safety
    /// Once polled it may be done, or be done in part: say it again.
    pub async fn pause_all(&self, reason: &str) -> Result<()> {
        let standing = self.change(Standing::of, |standing, now| {
            standing.all = standing.all.next(Some(self.paused(reason, now)?), now);
            Ok(())
        });
        self.spread(&standing.await?.all).await.map(|_| ())
    }

    /// Lets the ticks of all jobs run again from now on, but for those that are paused by themselves; the ticks in between
    /// are recorded as skipped. False: they were not paused. A record of pauses that cannot be read is replaced, and with it
    /// the pauses of nodes.
    ///
    /// # Errors
    /// As [`Jobs::pause_all`].
    ///
    /// # Cancel safety
    /// Once polled it may be done, or be done in part: say it again.
    pub async fn resume_all(&self) -> Result<bool> {
        let mut was_paused = false;
        // What cannot be read is begun anew: no scheduler starts while it is there.
        let read = |record: Option<&Record>| Ok(Standing::of(record).unwrap_or_default());
        let standing = self.change(read, |standing, now| {
            was_paused = standing.all.paused.is_some();
            standing.all = standing.all.next(None, now);
            Ok(())
        });
        let all = standing.await?.all;
        // Some may be left from a word that broke off.
        Ok(self.spread(&all).await? || was_paused)
    }

    /// Keeps a node from claiming anything, at once, or within a second if it is not heard, until [`Jobs::resume_node`]; its
    /// ticks go to the others. What it runs goes on. The node is named as [`Jobs::nodes`] and the histories tell it (`host:pid`); a machine's name
    /// alone means all of its nodes, also those that start later. The node need not run now.
    ///
    /// # Errors
    /// `Misused` for a name that no node can have (1 to [`crate::MAX_NODE`] bytes without control characters), for a
    /// reason of more than [`crate::MAX_REASON`] bytes, and when 1,000 nodes are paused already; else as
    /// [`Records::swap`](bandog_core::Records::swap).
    ///
    /// # Cancel safety
    /// Once polled it may be done all the same.
    pub async fn pause_node(&self, node: &str, reason: &str) -> Result<()> {
        check_node(node)?;
        self.change(Standing::of, |standing, now| {
            if standing.nodes.len() >= NODES && !standing.nodes.contains_key(node) {
                let words = format!("{NODES} nodes are paused already; resume those that are no more");
                return Err(Error::misused(words));
            }
            standing.nodes.insert(node.to_owned(), self.paused(reason, now)?);
            Ok(())
        })
        .await?;
        self.tell(&Changed::none()).await;
        Ok(())
    }

    /// Lets a node, or the nodes of a machine, claim again. False: no pause had this name.
    ///
    /// # Errors
    /// As [`Records::swap`](bandog_core::Records::swap).
    ///
    /// # Cancel safety
    /// Once polled it may be done all the same.
    pub async fn resume_node(&self, node: &str) -> Result<bool> {
        let mut was_paused = false;
        self.change(Standing::of, |standing, _| {
            was_paused = standing.nodes.remove(node).is_some();
            Ok(())
        })
        .await?;
        self.tell(&Changed::none()).await;
        Ok(was_paused)
    }

    /// What is paused beside single jobs: all jobs, or nodes.
    ///
    /// # Errors
    /// As [`Records::read`](bandog_core::Records::read).
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn pauses(&self) -> Result<Pauses> {
        let Standing { all, nodes } = Standing::of(self.standing().await?.0.as_ref())?;
        Ok(Pauses { all: all.paused, nodes })
    }

    pub(super) fn paused(&self, reason: &str, now: Ms) -> Result<Paused> {
        Ok(Paused { by: self.by.clone(), reason: short(reason)?, at: time(now) })
    }

    pub(super) async fn standing(&self) -> Result<(Option<Record>, SystemTime)> {
        let reading = self.client.read(&[standing()?], &[]).await?;
        Ok((only(reading.records)?, reading.now))
    }

    /// Changes the record that nodes read with each look.
    async fn change(
        &self,
        read: impl Fn(Option<&Record>) -> Result<Standing>,
        mut change: impl FnMut(&mut Standing, Ms) -> Result<()>,
    ) -> Result<Standing> {
        let (mut record, mut now) = self.standing().await?;
        for _ in 0..TRIES {
            let was = read(record.as_ref())?;
            let mut next = was.clone();
            change(&mut next, Time::from(now).millisecond())?;
            if next == was {
                return Ok(next);
            }
            let swap = Swap::new(standing()?, record.map(|record| record.version), next.write()?);
            let swaps = self.client.swap(&[swap]).await?;
            match only(swaps.each)? {
                Swapped::Done(_) => return Ok(next),
                Swapped::Differs(other) => (record, now) = (other, swaps.now),
                Swapped::Early(_) | Swapped::NotHeld => break,
            }
        }
        Err(Error::unavailable("pauses change all the time; ask again"))
    }

    /// Writes a word into each job's record: whatever was planned before it is refused from then on. True: one of them
    /// was paused by the word before.
    async fn spread(&self, all: &All) -> Result<bool> {
        let mut was_paused = false;
        for some in self.client.names(&Pattern::all().after(PREFIX)).await?.chunks(BATCH) {
            let mut left = some.to_vec();
            for _ in 0..TRIES {
                left = self.spread_some(left, all, &mut was_paused).await?;
                if left.is_empty() {
                    break;
                }
            }
            if let Some(key) = left.first() {
                return Err(super::say::busy(name_of(key)));
            }
        }
        self.tell(&Changed::All).await;
        Ok(was_paused)
    }

    /// Gives those back that somebody else has changed meanwhile.
    async fn spread_some(&self, keys: Vec<Key>, all: &All, was_paused: &mut bool) -> Result<Vec<Key>> {
        let reading = self.client.read(&keys, &[]).await?;
        let now = Time::from(reading.now).millisecond();
        let mut changed = BTreeMap::new();
        for (key, record) in keys.into_iter().zip(reading.records) {
            let Some(record) = record? else { continue };
            match said(name_of(&key), &record, now, &mut |state, _| {
                *was_paused |= state.all_paused().is_some();
                Ok(Word::All(all.clone()))
            }) {
                Ok((Some(state), lines, _)) => {
                    changed.insert(key.clone(), Swap { lines, ..Swap::new(key, Some(record.version), state) });
                }
                Ok((None, ..)) => {}
                // Nodes that can read it hear of the word with their next look.
                Err(error) => {
                    tracing::warn!(job = name_of(&key), %error, "the word to all jobs does not reach this one")
                }
            }
        }
        let (keys, swaps): (Vec<Key>, Vec<Swap>) = changed.into_iter().unzip();
        if swaps.is_empty() {
            return Ok(Vec::new());
        }
        let mut again = Vec::new();
        for (key, answer) in keys.into_iter().zip(self.client.swap(&swaps).await?.each) {
            if let Swapped::Differs(Some(_)) = answer? {
                again.push(key);
            }
        }
        Ok(again)
    }
}
