//! The floor: the scripts of a lock and its release, sent one after the other with the same client crate, without
//! bandog.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use redis::{AsyncConnectionConfig, ConnectionInfo, IntoConnectionInfo, Script, aio::MultiplexedConnection};
use serde_json::Value;

use crate::measure::{Workers, count};

const CLAIM: &str = concat!(
    include_str!("../../../crates/bandog-redis/src/lua/offer.lua"),
    include_str!("../../../crates/bandog-redis/src/lua/claim.lua")
);
const RELEASE: &str = concat!(
    include_str!("../../../crates/bandog-redis/src/lua/offer.lua"),
    include_str!("../../../crates/bandog-redis/src/lua/release.lua")
);
/// A claim without a fence. The difference between the times of this claim and of `CLAIM` is the cost of the fence.
const PLAIN_CLAIM: &str = include_str!("lua/plain_claim.lua");

/// Whether the floor's claims reserve fences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fenced {
    Yes,
    No,
}

/// Opens a connection with the same options as bandog.
pub(crate) async fn dial(url: &str) -> MultiplexedConnection {
    let info: ConnectionInfo = format!("{url}?protocol=resp3").into_connection_info().expect("a URL");
    let tcp = info.tcp_settings().clone().set_nodelay(true);
    let client = redis::Client::open(info.set_tcp_settings(tcp)).expect("a URL");
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(3)));
    client.get_multiplexed_async_connection_with_config(&config).await.expect("the server answers")
}

/// Locks by hand.
pub(crate) trait ByHand: Send + Sync + 'static {
    /// Takes and releases a lock. The task selects the connection.
    fn cycle(&self, task: usize, name: &str) -> impl Future<Output = ()> + Send;
}

/// The cycles of these tasks, each of which has a name of its own.
pub(crate) fn by_hand<F: ByHand>(
    dial: impl Future<Output = F>,
    workers: Workers,
    tasks: usize,
    span: Duration,
) -> Value {
    workers.runtime().block_on(async {
        let floor = Arc::new(dial.await);
        let cycle = |task| {
            let (floor, name) = (Arc::clone(&floor), format!("floor-{task}"));
            move || {
                let (floor, name) = (Arc::clone(&floor), name.clone());
                async move { floor.cycle(task, &name).await }
            }
        };
        count(tasks, span, cycle).await
    })
}

#[derive(Clone)]
pub(crate) struct Floor {
    connection: MultiplexedConnection,
    claim: String,
    release: String,
    fenced: Fenced,
}

impl Floor {
    pub(crate) async fn dial(url: &str, fenced: Fenced) -> Self {
        let mut connection = dial(url).await;
        let claim = if fenced == Fenced::Yes { CLAIM } else { PLAIN_CLAIM };
        for script in [claim, RELEASE] {
            let loading = redis::cmd("SCRIPT").arg("LOAD").arg(script).to_owned();
            loading.query_async::<()>(&mut connection).await.expect("scripts load");
        }
        let hash = |text: &str| Script::new(text).get_hash().to_owned();
        Self { connection, claim: hash(claim), release: hash(RELEASE), fenced }
    }
}

impl ByHand for Floor {
    async fn cycle(&self, _: usize, name: &str) {
        static CYCLES: AtomicU64 = AtomicU64::new(0);
        let mut connection = self.connection.clone();
        let owner = format!("00000000-0000-8000-8000-000000000000:{}", CYCLES.fetch_add(1, Relaxed));
        let mut claim = redis::cmd("EVALSHA");
        match self.fenced {
            Fenced::Yes => {
                claim.arg(&self.claim).arg(2).arg(name).arg(format!("redisson_lock_token:{{{name}}}"));
                claim.arg(&owner).arg(30_000).arg(64).arg("");
            }
            Fenced::No => {
                claim.arg(&self.claim).arg(1).arg(name).arg(&owner).arg(30_000);
            }
        }
        let granted: i64 = claim.query_async(&mut connection).await.expect("the server answers");
        assert!(granted > 0, "another client uses the floor's names");
        let mut release = redis::cmd("EVALSHA");
        release.arg(&self.release).arg(1).arg(name).arg(&owner).arg(format!("redisson_lock__channel:{{{name}}}"));
        let freed: i64 = release.query_async(&mut connection).await.expect("the server answers");
        assert!(freed >= 0, "the floor released a lock that it does not hold");
    }
}

/// A connection for each task.
impl ByHand for Vec<Floor> {
    async fn cycle(&self, task: usize, name: &str) {
        self[task].cycle(task, name).await;
    }
}
