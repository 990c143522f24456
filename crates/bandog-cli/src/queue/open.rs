//! The work queues of a store.

use bandog::{
    Client,
    grid::codec::Bytes,
    work::{ClientWork, WorkQueue},
};

use crate::{exit_code::ExitCode, fault::Fault, runtime, store::Store};

/// A queue whose elements are bytes.
pub(crate) type Queue = WorkQueue<Vec<u8>, Bytes>;

/// A queue of this client. This does no I/O.
pub(crate) fn queue(client: &Client, name: &str, store: &Store) -> Result<Queue, Fault> {
    let queue = client.work_queue::<Vec<u8>>(name).map_err(|error| store.fault(&error))?;
    Ok(queue.codec(Bytes))
}

/// Runs a request about a queue of a store that exists. None if the store is the default file, which does not exist yet.
pub(super) fn with_existing<T>(
    store: &Store,
    name: &str,
    request: impl AsyncFnOnce(Queue) -> bandog::Result<T>,
) -> Result<Option<T>, Fault> {
    bandog::Key::new(name).map_err(|error| store.fault(&error))?;
    runtime::block_on_with_io(async {
        let Some(client) = store.connect_existing().await? else { return Ok(None) };
        let queue = queue(&client, name, store)?;
        request(queue).await.map(Some).map_err(|error| store.fault(&error))
    })
}

/// The error of a change if the store does not exist yet.
pub(super) fn never_used(store: &Store, name: &str) -> Fault {
    let text = format!("{} was never used, so it has no queue {name:?}", store.described());
    Fault::new(ExitCode::Unavailable, text)
}
