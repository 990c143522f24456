//! A worker process: its clients push, operate and work on the queues until the process is ordered to stop.

mod handler;
mod operators;
mod pushes;
mod task;
mod workers;

use std::sync::Arc;

use bandog::{Client, Result};

use super::{
    context::Context,
    drain::drain,
    history::{Note, Queue, Work},
};
use crate::{
    calls::{Process, Recorder, Traffic, item},
    history::now,
    settings::Profile,
};

/// Calls on work queues.
pub(super) struct Calls;

impl Traffic for Calls {
    type Words = Work;
    const LARGEST: usize = 1 << 20;

    async fn work(process: &Process, client: Client, number: u32) {
        if process.has(Profile::Panics) {
            let recorder = Recorder::<Work>::open(&process.path(process.args.first));
            item::panic_on_reads(move |value| recorder.note(Note::Unread { value, at: now() }));
        }
        let context = Arc::new(Context::open(&client, number, &process.path(number), process.args.profile));
        let mut tasks = Vec::new();
        for number in 0..process.args.tasks {
            tasks.push(tokio::spawn(process.task(&context, number).run()));
        }
        for (queue, number) in Queue::ALL.into_iter().zip(process.args.tasks..) {
            tasks.push(tokio::spawn(workers::run(process.task(&context, number), queue)));
        }
        for task in tasks {
            task.await.expect("no call panics");
        }
        client.idle().await;
        // An error means that the client has ended already.
        let _ = client.close().await;
    }

    async fn drain(process: &Process) -> Result<()> {
        drain(&Client::over(process.store())?, &process.files()).await;
        Ok(())
    }
}
