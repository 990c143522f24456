//! A memory store with faults: the calls of clients to the store can be lost or late, and the store can lose a lock.

use std::time::Duration;

use bandog::{
    Key,
    backend::{Clock, Memory},
};
use bandog_conformance::wrap::{Forgetful, Lossy, Stopped, Which};

use super::process::print_line;

pub(crate) type Store = Forgetful<Memory>;
/// The access of one client to the store. Faults can make calls late or lose them.
type Wire = Lossy<Stopped<Store>>;

/// The store of this process, and the wires of its clients.
pub(super) struct Shared {
    store: Store,
    /// For each client, a layer over the store that can hold the client's calls back.
    stoppable: Vec<Stopped<Store>>,
    /// For each client, a second layer over the first one, which can lose calls.
    wires: Vec<Wire>,
}

impl Shared {
    pub(super) fn new(clients: u32) -> Self {
        let store = Forgetful::new(Memory::new(Clock::system()));
        let stoppable: Vec<_> = (0..clients).map(|_| Stopped::new(store.clone())).collect();
        let wires = stoppable.iter().map(|stoppable| Lossy::new(stoppable.clone())).collect();
        Self { store, stoppable, wires }
    }

    pub(super) fn store(&self) -> Store {
        self.store.clone()
    }

    pub(super) fn backend(&self, client: u32) -> Wire {
        self.wires[client as usize].clone()
    }

    /// Executes an order of the nemesis, and then prints a line that confirms the execution.
    pub(super) fn obey(&self, order: &[&str]) {
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

fn number(client: &str) -> usize {
    client.parse().expect("a client's number")
}
