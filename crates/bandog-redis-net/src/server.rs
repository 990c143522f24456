//! One server.

use crate::{link::Link, subscriptions::Subscriptions, tracking::Tracking};

/// One server: the connections for commands, for subscriptions, and for changed keys.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) link: Link,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) tracking: Tracking,
}
