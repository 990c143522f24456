//! The ids that this process gives: of elements, and of takers.

use std::sync::{
    LazyLock,
    atomic::{AtomicU64, Ordering},
};

use bandog_core::queues::ElementId;

/// The random number of this process, and the number of its last element.
static PROCESS: LazyLock<(u64, AtomicU64)> = LazyLock::new(|| (random(), AtomicU64::new(0)));

/// A new id of an element: greater than those before.
pub(crate) fn next_element() -> ElementId {
    let (client, last) = &*PROCESS;
    ElementId { client: *client, number: last.fetch_add(1, Ordering::Relaxed) + 1 }
}

/// A random number that no other program has. It has 63 bits, because a database may have no unsigned numbers.
pub(crate) fn random() -> u64 {
    fastrand::u64(..) >> 1
}
