//! Checks the rights of the user with ACL DRYRUN. This command reports whether the user has the right to run another
//! command, and does not run that command.

mod gaps;
mod probe;

use bandog_core::{Finding, Result};
use bandog_redis_net::{ACK, Link};
use redis::{Pipeline, Value};

use self::{
    gaps::findings,
    probe::{NAME, Purpose, RightsProbe, SCRIPT_COMMANDS, right},
};
use crate::{
    leases::Redis,
    names,
    options::{Format, Semaphores},
    refusal, slots,
};

/// A hash that stands for a script. ACL DRYRUN does not run the script, so no script needs to have this hash.
const HASH: &str = "0000000000000000000000000000000000000000";
impl Redis {
    /// Checks the rights of the user at this server, for names with this prefix. Each gap in the rights has a finding.
    pub(super) async fn rights(&self, link: &Link, prefix: &str) -> Result<Vec<Finding>> {
        // If the URL has no user name, Redis uses the user "default".
        let user = self.servers.options().user().unwrap_or("default");
        let mut probes = probes(prefix, self.format);
        if self.format.semaphores == Semaphores::Plain {
            probes.extend(plain_semaphores(&format!("{prefix}{NAME}")));
        }
        probes.extend(self.topology_probes());
        if self.servers.is_sharded() {
            probes.iter_mut().for_each(RightsProbe::shard);
        }
        let mut pipe = Pipeline::with_capacity(probes.len());
        for probe in &probes {
            pipe.cmd("ACL").arg("DRYRUN").arg(user).arg(&probe.command[..]);
        }
        let replies = link.call(pipe).await?;
        if let Some(error) = replies.iter().find_map(refused) {
            return Ok(vec![Finding::advice(
                "rights",
                format!("the rights of the user {user:?} could not be checked: {error}"),
                "compare `ACL GETUSER` with docs/redis.md, or let this user run ACL DRYRUN (Redis 7)",
            )]);
        }
        let answers = probes.into_iter().zip(&replies).map(|(probe, reply)| (probe, right(reply)));
        Ok(findings(user, &answers.collect::<Vec<_>>()))
    }

    /// The commands that depend on the servers and on `replicas=`.
    fn topology_probes(&self) -> Vec<RightsProbe> {
        let probe = |purpose, command: &[&str]| RightsProbe::new(purpose, command);
        let has_replicas = self.servers.options().replicas() > 0;
        let mut probes = vec![probe(Purpose::Elements, &["CLIENT", "TRACKING", "ON"])];
        if has_replicas {
            probes.push(probe(Purpose::Replicas, &["WAIT", "1", "1"]));
        }
        if self.format.in_cluster {
            probes.push(probe(Purpose::MovingSlots, &["ASKING"]));
        } else if has_replicas {
            probes.push(probe(Purpose::Replicas, &["INFO", "replication"]));
            probes.push(probe(Purpose::Replicas, &["SET", ACK, ""]));
            probes.push(probe(Purpose::Replicas, &["PEXPIRE", ACK, "1"]));
        }
        probes
    }
}

/// The commands to check, for a lock and a record with this prefix.
fn probes(prefix: &str, format: Format) -> Vec<RightsProbe> {
    let name = &*format!("{prefix}{NAME}");
    let (token, channel) = (names::TokenKey(name).to_string(), names::Channel(name).to_string());
    // The key of a client's row in the registry.
    let member = format!("{}probe", names::REGISTRY);
    let probe = |purpose, command: &[&str]| RightsProbe::new(purpose, command);
    let scripts: [&[&str]; SCRIPT_COMMANDS] = [&["EVALSHA", HASH, "1", name], &["EVAL", "return 0", "1", name]];
    let locks: [&[&str]; 10] = [
        &["PTTL", name],
        &["HEXISTS", name, "x"],
        &["GET", &token],
        &["TIME"],
        &["SET", name, "x"],
        &["SET", &token, "x"],
        &["HSET", name, "x", "1"],
        &["HSET", &member, "x", "1"],
        &["DEL", name],
        &["PEXPIRE", name, "1"],
    ];
    let notifications: [&[&str]; 3] =
        [&["PUBLISH", &channel, "0"], &["SUBSCRIBE", &channel], &["UNSUBSCRIBE", &channel]];
    let starving = names::StarvingKey(name).to_string();
    let offers: [&[&str]; 2] = [&["SET", &starving, "x"], &["DEL", &starving]];
    let index: [&[&str]; 3] = [
        &["ZADD", names::CLIENTS, "1", "x"],
        &["ZRANGEBYSCORE", names::CLIENTS, "0", "1"],
        &["ZREM", names::CLIENTS, "x"],
    ];
    let inspection: [&[&str]; 4] =
        [&["SCAN", "0"], &["HSCAN", name, "0"], &["HMGET", &member, "x"], &["ZRANGE", names::CLIENTS, "0", "-1"]];
    // On a cluster, the records of all jobs with this prefix have a common hash tag, and an index of their own.
    let job = format!("{prefix}job/{NAME}");
    let job = if format.in_cluster { slots::placed_record(&job) } else { name.into() };
    let (record, history) = (names::RecordKey(&job, format).to_string(), names::HistoryKey(&job, format).to_string());
    let index_of_records = names::IndexKey(&job, format).to_string();
    let records: [&[&str]; 9] = [
        &["HGET", &record, "v"],
        &["HMGET", &record, "v", "b"],
        &["HSET", &record, "v", "1"],
        &["HSET", &history, "x", "1"],
        &["DEL", &record, &history],
        &["HGETALL", &history],
        &["SADD", &index_of_records, name],
        &["SREM", &index_of_records, name],
        &["SSCAN", &index_of_records, "0"],
    ];
    let (operations, opened) = (names::OperationsKey(name).to_string(), names::LatchChannel(name, format).to_string());
    let latches: [&[&str]; 10] = [
        &["GET", name],
        &["DECRBY", name, "1"],
        &["ZSCORE", &operations, "x"],
        &["ZADD", &operations, "1", "x"],
        &["ZREM", &operations, "x"],
        &["ZREMRANGEBYSCORE", &operations, "0", "1"],
        &["ZCOUNT", &operations, "0", "1"],
        &["ZRANGEBYSCORE", &operations, "0", "1"],
        &["PUBLISH", &opened, "0"],
        &["SUBSCRIBE", &opened],
    ];
    let other_kinds = other_kinds(name);
    let other_kinds = other_kinds.iter().map(|command| {
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        probe(Purpose::OtherKinds, &command)
    });
    let scripts = scripts.into_iter().map(|command| probe(Purpose::Scripts, command));
    let locks = locks.into_iter().map(|command| probe(Purpose::Locks, command));
    let notifications = notifications.into_iter().map(|command| probe(Purpose::Subscriptions, command));
    let offers = offers.into_iter().map(|command| probe(Purpose::Offers, command));
    let index = index.into_iter().map(|command| probe(Purpose::Index, command));
    let inspection = inspection.into_iter().map(|command| probe(Purpose::Inspection, command));
    let records = records.into_iter().map(|command| probe(Purpose::Records, command));
    let latches = latches.into_iter().map(|command| probe(Purpose::Latches, command));
    scripts
        .chain(locks)
        .chain(notifications)
        .chain(offers)
        .chain(other_kinds)
        .chain(index)
        .chain(inspection)
        .chain(records)
        .chain(latches)
        .collect()
}

/// The commands with keys that only the semaphores of `?semaphores=plain` need.
fn plain_semaphores(name: &str) -> Vec<RightsProbe> {
    let key = |prefix| names::Satellite(prefix, name).to_string();
    let (plain, leases) = (key(names::PLAIN), key(names::LEASES));
    let commands: [&[&str]; 4] = [
        &["HSET", &plain, "x", "1"],
        &["HGETALL", &plain],
        &["ZADD", &leases, "1", "x"],
        &["ZRANGEBYSCORE", &leases, "0", "1"],
    ];
    commands.iter().map(|command| RightsProbe::new(Purpose::OtherKinds, command)).collect()
}

/// The commands that fair mutexes, read-write locks and semaphores need.
fn other_kinds(name: &str) -> Vec<Vec<String>> {
    let hold = format!("{}x:rwlock_timeout:1", names::HoldPrefix(name));
    let permits = names::PermitsKey(name).to_string();
    let key = |prefix| names::Satellite(prefix, name).to_string();
    let (held, writers, former) = (key(names::HELD), key(names::WRITERS), key(names::FORMER_LIMIT));
    let (waiting, order) = (key(names::WAITING), key(names::STARVING_ORDER));
    let stayed = key(names::STAYED);
    let (queue, deadlines) = (key(names::QUEUE), key(names::DEADLINES));
    let (read_write, semaphore) = (key(names::READ_WRITE_CHANNEL), key(names::SEMAPHORE_CHANNEL));
    let own_channel = format!("{}:x", names::Channel(name));
    let commands: [&[&str]; 30] = [
        &["HGET", name, "mode"],
        &["HGETALL", name],
        &["HLEN", name],
        &["HDEL", name, "x"],
        &["SET", &hold, "1"],
        &["HSET", &held, "x", "1"],
        &["ZADD", &writers, "1", "x"],
        &["ZSCORE", &writers, "x"],
        &["ZCOUNT", &writers, "0", "1"],
        &["ZREMRANGEBYSCORE", &writers, "0", "1"],
        &["INCRBY", name, "1"],
        &["ZADD", &permits, "1", "x"],
        &["ZREM", &permits, "x"],
        &["ZRANGEBYSCORE", &permits, "0", "1"],
        &["ZCARD", &permits],
        &["SET", &former, "1"],
        &["ZADD", &waiting, "1", "x"],
        &["ZADD", &order, "1", "x"],
        &["SET", &stayed, ""],
        &["RPUSH", &queue, "x"],
        &["LINDEX", &queue, "0"],
        &["LPOP", &queue],
        &["LRANGE", &queue, "0", "-1"],
        &["LREM", &queue, "0", "x"],
        &["ZINCRBY", &deadlines, "1", "x"],
        &["ZRANK", &deadlines, "x"],
        &["SUBSCRIBE", &read_write],
        &["SUBSCRIBE", &semaphore],
        &["SUBSCRIBE", &own_channel],
        &["PUBLISH", &own_channel, "0"],
    ];
    commands.iter().map(|command| command.iter().map(ToString::to_string).collect()).collect()
}

/// The server's error, if it does not accept ACL DRYRUN itself.
fn refused(reply: &Value) -> Option<String> {
    match reply {
        Value::ServerError(error) => Some(refusal::server_text(error)),
        _ => None,
    }
}
