//! A memory store with faults: the calls of clients to the store can be lost or late, and the store can lose a lock.

use std::time::Duration;

use bandog::{
    Client, Key, Pattern, Result,
    backend::{Clock, Inspect, Memory, Records},
};
use bandog_conformance::wrap::{Forgetful, Lossy, Stopped, Which};

use super::out::print_line;
use crate::{plan::Kind, sweep::sweep};

pub(crate) type ForgetfulStore = Forgetful<Memory>;
/// The access of one client to the store. Faults can make calls late or lose them.
pub(crate) type Wire = Lossy<Stopped<ForgetfulStore>>;

/// The store of this process, and the wires of its clients.
pub(crate) struct Shared {
    store: ForgetfulStore,
    /// For each client, a layer over the store that can hold the client's calls back.
    stoppable: Vec<Stopped<ForgetfulStore>>,
    /// For each client, a second layer over the first one, which can lose calls.
    wires: Vec<Wire>,
}

impl Shared {
    pub(crate) fn new(clients: u32) -> Self {
        let store = Forgetful::new(Memory::new(Clock::system()));
        let stoppable: Vec<_> = (0..clients).map(|_| Stopped::new(store.clone())).collect();
        let wires = stoppable.iter().map(|stoppable| Lossy::new(stoppable.clone())).collect();
        Self { store, stoppable, wires }
    }

    pub(crate) fn store(&self) -> ForgetfulStore {
        self.store.clone()
    }

    pub(crate) fn backend(&self, client: u32) -> Wire {
        self.wires[client as usize].clone()
    }

    /// Executes an order of the nemesis, and then prints a line that confirms the execution.
    pub(crate) fn obey(&self, order: &[&str]) {
        match *order {
            ["lose", client, seed] => {
                self.wires[number(client)].at_random(seed.parse().expect("a seed"), 0.3, Duration::from_millis(200));
            }
            ["hold-requests", client] => self.stoppable[number(client)].stop(Which::Requests),
            ["hold-answers", client] => self.stoppable[number(client)].stop(Which::Answers),
            ["heal", client] => {
                self.wires[number(client)].heal();
                self.stoppable[number(client)].go_on();
            }
            ["forget", name] => self.forget(name),
            _ => panic!("unknown order {order:?}"),
        }
        print_line("obeyed");
    }

    /// Makes the store lose this lock.
    fn forget(&self, name: &str) {
        let key = Key::new(name).expect("the name is valid");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(self.store.forget(&key)).expect("the memory store answers");
        self.store.reconnected();
    }
}

/// The remaining data in a store that no client uses any more.
pub(super) async fn left(store: ForgetfulStore, kinds: &[Kind]) -> Result<Vec<String>> {
    let mut left = sweep(&Client::over(store.clone())?, kinds).await;
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

fn number(client: &str) -> usize {
    client.parse().expect("a client's number")
}
