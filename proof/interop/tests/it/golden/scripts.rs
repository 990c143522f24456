//! The script of each kind.
//!
//! A section has its own name and its own keys, so a side that cannot execute a section can leave it out.

use std::time::Duration;

use super::script::{
    Action, LatchAction, LeasedAction, LockAction, Section, SemaphoreAction, Step, does, gives_up, waits,
};
use crate::objects::LockKind;

/// A wait that the script lets pass.
const SHORT: Duration = Duration::from_millis(500);

pub(crate) fn fair() -> Vec<Section> {
    use LockAction::{ForceUnlock, Lock, LockForLease, TryLock, TryLockFor, Unlock};
    let fair = |action| Action::Lock(LockKind::Fair, action);
    vec![
        section(
            "three waiters get the lock in their order",
            [
                does("A:1", fair(Lock)),
                waits("B:1", fair(Lock)),
                waits("C:1", fair(Lock)),
                waits("A:2", fair(Lock)),
                does("A:1", fair(Unlock)).ends(&["B:1"]),
                does("B:1", fair(Unlock)).ends(&["C:1"]),
                does("C:1", fair(Unlock)).ends(&["A:2"]),
                does("A:2", fair(Unlock)),
            ],
        ),
        section(
            "a refused try_lock has no place",
            [does("A:1", fair(Lock)), does("B:1", fair(TryLock)), does("A:1", fair(Unlock))],
        ),
        section(
            "a waiter gives up and another one stays",
            [
                does("A:1", fair(Lock)),
                waits("B:1", fair(TryLockFor(Duration::from_secs(3)))),
                waits("C:1", fair(Lock)),
                gives_up("B:1"),
                does("A:1", fair(Unlock)).ends(&["C:1"]),
                does("C:1", fair(Unlock)),
            ],
        ),
        section(
            "a fixed lease",
            [does("A:1", fair(LockForLease(Duration::from_secs(120)))), does("A:1", fair(Unlock))],
        ),
        section(
            "a forced unlock",
            [
                does("A:1", fair(Lock)),
                waits("B:1", fair(Lock)),
                does("C:1", fair(ForceUnlock)).ends(&["B:1"]),
                does("B:1", fair(Unlock)),
                does("C:1", fair(ForceUnlock)),
            ],
        ),
    ]
}

pub(crate) fn read_write() -> Vec<Section> {
    use LockAction::{ForceUnlock, Lock, LockForLease, TryLock, TryLockFor, Unlock};
    let read = |action| Action::Lock(LockKind::Read, action);
    let write = |action| Action::Lock(LockKind::Write, action);
    vec![
        section(
            "a writer waits for two readers",
            [
                does("A:1", read(Lock)),
                does("B:1", read(Lock)),
                waits("C:1", write(Lock)),
                does("A:1", read(Unlock)),
                does("B:1", read(Unlock)).ends(&["C:1"]),
                does("C:1", write(Unlock)),
            ],
        ),
        section(
            "two readers wait for a writer",
            [
                does("A:1", write(Lock)),
                waits("B:1", read(Lock)),
                waits("C:1", read(Lock)),
                does("A:1", write(Unlock)).ends(&["B:1", "C:1"]),
                does("B:1", read(Unlock)),
                does("C:1", read(Unlock)),
            ],
        ),
        section(
            "a writer waits for a writer",
            [
                does("A:1", write(Lock)),
                waits("B:1", write(Lock)),
                does("A:1", write(Unlock)).ends(&["B:1"]),
                does("B:1", write(Unlock)),
            ],
        ),
        section(
            "tries",
            [
                does("A:1", write(TryLock)),
                does("B:1", read(TryLock)),
                does("B:1", write(TryLock)),
                does("B:1", write(TryLockFor(SHORT))),
                does("A:1", write(Unlock)),
                does("A:1", read(TryLock)),
                does("B:1", read(TryLock)),
                does("C:1", write(TryLock)),
                does("A:1", read(Unlock)),
                does("B:1", read(Unlock)),
            ],
        ),
        section(
            "fixed leases of readers",
            [
                does("A:1", read(LockForLease(Duration::from_secs(120)))),
                does("B:1", read(LockForLease(Duration::from_secs(60)))),
                does("A:1", read(Unlock)),
                does("B:1", read(Unlock)),
            ],
        ),
        section(
            "a downgrade",
            [
                does("A:1", write(Lock)),
                does("A:1", Action::Downgrade),
                does("B:1", read(TryLock)),
                does("C:1", write(TryLock)),
                does("A:1", read(Unlock)),
                does("B:1", read(Unlock)),
            ],
        ),
        section(
            "a forced unlock of a writer",
            [
                does("A:1", write(Lock)),
                waits("B:1", read(Lock)),
                does("C:1", write(ForceUnlock)).ends(&["B:1"]),
                does("B:1", read(Unlock)),
                does("C:1", write(ForceUnlock)),
            ],
        ),
        section("a forced unlock of a reader", [does("A:1", read(Lock)), does("C:1", read(ForceUnlock))]),
    ]
}

pub(crate) fn leased() -> Vec<Section> {
    use LeasedAction::{Acquire, Release, Set, TryAcquire};
    let leased = Action::Leased;
    vec![
        section(
            "a waiter gets two permits",
            [
                does("A:1", leased(Set(3))),
                does("A:1", leased(Acquire(1))),
                does("B:1", leased(Acquire(2))),
                waits("C:1", leased(Acquire(2))),
                does("B:1", leased(Release)).ends(&["C:1"]),
                does("A:1", leased(Release)),
                does("C:1", leased(Release)),
            ],
        ),
        section(
            "all or none",
            [
                does("A:1", leased(Set(3))),
                does("A:1", leased(TryAcquire(2))),
                does("B:1", leased(TryAcquire(2))),
                does("B:1", leased(TryAcquire(1))),
                does("B:1", leased(Release)),
                does("A:1", leased(Release)),
            ],
        ),
        section(
            "the limit changes",
            [
                does("A:1", leased(Set(1))),
                does("A:1", leased(Acquire(1))),
                waits("B:1", leased(Acquire(2))),
                does("C:1", leased(Set(3))).ends(&["B:1"]),
                does("C:1", leased(Set(2))),
                does("A:1", leased(Release)),
                does("B:1", leased(Release)),
            ],
        ),
    ]
}

pub(crate) fn semaphore() -> Vec<Section> {
    use SemaphoreAction::{Acquire, Add, Release, SetIfAbsent, TryAcquire, TryAcquireFor};
    let semaphore = Action::Semaphore;
    vec![
        section(
            "a waiter gets two permits",
            [
                does("A:1", semaphore(SetIfAbsent(3))),
                does("A:1", semaphore(Acquire(1))),
                does("B:1", semaphore(Acquire(2))),
                waits("C:1", semaphore(Acquire(2))),
                does("A:1", semaphore(Release(1))),
                does("B:1", semaphore(Release(2))).ends(&["C:1"]),
                does("C:1", semaphore(Release(2))),
            ],
        ),
        section(
            "all or none",
            [
                does("A:1", semaphore(SetIfAbsent(3))),
                does("B:1", semaphore(SetIfAbsent(5))),
                does("A:1", semaphore(TryAcquire(2))),
                does("B:1", semaphore(TryAcquire(2))),
                does("B:1", semaphore(TryAcquireFor(2, SHORT))),
                does("A:1", semaphore(Release(2))),
            ],
        ),
        section(
            "more and fewer permits",
            [
                does("A:1", semaphore(SetIfAbsent(2))),
                does("A:1", semaphore(Acquire(2))),
                waits("B:1", semaphore(Acquire(1))),
                does("C:1", semaphore(Add(2))).ends(&["B:1"]),
                does("C:1", semaphore(Add(-2))),
                does("B:1", semaphore(Release(1))),
                does("A:1", semaphore(Release(2))),
            ],
        ),
        section(
            "the number changes",
            [
                does("A:1", semaphore(SetIfAbsent(1))),
                does("A:1", semaphore(Acquire(1))),
                waits("B:1", semaphore(Acquire(2))),
                does("C:1", semaphore(Add(2))).ends(&["B:1"]),
                does("C:1", semaphore(Add(-1))),
                does("B:1", semaphore(Release(2))),
            ],
        ),
    ]
}

pub(crate) fn latch() -> Vec<Section> {
    use LatchAction::{Await, AwaitFor, Count, CountDown, Delete, Set};
    let latch = Action::Latch;
    vec![
        section(
            "two waiters",
            [
                does("A:1", latch(Set(2))),
                waits("B:1", latch(Await)),
                does("A:1", latch(CountDown)),
                waits("C:1", latch(Await)),
                does("A:2", latch(CountDown)).ends(&["B:1", "C:1"]),
                does("A:1", latch(Await)),
                does("A:1", latch(Count)),
                does("A:1", latch(CountDown)),
            ],
        ),
        section(
            "the count is set once",
            [
                does("A:1", latch(Set(2))),
                does("B:1", latch(Set(5))),
                does("B:1", latch(Count)),
                does("B:1", latch(AwaitFor(SHORT))),
            ],
        ),
        section("deleted", [does("A:1", latch(Set(2))), does("A:1", latch(Delete)), does("A:1", latch(Delete))]),
    ]
}

fn section<const N: usize>(name: &'static str, steps: [Step; N]) -> Section {
    Section { name, steps: steps.into() }
}
