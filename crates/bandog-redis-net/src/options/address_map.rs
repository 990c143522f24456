//! The addresses at which this machine reaches servers that a cluster or a sentinel names by other addresses: behind NAT,
//! or in containers.

use bandog_core::{Error, Result};

use super::host::Host;

/// The name of the option of the URL.
pub(super) const ADDRESS_MAP: &str = "address_map";

/// Pairs of addresses: the one that a server names, and the one at which it is reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AddressMap(Vec<(Host, Host)>);

impl AddressMap {
    /// Reads `10.0.0.1:7000>cache-1:17000,10.0.0.2:7000>cache-2:17000`.
    ///
    /// # Errors
    /// `Misused`: a part cannot be read, or an address is on the left side twice.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut pairs: Vec<(Host, Host)> = Vec::new();
        for part in text.split(',') {
            let pair = part.split_once('>').and_then(|(inner, outer)| Some((host(inner)?, host(outer)?)));
            let Some((inner, outer)) = pair else {
                return Err(Error::misused(format!(
                    "{part:?} in {ADDRESS_MAP}= of the URL cannot be read; expected INNER:PORT>OUTER:PORT, and a comma \
                     between two of them"
                )));
            };
            if pairs.iter().any(|(other, _)| *other == inner) {
                return Err(Error::misused(format!("{ADDRESS_MAP}= of the URL has the address {inner} twice")));
            }
            pairs.push((inner, outer));
        }
        Ok(Self(pairs))
    }

    /// The address at which this server is reached.
    pub(super) fn reached<'a>(&'a self, named: &'a Host) -> &'a Host {
        self.0.iter().find(|(inner, _)| inner == named).map_or(named, |(_, outer)| outer)
    }

    /// For the error of a server that cannot be reached: its address. `namer` has named it.
    pub(super) fn hint(&self, named: &Host, namer: &str) -> String {
        let reached = self.reached(named);
        if reached == named {
            return format!(
                "; {namer} names the address {named}: if it cannot be reached from here (NAT, containers), add \
                 {ADDRESS_MAP}={named}>HOST:PORT to the URL"
            );
        }
        format!("; {namer} names the address {named}, for which {ADDRESS_MAP}= in the URL has {reached}")
    }
}

/// A host and a port. An IPv6 address has brackets.
fn host(text: &str) -> Option<Host> {
    let (name, port) = text.trim().rsplit_once(':')?;
    let is_ipv6 = name.starts_with('[') && name.ends_with(']');
    let name = if is_ipv6 { &name[1..name.len() - 1] } else { name };
    let is_name = !name.is_empty() && (is_ipv6 || !name.contains([':', '[', ']', '@', '/']));
    let port = port.parse().ok().filter(|port| *port > 0)?;
    is_name.then(|| Host { name: name.to_owned(), port })
}
