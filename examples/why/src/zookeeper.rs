//! A lock in ZooKeeper: an ephemeral node, which the ensemble deletes when the session of its client expires.

use bandog_testkit::ZooKeeperServer;

use crate::service::Service;
use crate::stage::Stage;
use crate::{Result, say};

/// Two replicas with sessions of 2 s.
fn replicas(stage: &Stage) -> (ZooKeeperServer, [Service<'_>; 2]) {
    let server = ZooKeeperServer::start();
    let url = format!("zookeeper://{}?session=2s", server.addr());
    stage.say("ZooKeeper", "a server; the sessions of A and B last 2 s without a message");
    let replicas = Service::several(stage, &url, ["A", "B"]);
    (server, replicas)
}

/// The client is paused beyond its session, and does not ask its guard afterwards.
pub(crate) fn session(stage: &Stage) -> Result {
    let (_server, [mut a, mut b]) = replicas(stage);
    stage.unpaid(7);
    a.lock()?;
    let late = stage.enter("A");
    a.pause();
    b.lock()?; // the session of A has expired
    let next = stage.enter("B");
    next.give_back();
    a.wake();
    late.give_back();
    Ok(())
}

/// The number of the node is the fence: the table refuses the late write.
pub(crate) fn czxid(stage: &Stage) -> Result {
    let (_server, [mut a, mut b]) = replicas(stage);
    stage.unpaid(7);
    let fence_of_a = a.lock()?;
    let late = stage.enter("A");
    a.pause();
    let fence_of_b = b.lock()?;
    let next = stage.enter("B");
    next.give_back_under(fence_of_b);
    a.wake();
    if a.is_lost()? {
        say!(stage, "A", "writes nevertheless");
    }
    late.give_back_under(fence_of_a);
    drop(late);
    a.release()
}
