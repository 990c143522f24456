//! Jobs of a cluster: timers, a lock for each tick, and a job that the cluster claims once per tick.

use std::sync::mpsc::channel;
use std::thread::sleep;
use std::time::Duration;

use bandog::backend::Clock;
use bandog::schedule::{Job, Run, Scheduler};
use bandog_testkit::{RedisServer, eventually};
use tokio::runtime::Runtime;

use crate::node::{Event, Node};
use crate::replica::Replica;
use crate::stage::Stage;
use crate::{Result, say};

/// The difference between two clocks of the replicas.
const APART: Duration = Duration::from_millis(300);

/// Each replica has a timer.
pub(crate) fn crond(stage: &Stage) -> Result {
    for name in ["A", "B", "C"] {
        stage.begin_report(name, "10:00");
    }
    for name in ["A", "B", "C"] {
        stage.send_report(name, "10:00");
    }
    Ok(())
}

/// A lock for each tick, held during a short run. The clock of B is 300 ms behind.
pub(crate) fn minute(stage: &Stage) -> Result {
    let server = RedisServer::start();
    let [mut a, mut b] = Replica::several(stage, &server, ["A", "B"]);
    stage.say("A", "its clock shows 10:00:00.000");
    a.cmd("SET report A NX PX 60000")?;
    stage.begin_report("A", "10:00");
    stage.send_report("A", "10:00");
    a.cmd("DEL report")?;
    sleep(APART);
    stage.say("B", "its clock shows 10:00:00.000");
    if b.cmd("SET report B NX PX 60000")? == "OK" {
        stage.begin_report("B", "10:00");
        stage.send_report("B", "10:00");
    }
    Ok(())
}

/// The lock has a guessed duration, and the run takes longer. A minute is half a second here.
pub(crate) fn guess(stage: &Stage) -> Result {
    let server = RedisServer::start();
    let [mut a, mut b] = Replica::several(stage, &server, ["A", "B"]);
    a.cmd("SET report A NX PX 300")?;
    stage.begin_report("A", "10:00");
    stage.say("A", "the mail server is slow");
    sleep(Duration::from_millis(500));
    if b.cmd("SET report B NX PX 300")? == "OK" {
        stage.begin_report("B", "10:01");
    }
    stage.send_report("A", "10:00");
    stage.send_report("B", "10:01");
    Ok(())
}

/// A replica dies in its run.
pub(crate) fn crash(stage: &Stage) -> Result {
    let server = RedisServer::start();
    let [mut a, mut b] = Replica::several(stage, &server, ["A", "B"]);
    a.cmd("SET report:10:00 A NX PX 60000")?;
    stage.begin_report("A", "10:00");
    stage.killed("A");
    for tick in ["10:00", "10:01"] {
        if b.cmd(&format!("SET report:{tick} B NX PX 60000"))? == "OK" {
            stage.begin_report("B", tick);
            stage.send_report("B", tick);
        } else {
            say!(stage, "B", "another replica has {tick}");
        }
    }
    Ok(())
}

/// A job of bandog on three replicas, whose clocks differ, for three ticks.
pub(crate) fn tick(stage: &Stage) -> Result {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    let runtime = Runtime::new()?;
    let (sender, events) = channel();
    let clock = Clock::system();
    let clocks = [("A", clock), ("B", clock.set_back(APART)), ("C", clock.set_ahead(APART))];
    let nodes = clocks.map(|(name, clock)| {
        let sender = sender.clone();
        let body = move |run: Run| {
            let tick = format!("tick {}", run.tick());
            // The receiver lives as long as the scene.
            let _ = sender.send((name, tick));
            async { Ok::<(), String>(()) }
        };
        runtime.block_on(async {
            let client = bandog::connect(&url).await?;
            let job = Job::cron("report", "* * * * * ?").run(body);
            Scheduler::over(&client).clock(clock).node(name).job(job).start().await
        })
    });
    stage.say("A, B, C", "Job::cron(\"report\", \"* * * * * ?\"): the clocks show 0.0, -0.3 and +0.3 s");
    let show = |(name, tick): (&'static str, String)| {
        stage.begin_report(name, &tick);
        stage.send_report(name, &tick);
    };
    events.iter().take(3).for_each(show);
    for node in nodes {
        runtime.block_on(node?.stop())?;
    }
    events.try_iter().for_each(show); // runs that began meanwhile
    Ok(())
}

/// A job of bandog with `on_crash = "retry"`. The replica dies in its run.
pub(crate) fn retry(stage: &Stage) -> Result {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    let mut a = Node::start("A", &url);
    let tick = a.wait_for(Event::Begun)?;
    stage.begin_report("A", &tick);
    let mut others = [Node::start("B", &url), Node::start("C", &url)];
    others.iter_mut().for_each(Node::wait_until_ready);
    a.kill();
    stage.killed("A");
    let first = eventually(Duration::from_secs(60), || others.iter().position(|node| node.has(Event::Begun)));
    let next = &mut others[first];
    let tick = next.wait_for(Event::Begun)?;
    stage.begin_report(next.name, &tick);
    next.send_report();
    let tick = next.wait_for(Event::Sent)?;
    stage.send_report(next.name, &tick);
    let other = &others[1 - first];
    match other.has(Event::Begun) {
        true => stage.begin_report(other.name, &tick),
        false => stage.say(other.name, "runs nothing: the report of this tick is done"),
    }
    Ok(())
}
