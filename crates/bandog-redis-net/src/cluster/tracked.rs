//! Prefixes of keys whose changes all nodes of a cluster report.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bandog_core::Subscription;

use super::map::Node;
use crate::{
    options::Host,
    tracking::{KeyChange, KeyChanges},
};

/// The prefixes that are tracked.
#[derive(Debug, Default)]
pub(super) struct TrackedPrefixes {
    pub(super) each: HashMap<u64, Arc<TrackedPrefix>>,
    last_id: u64,
}

/// Called when the connection to a node is lost.
pub(super) type Lost = Arc<dyn Fn() + Send + Sync>;

impl TrackedPrefixes {
    /// Adds a prefix, and returns its id.
    pub(super) fn add(&mut self, prefix: &str, changes: KeyChanges) -> u64 {
        self.last_id += 1;
        let tracked = TrackedPrefix {
            prefix: prefix.to_owned(),
            changes,
            reports: Mutex::default(),
            subscriptions: Mutex::default(),
        };
        self.each.insert(self.last_id, Arc::new(tracked));
        self.last_id
    }
}

/// A prefix that is tracked on all masters.
#[derive(Debug)]
pub(super) struct TrackedPrefix {
    prefix: String,
    changes: KeyChanges,
    /// Whether each master reports changes.
    reports: Mutex<BTreeMap<Host, bool>>,
    subscriptions: Mutex<Vec<(Arc<Node>, Subscription)>>,
}

impl TrackedPrefix {
    fn reports(&self) -> MutexGuard<'_, BTreeMap<Host, bool>> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tracks the prefix on these masters. `lost` is called when a connection is lost: another node may have taken over.
    pub(super) fn track(self: &Arc<Self>, masters: &[Arc<Node>], lost: &Lost) {
        let is_master = |node: &Arc<Node>| masters.iter().any(|master| Arc::ptr_eq(master, node));
        let mut subscriptions = self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner);
        let gone: Vec<_> = subscriptions.extract_if(.., |(node, _)| !is_master(node)).collect();
        let is_new = |master: &&Arc<Node>| !subscriptions.iter().any(|(node, _)| Arc::ptr_eq(master, node));
        let new: Vec<_> = masters.iter().filter(is_new).cloned().collect();
        if gone.is_empty() && new.is_empty() {
            return;
        }
        {
            let mut reports = self.reports();
            gone.iter().for_each(|(node, _)| _ = reports.remove(&node.host));
            new.iter().for_each(|node| _ = reports.insert(node.host.clone(), false));
        }
        // What the nodes that have gone did not report may have changed.
        self.changes.report(KeyChange::Lost);
        for node in new {
            let (tracked, lost, host) = (Arc::downgrade(self), lost.clone(), node.host.clone());
            let changes = KeyChanges::new(move |change| {
                if let Some(tracked) = tracked.upgrade() {
                    tracked.reported(&host, &change, &lost);
                }
            });
            let subscription = node.server.tracking.add(&self.prefix, changes);
            subscriptions.push((node, subscription));
        }
        drop(subscriptions);
        drop(gone);
        self.report_if_all();
    }

    /// Handles the report of a node.
    fn reported(&self, host: &Host, change: &KeyChange<'_>, lost: &Lost) {
        let is_connected = match change {
            KeyChange::Any => true,
            KeyChange::Lost => false,
            KeyChange::Key(_) | KeyChange::Denied(_) => return self.changes.report(change.clone()),
        };
        if let Some(reports) = self.reports().get_mut(host) {
            *reports = is_connected;
        }
        if is_connected {
            return self.report_if_all();
        }
        self.changes.report(KeyChange::Lost);
        lost();
    }

    /// Reports that changes are reported, if all masters do.
    fn report_if_all(&self) {
        if self.reports().values().all(|reports| *reports) {
            self.changes.report(KeyChange::Any);
        }
    }
}
