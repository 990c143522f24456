//! The nodes of a Redis Cluster. Each command goes to the node that has the slot of its keys.
//!
//! The map of slots comes from `CLUSTER SLOTS`. If a node answers that another node has a slot, the map is corrected, the
//! command is sent to that node, and the whole map is fetched again in the background.

mod acknowledge;
mod acknowledgements;
mod calls;
mod discovery;
mod keyless;
mod map;
mod moves;
mod redirection;
mod refresh;
mod shared;
mod subscribers;
mod tracked;
mod tracking;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bandog_core::{Error, Result, Subscription, messages::Sink};
use redis::Pipeline;
use tokio::{sync::watch, time::timeout_at};

pub(crate) use self::map::Node;
use self::shared::SharedCluster;
use crate::{
    keys::Keys,
    options::Options,
    replies::Replies,
    script::{ScriptForm, Scripts},
    subscriptions::{Source, SubscribeResult},
    tracking::KeyChanges,
};

/// The nodes of a cluster.
#[derive(Debug)]
pub(crate) struct Cluster(Arc<SharedCluster>);

impl Cluster {
    /// A cluster whose nodes are asked for the map at the first call. Their connections load these scripts.
    pub(crate) fn new(options: Options, scripts: Scripts) -> Self {
        Self(Arc::new(SharedCluster::new(options, scripts)))
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.0.options.timeout
    }

    /// A receiver of the number of connections for commands that were opened so far, to all nodes.
    pub(crate) fn epoch(&self) -> watch::Receiver<u64> {
        self.0.epoch.subscribe()
    }

    /// Whether messages are published on sharded channels.
    pub(crate) fn is_sharded(&self) -> bool {
        self.0.map().is_sharded()
    }

    /// Sends each command to the node that has its key, and returns the replies. A command without a key goes to the same
    /// node as the first command with a key. If no command has a key, any node that answers runs them all.
    ///
    /// A node that is slow or unreachable delays only its own commands.
    pub(crate) async fn call(
        &self,
        deadline: Instant,
        keys: Keys<'_>,
        pack: &(dyn Fn(ScriptForm) -> Pipeline + Send + Sync),
    ) -> Replies {
        match self.0.wait_for_map(deadline).await {
            Ok(()) => self.0.call(deadline, keys, pack).await,
            Err(error) => Replies::new(pack(ScriptForm::Hash).cmd_iter().map(|_| Err(error.clone()))),
        }
    }

    /// All masters, in the order of their addresses.
    ///
    /// # Errors
    /// The map could not be fetched.
    pub(crate) async fn masters(&self) -> Result<Vec<Arc<Node>>> {
        self.ready().await?;
        Ok(self.0.map().masters())
    }

    /// Fetches the map, unless it was fetched before.
    pub(crate) async fn ready(&self) -> Result<()> {
        self.0.wait_for_map(Instant::now() + self.timeout()).await
    }

    /// Subscribes at the node that has the slot of this source. If the slot of a sharded channel or of a key moves, the
    /// subscription moves, too, and then the sink gets a gap, because a message may have been lost.
    ///
    /// # Errors
    /// See [`Subscriptions::subscribe`](crate::subscriptions::Subscriptions::subscribe).
    ///
    /// # Cancel safety
    /// If the future is dropped, the subscriber is removed.
    pub(crate) async fn subscribe(&self, source: &Source, sink: Sink) -> Result<SubscribeResult> {
        let deadline = Instant::now() + self.timeout();
        self.0.wait_for_map(deadline).await?;
        self.0.subscribe(source, sink, deadline).await
    }

    /// Reports the changes of the keys with this prefix. [`KeyChange::Any`](crate::KeyChange::Any) comes when all masters
    /// report their changes, and when one of them has been connected again.
    ///
    /// # Errors
    /// The map could not be fetched.
    pub(crate) async fn track(&self, prefix: &str, changes: KeyChanges) -> Result<Subscription> {
        self.ready().await?;
        Ok(self.0.track(prefix, changes))
    }

    /// Whether the node that has the slot of this source has confirmed the subscription.
    pub(crate) fn is_subscribed(&self, source: &Source) -> bool {
        self.0.owner_of(source.name()).is_some_and(|node| node.server.subscriptions.is_subscribed(source))
    }
}

impl SharedCluster {
    /// Fetches the map, unless it was fetched before.
    async fn wait_for_map(self: &Arc<Self>, deadline: Instant) -> Result<()> {
        if !self.map().is_empty() {
            return Ok(());
        }
        let fetch = async {
            let _first = self.first_map.lock().await;
            if self.map().is_empty() {
                let topology = self.fetch_topology().await?;
                self.apply_topology(&topology);
            }
            Ok(())
        };
        let late = |_| Error::unavailable(format!("no node of {} answered in time", self.options.store()));
        timeout_at(deadline.into(), fetch).await.map_err(late)?
    }
}
