//! The settings of a page.

use std::{fmt, sync::Arc};

use crate::{Language, access::Hosts, token::Token};

/// The settings that the user chose with the methods of [`crate::Page`].
#[derive(Clone, Default)]
pub(crate) struct Config {
    /// The path under which the page is mounted, without a slash at its end.
    pub(crate) prefix: String,
    pub(crate) token: Option<Token>,
    pub(crate) hosts: Hosts,
    pub(crate) metrics: Option<Metrics>,
    /// The language of the page. None: that of each client.
    pub(crate) language: Option<Language>,
    /// Whether a served page observes the store also while no client reads the page.
    pub(crate) observes: bool,
}

/// The metrics of the process, in Prometheus's text format.
pub(crate) type Metrics = Arc<dyn Fn() -> String + Send + Sync>;

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { prefix, token, hosts, metrics: _, language, observes } = self;
        let mut text = f.debug_struct("Config");
        text.field("prefix", prefix).field("token", token).field("hosts", hosts);
        text.field("language", language).field("observes", observes).finish()
    }
}
