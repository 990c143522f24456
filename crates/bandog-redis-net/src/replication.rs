//! The replicas of a server, from the reply to `INFO replication`.

use std::fmt;

use crate::options::Host;

/// The state of the replication, as the master reports it.
#[derive(Debug, Default)]
pub struct Replication {
    /// Number of bytes in the replication stream so far.
    offset: u64,
    /// The connected replicas.
    pub replicas: Vec<Replica>,
}

/// A connected replica.
#[derive(Debug, PartialEq, Eq)]
pub struct Replica {
    /// The address to which clients connect, as the replica has reported it to the master.
    host: Host,
    /// `online` if the replica has a copy of the data and follows the stream. Another word if it still loads the copy.
    state: String,
    /// Number of bytes of the stream that the replica has acknowledged.
    offset: u64,
    /// Seconds since the last message of the replica.
    pub silent_for: u64,
    /// Number of bytes of the stream that the replica has not acknowledged.
    pub behind: u64,
}

impl Replication {
    /// Reads the reply to `INFO replication`.
    pub fn read(info: &str) -> Self {
        let mut replication = Self::default();
        for (name, value) in info.lines().filter_map(|line| line.trim_end().split_once(':')) {
            let is_replica = name.strip_prefix("slave").is_some_and(|number| number.parse::<u32>().is_ok());
            match name {
                "master_repl_offset" => replication.offset = value.parse().unwrap_or_default(),
                _ if is_replica => replication.replicas.push(Replica::read(value)),
                _ => {}
            }
        }
        let offset = replication.offset;
        replication.replicas.iter_mut().for_each(|replica| replica.behind = offset.saturating_sub(replica.offset));
        replication
    }

    /// Number of replicas that follow the stream.
    pub fn online(&self) -> usize {
        self.replicas.iter().filter(|replica| replica.is_online()).count()
    }
}

impl Replica {
    /// Reads a text such as `ip=10.0.0.2,port=6379,state=online,offset=782,lag=1`.
    fn read(text: &str) -> Self {
        let value = |wanted: &str| {
            let mut parts = text.split(',').filter_map(|part| part.split_once('='));
            parts.find_map(|(name, value)| (name == wanted).then_some(value)).unwrap_or_default()
        };
        let number = |name: &str| value(name).parse().unwrap_or_default();
        Self {
            host: Host { name: value("ip").to_owned(), port: value("port").parse().unwrap_or_default() },
            state: value("state").to_owned(),
            offset: number("offset"),
            silent_for: number("lag"),
            behind: 0,
        }
    }

    /// The host and the port for messages.
    pub fn address(&self) -> String {
        self.host.to_string()
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// Whether the replica has a copy of the data and follows the stream.
    pub fn is_online(&self) -> bool {
        self.state == "online"
    }
}

/// Names the replicas, and says how far each of them is behind. For error messages.
impl fmt::Display for Replication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.replicas.is_empty() {
            return f.write_str("no replica is connected");
        }
        for (number, replica) in self.replicas.iter().enumerate() {
            if number > 0 {
                f.write_str(", ")?;
            }
            replica.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host: address, state, silent_for, behind, .. } = self;
        if !self.is_online() {
            return write!(f, "{address} has no copy of the data yet (state {state})");
        }
        write!(f, "{address} is {behind} bytes behind")?;
        if *silent_for > 1 { write!(f, " and has sent nothing for {silent_for} s") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_replicas_are_named_with_their_lag() {
        let info = "# Replication\r\nrole:master\r\nconnected_slaves:3\r\n\
                    slave0:ip=10.0.0.2,port=6379,state=online,offset=782,lag=1\r\n\
                    slave1:ip=fe80::1,port=7000,state=online,offset=700,lag=12,type=replica\r\n\
                    slave2:ip=10.0.0.4,port=6379,state=wait_bgsave,offset=0,lag=0\r\n\
                    slave_read_only:1\r\nmaster_repl_offset:790\r\n";
        let replication = Replication::read(info);
        assert_eq!((replication.online(), replication.replicas.len()), (2, 3));
        assert_eq!(
            replication.to_string(),
            "10.0.0.2:6379 is 8 bytes behind, [fe80::1]:7000 is 90 bytes behind and has sent nothing for 12 s, \
             10.0.0.4:6379 has no copy of the data yet (state wait_bgsave)"
        );
        assert_eq!(Replication::read("role:master\r\n").to_string(), "no replica is connected");
    }
}
