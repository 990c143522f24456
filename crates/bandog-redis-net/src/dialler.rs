//! Opens the connections to one server of a store: the server at an address, or the master that sentinels name.

use std::{sync::Arc, time::Duration};

use bandog_core::{Error, Result};
use redis::aio::AsyncPushSender;
use tokio::time::sleep;

use crate::{
    dial::{Connection, TlsProbeBudget, dial_server},
    options::{Address, Options},
    sentinels::{self, Discovery},
};

/// Opens connections. Its copies share what the sentinels have said.
#[derive(Debug, Clone)]
pub(crate) struct Dialler {
    pub(crate) options: Arc<Options>,
    /// None if the URL has the address of the server.
    discovery: Option<Arc<Discovery>>,
}

impl Dialler {
    /// This does no I/O.
    pub(crate) fn new(options: Options) -> Self {
        let discovery = match &options.address {
            Address::Sentinels(sentinels) => Some(Arc::new(Discovery::new(&options, sentinels))),
            Address::Tcp { .. } | Address::Tls { .. } | Address::Unix { .. } => None,
        };
        Self { options: options.into(), discovery }
    }

    /// Whether sentinels name the server.
    pub(crate) fn has_sentinels(&self) -> bool {
        self.discovery.is_some()
    }

    /// Connects and logs in.
    ///
    /// # Errors
    /// Those of [`dial_server`] and of [`sentinels::dial`].
    pub(crate) async fn dial(
        &self,
        pushes: Option<Arc<dyn AsyncPushSender>>,
        probes: &mut TlsProbeBudget,
    ) -> Result<Connection> {
        match &self.discovery {
            Some(discovery) => sentinels::dial(&self.options, discovery, pushes, probes).await,
            None => dial_server(&self.options, pushes, probes).await,
        }
    }

    /// Waits before the next connection attempt, until the delay has passed or the sentinels name another master.
    pub(crate) async fn wait(&self, delay: Duration) {
        match &self.discovery {
            Some(discovery) => sentinels::wait(discovery, delay).await,
            None => sleep(delay).await,
        }
    }

    /// The number of known sentinels, and the faults of those that do not answer or answer wrongly. Waits at most `limit`
    /// for their answers. None if the URL has the address of the server.
    pub(crate) async fn sentinels(&self, limit: Duration) -> Option<(usize, Vec<Error>)> {
        Some(sentinels::health(self.discovery.as_ref()?, limit).await)
    }
}
