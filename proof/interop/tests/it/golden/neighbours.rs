//! Neighbours that execute the scripts: one process for each client.

use std::{collections::BTreeMap, sync::Arc};

use bandog_testkit::{RedisServer, eventually};

use super::script::{Action, Answer, Caller, LatchAction, LeasedAction, LockAction, NAME, SemaphoreAction, Side, TTL};
use crate::{
    neighbour::{Neighbour, PendingAnswer, Program, SOON},
    objects::{Lease, LockKind, PermitIds},
    rig::{fair_queue, subscriptions},
    stage::Actors,
};

pub(crate) struct Neighbours {
    pub(crate) server: Arc<RedisServer>,
    program: Program,
    clients: BTreeMap<&'static str, Neighbour>,
    pending: BTreeMap<Caller, Pending>,
    permits: BTreeMap<Caller, PermitIds>,
    /// The limit of the semaphore.
    limit: u32,
    _actors: Actors,
}

struct Pending {
    answer: Result<Answer, PendingAnswer>,
    waits: bool,
}

impl Neighbours {
    pub(crate) fn start(program: Program) -> Self {
        let actors = Actors::start(TTL, &[program; 3]);
        Self {
            server: Arc::clone(&actors.server),
            program,
            clients: ["A", "B", "C"].into_iter().zip(actors.neighbours.iter().cloned()).collect(),
            pending: BTreeMap::new(),
            permits: BTreeMap::new(),
            limit: 0,
            _actors: actors,
        }
    }

    /// Executes an action, or begins it if it may wait.
    fn start_action(&mut self, caller: Caller, action: &Action) -> Result<Answer, PendingAnswer> {
        let (client, thread) = caller.parts();
        let neighbour = self.clients[client].clone();
        match action {
            Action::Lock(kind, action) => {
                let lock = neighbour.lock(*kind, thread, NAME);
                match action {
                    LockAction::Lock => return Err(lock.waits()),
                    LockAction::LockForLease(lease) => lock.lock_for_lease(*lease),
                    LockAction::TryLock => return Ok(either(lock.try_lock(), Answer::Held, Answer::Busy)),
                    LockAction::TryLockFor(wait) => return Err(lock.waits_for(*wait)),
                    LockAction::Unlock => {
                        lock.unlock();
                        return Ok(Answer::Freed);
                    }
                    LockAction::ForceUnlock => {
                        return Ok(either(lock.force_unlock(), Answer::Freed, Answer::FreeAlready));
                    }
                }
                Ok(Answer::Held)
            }
            Action::Downgrade => {
                neighbour.lock(LockKind::Write, thread, NAME).downgrade();
                Ok(Answer::Held)
            }
            Action::Leased(action) => {
                if let LeasedAction::Set(limit) = action {
                    self.limit = *limit;
                }
                let semaphore = neighbour.leased(thread, NAME, self.limit);
                match action {
                    LeasedAction::Set(limit) => {
                        semaphore.set(*limit);
                        Ok(Answer::Set)
                    }
                    LeasedAction::Acquire(take) => Err(semaphore.waits(*take, Lease::Of(TTL))),
                    LeasedAction::TryAcquire(take) => {
                        let permits = semaphore.try_acquire(*take, Lease::Of(TTL));
                        Ok(self.keep(caller, permits))
                    }
                    LeasedAction::Release => {
                        semaphore.release(&self.permits.remove(&caller).expect("the caller has permits"));
                        Ok(Answer::Freed)
                    }
                }
            }
            Action::Semaphore(action) => {
                let semaphore = neighbour.semaphore(thread, NAME, self.limit);
                match action {
                    SemaphoreAction::SetIfAbsent(permits) => {
                        let is_set = semaphore.set_if_absent(*permits);
                        if is_set {
                            self.limit = *permits;
                        }
                        Ok(either(is_set, Answer::Set, Answer::SetAlready))
                    }
                    SemaphoreAction::Add(permits) => {
                        semaphore.add(*permits);
                        self.limit = self.limit.checked_add_signed(*permits).expect("a limit");
                        Ok(Answer::Set)
                    }
                    SemaphoreAction::Acquire(take) => Err(semaphore.waits(*take)),
                    SemaphoreAction::TryAcquire(take) => {
                        Ok(either(semaphore.try_acquire(*take), Answer::Held, Answer::Busy))
                    }
                    SemaphoreAction::TryAcquireFor(take, wait) => Err(semaphore.waits_for(*take, *wait)),
                    SemaphoreAction::Release(permits) => {
                        semaphore.release(*permits);
                        Ok(Answer::Freed)
                    }
                }
            }
            Action::Latch(action) => {
                let latch = neighbour.latch(thread, NAME);
                match action {
                    LatchAction::Set(count) => Ok(either(latch.set(*count), Answer::Set, Answer::SetAlready)),
                    LatchAction::CountDown => {
                        latch.count_down();
                        Ok(Answer::Counted)
                    }
                    LatchAction::Await => Err(latch.waits()),
                    LatchAction::AwaitFor(wait) => Err(latch.waits_for(*wait)),
                    LatchAction::Count => Ok(Answer::Number(latch.count())),
                    LatchAction::Delete => Ok(either(latch.delete(), Answer::Deleted, Answer::Absent)),
                }
            }
        }
    }

    /// Keeps the permits of the caller.
    fn keep(&mut self, caller: Caller, permits: Option<PermitIds>) -> Answer {
        match permits {
            Some(permits) => {
                assert!(self.permits.insert(caller, permits).is_none(), "{caller} has permits already");
                Answer::Held
            }
            None => Answer::Busy,
        }
    }

    /// Reads an answer. An answer that is no word has the ids of permits.
    fn read(&mut self, caller: Caller, answer: &str) -> Answer {
        match answer {
            "held" => Answer::Held,
            "busy" => Answer::Busy,
            "open" => Answer::Open,
            "closed" => Answer::Closed,
            ids => self.keep(caller, PermitIds::read(ids)),
        }
    }

    /// Waits until each action that waits has subscribed, and then sleeps if it is one of Java. A neighbour subscribes
    /// after its first attempt, and unsubscribes without waiting for the reply.
    ///
    /// A fair mutex of bandog has no subscription while an earlier call of the same client holds the lock or waits for
    /// it. Then its place in the queue shows that it waits.
    fn settle(&self) {
        let waiting = self.pending.values().filter(|pending| pending.waits).count();
        let places = || if self.program.is_java() { 0 } else { fair_queue(&self.server, NAME).len() };
        eventually(SOON, || {
            let blocked = subscriptions(&self.server).max(places());
            if blocked == waiting { Ok(()) } else { Err(format!("{blocked} of {waiting} actions wait")) }
        });
        let actions = self.pending.values().filter(|pending| pending.waits);
        actions.filter_map(|action| action.answer.as_ref().err()).for_each(PendingAnswer::wait_for_sleep);
    }
}

impl Side for Neighbours {
    fn begin(&mut self, caller: Caller, action: &Action) {
        self.settle();
        let answer = self.start_action(caller, action);
        let earlier = self.pending.insert(caller, Pending { answer, waits: false });
        assert!(earlier.is_none(), "{caller} has two actions");
    }

    fn wait_until_blocked(&mut self, caller: Caller) {
        self.pending.get_mut(&caller).expect("an action").waits = true;
        self.settle();
    }

    fn answer(&mut self, caller: Caller) -> Answer {
        let pending = self.pending.remove(&caller).expect("an action");
        match pending.answer {
            Ok(answer) => answer,
            Err(pending) => {
                let answer = self.read(caller, &pending.answer(SOON));
                if answer == Answer::Busy {
                    // A caller of bandog that gives up does not wait until its place is removed.
                    self.settle();
                }
                answer
            }
        }
    }
}

fn either(is_first: bool, first: Answer, second: Answer) -> Answer {
    if is_first { first } else { second }
}
