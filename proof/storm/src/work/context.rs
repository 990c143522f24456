//! A client of the work queues.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use bandog::{
    Client, Error, Key, Result,
    admin::Cursor,
    work::{ClientWork, ElementId, ElementRow, Phase, WorkQueue},
};

use super::history::{Queue, Work};
use crate::{
    calls::{self, Outcome, Recorder, item::Item},
    settings::Profile,
};

/// Maximum number of elements that an operator knows.
const KNOWN: usize = 64;

/// The state that the tasks of one client share.
pub(super) struct Context {
    client: Client,
    queues: BTreeMap<Queue, (WorkQueue<Item>, AtomicBool)>,
    number: u32,
    recorder: Recorder<Work>,
    /// The weather of the run.
    profile: Profile,
    /// Some of the elements that this client has pushed or that were dead.
    known: Mutex<Vec<(Queue, ElementId)>>,
}

impl Context {
    pub(super) fn open(client: &Client, number: u32, path: &Path, profile: Profile) -> Self {
        let queue = |queue: Queue| {
            let handle = client.work_queue(queue.name()).expect("the store has work queues");
            (queue, (handle, AtomicBool::new(false)))
        };
        let queues = Queue::ALL.into_iter().map(queue).collect();
        let recorder = Recorder::open(path);
        Self { client: client.clone(), queues, number, recorder, profile, known: Mutex::default() }
    }

    /// Whether the calls have the weather of this profile.
    pub(super) fn has(&self, profile: Profile) -> bool {
        self.profile.has(profile)
    }

    pub(super) fn queue(&self, queue: Queue) -> &WorkQueue<Item> {
        &self.queues[&queue].0
    }

    /// The first elements in a phase.
    pub(super) async fn page(&self, queue: Queue, phase: Phase, about: usize) -> Result<Vec<ElementRow>> {
        let queues = self.client.queues().expect("the store has work queues");
        let (rows, _) = queues.elements(&Key::new(queue.name())?, phase, &Cursor::default(), about, 1 << 10).await?;
        Ok(rows)
    }

    /// Whether the queue is too full for further pushes.
    pub(super) fn is_crowded(&self, queue: Queue) -> bool {
        self.queues[&queue].1.load(Relaxed)
    }

    pub(super) fn set_crowded(&self, queue: Queue, is_crowded: bool) {
        self.queues[&queue].1.store(is_crowded, Relaxed);
    }

    /// Remembers an element for operators, in the place of another one.
    pub(super) fn learn(&self, queue: Queue, element: ElementId, random: &mut fastrand::Rng) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN {
            known.swap_remove(random.usize(..KNOWN));
        }
        known.push((queue, element));
    }

    /// One of the elements that this client knows.
    pub(super) fn any_known(&self, random: &mut fastrand::Rng) -> Option<(Queue, ElementId)> {
        random.choice(self.known.lock().unwrap_or_else(PoisonError::into_inner).iter().copied())
    }
}

impl calls::Context for Context {
    type Words = Work;

    fn client(&self) -> u32 {
        self.number
    }

    fn recorder(&self) -> &Recorder<Work> {
        &self.recorder
    }

    fn outcome(_: Queue, error: &Error) -> Outcome {
        Outcome::of(error)
    }
}
