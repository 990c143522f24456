//! The state that the calls and the background tasks of a cluster share.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
    time::Instant,
};

use bandog_core::{Subscription, messages::Sink};
use tokio::sync::{Notify, watch};

use super::{
    acknowledgements::Acknowledgements,
    map::{Map, Node},
    tracked::TrackedPrefixes,
};
use crate::{
    dialler::Dialler,
    link::Link,
    options::{Host, Options},
    script::Scripts,
    server::Server,
    slots,
    subscriptions::{Source, Subscriptions},
    tracking::Tracking,
};

#[derive(Debug)]
pub(super) struct SharedCluster {
    pub(super) options: Options,
    pub(super) scripts: Scripts,
    /// Number of connections for commands that were opened so far, to all nodes.
    pub(super) epoch: watch::Sender<u64>,
    map: Mutex<Map>,
    /// Held by the call that fetches the first map.
    pub(super) first_map: tokio::sync::Mutex<()>,
    pub(super) refresh: Mutex<RefreshState>,
    pub(super) moves: Arc<Moves>,
    pub(super) subscribers: Mutex<Subscribers>,
    pub(super) tracked: Mutex<TrackedPrefixes>,
}

/// The state of the task that fetches the map again.
#[derive(Debug, Default)]
pub(super) struct RefreshState {
    pub(super) is_running: bool,
    /// Whether a further request is needed after the present one.
    pub(super) is_wanted: bool,
    pub(super) last: Option<Instant>,
}

/// The state of the task that moves subscriptions.
#[derive(Debug, Default)]
pub(super) struct Moves {
    is_running: Mutex<bool>,
    /// Notified when the map may have changed.
    pub(super) wanted: Notify,
}

/// The subscribers of all channels.
#[derive(Debug, Default)]
pub(super) struct Subscribers {
    pub(super) each: HashMap<u64, Subscriber>,
    /// The id of the subscriber that was added last.
    pub(super) last_id: u64,
}

#[derive(Debug)]
pub(super) struct Subscriber {
    pub(super) source: Source,
    pub(super) sink: Sink,
    /// The subscription at a node, which is silent while it moves. None while the call that subscribes waits.
    pub(super) at: Option<(Arc<Node>, Subscription)>,
}

impl SharedCluster {
    pub(super) fn new(options: Options, scripts: Scripts) -> Self {
        Self {
            options,
            scripts,
            epoch: watch::Sender::new(0),
            map: Mutex::default(),
            first_map: tokio::sync::Mutex::default(),
            refresh: Mutex::default(),
            moves: Arc::default(),
            subscribers: Mutex::default(),
            tracked: Mutex::default(),
        }
    }

    pub(super) fn map(&self) -> MutexGuard<'_, Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node that has the slot of this key or channel.
    pub(super) fn owner_of(&self, key: &str) -> Option<Arc<Node>> {
        self.map().owner(slots::slot(key.as_bytes()))
    }

    /// A node whose connections are opened when they are first needed. `moved` is called when the node no longer has the
    /// slot of a channel, or cannot be reached.
    pub(super) fn open(&self, host: &Host, sharded: bool, moved: impl Fn() + Send + Sync + 'static) -> Node {
        let dialler = Dialler::new(self.options.of_node(host, sharded));
        let link = Link::counting(dialler.clone(), self.scripts.clone(), self.epoch.clone());
        let acknowledgements = Acknowledgements::new(dialler.clone(), host.clone());
        let tracking = Tracking::new(dialler.clone());
        let server = Server { link, subscriptions: Subscriptions::of_node(dialler, moved), tracking };
        Node { host: host.clone(), server, acknowledgements, is_checked: AtomicBool::new(false) }
    }
}

impl Moves {
    pub(super) fn is_running(&self) -> MutexGuard<'_, bool> {
        self.is_running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
