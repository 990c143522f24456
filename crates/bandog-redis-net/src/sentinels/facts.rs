//! The answer of each sentinel, and the master that follows from it. This module does no I/O.
//!
//! Each failover has a greater *epoch* than the failovers before. The sentinels agree on each failover by majority, and a
//! sentinel that receives a greater epoch takes over its master. So the answer with the greatest epoch names the master
//! on which all sentinels will agree, even if only one of them knows it yet. A vote of the sentinels would be late:
//! after a promotion, most sentinels still name the old master for up to two seconds. Votes decide where epochs cannot:
//! between equal epochs, and if a sentinel hides its epoch.

use std::time::{Duration, Instant};

use bandog_core::{Error, Result};

use crate::options::Host;

/// Maximum number of sentinels that are asked, beside those of the URL.
const MAX_OTHERS: usize = 16;
/// Time for which only sentinels with a lower epoch must answer before they are believed. In a failover, sentinels
/// receive the new master within two seconds.
const LOWER_EPOCH_AFTER: Duration = Duration::from_secs(5);
/// Time after which a silent sentinel is dropped that no answer names any more. Its address has changed, for example.
const DROPPED_AFTER: Duration = Duration::from_secs(60);

/// The answer of a sentinel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) master: Host,
    /// The number of the failover that made this server the master. None if the sentinel refuses to name it.
    pub(super) epoch: Option<u64>,
    /// The other sentinels.
    pub(super) others: Vec<Host>,
    /// The id of the sentinel that answers. None if it refuses to name it.
    pub(super) id: Option<String>,
}

/// A master that sentinels name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) master: Host,
    /// None if all sentinels that name this master hide the epoch.
    epoch: Option<u64>,
    /// Number of sentinels that name this master.
    votes: usize,
}

/// The answers of the sentinels.
#[derive(Debug)]
pub(super) struct Facts {
    /// Whether a task asks the sentinels.
    pub(super) is_watched: bool,
    /// The sentinels of the URL, and after them the sentinels that these have named.
    sentinels: Vec<Known>,
    /// Number of sentinels of the URL.
    in_url: usize,
    /// The greatest epoch so far. None until a sentinel has named an epoch.
    epoch: Option<u64>,
    /// The time since which all sentinels that answer have lower epochs. None if this is not so now.
    behind_since: Option<Instant>,
}

#[derive(Debug)]
struct Known {
    host: Host,
    /// Whether the sentinel is in the URL or has answered. An address that another sentinel has named may be out of reach
    /// for this client.
    counts: bool,
    /// The last answer or fault. None before the first one.
    said: Option<Result<Answer>>,
    /// Other addresses of this sentinel, at which it is not asked. It loses them when it does not answer.
    aliases: Vec<Host>,
    /// The time since which no other sentinel has named this one, although others answer. None if one has.
    unnamed_since: Option<Instant>,
}

impl Known {
    fn new(host: Host, counts: bool) -> Self {
        Self { host, counts, said: None, aliases: Vec::new(), unnamed_since: None }
    }

    fn answer(&self) -> Option<&Answer> {
        self.said.as_ref()?.as_ref().ok()
    }

    fn id(&self) -> Option<&str> {
        self.answer()?.id.as_deref()
    }

    fn has_address(&self, host: &Host) -> bool {
        self.host == *host || self.aliases.contains(host)
    }
}

impl Facts {
    /// The facts before any answer, with the sentinels of the URL.
    pub(super) fn new(hosts: Vec<Host>) -> Self {
        let mut sentinels: Vec<Known> = Vec::new();
        for host in hosts {
            if !sentinels.iter().any(|known| known.host == host) {
                sentinels.push(Known::new(host, true));
            }
        }
        Self { is_watched: false, in_url: sentinels.len(), sentinels, epoch: None, behind_since: None }
    }

    /// The addresses at which the known sentinels are asked. Those of the URL come first.
    pub(super) fn hosts(&self) -> impl ExactSizeIterator<Item = &Host> {
        self.sentinels.iter().map(|known| &known.host)
    }

    /// Records an answer or fault of this sentinel. Returns whether it says anything new.
    pub(super) fn record(&mut self, host: &Host, said: Result<Answer>, now: Instant) -> bool {
        let Some(known) = self.sentinels.iter_mut().find(|known| known.host == *host) else { return false };
        let is_new = match (&known.said, &said) {
            (Some(Ok(before)), Ok(answer)) => before != answer,
            (Some(Err(_)), Err(_)) => false,
            (None | Some(Ok(_) | Err(_)), Ok(_) | Err(_)) => true,
        };
        known.counts |= said.is_ok();
        if said.is_err() {
            known.aliases.clear();
        }
        let others = said.as_ref().ok().map(|answer| answer.others.clone());
        known.said = Some(said);
        let is_changed = others.is_some_and(|others| self.update_list(host, others, now));
        self.compare_epochs(now) || is_new || is_changed
    }

    /// Updates the list of the sentinels after an answer of this one, which names these others. Returns whether the list has
    /// changed.
    fn update_list(&mut self, host: &Host, others: Vec<Host>, now: Instant) -> bool {
        for known in self.sentinels.iter_mut().filter(|known| known.host != *host) {
            if others.contains(&known.host) {
                known.unnamed_since = None;
            } else {
                known.unnamed_since.get_or_insert(now);
            }
        }
        let before = self.sentinels.len();
        let is_gone = |known: &Known| {
            let is_over = |since| now.saturating_duration_since(since) >= DROPPED_AFTER;
            known.answer().is_none() && known.unnamed_since.is_some_and(is_over)
        };
        let mut position = 0;
        self.sentinels.retain(|known| {
            position += 1;
            position <= self.in_url || !is_gone(known)
        });
        let mut is_changed = self.sentinels.len() < before;
        is_changed |= self.merge_addresses(host);
        for host in others {
            let is_known = self.sentinels.iter().any(|known| known.has_address(&host));
            if !is_known && self.sentinels.len() < self.in_url + MAX_OTHERS {
                self.sentinels.push(Known::new(host, false));
                is_changed = true;
            }
        }
        is_changed
    }

    /// If this sentinel also answers at another address, only one of the two addresses stays in the list. Else the sentinel
    /// would have two votes. An address of the URL always stays. Returns whether the list has changed.
    fn merge_addresses(&mut self, host: &Host) -> bool {
        let Some(at) = self.sentinels.iter().position(|known| known.host == *host) else { return false };
        let id = self.sentinels[at].id();
        let is_same = |other: &usize| *other != at && id.is_some() && self.sentinels[*other].id() == id;
        let Some(other) = (0..self.sentinels.len()).find(is_same) else { return false };
        let (stays, leaves) = (at.min(other), at.max(other));
        if leaves < self.in_url {
            return false;
        }
        let left = self.sentinels.remove(leaves);
        let aliases = &mut self.sentinels[stays].aliases;
        aliases.push(left.host);
        if aliases.len() > MAX_OTHERS {
            aliases.remove(0);
        }
        true
    }

    /// Forgets what the sentinels have said, because it may be long ago. The greatest epoch is kept.
    pub(super) fn forget(&mut self) {
        self.sentinels.iter_mut().for_each(|known| known.said = None);
        self.behind_since = None;
    }

    /// Forgets the faults that are not retryable. The sentinels with such faults are asked again only when a connection
    /// to the master is needed.
    pub(super) fn forget_permanent_faults(&mut self) -> bool {
        let mut forgets = false;
        for known in &mut self.sentinels {
            forgets |= known.said.take_if(|said| said.as_ref().is_err_and(|error| !error.is_retryable())).is_some();
        }
        forgets
    }

    /// Whether each sentinel has answered or failed.
    pub(super) fn is_complete(&self) -> bool {
        self.sentinels.iter().all(|known| known.said.is_some())
    }

    /// Whether more than one sentinel has answered, and more than half of the sentinels of the URL. Then the client waits
    /// for the others only for a short time.
    pub(super) fn is_sufficient(&self) -> bool {
        let count = self.answers().count();
        count > 1 && count > self.in_url / 2
    }

    /// The masters that the believed sentinels name. The first one is named by most of them.
    pub(super) fn masters(&self) -> Vec<Choice> {
        let mut masters: Vec<Choice> = Vec::new();
        for answer in self.answers().filter(|answer| !self.is_behind(answer)) {
            match masters.iter_mut().find(|choice| choice.master == answer.master) {
                Some(choice) => {
                    choice.votes += 1;
                    choice.epoch = choice.epoch.max(answer.epoch);
                }
                None => masters.push(Choice { master: answer.master.clone(), epoch: answer.epoch, votes: 1 }),
            }
        }
        // The sort is stable.
        masters.sort_by_key(|choice| std::cmp::Reverse(choice.votes));
        masters
    }

    /// Whether the connection to this master must be left: the sentinels name another one with a greater epoch, or most
    /// sentinels name another one.
    pub(super) fn have_left(&self, chosen: &Choice) -> bool {
        let Some(first) = self.masters().into_iter().next() else { return false };
        let is_newer = matches!((first.epoch, chosen.epoch), (Some(now), Some(then)) if now > then);
        let counted = self.sentinels.iter().filter(|known| known.counts).count();
        first.master != chosen.master && (is_newer || first.votes > counted / 2)
    }

    /// The faults, and an error for each sentinel that is behind.
    pub(super) fn faults(&self) -> Vec<Error> {
        let fault = |known: &Known| match known.said.as_ref()? {
            Err(error) => Some(error.clone()),
            Ok(answer) if self.is_behind(answer) => {
                let message = format!("the sentinel {} does not know of the last failover yet", known.host);
                Some(Error::unavailable(message))
            }
            Ok(_) => None,
        };
        self.sentinels.iter().filter_map(fault).collect()
    }

    /// An error for each sentinel that has neither answered nor failed yet.
    pub(super) fn silent(&self) -> impl Iterator<Item = Error> {
        let silent = self.sentinels.iter().filter(|known| known.said.is_none());
        silent.map(|known| Error::unavailable(format!("the sentinel {} has not answered", known.host)))
    }

    fn answers(&self) -> impl Iterator<Item = &Answer> {
        self.sentinels.iter().filter_map(Known::answer)
    }

    /// Whether the sentinel does not know of a failover that another sentinel has reported.
    fn is_behind(&self, answer: &Answer) -> bool {
        answer.epoch.is_some_and(|epoch| Some(epoch) < self.epoch)
    }

    /// Updates the greatest epoch. If all sentinels that answer have had lower epochs for some seconds, they may have
    /// been set up again: then the greatest epoch is forgotten, and this returns true.
    fn compare_epochs(&mut self, now: Instant) -> bool {
        let greatest = self.answers().filter_map(|answer| answer.epoch).max();
        self.epoch = self.epoch.max(greatest);
        if self.answers().next().is_none() || self.answers().any(|answer| !self.is_behind(answer)) {
            self.behind_since = None;
            return false;
        }
        let since = *self.behind_since.get_or_insert(now);
        let is_over = now.saturating_duration_since(since) >= LOWER_EPOCH_AFTER;
        if is_over {
            (self.epoch, self.behind_since) = (greatest, None);
        }
        is_over
    }
}

#[cfg(test)]
mod tests;
