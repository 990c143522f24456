//! A worker process: its clients make calls on objects until the process is ordered to stop.

mod elements;
pub(super) mod fleeting;
mod task;
mod topics;
mod values;

use std::sync::Arc;

use bandog::{Client, Result};

use super::{
    context::Context,
    drain::drain,
    history::{Kind, Object, Objects},
};
use crate::{
    calls::{Process, Recorded, Traffic, item, print_line},
    settings::Profile,
};

/// The default of `Limits::element`, in bytes.
pub(super) const LARGEST: usize = 512 << 10;
/// Number of attempts to close a grid.
const CLOSES: usize = 10;

/// Calls on objects.
pub(super) struct Calls;

impl Traffic for Calls {
    type Words = Objects;
    const LARGEST: usize = LARGEST;

    /// Runs the tasks of a client to their end, and closes the client.
    async fn work(process: &Process, client: Client, number: u32) {
        if process.has(Profile::Panics) {
            item::panic_on_reads(|_| {});
        }
        let context = Arc::new(Context::open(&client, number, &process.path(number), process.args.profile));
        let mut tasks = Vec::new();
        for number in 0..process.args.tasks {
            tasks.push(tokio::spawn(process.task(&context, number).run()));
        }
        for (kind, number) in [Kind::Topic, Kind::Sharded].into_iter().zip(process.args.tasks..) {
            tasks.push(tokio::spawn(topics::subscribe(process.task(&context, number), Object(kind, 0))));
        }
        for task in tasks {
            task.await.expect("no call panics");
        }
        // On a busy machine, the store may answer late.
        let mut closed = context.grid.close().await;
        for _ in 1..CLOSES {
            if closed.is_err() {
                closed = context.grid.close().await;
            }
        }
        if let Err(error) = closed {
            print_line(&format!("left pops that are not confirmed: {error}"));
        }
        client.idle().await;
        // An error means that the client has ended already.
        let _ = client.close().await;
    }

    async fn drain(process: &Process) -> Result<()> {
        let before = Recorded::<Objects>::read(&process.files(), &[], &[]).expect("the history can be read");
        let has_killed = !before.disturbances.killed.is_empty();
        drain(&Client::over(process.store())?, &process.files(), &before.calls, || has_killed, || false).await;
        Ok(())
    }
}
