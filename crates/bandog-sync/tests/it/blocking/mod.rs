//! The API without async: threads as owners, blocking calls in async code, time limits, losses, and ends of threads and
//! processes.

mod async_code;
mod compose;
mod ends;
mod kinds;
mod latch;
mod limits;
mod loss;
mod threads;

use bandog_core::{Backend, Clock, Memory};
use bandog_sync::{
    Client,
    blocking::{self, Guard},
};

fn memory() -> Memory {
    Memory::new(Clock::system())
}

fn client(backend: impl Backend) -> blocking::Client {
    Client::over(backend).unwrap().blocking().unwrap()
}

/// The names of the locks that are held in the store.
fn held(client: &blocking::Client) -> Vec<String> {
    client.idle().unwrap();
    client.list(bandog_core::Pattern::all()).unwrap().into_iter().map(|row| row.name).collect()
}
