//! The sources of messages on a server.

use std::sync::Arc;

use bandog_core::messages::{Channel, Channels};

use crate::glob::redis_glob;

/// A source of messages on a server. Each has a subscription of its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// A channel of all servers.
    Plain(Arc<str>),
    /// A channel of the server that has its slot.
    Sharded(Arc<str>),
    /// All plain channels that match this Redis glob.
    Glob(Arc<str>),
    /// The changes of a key.
    Key(Arc<str>),
}

impl Source {
    /// A channel that is sharded on servers with sharded channels.
    pub(crate) fn channel(name: &str, sharded: bool) -> Self {
        if sharded { Self::Sharded(name.into()) } else { Self::Plain(name.into()) }
    }

    /// The name of the channel or key, or the glob. Its slot decides which node of a cluster has the subscription.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Plain(name) | Self::Sharded(name) | Self::Glob(name) | Self::Key(name) => name,
        }
    }

    /// Whether only the node of its slot has this source. The others are at each node of a cluster.
    pub(crate) fn is_in_slot(&self) -> bool {
        match self {
            Self::Sharded(_) | Self::Key(_) => true,
            Self::Plain(_) | Self::Glob(_) => false,
        }
    }
}

impl From<&Channels> for Source {
    fn from(channels: &Channels) -> Self {
        match channels {
            Channels::One(Channel::Plain(name)) => Self::Plain(name.as_str().into()),
            Channels::One(Channel::Sharded(name)) => Self::Sharded(name.as_str().into()),
            Channels::Matching(pattern) => Self::Glob(redis_glob(pattern).into()),
        }
    }
}
