//! Queries of operators.

use bandog_schedule::NodeRow;

use super::*;

#[tokio::test(start_paused = true)]
async fn the_history_keeps_fifty_runs_of_a_kind_the_latest_first() {
    let site = Site::new();
    let odd = Job::cron("x", NEVER).run(async |run: Run| if run.id() % 2 == 1 { Err("odd") } else { Ok(()) });
    let _node = site.node([odd, site.quick(Job::cron("often", EACH_SECOND))]).await;
    for id in 1..=120 {
        assert_eq!(site.jobs.run("x").await.unwrap(), id);
    }
    eventually_async(SOON, async || site.show("x").await.ok + site.show("x").await.failed == 120).await;
    let history = site.jobs.history("x").await.unwrap();
    let lines: Vec<(u64, State)> = history.iter().map(|run| (run.id, run.state)).collect();
    let state = |id: u64| if id % 2 == 1 { State::Failed } else { State::Ok };
    assert_eq!(lines, (21..=120).rev().map(|id| (id, state(id))).collect::<Vec<_>>());
    assert!(history.windows(2).all(|two| at(two[0].ended.as_ref().unwrap()) >= at(two[1].ended.as_ref().unwrap())));
    let run = &history[1];
    assert_eq!((run.error.as_deref(), run.kind, run.attempt, run.ticks), (Some("odd"), Kind::Manual, 1, 1));
    assert!(run.node.is_some() && run.fence.is_some() && run.lag_ms.is_some() && !run.orphaned, "{run:?}");
    let row = site.show("x").await;
    assert_eq!((row.ok, row.failed, row.last.unwrap().id), (60, 60, 120));

    for _ in 0..55 {
        site.jobs.pause("often", "x").await.unwrap();
        time::sleep(secs(2)).await;
        site.jobs.resume("often").await.unwrap();
    }
    let history = site.jobs.history("often").await.unwrap();
    let skipped = history.iter().filter(|run| run.state == State::Skipped).count();
    assert_eq!(skipped, 50, "ranges of skipped ticks do not replace the lines of runs");
    assert!(history.iter().any(|run| run.state == State::Ok));
}

#[tokio::test(start_paused = true)]
async fn jobs_are_listed_by_pattern_and_within_a_prefix() {
    let site = Site::new();
    let names = ["order-1", "order-2", "order-10", "stock", "what*?"];
    let _node = site.node(names.map(|name| site.quick(Job::cron(name, NEVER)))).await;
    let scheduler = Scheduler::over(&site.client(Some("shop:"))).job(site.quick(Job::cron("order-1", "0 0 3 * * ?")));
    let _other = scheduler.start().await.unwrap();
    let list = async |jobs: &Jobs, pattern: &str| -> Vec<String> {
        jobs.list(&Pattern::new(pattern)).await.unwrap().into_iter().map(|job| job.name).collect()
    };
    assert_eq!(list(&site.jobs, "*").await, ["order-1", "order-10", "order-2", "stock", "what*?"]);
    assert_eq!(list(&site.jobs, "order-?").await, ["order-1", "order-2"]);
    assert_eq!(list(&site.jobs, "what\\*\\?").await, ["what*?"]);
    assert_eq!(list(&site.jobs, "nothing*").await, [""; 0]);
    assert_eq!(site.show("what*?").await.name, "what*?");

    let shop = Jobs::over(&site.client(Some("shop:")));
    assert_eq!(list(&shop, "*").await, ["order-1"]);
    assert_eq!(shop.show("order-1").await.unwrap().trigger, "cron 0 0 3 * * ?");
    shop.pause("order-1", "x").await.unwrap();
    assert_eq!(site.show("order-1").await.paused, None);
    shop.run("order-1").await.unwrap();
    eventually_async(SOON, async || shop.show("order-1").await.unwrap().ok == 1).await;
    assert_eq!(site.show("order-1").await.ok, 0);
    refused(shop.show("stock").await, "it knows \"order-1\"");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_name_is_an_error_with_similar_names() {
    let site = Site::new();
    refused(site.jobs.show("x").await, "the store knows no job \"x\"; it knows none");
    let names: Vec<String> = (10..30).map(|number| format!("report-of-{number}")).chain(["sweep".into()]).collect();
    let _node = site.node(names.iter().map(|name| site.quick(Job::cron(name, NEVER)))).await;
    refused(site.jobs.show("sweeep").await, "did you mean \"sweep\"?");
    refused(site.jobs.show("SWEEP").await, "did you mean \"sweep\"?");
    refused(site.jobs.show("report-10").await, "did you mean \"report-of-10\" or ");
    refused(site.jobs.show("quite another").await, "\"report-of-19\", …");
    refused(site.jobs.run("sweeep").await, "did you mean");
    refused(site.jobs.pause("sweeep", "x").await, "did you mean");
    refused(site.jobs.resume("sweeep").await, "did you mean");
    refused(site.jobs.cancel("sweeep", None).await, "did you mean");
    refused(site.jobs.history("sweeep").await, "did you mean");
    refused(site.jobs.show("").await, "");
    refused(site.jobs.show("a\nb").await, "");
}

#[tokio::test(start_paused = true)]
async fn the_next_ticks_of_all_jobs_come_in_the_order_of_time() {
    let site = Site::new();
    let jobs = [
        Job::cron("each", "0/10 * * * * ?"),
        Job::fixed_rate("rate", secs(7)),
        Job::fixed_delay("delay", secs(3600)),
        Job::cron("off", EACH_SECOND).disabled(),
        Job::cron("paused", EACH_SECOND),
        Job::cron("spread", "0 1 0 * * ?").jitter(secs(30)),
        Job::at("then", at("2026-06-01T00:00:15Z")),
    ];
    let node = site.node(jobs.map(|job| site.quick(job))).await;
    site.jobs.pause("paused", "x").await.unwrap();
    site.ok("delay", 1).await;
    node.stop().await.unwrap();
    let fires = site.jobs.next(&Pattern::all(), 100).await.unwrap();
    assert_eq!(fires.len(), 100);
    assert!(fires.windows(2).all(|two| at(&two[0].tick) <= at(&two[1].tick)), "{fires:?}");
    let of = |name: &str| fires.iter().filter(|fire| fire.job == name).count();
    assert_eq!((of("off"), of("paused"), of("delay"), of("then")), (0, 0, 0, 1));
    let only = async |name: &str| site.jobs.next(&Pattern::new(name), 100).await.unwrap();
    assert_eq!(only("delay").await.len(), 1);
    assert!(fires.iter().filter(|fire| fire.job != "spread").all(|fire| fire.tick == fire.due));
    let spread = &only("spread").await[..3];
    assert!(spread.iter().all(|fire| at(&fire.due) >= at(&fire.tick)), "{spread:?}");
    assert!(spread.iter().any(|fire| at(&fire.due) > at(&fire.tick)), "{spread:?}");
    for fire in &fires[..10] {
        let next = site.show(&fire.job).await.next.unwrap();
        assert!(at(&next) <= at(&fire.tick), "{fire:?} {next}");
    }
    assert_eq!(site.jobs.next(&Pattern::all(), 0).await.unwrap(), []);
    // Ticks that passed without a node are not listed.
    time::advance(secs(3600)).await;
    let now = site.jobs.now().await.unwrap();
    let fires = site.jobs.next(&Pattern::new("rate"), 10).await.unwrap();
    assert!(fires.iter().all(|fire| at(&fire.tick) > now), "{now} {fires:?}");
    assert_eq!((fires.len(), only("then").await.len()), (10, 0));
    assert!(at(&site.show("each").await.next.unwrap()) > now);
}

#[tokio::test(start_paused = true)]
async fn the_store_knows_the_settings_of_an_expression() {
    let site = Site::new();
    let says = |days, daylight| {
        let job = |name: &str, text: &str| Job::cron(name, text).zone("America/New_York");
        let jobs = [
            job("friday", "0 0 9 13 * FRI").day_match(days),
            // On this day the clocks are set back, so this local time occurs twice.
            job("twice", "0 30 1 1 11 ?").daylight(daylight),
            job("once", "0 30 1 1 11 ?"),
        ];
        jobs.map(|job| site.quick(job))
    };
    let next = async |name: &str| {
        let fires = site.jobs.next(&Pattern::new(name), 2).await.unwrap();
        fires.into_iter().map(|fire| fire.tick).collect::<Vec<_>>()
    };
    let node = site.node(says(DayMatch::And, Daylight::Elapsed)).await;
    assert_eq!(next("friday").await, ["2026-11-13T14:00:00Z", "2027-08-13T13:00:00Z"]);
    assert_eq!(next("twice").await, ["2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"]);
    assert_eq!(
        next("once").await,
        ["2026-11-01T05:30:00Z", "2027-11-01T05:30:00Z"],
        "with the default rule (pinned), the tick fires once"
    );
    node.stop().await.unwrap();
    // A change of these settings is a change of the trigger, so earlier ticks do not count as missed.
    time::advance(secs(5 * 24 * 3600)).await;
    let node = site.node(says(DayMatch::Or, Daylight::Pinned)).await;
    time::sleep(secs(1)).await;
    assert_eq!(next("friday").await, ["2026-06-12T13:00:00Z", "2026-06-13T13:00:00Z"]);
    assert_eq!(next("twice").await, ["2026-11-01T05:30:00Z", "2027-11-01T05:30:00Z"]);
    assert_eq!((site.show("friday").await.missed, site.log().len()), (0, 0));
    node.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn each_node_is_listed_once_while_it_runs() {
    let site = Site::new();
    assert_eq!(site.jobs.nodes().await.unwrap(), []);
    let jobs = || [Job::cron("x", NEVER), Job::cron("short", NEVER).lease(secs(5))].map(|job| site.quick(job));
    let nodes = [site.node(jobs()).await, site.node(jobs()).await];
    time::sleep(secs(5)).await;
    let seen = site.jobs.nodes().await.unwrap();
    assert_eq!(seen.len(), 2, "each node has two sessions, but is listed once: {seen:?}");
    let here = format!(":{}", std::process::id());
    let is_here = |node: &NodeRow| node.node.ends_with(&here) && node.program.is_some() && node.since.is_some();
    assert!(seen.iter().all(is_here), "{seen:?}");
    assert_eq!(Jobs::over(&site.client(Some("shop:"))).nodes().await.unwrap(), [], "another prefix is another cluster");
    for node in nodes {
        node.stop().await.unwrap();
    }
    assert_eq!(site.jobs.nodes().await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_record_is_left_out_and_can_be_forgotten() {
    let site = Site::new();
    let _node = site.node([site.quick(Job::cron("x", NEVER))]).await;
    let swap = Swap::new(Key::new("job/odd").unwrap(), None, "no job");
    site.client(None).records().swap(&[swap]).await.unwrap();
    let listed = site.jobs.list(&Pattern::all()).await.unwrap();
    assert_eq!(listed.iter().map(|job| job.name.as_str()).collect::<Vec<_>>(), ["x"]);
    assert_eq!(site.jobs.show("odd").await.unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(site.jobs.run("odd").await.unwrap_err().kind(), ErrorKind::Corrupt);
    site.jobs.forget("odd").await.unwrap();
    refused(site.jobs.show("odd").await, "knows no job");
}

#[tokio::test(start_paused = true)]
async fn now_is_the_stores_time() {
    let site = Site::new();
    time::sleep(secs(100)).await;
    assert_eq!(site.jobs.now().await.unwrap().to_string(), "2026-06-01T00:01:40Z");
}

#[tokio::test(start_paused = true)]
async fn nodes_are_listed_with_their_names_and_time_zones() {
    let site = Site::new();
    let (client, key) = (site.client(None), Key::new("schedule/nodes").unwrap());
    // The entry of a node whose session is not held.
    let gone =
        r#"{"00000000-0000-4000-8000-000000000000:1":{"session":"schedule/node/7","node":"gone","zones":"2001a"}}"#;
    client.records().swap(&[Swap::new(key.clone(), None, gone)]).await.unwrap();
    let named = |name: &str| {
        let short = site.quick(Job::cron("short", NEVER).lease(secs(5)));
        Scheduler::over(&client).node(name).job(site.quick(Job::cron("x", NEVER))).job(short).start()
    };
    // Two schedulers of one client are two nodes.
    let nodes = [named("left").await.unwrap(), named("right").await.unwrap()];
    eventually_async(SOON, async || site.jobs.nodes().await.unwrap().len() == 2).await;
    let seen = site.jobs.nodes().await.unwrap();
    assert_eq!(seen.iter().map(|node| node.node.as_str()).collect::<Vec<_>>(), ["left", "right"]);
    assert!(seen.iter().all(|node| node.zones.as_deref() == Some(bandog_cron::Zone::table())), "{seen:?}");
    site.jobs.pause_node("left", "a new disk").await.unwrap();
    let seen = site.jobs.nodes().await.unwrap();
    assert_eq!(seen.iter().map(|node| node.paused.is_some()).collect::<Vec<_>>(), [true, false]);
    let reading = client.records().read(&[key], &[]).await.unwrap();
    let lines = reading.records.into_iter().next().unwrap().unwrap().unwrap().value;
    assert!(!lines.contains("gone"), "a node that has ended is left out: {lines}");
    for node in nodes {
        node.stop().await.unwrap();
    }
}
