//! Reads the answers of a node that does not serve a slot.

use redis::{ServerError, Value};

use crate::{options::Host, refusal};

/// The meaning of a reply for the routing of its command. The command was not applied, except that the reply
/// [`Redirection::Later`] can come from the middle of a script.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Redirection {
    /// The node at this address has the slot.
    Moved(u16, Host),
    /// The slot is being moved, and the node at this address has the keys already.
    Ask(Host),
    /// The node will be able to run the command soon.
    Later,
}

impl Redirection {
    /// Reads a reply of this node. None if it is the reply of the command.
    pub(super) fn read(reply: &Value, from: &Host) -> Option<Self> {
        let Value::ServerError(error) = reply else { return None };
        if refusal::is_redirection(error) {
            return Some(Self::of(error, from).unwrap_or(Self::Later));
        }
        refusal::is_passing(error).then_some(Self::Later)
    }

    /// Reads `MOVED 3999 127.0.0.1:6381`. An empty host means the host of the node that has answered.
    fn of(error: &ServerError, from: &Host) -> Option<Self> {
        let (slot, address) = error.details()?.trim().split_once(' ')?;
        let (host, port) = address.rsplit_once(':')?;
        let host = if host.is_empty() || host == "?" { &from.name } else { host };
        let host = Host { name: host.to_owned(), port: port.parse().ok()? };
        match error.code() {
            "ASK" => Some(Self::Ask(host)),
            _ => Some(Self::Moved(slot.parse().ok()?, host)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(name: &str, port: u16) -> Host {
        Host { name: name.into(), port }
    }

    fn read(text: &str) -> Option<Redirection> {
        let value = redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).unwrap();
        Redirection::read(&value, &at("10.0.0.1", 7000))
    }

    #[test]
    fn redirections_are_read() {
        assert_eq!(read("MOVED 3999 127.0.0.1:6381"), Some(Redirection::Moved(3999, at("127.0.0.1", 6381))));
        assert_eq!(read("MOVED 3999 :6381"), Some(Redirection::Moved(3999, at("10.0.0.1", 6381))));
        assert_eq!(read("MOVED 1 ::1:6381"), Some(Redirection::Moved(1, at("::1", 6381))));
        assert_eq!(read("ASK 3999 node.example:6381"), Some(Redirection::Ask(at("node.example", 6381))));
        for later in [
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "CLUSTERDOWN The cluster is down",
            "CLUSTERDOWN Hash slot not served",
            "LOADING Redis is loading the dataset in memory",
            "ERR Script attempted to access a non local key in a cluster node script: 1, on @user_script:14.",
            "MOVED nonsense",
        ] {
            assert_eq!(read(later), Some(Redirection::Later), "{later}");
        }
        for reply in ["ERR unknown command", "CROSSSLOT Keys in request don't hash to the same slot", "NOSCRIPT x"] {
            assert_eq!(read(reply), None, "{reply}");
        }
    }
}
