//! The holds in which the clients believe.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bandog_core::{Claim, ClaimId, Fence, Fences, Kind};
use tokio::time::Instant;

use super::connection::Store;

/// Judges each grant. Each client holds the lock at most once.
pub(super) struct Judge(Mutex<Beliefs>);

struct Beliefs {
    seed: u64,
    /// For each client, what it holds.
    holds: Vec<Option<Hold>>,
    /// The last fence of a grant, and the last one of a writer.
    last: Fence,
    last_of_writers: Fence,
    tally: Tally,
}

struct Hold {
    kind: Kind,
    until: Instant,
    /// The claim, and the claim to which it is being passed, if there is one.
    ids: Vec<ClaimId>,
}

/// The events of a simulation, counted.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Tally {
    pub(super) grants: u32,
    /// Claims that were refused, and were sent again with the same id.
    pub(super) repeated: u32,
    pub(super) renewed: u32,
    /// Calls without an answer, and calls whose future was dropped.
    pub(super) failed: u32,
    pub(super) dropped: u32,
    pub(super) passed: u32,
    pub(super) downgraded: u32,
    /// Passes and downgrades that were sent again.
    pub(super) passed_again: u32,
}

impl Judge {
    /// Counts on from `tally`, what has happened in earlier simulations.
    pub(super) fn new(seed: u64, clients: usize, tally: Tally) -> Self {
        let last = Fence::new(0);
        Self(Mutex::new(Beliefs {
            seed,
            holds: (0..clients).map(|_| None).collect(),
            last,
            last_of_writers: last,
            tally,
        }))
    }

    /// Records a grant. A hold of the same client is replaced.
    pub(super) fn granted(&self, client: usize, claim: &Claim, until: Instant, fences: &Fences) {
        let mut beliefs = self.0.lock().unwrap();
        let (seed, now, kind) = (beliefs.seed, Instant::now(), claim.kind);
        let others = beliefs.holds.iter().enumerate().filter(|(other, _)| *other != client);
        let present = others.filter_map(|(_, hold)| hold.as_ref()).filter(|hold| now < hold.until);
        let present: Vec<_> = present.map(|hold| hold.kind).collect();
        let is_shared = kind == Kind::Read && present.iter().all(|kind| *kind == Kind::Read);
        assert!(present.is_empty() || is_shared, "seed {seed}: two clients hold the lock: {present:?} and {kind}");
        let first = fences.clone().take().unwrap();
        // Readers can hold the lock at the same time, so their fences have no order.
        let last = if kind == Kind::Read { beliefs.last_of_writers } else { beliefs.last };
        assert!(first > last, "seed {seed}: {first} after {last}");
        beliefs.last = beliefs.last.max(fences.last());
        if kind == Kind::Write {
            beliefs.last_of_writers = fences.last();
        }
        beliefs.holds[client] = Some(Hold { kind, until, ids: vec![claim.id] });
        beliefs.tally.grants += 1;
    }

    /// The end of the client's hold. None if it has expired.
    pub(super) fn until(&self, client: usize) -> Option<Instant> {
        self.0.lock().unwrap().holds[client].as_ref().map(|hold| hold.until).filter(|until| Instant::now() < *until)
    }

    pub(super) fn renewed(&self, client: usize, asked: Instant, valid_for: Duration) {
        let mut beliefs = self.0.lock().unwrap();
        if let Some(hold) = &mut beliefs.holds[client] {
            hold.until = hold.until.max(asked + valid_for);
        }
        beliefs.tally.renewed += 1;
    }

    /// A writer asks to become a reader, so it does not need to exclude readers any more.
    pub(super) fn becomes_reader(&self, client: usize, reader: ClaimId) {
        if let Some(hold) = &mut self.0.lock().unwrap().holds[client] {
            hold.kind = Kind::Read;
            hold.ids.push(reader);
        }
    }

    /// Checks that a majority of the stores has each hold. This is true as long as no store restarts.
    pub(super) fn check_majorities(&self, stores: &[Arc<Store>]) {
        let (beliefs, now) = (self.0.lock().unwrap(), Instant::now());
        for hold in beliefs.holds.iter().flatten().filter(|hold| now < hold.until) {
            let number = stores.iter().filter(|store| store.is_held_by(&hold.ids)).count();
            let seed = beliefs.seed;
            assert!(number > stores.len() / 2, "seed {seed}: {number} of {} stores have a hold", stores.len());
        }
    }

    pub(super) fn ended(&self, client: usize) {
        self.0.lock().unwrap().holds[client] = None;
    }

    pub(super) fn count(&self, count: impl Fn(&mut Tally) -> &mut u32) {
        *count(&mut self.0.lock().unwrap().tally) += 1;
    }

    pub(super) fn tally(&self) -> Tally {
        self.0.lock().unwrap().tally
    }
}
