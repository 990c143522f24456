//! Sentinels that watch a master.

use std::net::SocketAddrV4;
use std::ops::Deref;
use std::time::Duration;

use crate::eventually;
use crate::redis::RedisServer;
use crate::resp::Reply;

/// Timeout for the start: each sentinel must know the other sentinels and the replicas.
const READY_WITHIN: Duration = Duration::from_secs(15);
/// Timeout for a failover.
const FAILOVER_WITHIN: Duration = Duration::from_secs(30);

/// Several processes of `redis-server --sentinel` that watch one master and its replicas.
///
/// A master counts as down after 500 ms without a valid answer. The majority of the sentinels decides. A failover that
/// was ordered or follows a kill takes one or two seconds. If the sentinels do not agree on a leader, they try again after
/// 6 s (twice the `failover-timeout`).
///
/// This dereferences to a slice of the sentinels. Each sentinel is a [`RedisServer`], so a test can `kill`, `pause` and
/// `restart` it.
///
/// ```no_run
/// use bandog_testkit::{RedisServer, Sentinels};
/// let master = RedisServer::start();
/// let replica = RedisServer::replica_of(&master);
/// let sentinels = Sentinels::start(3, &master, "orders");
/// sentinels.failover();
/// assert_eq!(sentinels.master(), replica.addr());
/// ```
#[derive(Debug)]
pub struct Sentinels {
    name: String,
    sentinels: Vec<RedisServer>,
}

impl Sentinels {
    /// Starts `count` sentinels that watch this master under this name. Waits until each sentinel knows the other
    /// sentinels and the replicas that the master has now, which takes about a second.
    #[must_use]
    #[track_caller]
    pub fn start(count: usize, master: &RedisServer, name: &str) -> Self {
        Self::start_with(count, master, name, &[])
    }

    /// Starts sentinels with additional arguments, such as `&["--requirepass", "x"]`. If the master has
    /// `--tls-replication yes`, the sentinels use TLS, too.
    #[must_use]
    #[track_caller]
    pub fn start_with(count: usize, master: &RedisServer, name: &str, args: &[&str]) -> Self {
        let (port, quorum) = (master.outer_addr().port(), count / 2 + 1);
        let mut lines = vec![
            format!("sentinel monitor {name} 127.0.0.1 {port} {quorum}"),
            format!("sentinel down-after-milliseconds {name} 500"),
            format!("sentinel failover-timeout {name} 3000"),
        ];
        lines.extend(master.password().map(|password| format!("sentinel auth-pass {name} {password}")));
        let args = [args, &master.tls_arguments()].concat();
        let sentinels = (0..count).map(|_| RedisServer::start_sentinel(lines.clone(), &args)).collect();
        let this = Self { name: name.to_owned(), sentinels };
        let replicas = master.info("replication", "connected_slaves");
        this.wait_until_complete(&replicas);
        this
    }

    /// The name of the master.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `redis+sentinel://127.0.0.1:PORT,127.0.0.1:PORT,…/NAME`, without passwords. It begins with `rediss` if the sentinels
    /// use TLS.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.sentinels.iter().map(|one| one.outer_addr().to_string()).collect();
        let has_tls = self.sentinels.iter().any(|one| one.outer_addr() != one.addr());
        let scheme = if has_tls { "rediss" } else { "redis" };
        format!("{scheme}+sentinel://{}/{}", hosts.join(","), self.name)
    }

    /// The address of the master, as the first living sentinel knows it.
    #[must_use]
    #[track_caller]
    pub fn master(&self) -> SocketAddrV4 {
        master_of(self.living().next().expect("no sentinel runs"), &self.name)
    }

    /// Sets an option of the master on all sentinels, such as `down-after-milliseconds`.
    #[track_caller]
    pub fn set(&self, option: &str, value: &str) {
        for sentinel in &self.sentinels {
            assert_eq!(sentinel.cmd(&["SENTINEL", "SET", &self.name, option, value]).text(), "OK");
        }
    }

    /// Orders a failover while the master is alive, and waits until all living sentinels name the new master. Returns the
    /// address of the new master.
    #[track_caller]
    pub fn failover(&self) -> SocketAddrV4 {
        let old = self.master();
        self.order_failover();
        self.wait_for_failover(old)
    }

    /// Orders a failover, and does not wait for it.
    #[track_caller]
    pub fn order_failover(&self) {
        // The sentinel refuses the order as long as it has no fresh answer from a replica.
        eventually(FAILOVER_WITHIN, || {
            let first = self.living().next().expect("no sentinel runs");
            match first.cmd(&["SENTINEL", "FAILOVER", &self.name]) {
                Reply::Error(text) if !text.starts_with("INPROG") => Err(text),
                _ => Ok(()),
            }
        });
    }

    /// Waits until all living sentinels name another master than this one. Returns the address of the new master.
    #[track_caller]
    pub fn wait_for_failover(&self, old: SocketAddrV4) -> SocketAddrV4 {
        eventually(FAILOVER_WITHIN, || {
            let masters: Vec<_> = self.living().map(|sentinel| master_of(sentinel, &self.name)).collect();
            let agreed = masters.first().copied().filter(|first| masters.iter().all(|one| one == first));
            agreed.filter(|master| *master != old)
        })
    }

    /// Waits until each sentinel knows all other sentinels, and this number of replicas.
    #[track_caller]
    fn wait_until_complete(&self, replicas: &str) {
        // By default, a sentinel publishes its address every 2 s. This interval is shorter at the start only.
        let is_adjustable = RedisServer::version().is_since(7, 0);
        let publish_every = |millis| {
            for sentinel in self.sentinels.iter().filter(|_| is_adjustable) {
                assert_eq!(sentinel.cmd(&["SENTINEL", "DEBUG", "PUBLISH-PERIOD", millis]).text(), "OK");
            }
        };
        publish_every("100");
        let others = (self.sentinels.len() - 1).to_string();
        for sentinel in &self.sentinels {
            eventually(READY_WITHIN, || {
                let facts = sentinel.cmd(&["SENTINEL", "MASTER", &self.name]).texts();
                let fact = |name| facts.chunks_exact(2).find(|pair| pair[0] == name).map(|pair| pair[1].as_str());
                let is_complete = fact("num-other-sentinels") == Some(&others)
                    && fact("num-slaves") == Some(replicas)
                    && fact("flags") == Some("master");
                if is_complete { Ok(()) } else { Err(facts.join(" ")) }
            });
        }
        publish_every("2000");
    }

    /// The sentinels that run and are not stopped.
    fn living(&self) -> impl Iterator<Item = &RedisServer> {
        self.sentinels.iter().filter(|sentinel| sentinel.is_running())
    }
}

impl Deref for Sentinels {
    type Target = [RedisServer];

    fn deref(&self) -> &[RedisServer] {
        &self.sentinels
    }
}

#[track_caller]
fn master_of(sentinel: &RedisServer, name: &str) -> SocketAddrV4 {
    let address = sentinel.cmd(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", name]).texts();
    SocketAddrV4::new(address[0].parse().expect("an IPv4 address"), address[1].parse().expect("a port"))
}
