//! The findings of `doctor`, with a real server for each relevant setting.

use bandog_core::{Finding, Inspect, Level};
use bandog_redis::{Redis, RedisOptions};
use bandog_testkit::RedisServer;

use crate::help::{at, operator};

#[tokio::test]
async fn a_well_configured_server_has_only_fine_findings() {
    let server = RedisServer::start();
    server.cmd(&["CONFIG", "SET", "appendonly", "yes"]);
    let findings = operator(&server).check().await.unwrap();
    // The rights for locks do not include CLIENT TRACKING, which only queues use.
    let subjects = findings.iter().map(|finding| finding.subject.as_str()).filter(|subject| *subject != "tracking");
    let subjects: Vec<&str> = subjects.collect();
    let known =
        ["version", "maxmemory-policy", "persistence", "field-ttl", "replication", "clock", "scripts", "rights"];
    assert_eq!(subjects, known);
    for finding in findings.iter().filter(|finding| finding.subject != "rights" || can_check_rights()) {
        assert_eq!((finding.level, &finding.cure), (Level::Fine, &None), "{finding:?}");
    }
    assert_eq!(server.keys(), [""; 0], "the check has written keys");
    let page = include_str!("../../../../docs/redis.md");
    for subject in known.iter().chain(&["tls", "cluster", "tracking", "slot-share"]) {
        assert!(page.contains(&format!("\n| `{subject}` |")), "docs/redis.md does not mention {subject}");
    }
    let version = RedisServer::version().to_string();
    assert!(findings[0].says.contains(&version), "{version}: {:?}", findings[0]);
}

// Promise: RD11
#[tokio::test]
async fn a_policy_that_evicts_is_a_danger() {
    let server = RedisServer::start();
    server.cmd(&["CONFIG", "SET", "maxmemory", "100mb"]);
    for policy in ["volatile-lru", "volatile-ttl", "volatile-random", "allkeys-lru", "allkeys-random"] {
        server.cmd(&["CONFIG", "SET", "maxmemory-policy", policy]);
        let finding = found(&server, "maxmemory-policy").await;
        assert_eq!(finding.level, Level::Danger);
        assert!(finding.says.contains(policy) && finding.cure.unwrap().contains("noeviction"));
    }
    for (policy, drops_all) in [("allkeys-lfu", true), ("volatile-lfu", false)] {
        server.cmd(&["CONFIG", "SET", "maxmemory-policy", policy]);
        let finding = found(&server, "maxmemory-policy").await;
        assert_eq!(finding.says.contains("whole queues and maps"), drops_all, "{finding:?}");
    }
    server.cmd(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    assert_eq!(found(&server, "maxmemory-policy").await.level, Level::Fine);
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    let finding = found(&server, "maxmemory-policy").await;
    assert_eq!(finding.level, Level::Danger, "full: {finding:?}");
    server.cmd(&["CONFIG", "SET", "maxmemory-policy", "volatile-lru"]);
    server.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(found(&server, "maxmemory-policy").await.level, Level::Fine, "without a limit");
}

#[tokio::test]
async fn notifications_of_queues_and_ttls_of_fields_are_reported_as_the_server_has_them() {
    let server = limited();
    let has_field_ttl = server.cmd(&["COMMAND", "INFO", "HPEXPIRE"]).array()[0] != bandog_testkit::Reply::Nil;
    let finding = found_by_u(&server, "field-ttl").await;
    assert_eq!((finding.level, finding.says.contains("has a ttl")), (Level::Fine, has_field_ttl), "{finding:?}");
    if !can_check_rights() {
        return; // The server has no ACL DRYRUN, which the check of rights needs.
    }
    for (rule, part) in [("+client", "\"u\" may run CLIENT TRACKING"), ("-client|tracking", "\"u\" may not run CLIENT")]
    {
        server.cmd(&["ACL", "SETUSER", "u", rule]);
        let finding = found_by_u(&server, "tracking").await;
        assert!(finding.level == Level::Fine && finding.says.contains(part), "{rule}: {finding:?}");
    }
}

#[tokio::test]
async fn a_server_without_persistence_is_reported() {
    let server = RedisServer::start();
    let finding = found(&server, "persistence").await;
    assert_eq!(finding.level, Level::Advice);
    assert!(finding.says.contains("nothing is kept"), "{finding:?}");
    server.cmd(&["CONFIG", "SET", "save", "3600 1"]);
    let finding = found(&server, "persistence").await;
    assert_eq!(finding.level, Level::Advice);
    assert!(finding.says.contains("snapshots only"), "{finding:?}");
    server.cmd(&["CONFIG", "SET", "appendonly", "yes"]);
    assert_eq!(found(&server, "persistence").await.level, Level::Fine);
}

// Promise: RD11
#[tokio::test]
async fn replicas_are_reported_and_a_server_that_is_a_replica_is_a_danger() {
    let (server, follower) = (RedisServer::start(), RedisServer::start());
    assert_eq!(found(&server, "replication").await.level, Level::Fine);
    follower.cmd(&["REPLICAOF", "127.0.0.1", &server.port().to_string()]);
    bandog_testkit::eventually_async(crate::help::SOON * 2, async || {
        let finding = found(&server, "replication").await;
        if finding.level == Level::Advice { Ok(finding) } else { Err(finding) }
    })
    .await;
    let finding = found(&follower, "replication").await;
    assert_eq!(finding.level, Level::Danger);
    assert!(finding.says.contains("read-only"), "{finding:?}");
    follower.cmd(&["CONFIG", "SET", "replica-read-only", "no"]);
    let finding = found(&follower, "replication").await;
    assert_eq!(finding.level, Level::Danger);
    assert!(finding.says.contains("accepts writes"), "{finding:?}");
}

#[tokio::test]
async fn a_master_with_replicas_has_findings_about_them() {
    let master = RedisServer::start_with(&["--repl-diskless-sync-delay", "0"]);
    let replica = RedisServer::replica_of(&master);
    let subjects = async || {
        let findings = operator(&master).check().await.unwrap();
        findings.into_iter().map(|finding| (finding.subject, finding.level)).collect::<Vec<_>>()
    };
    let levels = async || {
        let all = subjects().await;
        let level = |name: &str| all.iter().find(|(subject, _)| subject == name).map(|(_, level)| *level);
        ["replicas", "min-replicas-to-write", "clocks", "sentinels"].map(level)
    };
    assert_eq!(levels().await, [Some(Level::Fine), Some(Level::Advice), Some(Level::Fine), None]);
    let page = include_str!("../../../../docs/redis.md");
    for subject in ["replicas", "min-replicas-to-write", "clocks", "sentinels"] {
        assert!(page.contains(&format!("\n| `{subject}` |")), "docs/redis.md does not mention {subject}");
    }
    // The command in the finding works.
    let cure = found(&master, "min-replicas-to-write").await.cure.unwrap();
    for command in cure.split("CONFIG SET ").skip(1) {
        let words: Vec<&str> = command.split([' ', ',', ';']).take(2).collect();
        assert_eq!(master.cmd(&["CONFIG", "SET", words[0], words[1]]).text(), "OK", "{cure}");
    }
    assert_eq!(found(&master, "min-replicas-to-write").await.level, Level::Fine);
    let url = format!("redis://u:p@{}", master.addr());
    master.cmd(&["ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all", "-config"]);
    assert_eq!(found_at(&url, "min-replicas-to-write").await.level, Level::Fine, "INFO says that it is in use");
    // A replica that gets nothing.
    replica.stream().stall(true);
    let finding = bandog_testkit::eventually_async(crate::help::SOON * 3, async || {
        let finding = found(&master, "replicas").await;
        if finding.level == Level::Advice { Ok(finding) } else { Err(finding) }
    })
    .await;
    assert!(finding.says.contains(&format!("{} ", replica.addr())), "{finding:?}");
    // Before Redis 7, the scripts that each check loads are part of the stream. So the replica is soon far behind.
    let is_silent = finding.says.contains("has sent nothing for");
    assert!(is_silent || !RedisServer::version().is_since(7, 0), "{finding:?}");
}

#[tokio::test]
async fn two_sentinels_have_advice() {
    for (count, level) in [(2, Level::Advice), (3, Level::Fine)] {
        let master = RedisServer::start_with(&["--repl-diskless-sync-delay", "0"]);
        let _replica = RedisServer::replica_of(&master);
        let _sentinels = bandog_testkit::Sentinels::start(count, &master, "orders");
        let finding = found(&master, "sentinels").await;
        assert_eq!(finding.level, level, "{finding:?}");
        assert!(finding.says.contains(&format!("{count} sentinels")), "{finding:?}");
    }
}

/// Without a replica, sentinels have no server that can take over.
#[tokio::test]
async fn a_master_of_sentinels_without_replicas_is_a_danger() {
    let master = RedisServer::start();
    let sentinels = bandog_testkit::Sentinels::start(2, &master, "orders");
    let url = sentinels.url().replacen("://", &format!("://{}@", RedisServer::OPERATOR), 1);
    let levels =
        ["replicas", "min-replicas-to-write", "sentinels"].map(async |subject| found_at(&url, subject).await.level);
    assert_eq!(futures_util::future::join_all(levels).await, [Level::Danger, Level::Advice, Level::Advice]);
    let finding = found_at(&url, "replication").await;
    assert_eq!(finding.level, Level::Advice, "{finding:?}");
}

/// The URL of a single server leads to a sentinel.
#[tokio::test]
async fn a_sentinel_is_no_server() {
    let master = RedisServer::start();
    let sentinels = bandog_testkit::Sentinels::start(1, &master, "orders");
    let redis = at(&format!("redis://{}", sentinels[0].addr()));
    let error = crate::help::take(&redis, &crate::help::claim("orders")).await.unwrap_err();
    assert!(error.to_string().contains("redis+sentinel://"), "{error}");
}

// Promise: RD11
#[tokio::test]
async fn a_node_of_a_cluster_is_a_danger() {
    let server = RedisServer::start_node();
    assert_eq!(found(&server, "cluster").await.level, Level::Danger);
}

#[tokio::test]
async fn settings_are_read_from_info_or_from_config() {
    let server = limited();
    server.cmd(&["CONFIG", "SET", "maxmemory", "100mb"]);
    server.cmd(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    for (denied, levels) in [
        ("-config", [Level::Danger, Level::Advice, Level::Fine, Level::Fine]),
        ("-info", [Level::Danger, Level::Advice, Level::Advice, Level::Advice]),
    ] {
        server.cmd(&["ACL", "SETUSER", "u", "+@all", denied]);
        for (subject, level) in ["maxmemory-policy", "persistence", "replication", "version"].into_iter().zip(levels) {
            let finding = found_by_u(&server, subject).await;
            assert_eq!(finding.level, level, "{denied}: {finding:?}");
        }
    }
    server.cmd(&["ACL", "SETUSER", "u", "+@all", "-config", "-info"]);
    for subject in ["maxmemory-policy", "persistence", "replication", "version"] {
        let finding = found_by_u(&server, subject).await;
        assert_eq!(finding.level, Level::Advice, "{finding:?}");
        assert!(finding.says.contains("could not be checked: NOPERM") && finding.cure.unwrap().contains("check `"));
    }
}

#[tokio::test]
async fn missing_rights_are_named() {
    let server = limited();
    for (rules, level, part) in [
        (&[][..], Level::Fine, "all commands that locks, schedules and latches"),
        (&["-pexpire", "-hset"], Level::Danger, "HSET, PEXPIRE"),
        (&["-evalsha", "-eval"], Level::Danger, "EVALSHA"),
        (&["-evalsha"], Level::Fine, "latches need"),
        (&["-publish"], Level::Advice, "PUBLISH"),
        (&["-scan"], Level::Advice, "ls"),
        (&["-zadd"], Level::Advice, "ZADD, so operators see"),
        (
            &["resetkeys", "~bandog:clien*", "~bandog:r*", "~bandog:h*", "~bandog:p*", "~redisson*", "~{*"],
            Level::Advice,
            "bandog:starving:*, so a client",
        ),
        (&["-zrange"], Level::Advice, "ZRANGE, which show"),
        (&["-zincrby", "-rpush"], Level::Advice, "RPUSH, ZINCRBY, which fair mutexes"),
        (
            &["resetkeys", "~bandog:[cpr]*", "~bandog:starving:*", "~bandog:his*", "~redisson_lock_token:*"],
            Level::Advice,
            "SET {bandog:probe}:x:rwlock_timeout:1 1 is refused, which fair mutexes",
        ),
        (
            &["resetchannels", "&redisson_lock__channel:*"],
            Level::Advice,
            "SUBSCRIBE redisson_rwlock:{bandog:probe} is refused, which fair mutexes",
        ),
        (&["-hget"], Level::Advice, "HGET, which fair mutexes"),
        (&["-hmget", "-sscan"], Level::Advice, "HMGET"),
        (&["-sscan"], Level::Advice, "SSCAN, which schedules need"),
        (&["-decrby"], Level::Advice, "DECRBY, which latches need"),
        (
            &["resetchannels", "&redisson_lock__channel:*", "&redisson_rwlock:*", "&redisson_sc:*"],
            Level::Advice,
            "which latches need; locks",
        ),
        (&["resetkeys", "~orders:*"], Level::Advice, "all keys and channels"),
        (&["resetchannels"], Level::Advice, "all keys and channels"),
        (&["-acl"], Level::Advice, "could not be checked"),
    ] {
        server.cmd(&[&["ACL", "SETUSER", "u", "+@all", "~*", "&*"], rules].concat());
        let finding = found_by_u(&server, "rights").await;
        if !can_check_rights() {
            assert!(finding.level == Level::Advice && finding.says.contains("could not be checked"), "{finding:?}");
            continue;
        }
        assert_eq!(finding.level, level, "{rules:?}: {finding:?}");
        assert!(finding.says.contains(part), "{rules:?}: {finding:?}");
        assert_eq!(finding.cure.is_none(), level == Level::Fine);
    }
}

#[tokio::test]
async fn rights_that_acknowledgements_need_are_checked() {
    if !can_check_rights() {
        return; // The server has no ACL DRYRUN, which the check of rights needs.
    }
    let server = limited();
    let options = RedisOptions::from_url(&format!("redis://u:p@{}", server.addr())).unwrap();
    let redis = Redis::new(options.replicas(1)).unwrap();
    let rights = async || {
        let findings = redis.check().await.unwrap();
        findings.into_iter().find(|finding| finding.subject == "rights").unwrap()
    };
    for (rules, part) in [
        (&["-wait"][..], "WAIT 1 1, which every lock needs with replicas="),
        (&["-info", "-wait"], "WAIT 1 1 and INFO replication, which every lock"),
        (&["-info"], "INFO replication, which every lock"),
        (&["resetkeys", "~[^b]*", "~bandog:[^a]*"], "SET bandog:ack and PEXPIRE bandog:ack 1, which every lock"),
    ] {
        server.cmd(&[&["ACL", "SETUSER", "u", "+@all", "~*", "&*"], rules].concat());
        assert_eq!(found_by_u(&server, "rights").await.level, Level::Fine, "{rules:?}, without replicas=");
        let finding = rights().await;
        assert!(finding.level == Level::Danger && finding.says.contains(part), "{rules:?}: {finding:?}");
        let cure = finding.cure.unwrap();
        assert_eq!(server.cmd(&cure.split(' ').collect::<Vec<_>>()).text(), "OK", "{cure}");
        assert_eq!(rights().await.level, Level::Fine, "{cure}");
    }
}

#[tokio::test]
async fn the_rights_of_a_user_confined_to_a_prefix_are_checked_for_that_prefix() {
    if !can_check_rights() {
        return; // The server has no ACL DRYRUN, which the check of rights needs.
    }
    let server = limited();
    let keys = "~orders:* ~redisson_lock_token:{orders:* ~bandog:starving:{orders:* ~bandog:client:* ~bandog:clients";
    let records = "~bandog:record:{orders:* ~bandog:history:{orders:* ~bandog:records";
    let latches = "~bandog:ops:{orders:* &redisson_countdownlatch__channel__{orders:*";
    let other_kinds = "~{orders:* ~redisson_lock_queue:{orders:* ~redisson_lock_timeout:{orders:* ~bandog:held:{orders:* \
                       ~bandog:writers:{orders:* ~bandog:waiting:{orders:* ~bandog:order:{orders:* ~bandog:stayed:{orders:* ~bandog:limit:{orders:*";
    let channels = "&redisson_rwlock:{orders:* &redisson_sc:{orders:*";
    let page = include_str!("../../../../docs/redis.md");
    assert!(page.contains(&format!("`{latches}`")));
    assert!(page.contains(&format!("`{other_kinds}`")) && page.contains(&format!("`{channels}`")));
    let channels = format!("&redisson_lock__channel:{{orders:* {channels}");
    let rules = format!("resetkeys {keys} {other_kinds} {records} resetchannels {channels} {latches}");
    server.cmd(&[&["ACL", "SETUSER", "u"], &rules.split(' ').collect::<Vec<_>>()[..]].concat());
    for (prefix, level) in [("orders:", Level::Fine), ("", Level::Advice), ("stock:", Level::Advice)] {
        let redis = at(&format!("redis://u:p@{}", server.addr()));
        let findings = redis.check_for(prefix).await.unwrap();
        let rights = findings.into_iter().find(|finding| finding.subject == "rights").unwrap();
        assert_eq!(rights.level, level, "{prefix:?}: {rights:?}");
    }
    // The keys of plain semaphores are only needed if the URL selects them.
    for (rules, level) in [("+ping", Level::Advice), ("~bandog:plain:{orders:* ~bandog:leases:{orders:*", Level::Fine)]
    {
        server.cmd(&[&["ACL", "SETUSER", "u"], &rules.split(' ').collect::<Vec<_>>()[..]].concat());
        let redis = at(&format!("redis://u:p@{}?semaphores=plain", server.addr()));
        let findings = redis.check_for("orders:").await.unwrap();
        let rights = findings.into_iter().find(|finding| finding.subject == "rights").unwrap();
        assert_eq!(rights.level, level, "{rules}: {rights:?}");
        assert_eq!(rights.says.contains("bandog:plain:{orders:"), level == Level::Advice, "{rights:?}");
    }
}

#[tokio::test]
async fn the_cure_for_a_missing_right_works() {
    let server = limited();
    server.cmd(&["ACL", "SETUSER", "u", "-pexpire", "-hset", "-time"]);
    let cure = found_by_u(&server, "rights").await.cure.unwrap();
    if !can_check_rights() {
        assert!(cure.contains("ACL GETUSER"), "{cure}");
        return;
    }
    let words: Vec<&str> = cure.split(' ').collect();
    assert_eq!(server.cmd(&words).text(), "OK", "{cure}");
    assert_eq!(found_by_u(&server, "rights").await.level, Level::Fine);
}

#[tokio::test]
async fn all_gaps_in_the_rights_are_reported_at_once() {
    if !can_check_rights() {
        return; // The server has no ACL DRYRUN, which the check of rights needs.
    }
    let server = limited();
    let reset = ["ACL", "SETUSER", "u", "+@all", "~*", "&*"];
    let rights = async |redis: &Redis, prefix: &str| -> Vec<Finding> {
        let findings = redis.check_for(prefix).await.unwrap();
        findings.into_iter().filter(|finding| finding.subject == "rights").collect()
    };
    let commands = ["-hset", "-time", "-set", "-publish", "-zadd", "-lrange", "-scan", "-hgetall", "-decrby", "-wait"];
    let few_names = ["resetkeys", "~bandog:clients", "resetchannels", "&redisson_rwlock:*"];
    for (rules, prefix, least) in [
        (
            &commands[..],
            "",
            &["HSET, which every", "WAIT 1 1, which every", "PUBLISH, so", "ZADD, so", "LRANGE", "SCAN"][..],
        ),
        (
            &few_names,
            "shop:",
            &["PEXPIRE bandog:ack 1, which every", "all keys and channels", "starving", "other kinds", "latches"],
        ),
        (&few_names, "", &["PEXPIRE bandog:ack 1, which every", "all keys and channels", "other kinds", "latches"]),
        (&[&commands[..], &few_names].concat(), "shop:", &["HSET", "WAIT", "PUBLISH", "all keys", "starving", "ZADD"]),
    ] {
        server.cmd(&[&reset, rules].concat());
        let options = RedisOptions::from_url(&format!("redis://u:p@{}", server.addr())).unwrap();
        let redis = Redis::new(options.replicas(1)).unwrap();
        let found = rights(&redis, prefix).await;
        let at = |part: &&str| found.iter().position(|finding| finding.says.contains(*part));
        let positions: Vec<_> = least.iter().map(at).collect();
        assert!(positions.iter().all(Option::is_some) && positions.is_sorted(), "{rules:?}: {found:#?}");
        assert!(positions[0] == Some(0), "{rules:?}: {found:#?}");
        assert!(found.is_sorted_by_key(|finding| std::cmp::Reverse(finding.level)), "{found:#?}");
        let mut words = std::collections::BTreeSet::new();
        for cure in found.into_iter().filter_map(|finding| finding.cure) {
            let rules: Vec<&str> =
                cure.split(';').next().unwrap().split(' ').map(|word| word.trim_matches('\'')).collect();
            assert!(rules[3..].iter().all(|word| words.insert(word.to_string())), "{cure}: a right is named twice");
            assert_eq!(server.cmd(&rules).text(), "OK", "{cure}");
        }
        let found = rights(&redis, prefix).await;
        assert!(found.len() == 1 && found[0].level == Level::Fine, "{words:?}: {found:#?}");
    }
}

#[tokio::test]
async fn scripts_that_cannot_be_loaded_are_reported() {
    let server = limited();
    server.cmd(&["ACL", "SETUSER", "u", "-script"]);
    let finding = found_by_u(&server, "scripts").await;
    assert_eq!(finding.level, Level::Advice);
    assert!(finding.cure.unwrap().contains("SCRIPT LOAD"));
    server.cmd(&["ACL", "SETUSER", "u", "-eval"]);
    let finding = found_by_u(&server, "scripts").await;
    assert_eq!(finding.level, Level::Danger, "{finding:?}");
    assert!(finding.cure.unwrap().contains("or EVAL"));
}

#[tokio::test]
async fn a_server_that_runs_no_script_is_a_danger() {
    let server = RedisServer::start_with(&["--rename-command", "EVALSHA", ""]);
    let finding = found(&server, "scripts").await;
    assert_eq!(finding.level, Level::Danger, "{finding:?}");
    let server = RedisServer::start();
    server.cmd(&["ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all", "-evalsha"]);
    assert_eq!(found_by_u(&server, "scripts").await.level, Level::Fine, "EVAL is enough");
    server.cmd(&["ACL", "SETUSER", "u", "-eval"]);
    assert_eq!(found_by_u(&server, "scripts").await.level, Level::Danger);
}

#[tokio::test]
async fn a_check_of_an_unreachable_server_fails() {
    let server = RedisServer::start();
    server.kill();
    let error = operator(&server).check().await.unwrap_err();
    assert_eq!(error.verb(), Some("check"));
}

/// Whether the rights of a user can be checked: `ACL DRYRUN` exists since Redis 7.
fn can_check_rights() -> bool {
    RedisServer::version().is_since(7, 0)
}

/// A server with a user `u`, whose rights the tests restrict.
fn limited() -> RedisServer {
    let server = RedisServer::start();
    server.cmd(&["ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all"]);
    server
}

async fn found(server: &RedisServer, subject: &str) -> Finding {
    found_at(&format!("redis://{}@{}", RedisServer::OPERATOR, server.addr()), subject).await
}

async fn found_by_u(server: &RedisServer, subject: &str) -> Finding {
    found_at(&format!("redis://u:p@{}", server.addr()), subject).await
}

async fn found_at(url: &str, subject: &str) -> Finding {
    let findings = at(url).check().await.unwrap();
    let finding = findings.into_iter().find(|finding| finding.subject == subject);
    finding.unwrap_or_else(|| panic!("there is no finding about {subject}"))
}
