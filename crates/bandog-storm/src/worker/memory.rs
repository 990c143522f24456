//! A memory store whose clients can be cut off, and which can be made to forget.

use std::time::Duration;

use bandog::{
    Client, Clock, Key, Pattern, Result,
    backend::{Inspect, Memory},
};
use bandog_conformance::wrap::{Forgetful, Lossy, Stopped, Which};

use crate::sweep::sweep;

pub(super) type Store = Forgetful<Memory>;
type Wire = Lossy<Stopped<Store>>;

/// The store of this process, and the wires of its clients.
pub(super) struct Shared {
    store: Store,
    still: Vec<Stopped<Store>>,
    wires: Vec<Wire>,
}

impl Shared {
    pub(super) fn new(clients: u32) -> Self {
        let store = Forgetful::new(Memory::new(Clock::system()));
        let still: Vec<_> = (0..clients).map(|_| Stopped::new(store.clone())).collect();
        let wires = still.iter().map(|still| Lossy::new(still.clone())).collect();
        Self { store, still, wires }
    }

    pub(super) fn store(&self) -> Store {
        self.store.clone()
    }

    pub(super) fn backend(&self, client: u32) -> Wire {
        self.wires[client as usize].clone()
    }

    /// Does what the nemesis says. `answer` comes back when it is done.
    pub(super) fn obey(&self, order: &[&str]) {
        match *order {
            ["lose", client, seed] => {
                self.wires[number(client)].at_random(seed.parse().expect("a seed"), 0.3, Duration::from_millis(200));
            }
            ["hold-requests", client] => self.still[number(client)].stop(Which::Requests),
            ["hold-answers", client] => self.still[number(client)].stop(Which::Answers),
            ["heal", client] => {
                self.wires[number(client)].heal();
                self.still[number(client)].go_on();
            }
            ["forget", name] => self.forget(name),
            _ => panic!("what is {order:?}?"),
        }
        super::say("obeyed");
    }

    fn forget(&self, name: &str) {
        let key = Key::new(name).expect("a good name");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(self.store.forget(&key)).expect("memory answers");
        self.store.reconnected();
    }
}

/// What is wrong with a store that nobody uses any more.
pub(super) async fn left(store: Store) -> Result<Vec<String>> {
    let mut left = sweep(&Client::over(store.clone())?).await;
    left.extend(store.list(&Pattern::all()).await?.into_iter().map(|row| row.name));
    left.extend(store.members().await?.into_iter().map(|member| format!("client {}", member.id)));
    Ok(left)
}

fn number(client: &str) -> usize {
    client.parse().expect("a client's number")
}
