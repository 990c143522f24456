//! Locks in Redis, from no lock to a fence and a quorum.

use std::thread::sleep;
use std::time::Duration;

use bandog_testkit::{RedisServer, eventually};

use crate::replica::{Replica, Script};
use crate::service::{Service, TTL};
use crate::stage::Stage;
use crate::{Result, say};

/// Deletes the lock if it is the replica's own.
const DELETE: Script = Script {
    shown: "if GET orders is mine: DEL orders",
    text: "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0",
};
/// Extends the lock if it is the replica's own.
const EXTEND: Script = Script {
    shown: "if GET orders is mine: PEXPIRE orders 1000",
    text: "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0",
};
/// Takes the lock, and counts the grants.
const GRANT: Script = Script {
    shown: "if SET orders me NX PX 1000: INCR orders:fence",
    text: "if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then \
           return redis.call('incr', KEYS[1] .. ':fence') end return nil",
};
const SECOND: Duration = Duration::from_secs(1);

/// No lock: a timer in each replica.
pub(crate) fn timer(stage: &Stage) -> Result {
    stage.unpaid(7);
    let (a, b) = (stage.enter("A"), stage.enter("B"));
    a.give_back();
    b.give_back();
    Ok(())
}

/// SETNX without a ttl. The holder dies.
pub(crate) fn forever(stage: &Stage) -> Result {
    let server = RedisServer::start();
    let [mut a, mut b] = Replica::several(stage, &server, ["A", "B"]);
    stage.unpaid(7);
    a.cmd("SETNX orders A")?;
    stage.enter("A").dies();
    drop(a);
    b.cmd("SETNX orders B")?;
    sleep(SECOND);
    if b.cmd("SETNX orders B")? == "0" {
        stage.shut_out("B", "waits for a lock that no process holds");
    }
    b.cmd("TTL orders")?;
    Ok(())
}

/// SET NX PX. The work takes longer than the ttl.
pub(crate) fn short(stage: &Stage) -> Result {
    let server = RedisServer::start();
    let [mut a, mut b] = Replica::several(stage, &server, ["A", "B"]);
    stage.unpaid(7);
    a.cmd("SET orders A NX PX 300")?;
    let slow = stage.enter("A");
    stage.say("A", "waits for the warehouse, for longer than the ttl");
    b.until("OK", "SET orders B NX PX 300")?;
    let next = stage.enter("B");
    slow.give_back();
    next.give_back();
    Ok(())
}

/// A late holder deletes the lock of the next one.
pub(crate) fn delete(stage: &Stage) -> Result {
    let server = RedisServer::start();
    let [mut a, mut b, mut c] = Replica::several(stage, &server, ["A", "B", "C"]);
    stage.unpaid(7);
    a.cmd("SET orders A NX PX 1000")?;
    let late = stage.enter("A");
    stage.say("A", "waits for the warehouse, for longer than the ttl");
    b.until("OK", "SET orders B NX PX 60000")?;
    let next = stage.enter("B");
    c.cmd("SET orders C NX PX 60000")?;
    a.cmd("DEL orders")?; // the lock of B
    c.cmd("SET orders C NX PX 60000")?;
    let third = stage.enter("C");
    [late, next, third].iter().for_each(|replica| replica.give_back());
    Ok(())
}

/// Compare and delete. The late holder leaves the lock of the next one alone, and is still inside with it.
pub(crate) fn token(stage: &Stage) -> Result {
    let server = RedisServer::start();
    let [mut a, mut b, mut c] = Replica::several(stage, &server, ["A", "B", "C"]);
    stage.unpaid(7);
    a.cmd("SET orders A NX PX 1000")?;
    let late = stage.enter("A");
    stage.say("A", "waits for the warehouse, for longer than the ttl");
    b.until("OK", "SET orders B NX PX 60000")?;
    let next = stage.enter("B");
    a.script(&DELETE, "orders", &["A"])?;
    if c.cmd("SET orders C NX PX 60000")? == "OK" {
        stage.enter("C").give_back();
    }
    late.give_back();
    next.give_back();
    Ok(())
}

/// A thread renews the lock while the work takes longer than the ttl.
pub(crate) fn watchdog(stage: &Stage) -> Result {
    let server = RedisServer::start();
    let [mut a, mut b] = Replica::several(stage, &server, ["A", "B"]);
    stage.unpaid(7);
    a.cmd("SET orders A NX PX 1000")?;
    let watchdog = a.renew(&server, &EXTEND, "orders", SECOND);
    let slow = stage.enter("A");
    stage.say("A", "waits for the warehouse, for longer than the ttl");
    if b.attempt(SECOND * 2, "SET orders B NX PX 1000")? {
        stage.enter("B").give_back();
    }
    slow.give_back();
    drop(slow);
    drop(watchdog);
    a.script(&DELETE, "orders", &["A"])?;
    b.until("OK", "SET orders B NX PX 1000")?;
    stage.enter("B").give_back();
    Ok(())
}

/// The holder is paused, and its renewing thread with it.
pub(crate) fn pause(stage: &Stage) -> Result {
    let server = RedisServer::start();
    let [mut a, mut b] = Replica::several(stage, &server, ["A", "B"]);
    stage.unpaid(7);
    a.cmd("SET orders A NX PX 1000")?;
    let watchdog = a.renew(&server, &EXTEND, "orders", SECOND);
    let late = stage.enter("A");
    watchdog.pause(stage);
    b.until("OK", "SET orders B NX PX 1000")?;
    let next = stage.enter("B");
    next.give_back();
    watchdog.wake(stage);
    late.give_back();
    Ok(())
}

/// A number with each grant: the table refuses the write with the smaller one.
pub(crate) fn fence(stage: &Stage) -> Result {
    let server = RedisServer::start();
    let [mut a, mut b] = Replica::several(stage, &server, ["A", "B"]);
    stage.unpaid(7);
    let fence_of_a = a.fence(&GRANT, "orders", &["A", "1000"])?;
    let watchdog = a.renew(&server, &EXTEND, "orders", SECOND);
    let late = stage.enter("A");
    watchdog.pause(stage);
    let fence_of_b = b.fence(&GRANT, "orders", &["B", "1000"])?;
    let next = stage.enter("B");
    next.give_back_under(fence_of_b);
    watchdog.wake(stage);
    late.give_back_under(fence_of_a);
    Ok(())
}

/// The master dies before the replica of the server has the lock.
pub(crate) fn failover(stage: &Stage) -> Result {
    let master = RedisServer::start();
    let standby = RedisServer::replica_of(&master);
    let [mut a] = Replica::several(stage, &master, ["A"]);
    stage.unpaid(7);
    a.cmd("INCR orders:fence")?; // an earlier grant, which the standby has
    standby.wait_until_equal(&master);
    standby.stream().stall(true);
    let fence_of_a = a.fence(&GRANT, "orders", &["A", "60000"])?;
    let first = stage.enter("A");
    master.kill();
    stage.say("Redis", "the master is killed; the standby, which has not got the last write, becomes the master");
    standby.cmd(&["REPLICAOF", "NO", "ONE"]);
    let [mut b] = Replica::several(stage, &standby, ["B"]);
    let fence_of_b = b.fence(&GRANT, "orders", &["B", "60000"])?;
    let second = stage.enter("B");
    second.give_back_under(fence_of_b);
    first.give_back_under(fence_of_a);
    Ok(())
}

/// bandog over three servers, one of which dies.
pub(crate) fn quorum(stage: &Stage) -> Result {
    let servers = [RedisServer::start(), RedisServer::start(), RedisServer::start()];
    let hosts = servers.each_ref().map(|server| server.addr().to_string()).join(",");
    stage.say("Redis", "three servers; each has a vote when it has run for longer than max_ttl");
    let uptime = |server: &RedisServer| {
        let info = server.cmd(&["INFO", "server"]);
        let line = info.text().lines().find_map(|line| line.strip_prefix("uptime_in_seconds:").map(str::to_owned));
        line.and_then(|seconds| seconds.parse::<u64>().ok()).unwrap_or(0)
    };
    eventually(SECOND * 20, || servers.iter().all(|server| uptime(server) > 3));
    let url = format!("redis+quorum://{hosts}?max_ttl=2s");
    let [mut a, mut b] = Service::several(stage, &url, ["A", "B"]);
    stage.unpaid(7);
    a.lock()?;
    let visit = stage.enter("A");
    servers[0].kill();
    stage.say("Redis", "one of the three servers is killed");
    if b.attempt(TTL + SECOND / 2)? {
        stage.enter("B").give_back();
    }
    visit.give_back();
    drop(visit);
    a.release()?;
    b.lock()?;
    stage.enter("B").give_back();
    b.release()
}

/// bandog on one server: the work is long, the holder is paused, the holder is killed.
pub(crate) fn bandog(stage: &Stage) -> Result {
    let server = RedisServer::start();
    let [mut a, mut b, mut c] = Service::several(stage, &server.url(), ["A", "B", "C"]);
    stage.unpaid(7);
    let fence_of_a = a.lock()?;
    let late = stage.enter("A");
    stage.say("A", "waits for the warehouse, for longer than the ttl");
    if b.attempt(TTL + SECOND / 2)? {
        stage.enter("B").give_back();
    }
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
    a.release()?;
    stage.unpaid(8);
    next.dies();
    b.kill();
    let fence_of_c = c.lock()?;
    stage.enter("C").give_back_under(fence_of_c);
    c.release()
}
