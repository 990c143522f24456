//! A worker process: its clients make calls for locks, latches, barriers and elections until the process is ordered to stop.

mod barriers;
mod context;
mod elections;
mod handle;
mod latches;
mod section;
mod task;
mod together;
mod traffic;

use std::sync::Arc;

use bandog::{
    Client, Pattern, Result,
    backend::{Inspect, Records},
};

use self::context::Context;
use super::{history::Locks, sweep::sweep};
use crate::{
    calls::{MemoryStore, Process, Traffic, print_line},
    plan::{Kind, TASKS_OF_KIND},
};

/// Calls on locks.
pub(super) struct Calls;

impl Traffic for Calls {
    type Words = Locks;

    /// Runs the tasks of a client to their end, and closes the client.
    async fn work(process: &Process, client: Client, number: u32) {
        let context = Arc::new(Context::open(&client, number, process));
        let kinds = &process.args.kinds;
        let mut tasks = Vec::new();
        // Calls for several locks also need locks.
        if kinds.iter().any(|kind| kind.is_lock() || *kind == Kind::All) {
            for number in 0..process.args.tasks {
                tasks.push(tokio::spawn(process.task(&context, number).run()));
            }
        }
        let mut numbers = process.args.tasks..;
        let mut task = || process.task(&context, numbers.next().unwrap_or(u32::MAX));
        for index in 0..TASKS_OF_KIND {
            for kind in kinds {
                match kind {
                    Kind::Latch => tasks.push(tokio::spawn(latches::run(task()))),
                    Kind::Barrier => tasks.push(tokio::spawn(barriers::run(task(), index))),
                    Kind::Election => tasks.push(tokio::spawn(elections::run(task()))),
                    Kind::Mutex | Kind::Fair | Kind::ReadWrite | Kind::Semaphore | Kind::All => {}
                }
            }
        }
        if kinds.contains(&Kind::Election) {
            tasks.push(tokio::spawn(elections::observe(task())));
        }
        for task in tasks {
            task.await.expect("a task does not panic");
        }
        client.idle().await;
        // An error means that the client has ended already.
        let _ = client.close().await;
    }

    async fn drain(process: &Process) -> Result<()> {
        left(process.store(), &process.args.kinds).await?.iter().for_each(|left| print_line(&format!("left {left}")));
        Ok(())
    }
}

/// The remaining data in a store that no client uses any more.
async fn left(store: MemoryStore, kinds: &[Kind]) -> Result<Vec<String>> {
    let client = Client::over(store.clone())?;
    let mut left = sweep(&client, kinds).await;
    client.idle().await;
    // An error means that the client has ended already.
    let _ = client.close().await;
    left.extend(store.list(&Pattern::all()).await?.into_iter().map(|row| row.name));
    let records = store.names(&Pattern::all()).await?;
    let reading = store.read(&records, &[]).await?;
    for (name, record) in records.iter().zip(reading.records) {
        let value = record?.map_or_else(String::new, |record| record.value);
        // The records of barriers stay, and for some time those of open latches, whose first line is the count.
        let stays = name.as_str().starts_with("barrier/")
            || name.as_str().starts_with("latch/") && value.lines().next() == Some("0");
        if !stays {
            left.push(format!("record {name}: {value}"));
        }
    }
    left.extend(store.members().await?.into_iter().map(|member| format!("client {}", member.id)));
    Ok(left)
}
