//! Pauses of all jobs, and of nodes.

use bandog_schedule::{MAX_NODE, MAX_REASON, TestScheduler};

use super::*;

fn often(site: &Site, names: &[&str]) -> Vec<Job> {
    names.iter().map(|name| site.quick(Job::cron(name, EACH_SECOND))).collect()
}

// Promise: J8
#[tokio::test(start_paused = true)]
async fn a_pause_of_all_jobs_holds_for_present_and_later_jobs() {
    let site = Site::new();
    let _node = site.node(often(&site, &["x", "y"])).await;
    site.ok("x", 3).await;
    site.jobs.pause("y", "its own").await.unwrap();
    site.jobs.pause_all("the moon").await.unwrap();
    // The pause is in effect when the call returns, and not only after the next poll of the nodes.
    let (ok, began) = (site.show("x").await.ok, at(&site.show("x").await.watermark));
    let _other = site.node(often(&site, &["x", "y", "new"])).await;
    assert!(site.show("new").await.all_paused.is_some(), "the first record of a new job contains the pause");
    time::sleep(secs(10)).await;
    let row = site.show("x").await;
    assert_eq!((row.ok, row.skipped), (ok, 1));
    assert_eq!(at(&row.watermark).second() - began.second(), 1, "the first tick of the pause is recorded as skipped");
    assert_eq!(site.show("new").await.ok, 0, "{:?}", site.show("new").await);
    let all = site.jobs.pauses().await.unwrap().all.unwrap();
    assert_eq!((all.by.as_str(), all.reason.as_str()), ("ann@desk", "the moon"));
    for name in ["x", "y", "new"] {
        let row = site.show(name).await;
        assert_eq!((row.all_paused.as_ref(), row.next), (Some(&all), None));
        assert_eq!(row.paused.is_some(), name == "y");
    }
    assert_eq!(site.jobs.next(&Pattern::all(), 10).await.unwrap(), []);
    // A run by hand starts nevertheless.
    let before = site.show("x").await.ok;
    site.jobs.run("x").await.unwrap();
    site.ok("x", before + 1).await;

    assert!(site.jobs.resume_all().await.unwrap());
    assert_eq!(site.jobs.pauses().await.unwrap().all, None);
    let row = site.show("x").await;
    assert!(row.skipped >= 10 && row.missed == 0, "{row:?}");
    let skipped = site.jobs.history("x").await.unwrap();
    let skipped: Vec<u64> = skipped.iter().filter(|run| run.state == State::Skipped).map(|run| run.ticks).collect();
    assert_eq!(skipped, [row.skipped - 1, 1], "the first skipped tick, and the range of the others");
    site.ok("x", before + 3).await;
    assert!(site.show("new").await.ok >= 1);
    assert!(site.show("y").await.paused.is_some(), "the pause of the job itself stays in effect");
    assert!(!site.jobs.resume_all().await.unwrap());
}

// Promise: J8
#[tokio::test(start_paused = true)]
async fn a_pause_of_all_jobs_refuses_claims_of_nodes_that_do_not_know_it() {
    let jobs = || vec![Job::cron("x", "0/10 * * * * ?").run(async |_: Run| ())];
    // These nodes poll every 30 s.
    let test = TestScheduler::at("2026-01-01T00:00:01Z").replicas(3).start(jobs).await.unwrap();
    test.advance_to("2026-01-01T00:01:05Z").await;
    let before = test.runs().len();
    test.jobs().pause_all("now").await.unwrap();
    test.advance(secs(300)).await;
    assert_eq!(test.runs().len(), before);
    assert!(test.jobs().resume_all().await.unwrap());
    test.advance(secs(60)).await;
    assert!(test.runs().len() >= before + 3);
    let row = test.jobs().show("x").await.unwrap();
    assert_eq!((row.skipped, row.missed), (30, 0));
    test.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_pause_of_all_jobs_that_was_cut_short_reaches_every_job() {
    let site = Site::new();
    let _node = site.node(often(&site, &["x"])).await;
    site.ok("x", 2).await;
    let (client, key) = (site.client(None), Key::new("schedule/paused").unwrap());
    let mut from = None;
    for (number, paused) in [(7, r#"{"by":"ann","reason":"moon","at":"2026-06-01T00:00:00Z"}"#), (8, "null")] {
        let record = format!(r#"{{"all":{{"number":{number},"paused":{paused}}}}}"#);
        let done =
            client.records().swap(&[Swap::new(key.clone(), from, record)]).await.unwrap().each.remove(0).unwrap();
        let bandog_core::Swapped::Done(version) = done else { panic!("{done:?}") };
        from = version;
        let is_paused = number == 7;
        eventually_async(SOON, async || site.show("x").await.all_paused.is_some() == is_paused).await;
        // From now on the nodes have nothing to plan.
        time::sleep(secs(5)).await;
    }
    let ok = site.show("x").await.ok;
    site.ok("x", ok + 2).await;
}

// Promise: J8
#[tokio::test(start_paused = true)]
async fn the_ticks_of_a_node_that_is_paused_go_to_the_others() {
    let jobs = || vec![Job::cron("x", "0/10 * * * * ?").run(async |_: Run| ())];
    let mut test = TestScheduler::at("2026-01-01T00:00:01Z").replicas(2).start(jobs).await.unwrap();
    let replicas = |test: &TestScheduler, from: usize| -> Vec<usize> {
        let mut replicas: Vec<usize> = test.runs()[from..].iter().map(|run| run.replica).collect();
        replicas.sort_unstable();
        replicas.dedup();
        replicas
    };
    for replica in [0, 1] {
        test.jobs().pause_node(&format!("replica-{replica}"), "a new disk").await.unwrap();
        test.advance(secs(31)).await;
        let before = test.runs().len();
        test.advance(secs(120)).await;
        assert_eq!((test.runs().len() - before, replicas(&test, before)), (12, vec![1 - replica]));
        assert!(test.jobs().resume_node(&format!("replica-{replica}")).await.unwrap());
        assert!(!test.jobs().resume_node(&format!("replica-{replica}")).await.unwrap());
        test.advance(secs(31)).await;
    }
    // When all nodes are paused, nothing is claimed. The ticks are missed, not skipped.
    for replica in ["replica-0", "replica-1", "replica-2"] {
        test.jobs().pause_node(replica, "all of them").await.unwrap();
    }
    test.advance(secs(31)).await;
    let before = test.runs().len();
    // This node was paused before it started.
    test.join(jobs()).await.unwrap();
    test.advance(secs(300)).await;
    assert_eq!(test.runs().len(), before);
    assert!(test.jobs().resume_node("replica-2").await.unwrap());
    test.advance(secs(91)).await;
    assert_eq!(replicas(&test, before), [2]);
    let row = test.jobs().show("x").await.unwrap();
    assert!(row.skipped < 10 && row.missed > 10, "{row:?}");
    let nodes = test.jobs().pauses().await.unwrap().nodes;
    assert_eq!(nodes.keys().collect::<Vec<_>>(), ["replica-0", "replica-1"]);
    test.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_pause_of_a_machine_pauses_all_of_its_nodes_and_runs_under_way_continue() {
    let site = Site::new();
    let _node = site.node([site.held(Job::cron("x", NEVER))]).await;
    site.jobs.run("x").await.unwrap();
    site.jobs.run("x").await.unwrap();
    eventually_async(SOON, async || site.log() == ["1 begins"]).await;
    let name = site.show("x").await.live[0].node.clone().unwrap();
    let machine = name.rsplit_once(':').unwrap().0;
    site.jobs.pause_node(machine, "it is to be turned off").await.unwrap();
    time::sleep(secs(2)).await;
    site.gate.add_permits(2);
    site.ok("x", 1).await;
    time::sleep(secs(5)).await;
    assert_eq!(site.log(), ["1 begins", "1 ends"], "the second run waits, because its node is paused");
    assert!(site.jobs.resume_node(machine).await.unwrap());
    site.ok("x", 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_name_that_no_node_can_have_is_refused() {
    let site = Site::new();
    let text = "the name of a node must have 1 to 512 bytes and no control characters";
    let longest = "n".repeat(MAX_NODE);
    for name in ["", "a\nb", &format!("{longest}n")] {
        refused(site.jobs.pause_node(name, "x").await, text);
        let start = Scheduler::over(&site.client(None)).node(name).jobs(often(&site, &["x"])).start().await;
        refused(start.map(drop), text);
    }
    site.jobs.pause_node(&longest, "x").await.unwrap();
    assert!(site.jobs.resume_node(&longest).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_record_of_pauses_prevents_a_start_and_can_be_replaced() {
    let site = Site::new();
    let swap = Swap::new(Key::new("schedule/paused").unwrap(), None, "no pauses");
    site.client(None).records().swap(&[swap]).await.unwrap();
    let start = async || Scheduler::over(&site.client(None)).jobs(often(&site, &["x"])).start().await;
    let error = start().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "the node cannot know whether it is paused");
    assert!(error.to_string().contains("resuming all jobs replaces it"), "{error}");
    assert_eq!(site.jobs.pause_all("x").await.unwrap_err().kind(), ErrorKind::Corrupt);
    site.jobs.resume_all().await.unwrap();
    let _node = start().await.unwrap();
    site.ok("x", 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_reason_that_is_too_long_is_refused() {
    let site = Site::new();
    let _node = site.node([site.quick(Job::cron("x", NEVER))]).await;
    let (longest, longer) = ("r".repeat(MAX_REASON), "r".repeat(MAX_REASON + 1));
    let text = "the reason has 4097 bytes; the maximum is 4096";
    refused(site.jobs.pause("x", &longer).await, text);
    refused(site.jobs.pause_all(&longer).await, text);
    refused(site.jobs.pause_node("machine", &longer).await, text);
    assert_eq!(site.jobs.show("x").await.unwrap().paused, None);
    let pauses = site.jobs.pauses().await.unwrap();
    assert!(pauses.all.is_none() && pauses.nodes.is_empty());
    site.jobs.pause("x", &longest).await.unwrap();
    assert_eq!(site.jobs.show("x").await.unwrap().paused.unwrap().reason, longest);
}
