//! Nodes that share a job through a store.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use bandog_core::{Clock, Memory, Pattern};
use bandog_schedule::{Job, Jobs, Run, Running, Scheduler, State};
use bandog_sync::Client;
use tokio::time;

/// For each tick: the node and the fence of each of its runs.
type Ran = Arc<Mutex<BTreeMap<String, Vec<String>>>>;

fn client(store: &Memory) -> Client {
    Client::options().clock(Clock::tokio()).on_current_runtime().over(store.clone()).unwrap()
}

async fn node(store: &Memory, number: usize, ran: &Ran) -> (Client, Running) {
    let client = client(store);
    let ran = Arc::clone(ran);
    let job = Job::cron("sweep", "0/10 * * * * ?").run(move |run: Run| {
        ran.lock().unwrap().entry(run.tick().to_string()).or_default().push(format!("{number} {:?}", run.fence()));
        time::sleep(Duration::from_millis(50))
    });
    let running = Scheduler::over(&client).node(format!("node-{number}")).job(job).start().await.unwrap();
    (client, running)
}

#[tokio::test(start_paused = true)]
async fn each_tick_runs_once_over_three_nodes() {
    // The virtual clock starts five seconds after a tick.
    let start = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_005);
    let store = Memory::new(Clock::tokio().set_to(start));
    let ran = Ran::default();
    let mut nodes = Vec::new();
    for number in 1..=3 {
        nodes.push(node(&store, number, &ran).await);
    }
    time::sleep(Duration::from_secs(101)).await;
    let jobs = Jobs::over(&nodes[0].0);
    let row = jobs.show("sweep").await.unwrap();
    assert_eq!(row.ok, 10, "{row:?}");
    assert_eq!(jobs.list(&Pattern::all()).await.unwrap().len(), 1);
    let history = jobs.history("sweep").await.unwrap();
    assert!(history.iter().all(|run| run.state == State::Ok), "{history:?}");
    assert_eq!(history.len(), 10);
    for (_, running) in nodes {
        running.stop().await.unwrap();
    }
    let ran = ran.lock().unwrap().clone();
    assert!(ran.values().all(|nodes| nodes.len() == 1), "{ran:?}");
    assert_eq!(ran.len(), 10);
}
