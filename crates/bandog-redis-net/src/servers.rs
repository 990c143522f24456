//! The servers of one store: a single server, or the nodes of a Redis Cluster.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use bandog_core::{
    Error, Notifier, Result, Subscription,
    messages::{Channels, Sink},
};
use futures_util::FutureExt;
use redis::{Pipeline, Value};
use tokio::sync::watch;

use crate::{
    cluster::{Cluster, Node},
    dialler::Dialler,
    keys::Keys,
    link::Link,
    options::Options,
    refusal,
    replicas::{Repeat, Replicas},
    replication::Replica,
    replies::Replies,
    script::{ScriptForm, Scripts},
    server::Server,
    subscriptions::{Source, SubscribeResult, Subscriptions},
    tracking::{KeyChanges, Tracking},
};

/// The servers of one store: a server, the master that sentinels name, or the nodes of a cluster.
///
/// A server has a connection for commands and one for subscriptions. Each is opened when it is first needed, on the Tokio
/// runtime of the call that needs it, and is opened again when it breaks or that runtime ends.
#[derive(Debug)]
pub struct Servers {
    options: Arc<Options>,
    scripts: Scripts,
    kind: Kind,
    /// Whether the warning was logged that this user has no right to subscribe.
    has_warned: AtomicBool,
}

#[derive(Debug)]
enum Kind {
    Single { server: Server, dialler: Dialler, replicas: Replicas },
    Cluster(Cluster),
}

/// A server that has keys of the store.
#[derive(Debug)]
pub struct Master<'a>(MasterKind<'a>);

#[derive(Debug)]
enum MasterKind<'a> {
    Single(&'a Server),
    Node(Arc<Node>),
}

impl Master<'_> {
    /// The connection for commands.
    pub fn link(&self) -> &Link {
        match &self.0 {
            MasterKind::Single(server) => &server.link,
            MasterKind::Node(node) => &node.server.link,
        }
    }

    /// The address of a node of a cluster. Empty for a single server.
    pub fn address(&self) -> String {
        match &self.0 {
            MasterKind::Single(_) => String::new(),
            MasterKind::Node(node) => node.host.to_string(),
        }
    }
}

impl Servers {
    /// The servers that these options name. Each connection for commands loads these scripts. This does no I/O.
    ///
    /// # Errors
    /// `Misused`: see [`Options::check`].
    pub fn new(options: Options, scripts: Scripts) -> Result<Self> {
        options.check()?;
        if options.in_cluster {
            let kind = Kind::Cluster(Cluster::new(options.clone(), scripts.clone()));
            return Ok(Self { options: options.into(), scripts, kind, has_warned: AtomicBool::new(false) });
        }
        let dialler = Dialler::new(options);
        let options = dialler.options.clone();
        let link = Link::new(dialler.clone(), scripts.clone());
        let subscriptions = Subscriptions::new(dialler.clone(), link.left());
        let tracking = Tracking::new(dialler.clone());
        let replicas = Replicas::new(dialler.clone());
        let kind = Kind::Single { server: Server { link, subscriptions, tracking }, dialler, replicas };
        Ok(Self { options, scripts, kind, has_warned: AtomicBool::new(false) })
    }

    /// The options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Whether the servers are the nodes of a cluster.
    pub fn is_cluster(&self) -> bool {
        matches!(self.kind, Kind::Cluster(_))
    }

    /// The address without user and password, for messages: see [`Options::store`].
    pub fn store(&self) -> String {
        self.options.store()
    }

    /// The end of a request that begins now.
    pub fn deadline(&self) -> Instant {
        Instant::now() + self.options.timeout
    }

    /// The scripts that each connection loads.
    pub fn scripts(&self) -> &Scripts {
        &self.scripts
    }

    /// A receiver of the number of connections for commands that were opened so far.
    pub fn epoch(&self) -> watch::Receiver<u64> {
        match &self.kind {
            Kind::Single { server, .. } => server.link.epoch(),
            Kind::Cluster(cluster) => cluster.epoch(),
        }
    }

    /// The number of the latest connection for commands. The first connection has the number 1.
    pub fn connection(&self) -> u64 {
        *self.epoch().borrow()
    }

    /// The servers whose keys are all keys of the store: the single server, or all masters.
    ///
    /// # Errors
    /// The nodes of the cluster could not be asked.
    pub async fn masters(&self) -> Result<Vec<Master<'_>>> {
        match &self.kind {
            Kind::Single { server, .. } => Ok(vec![Master(MasterKind::Single(server))]),
            Kind::Cluster(cluster) => {
                let nodes = cluster.masters().await?;
                Ok(nodes.into_iter().map(|node| Master(MasterKind::Node(node))).collect())
            }
        }
    }

    /// The number of known sentinels, and the faults of those that do not answer or answer wrongly. Waits at most `limit`
    /// for their answers. None if the URL has no sentinels.
    pub async fn sentinels(&self, limit: Duration) -> Option<(usize, Vec<Error>)> {
        match &self.kind {
            Kind::Single { dialler, .. } => dialler.sentinels(limit).await,
            Kind::Cluster(_) => None,
        }
    }

    /// Sends commands that are not scripts. See [`Servers::call_scripts`].
    ///
    /// # Errors
    /// If a command has no reply, the error of the first such command.
    pub async fn call(&self, keys: Keys<'_>, pipe: Pipeline) -> Result<Vec<Value>> {
        match &self.kind {
            Kind::Single { server, .. } => server.link.call(pipe).await,
            Kind::Cluster(cluster) => {
                cluster.call(self.deadline(), keys, &|_| pipe.clone()).boxed().await.into_values()
            }
        }
    }

    /// Sends the commands that `pack` returns, and returns their replies. On a single server, all commands are one
    /// pipeline: see [`Link::call_scripts`]. On a cluster, each command goes to the node that has its key.
    ///
    /// # Errors
    /// Those of [`Link::call_scripts`]. On a cluster, each command has its own error.
    ///
    /// # Cancel safety
    /// If the future is dropped, the servers may still apply commands that were sent.
    pub async fn call_scripts(
        &self,
        deadline: Instant,
        keys: Keys<'_>,
        pack: impl Fn(ScriptForm) -> Pipeline + Send + Sync,
    ) -> Result<Replies> {
        match &self.kind {
            Kind::Single { server, .. } => Ok(Replies::from_values(server.link.call_scripts(deadline, pack).await?)),
            // Boxed, so that the future of the usual case stays small.
            Kind::Cluster(cluster) => Ok(cluster.call(deadline, keys, &pack).boxed().await),
        }
    }

    /// Waits until [`Options::replicas`] replicas have acknowledged the writes to these keys, which the servers have
    /// answered. `since` is the number of the latest connection before that call. On a cluster, each write is repeated by
    /// the script that `repeat` makes, and the reply to it is returned.
    ///
    /// # Errors
    /// All errors are ambiguous, because the writes were applied.
    /// - `NotReplicated`: too few replicas are connected, or have acknowledged the writes in time.
    /// - `Denied`: the user lacks a right that acknowledgements need, or the server does not have the commands.
    /// - `Unavailable`: no connection could be opened, or it leads to another server, or the slot of a key moves.
    pub async fn acknowledge(
        &self,
        since: u64,
        keys: &[&str],
        repeat: impl Fn(usize, ScriptForm) -> redis::Cmd + Send + Sync + 'static,
        deadline: Instant,
    ) -> Vec<Result<Option<Value>>> {
        match &self.kind {
            Kind::Single { server, replicas, .. } => {
                let answered = server.link.answered_since(since);
                let result = replicas.acknowledge(&server.link, answered, deadline).boxed().await;
                keys.iter().map(|_| result.clone().map(|()| None)).collect()
            }
            Kind::Cluster(cluster) => {
                let repeat: Repeat = Arc::new(repeat);
                let replies = cluster.acknowledge(keys, &repeat, deadline).boxed().await;
                replies.into_iter().map(|reply| reply.map(Some)).collect()
            }
        }
    }

    /// Subscribes to a channel, which is sharded in a cluster with sharded channels. Returns after the server has confirmed the
    /// subscription. If the user has no right to subscribe, the returned subscription is silent: the sink gets nothing.
    ///
    /// # Errors
    /// - `Unavailable`: the server did not confirm the subscription within the timeout.
    /// - `Denied`: the server refuses the login.
    ///
    /// # Cancel safety
    /// If the future is dropped, the subscriber is removed.
    pub async fn subscribe(&self, channel: &str, sink: Sink) -> Result<Subscription> {
        if let Kind::Cluster(cluster) = &self.kind {
            cluster.ready().boxed().await?; // This finds out whether there are sharded channels.
        }
        self.subscribe_or_poll(&Source::channel(channel, self.is_sharded()), sink).await
    }

    /// As [`Servers::subscribe`], but a user without the right to subscribe gets an error.
    ///
    /// # Errors
    /// As [`Servers::subscribe`]. `Denied`: the user has no right to subscribe, or the server refuses the login.
    ///
    /// # Cancel safety
    /// If the future is dropped, the subscriber is removed.
    pub async fn subscribe_strictly(&self, channel: &str, sink: Sink) -> Result<Subscription> {
        if let Kind::Cluster(cluster) = &self.kind {
            cluster.ready().boxed().await?; // This finds out whether there are sharded channels.
        }
        self.subscribe_or_fail(&Source::channel(channel, self.is_sharded()), sink).await
    }

    /// Calls the notifier after each change of this key by any client, and after the connection was lost. It can be called
    /// without a reason. If the user has no right to `CLIENT TRACKING`, the returned subscription is silent.
    ///
    /// # Errors
    /// As [`Servers::subscribe`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the subscriber is removed.
    pub async fn watch(&self, key: &str, notifier: Notifier) -> Result<Subscription> {
        self.subscribe_or_poll(&Source::Key(key.into()), Sink::of(notifier)).await
    }

    /// Subscribes to these channels, as [`Messages::subscribe_messages`](bandog_core::messages::Messages::subscribe_messages).
    ///
    /// # Errors
    /// As [`Servers::subscribe`], and:
    /// - `Denied`: the user has no right to subscribe.
    /// - `Unsupported`: the server has no sharded channels.
    ///
    /// # Cancel safety
    /// If the future is dropped, the subscriber is removed.
    pub async fn subscribe_messages(&self, channels: &Channels, sink: Sink) -> Result<Subscription> {
        let sink = match channels {
            Channels::One(_) => sink,
            Channels::Matching(pattern) => sink.matching(pattern),
        };
        self.subscribe_or_fail(&channels.into(), sink).await
    }

    async fn subscribe_or_fail(&self, source: &Source, sink: Sink) -> Result<Subscription> {
        match self.subscribe_to(source, sink).await? {
            SubscribeResult::Subscribed(subscription) => Ok(subscription),
            SubscribeResult::Denied(error) => Err(error),
            SubscribeResult::Moved => Err(refusal::node_of_a_cluster()),
        }
    }

    /// Reports each change of the keys with this prefix, on all servers, until the subscription is dropped. The first report
    /// is [`KeyChange::Any`](crate::KeyChange::Any), as soon as there is a connection to each server.
    ///
    /// # Errors
    /// `Unavailable`: the nodes of the cluster could not be asked.
    pub async fn track(&self, prefix: &str, changes: KeyChanges) -> Result<Subscription> {
        match &self.kind {
            Kind::Single { server, .. } => Ok(server.tracking.add(prefix, changes)),
            Kind::Cluster(cluster) => cluster.track(prefix, changes).boxed().await,
        }
    }

    async fn subscribe_or_poll(&self, source: &Source, sink: Sink) -> Result<Subscription> {
        match self.subscribe_to(source, sink).await? {
            SubscribeResult::Subscribed(subscription) => Ok(subscription),
            SubscribeResult::Denied(error) => {
                if !self.has_warned.swap(true, Ordering::Relaxed) {
                    let store = self.store();
                    tracing::warn!(%store, %error, "this user may not subscribe, so no message arrives, and waiters poll");
                }
                Ok(Subscription::silent())
            }
            SubscribeResult::Moved => Err(refusal::node_of_a_cluster()),
        }
    }

    async fn subscribe_to(&self, source: &Source, sink: Sink) -> Result<SubscribeResult> {
        match &self.kind {
            Kind::Single { server, .. } => server.subscriptions.subscribe(source, sink).await,
            Kind::Cluster(cluster) => cluster.subscribe(source, sink).boxed().await,
        }
    }

    /// Whether the server has confirmed the subscription to this channel.
    pub fn is_subscribed(&self, channel: &str) -> bool {
        let source = Source::channel(channel, self.is_sharded());
        match &self.kind {
            Kind::Single { server, .. } => server.subscriptions.is_subscribed(&source),
            Kind::Cluster(cluster) => cluster.is_subscribed(&source),
        }
    }

    /// A connection to a replica of a server, with the encryption of the server. None if the server has no address in the
    /// network.
    pub fn to_replica(&self, replica: &Replica) -> Option<Link> {
        let options = self.options.of_replica(replica.host())?;
        Some(Link::without_scripts(Dialler::new(options)))
    }

    /// Whether messages are published on the sharded channels of a cluster.
    pub fn is_sharded(&self) -> bool {
        match &self.kind {
            Kind::Single { .. } => false,
            Kind::Cluster(cluster) => cluster.is_sharded(),
        }
    }

    /// Whether the reply of a script that publishes counts all receivers. On a cluster without sharded channels, it
    /// counts the receivers that are connected to the same node.
    pub fn counts_all_receivers(&self) -> bool {
        match &self.kind {
            Kind::Single { .. } => true,
            Kind::Cluster(cluster) => cluster.is_sharded(),
        }
    }
}
