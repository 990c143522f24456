//! The servers of one store: a single server, or the nodes of a Redis Cluster. The traits send their commands here.

use std::{sync::Arc, time::Instant};

use bandog_core::{Error, Notifier, Result, Subscription};
use futures_util::FutureExt;
use redis::{Pipeline, Value};
use tokio::sync::watch;

use crate::{
    cluster::{Cluster, Node},
    link::Link,
    options::RedisOptions,
    refusal,
    script::ScriptForm,
    subscriptions::{SubscribeResult, Subscriptions},
};

/// The servers of one store.
#[derive(Debug)]
pub(crate) enum Servers {
    Single(Server),
    Cluster(Cluster),
}

/// One server: the connection for commands, and the connection for subscriptions.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) link: Link,
    pub(crate) subscriptions: Subscriptions,
}

/// A server that has keys of the store.
pub(crate) enum Master<'a> {
    Single(&'a Server),
    Node(Arc<Node>),
}

impl Master<'_> {
    /// The connection for commands.
    pub(crate) fn link(&self) -> &Link {
        match self {
            Self::Single(server) => &server.link,
            Self::Node(node) => &node.server.link,
        }
    }

    /// The address of a node of a cluster. Empty for a single server.
    pub(crate) fn address(&self) -> String {
        match self {
            Self::Single(_) => String::new(),
            Self::Node(node) => node.address(),
        }
    }
}

/// The replies to the commands of one call, in the order of the commands.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    values: Vec<Value>,
    /// The commands without a reply: their positions, in rising order, and the errors. Their values are nil.
    faults: Vec<(usize, Error)>,
}

impl Servers {
    /// The servers that these options name. This does no I/O.
    pub(crate) fn new(options: &RedisOptions) -> Self {
        if options.format.in_cluster {
            return Self::Cluster(Cluster::new(options.clone()));
        }
        let link = Link::new(options.clone());
        let subscriptions = Subscriptions::new(options.clone(), link.left());
        Self::Single(Server { link, subscriptions })
    }

    /// A receiver of the number of connections for commands that were opened so far.
    pub(crate) fn epoch(&self) -> watch::Receiver<u64> {
        match self {
            Self::Single(server) => server.link.epoch(),
            Self::Cluster(cluster) => cluster.epoch(),
        }
    }

    /// The number of the latest connection for commands. The first connection has the number 1.
    pub(crate) fn connection(&self) -> u64 {
        *self.epoch().borrow()
    }

    /// The servers whose keys are all keys of the store: the single server, or all masters.
    ///
    /// # Errors
    /// The nodes of the cluster could not be asked.
    pub(crate) async fn masters(&self) -> Result<Vec<Master<'_>>> {
        match self {
            Self::Single(server) => Ok(vec![Master::Single(server)]),
            Self::Cluster(cluster) => Ok(cluster.masters().await?.into_iter().map(Master::Node).collect()),
        }
    }

    /// Sends commands that are not scripts. See [`Servers::call_scripts`].
    ///
    /// # Errors
    /// If a command has no reply, the error of the first such command.
    pub(crate) async fn call(&self, pipe: Pipeline) -> Result<Vec<Value>> {
        match self {
            Self::Single(server) => server.link.call(pipe).await,
            Self::Cluster(cluster) => {
                let deadline = Instant::now() + cluster.timeout();
                cluster.call(deadline, &|_| pipe.clone()).boxed().await.into_values()
            }
        }
    }

    /// Sends the commands that `pack` returns, and returns their replies. On a single server, all commands are one
    /// pipeline: see [`Link::call_scripts`]. On a cluster, each command goes to the node that has its first key.
    pub(crate) async fn call_scripts(
        &self,
        deadline: Instant,
        pack: impl Fn(ScriptForm) -> Pipeline + Send + Sync,
    ) -> Result<Replies> {
        match self {
            Self::Single(server) => {
                let values = server.link.call_scripts(deadline, pack).await?;
                Ok(Replies { values, faults: Vec::new() })
            }
            // Boxed, so that the future of the usual case stays small.
            Self::Cluster(cluster) => Ok(cluster.call(deadline, &pack).boxed().await),
        }
    }

    /// Subscribes to a channel. See [`Subscriptions::subscribe`].
    pub(crate) async fn subscribe(&self, channel: &str, notifier: Notifier) -> Result<Subscription> {
        match self {
            Self::Single(server) => match server.subscriptions.subscribe(channel, notifier).await? {
                SubscribeResult::Subscribed(subscription) => Ok(subscription),
                SubscribeResult::Moved => Err(refusal::node_of_a_cluster()),
            },
            Self::Cluster(cluster) => cluster.subscribe(channel, notifier).boxed().await,
        }
    }

    /// Whether the server has confirmed the subscription to this channel.
    pub(crate) fn is_subscribed(&self, channel: &str) -> bool {
        match self {
            Self::Single(server) => server.subscriptions.is_subscribed(channel),
            Self::Cluster(cluster) => cluster.is_subscribed(channel),
        }
    }

    /// Whether the reply of a script that publishes counts all receivers. On a cluster without sharded channels, it
    /// counts the receivers that are connected to the same node.
    pub(crate) fn counts_all_receivers(&self) -> bool {
        match self {
            Self::Single(_) => true,
            Self::Cluster(cluster) => cluster.is_sharded(),
        }
    }
}

impl Replies {
    /// Replies, or errors for some commands.
    pub(crate) fn new(each: impl IntoIterator<Item = Result<Value>>) -> Self {
        let mut replies = Self::default();
        for (at, reply) in each.into_iter().enumerate() {
            replies.values.push(reply.unwrap_or_else(|error| {
                replies.faults.push((at, error));
                Value::Nil
            }));
        }
        replies
    }

    /// The replies.
    ///
    /// # Errors
    /// The error of the first command without a reply.
    pub(crate) fn into_values(self) -> Result<Vec<Value>> {
        match self.faults.into_iter().next() {
            Some((_, error)) => Err(error),
            None => Ok(self.values),
        }
    }
}

impl IntoIterator for Replies {
    type Item = Result<Value>;
    type IntoIter = EachReply;

    fn into_iter(self) -> EachReply {
        EachReply { values: self.values.into_iter().enumerate(), faults: self.faults.into_iter().peekable() }
    }
}

/// One reply or error for each command.
pub(crate) struct EachReply {
    values: std::iter::Enumerate<std::vec::IntoIter<Value>>,
    faults: std::iter::Peekable<std::vec::IntoIter<(usize, Error)>>,
}

impl Iterator for EachReply {
    type Item = Result<Value>;

    fn next(&mut self) -> Option<Result<Value>> {
        let (at, value) = self.values.next()?;
        match self.faults.next_if(|(fault, _)| *fault == at) {
            Some((_, error)) => Some(Err(error)),
            None => Some(Ok(value)),
        }
    }
}
