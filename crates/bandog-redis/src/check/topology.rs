//! Checks the replicas of a master: whether they follow it, whether the master needs them for writes, the sentinels that
//! would make one of them the master, and their clocks. A server without replicas and sentinels has no findings of this
//! module.

use std::time::Duration;

use bandog_core::{Error, Finding};
use bandog_redis_net::{
    Link,
    replication::{Replica, Replication},
    reply::{list, time},
};
use futures_util::future::join_all;
use redis::{Pipeline, Value};
use tokio::time::timeout;

use super::{MAX_CLOCK_DIFFERENCE, settings::Settings, since_epoch};
use crate::leases::Redis;

/// A replica that is further behind has advice.
const MAX_BEHIND: u64 = 1 << 20;
/// A replica that has sent nothing for a longer time has advice. Replicas send an acknowledgement each second.
const MAX_SILENCE: u64 = 3;
/// Maximum time for the connection to a replica and its answer.
const REPLICA_TIMEOUT: Duration = Duration::from_secs(1);
/// The channel to which each sentinel subscribes on each server that it watches.
const SENTINELS: &str = "__sentinel__:hello";
/// The fewest sentinels of which one can fail: the others are still the majority.
const MIN_SENTINELS: i64 = 3;

/// A clock, compared with the clock of this client.
struct ClockReading {
    /// The time that the server's clock is ahead of ours, in seconds. Negative if it is behind.
    ahead: f64,
    /// Maximum error of this value, because the request took time.
    error: f64,
}

impl Redis {
    /// The findings about the replicas.
    pub(super) async fn topology(&self, link: &Link, settings: &Settings) -> Vec<Finding> {
        let replication = settings.replication_state();
        let mut findings = Vec::new();
        let required = usize::from(self.servers.options().replicas());
        if settings.needs_replicas(self.servers.options()) || !replication.replicas.is_empty() || required > 0 {
            findings.push(followers(replication, required));
            findings.push(settings.min_replicas());
        } else if settings.refuses_writes() {
            findings.push(settings.min_replicas());
        }
        findings.extend(count_sentinels(link).await);
        if let Some((count, faults)) = self.servers.sentinels(REPLICA_TIMEOUT).await {
            findings.extend(faulty_sentinels(count, &faults));
        }
        findings.extend(self.clocks(link, &replication.replicas).await);
        findings
    }

    /// The finding about the clocks of the replicas. None if no replica can be reached.
    async fn clocks(&self, link: &Link, replicas: &[Replica]) -> Option<Finding> {
        let own = clock_of(link).await?;
        let of_replicas = replicas.iter().map(async |replica| {
            let link = self.servers.to_replica(replica)?;
            Some((replica.address(), timeout(REPLICA_TIMEOUT, clock_of(&link)).await.ok()??))
        });
        let clocks: Vec<_> = join_all(of_replicas).await.into_iter().flatten().collect();
        clocks_apart(&own, &clocks, replicas.len())
    }
}

/// The finding about replicas that do not follow the master, or are far behind. `required`: the number of replicas that must
/// acknowledge each grant.
fn followers(replication: &Replication, required: usize) -> Finding {
    const SUBJECT: &str = "replicas";
    let is_away = |replica: &&Replica| !replica.is_online() || replica.silent_for > MAX_SILENCE;
    // Replicas report what they have about once a second, so under load they seem to be behind although they are not.
    let is_late = |replica: &&Replica| is_away(replica) || replica.behind > MAX_BEHIND;
    if replication.online() < required {
        return Finding::danger(
            SUBJECT,
            format!(
                "{} replicas follow this server, and ?replicas={required} needs {required}: no lock can be taken",
                replication.online()
            ),
            "start the missing replicas, or name a smaller number in the URL",
        );
    }
    if replication.replicas.is_empty() {
        return Finding::danger(
            SUBJECT,
            "no replica is connected, so the sentinels have no server that can take over: if this server fails, no lock \
             can be taken or renewed",
            "start a replica of this server; after a failover, the former master becomes one when it runs again",
        );
    }
    let late: Vec<String> = replication.replicas.iter().filter(is_late).map(ToString::to_string).collect();
    if late.is_empty() {
        return Finding::fine(SUBJECT, format!("all replicas follow this server: {replication}"));
    }
    let follow = replication.replicas.iter().filter(|replica| !is_away(replica)).count();
    if follow < required {
        return Finding::danger(
            SUBJECT,
            format!(
                "replicas that follow this server in time: {follow}, and ?replicas={required} needs {required}, so no lock \
                 can be taken; the others: {}",
                late.join(", ")
            ),
            "check the network between the servers and the load of the replicas",
        );
    }
    Finding::advice(
        SUBJECT,
        format!(
            "{} of {} replicas do not follow in time: {}; if such a replica takes over, the locks of this time are granted \
             again",
            late.len(),
            replication.replicas.len(),
            late.join(", ")
        ),
        "check the network between the servers and the load of the replicas; ?replicas=1 refuses grants that no replica has",
    )
}

/// The finding about the number of sentinels. None if no sentinel watches the server, or if it is not known.
async fn count_sentinels(link: &Link) -> Option<Finding> {
    let mut pipe = Pipeline::new();
    pipe.cmd("PUBSUB").arg("NUMSUB").arg(SENTINELS);
    let replies = link.call(pipe).await.ok()?;
    match replies.first().map(list) {
        Some([_, Value::Int(count @ 1..)]) => Some(number_of_sentinels(*count)),
        Some(_) | None => None,
    }
}

/// The finding about sentinels that do not answer this client. None if all of them answer.
fn faulty_sentinels(count: usize, faults: &[Error]) -> Option<Finding> {
    const SUBJECT: &str = "sentinels";
    const CURE: &str = "start these sentinels, or correct the URL; a failover needs more than half of all sentinels";
    let reasons: Vec<_> = faults.iter().map(ToString::to_string).collect();
    let says = |effect: &str| {
        format!("{} of {count} sentinels do not serve this client{effect}: {}", faults.len(), reasons.join("; "))
    };
    match faults.len() {
        0 => None,
        few if few * 2 < count => Some(Finding::advice(SUBJECT, says(""), CURE)),
        _ => Some(Finding::danger(SUBJECT, says(", so a failover may be impossible"), CURE)),
    }
}

fn number_of_sentinels(count: i64) -> Finding {
    const SUBJECT: &str = "sentinels";
    const CURE: &str = "run three or five sentinels on different machines";
    if count < MIN_SENTINELS {
        let says =
            format!("{count} sentinels watch this server: if one of them fails, no majority can order a failover");
        return Finding::advice(SUBJECT, says, CURE);
    }
    if count % 2 == 0 {
        let says =
            format!("{count} sentinels watch this server: an even number survives no more failures than one less");
        return Finding::advice(SUBJECT, says, CURE);
    }
    Finding::fine(SUBJECT, format!("{count} sentinels watch this server"))
}

/// The finding about clocks that are apart. `own` is the clock of the master, and `clocks` are the clocks of the replicas
/// that could be reached, of this number of replicas.
fn clocks_apart(own: &ClockReading, clocks: &[(String, ClockReading)], replicas: usize) -> Option<Finding> {
    const SUBJECT: &str = "clocks";
    let difference = |clock: &ClockReading| (clock.ahead - own.ahead).abs();
    let surplus = |clock: &ClockReading| difference(clock) - own.error - clock.error;
    let (address, clock) = clocks.iter().max_by(|(_, one), (_, other)| surplus(one).total_cmp(&surplus(other)))?;
    if surplus(clock) <= MAX_CLOCK_DIFFERENCE.as_secs_f64() {
        let says =
            format!("the clocks of {} of {replicas} replicas were read, and agree with this server's", clocks.len());
        return Some(Finding::fine(SUBJECT, says));
    }
    let word = if clock.ahead > own.ahead { "ahead of" } else { "behind" };
    let says = format!(
        "the clock of the replica {address} is {:.1} s {word} this server's: if it takes over, leases expire at another \
         time, and fences may stop rising",
        difference(clock)
    );
    let cure = "synchronize the clocks of all servers that may take over with the same time source (chrony, ntpd)";
    Some(Finding::advice(SUBJECT, says, cure))
}

/// Reads the clock of a server. None if the server does not answer, or refuses TIME.
async fn clock_of(link: &Link) -> Option<ClockReading> {
    let mut pipe = Pipeline::new();
    pipe.cmd("PING").cmd("TIME");
    link.call(pipe.clone()).await.ok()?; // Opens the connection, which takes a part of the time.
    let before = since_epoch().as_secs_f64();
    let replies = link.call(pipe).await.ok()?;
    let after = since_epoch().as_secs_f64();
    let server = replies.last().and_then(time)?.as_secs_f64();
    Some(ClockReading { ahead: server - f64::midpoint(before, after), error: (after - before) / 2.0 })
}

#[cfg(test)]
mod tests {
    use bandog_core::Level;

    use super::*;

    #[test]
    fn clocks_are_apart_if_the_round_trips_cannot_explain_the_difference() {
        let clock = |ahead, error| ClockReading { ahead, error };
        let replica = |ahead, error| ("10.0.0.2:6379".to_owned(), clock(ahead, error));
        let level = |own: ClockReading, replicas: &[_]| clocks_apart(&own, replicas, 3).map(|finding| finding.level);
        assert_eq!(level(clock(100.0, 0.1), &[replica(100.9, 0.1)]), Some(Level::Fine));
        assert_eq!(level(clock(100.0, 0.2), &[replica(101.3, 0.2)]), Some(Level::Fine));
        assert_eq!(level(clock(100.0, 0.1), &[replica(100.0, 0.1), replica(98.5, 0.1)]), Some(Level::Advice));
        assert_eq!(level(clock(0.0, 0.1), &[]), None);
        let finding = clocks_apart(&clock(0.0, 0.0), &[replica(-4.25, 0.0)], 1).unwrap();
        assert!(finding.says.contains("10.0.0.2:6379 is 4.2 s behind"), "{finding:?}");
    }

    #[test]
    fn a_master_of_sentinels_needs_a_replica() {
        let required = followers(&Replication::read("role:master\r\n"), 1);
        assert!(required.level == Level::Danger && required.says.contains("?replicas=1"), "{required:?}");
        assert_eq!(followers(&Replication::read("role:master\r\n"), 0).level, Level::Danger);
    }

    #[test]
    fn replicas_that_do_not_follow_are_named() {
        let read =
            |replicas: &str| followers(&Replication::read(&format!("{replicas}master_repl_offset:9000000\r\n")), 1);
        let replica = |number, rest| format!("slave{number}:ip=10.0.0.{number},port=6379,{rest}\r\n");
        let fine = replica(1, "state=online,offset=8999000,lag=1");
        assert_eq!(read(&fine).level, Level::Fine);
        for late in
            ["state=online,offset=7000000,lag=0", "state=online,offset=9000000,lag=4", "state=send_bulk,offset=0"]
        {
            let finding = read(&format!("{fine}{}", replica(2, late)));
            assert_eq!(finding.level, Level::Advice, "{late}");
            let says = finding.says;
            assert!(says.contains("1 of 2 replicas") && says.contains("10.0.0.2:6379 ") && !says.contains("10.0.0.1:"));
            let is_only_behind = late == "state=online,offset=7000000,lag=0";
            let expected = if is_only_behind { Level::Advice } else { Level::Danger };
            assert_eq!(read(&replica(2, late)).level, expected, "{late}");
        }
    }

    #[test]
    fn sentinels_without_an_answer_are_advice_or_a_danger() {
        let level = |count, faults: usize| {
            let faults = vec![Error::unavailable("the sentinel 10.0.0.9:26379 has not answered"); faults];
            let finding = faulty_sentinels(count, &faults);
            assert!(finding.iter().all(|finding| finding.says.contains("10.0.0.9:26379")), "{finding:?}");
            finding.map(|finding| finding.level)
        };
        assert_eq!(level(3, 0), None);
        assert_eq!([level(3, 1), level(5, 2)], [Some(Level::Advice); 2]);
        assert_eq!([level(3, 2), level(2, 1), level(1, 1)], [Some(Level::Danger); 3]);
    }

    #[test]
    fn fewer_than_three_sentinels_and_even_numbers_have_advice() {
        let levels: Vec<_> = (1..=5).map(|count| number_of_sentinels(count).level).collect();
        assert_eq!(levels, [Level::Advice, Level::Advice, Level::Fine, Level::Advice, Level::Fine]);
    }
}
