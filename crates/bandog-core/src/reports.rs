//! Calls of subscribers, made in the order of the changes when the lock of their registry is released.

use std::{
    collections::VecDeque,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Calls of subscribers that wait until a lock is released, for backends.
///
/// A subscriber may own what takes the same lock again, such as the last handle of another subscription. So no subscriber is
/// called, and none is dropped, under the lock of the registry that knows it: the registry adds a call to the reports, which
/// it keeps beside its state, and unlocks with [`Reports::unlock`].
///
/// ```
/// use std::sync::{Mutex, PoisonError, mpsc};
/// use bandog::backend::Reports;
/// let registry = Mutex::new(Reports::default());
/// let (told, heard) = mpsc::channel();
/// let mut locked = registry.lock().unwrap_or_else(PoisonError::into_inner);
/// locked.add(move || told.send("changed").unwrap());
/// assert!(heard.try_recv().is_err());
/// Reports::unlock(locked, &registry, |reports| reports);
/// assert_eq!(heard.try_recv(), Ok("changed"));
/// ```
#[derive(Default)]
pub struct Reports {
    waiting: VecDeque<Report>,
    /// Whether a thread delivers reports. It also delivers those that other threads add, so that their order stays.
    is_delivering: bool,
}

/// A call of a subscriber.
type Report = Box<dyn FnOnce() + Send>;

impl Reports {
    /// Adds a call. It is made, and dropped, after the lock is released.
    pub fn add(&mut self, report: impl FnOnce() + Send + 'static) {
        self.waiting.push_back(Box::new(report));
    }

    /// Releases the lock of a state, and then makes the calls that wait, in the order in which they were added. If another
    /// thread is making calls, that thread makes these ones, too, and this function does not wait for it.
    ///
    /// # Panics
    /// If a call panics. The next call of this function makes the remaining ones.
    pub fn unlock<S>(mut locked: MutexGuard<'_, S>, state: &Mutex<S>, of: impl Fn(&mut S) -> &mut Self) {
        let mut next = of(&mut locked).begin();
        drop(locked);
        let again = || state.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(report) = next {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(report)) {
                of(&mut again()).is_delivering = false;
                resume_unwind(panic);
            }
            next = of(&mut again()).next();
        }
    }

    /// The first call. None if none waits, or if another thread makes them.
    fn begin(&mut self) -> Option<Report> {
        if self.is_delivering { None } else { self.next() }
    }

    /// The next call. None if none waits any more: then this thread has made all.
    fn next(&mut self) -> Option<Report> {
        let next = self.waiting.pop_front();
        self.is_delivering = next.is_some();
        next
    }
}

impl fmt::Debug for Reports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reports").field("waiting", &self.waiting.len()).finish_non_exhaustive()
    }
}
