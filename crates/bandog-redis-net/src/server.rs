//! One server.

use crate::{link::Link, subscriptions::Subscriptions};

/// One server: the connection for commands, and the connection for subscriptions.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) link: Link,
    pub(crate) subscriptions: Subscriptions,
}
