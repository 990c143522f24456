//! A host and a port.

use std::fmt;

/// A host and a port.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Host {
    /// A name or an IP address. An IPv6 address has no brackets.
    pub(crate) name: String,
    /// The port.
    pub(crate) port: u16,
}

/// `host:port`, with brackets around an IPv6 address.
impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, port } = self;
        if name.contains(':') { write!(f, "[{name}]:{port}") } else { write!(f, "{name}:{port}") }
    }
}
