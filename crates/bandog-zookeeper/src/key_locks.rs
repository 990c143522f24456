//! Orders the calls of one backend that change the same lock or the same record.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use tokio::{
    sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock},
    task::unconstrained,
};

/// A lock for each key that is in use. The calls get the lock of a key in the order in which they asked for it.
#[derive(Debug)]
pub(crate) struct KeyLocks<K: Hash + Eq>(Mutex<Locks<K>>);

type Locks<K> = HashMap<K, Weak<RwLock<()>>>;

/// The turn of one call at one key.
pub(crate) struct KeyTurn<'a, K: Hash + Eq> {
    locks: &'a KeyLocks<K>,
    key: K,
    guard: Guard,
}

/// The guard, which is only dropped.
enum Guard {
    None,
    Exclusive { _guard: OwnedRwLockWriteGuard<()> },
    Shared { _guard: OwnedRwLockReadGuard<()> },
}

impl<K: Hash + Eq> Default for KeyLocks<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq + Clone + Send + Sync> KeyLocks<K> {
    /// Waits for a turn without any other call. The place in the order is that of the first poll.
    ///
    /// # Cancel safety
    /// If the future is dropped, the call loses its place.
    pub(crate) async fn turn(&self, key: &K) -> KeyTurn<'_, K> {
        let (mut turn, lock) = self.prepare(key);
        // Without `unconstrained`, a task that has used up the poll budget of Tokio would get its place later than others.
        turn.guard = Guard::Exclusive { _guard: unconstrained(lock.write_owned()).await };
        turn
    }

    /// Waits for a turn together with the calls beside it in the order that share their turn, too.
    ///
    /// # Cancel safety
    /// As [`KeyLocks::turn`].
    pub(crate) async fn shared_turn(&self, key: &K) -> KeyTurn<'_, K> {
        let (mut turn, lock) = self.prepare(key);
        turn.guard = Guard::Shared { _guard: unconstrained(lock.read_owned()).await };
        turn
    }

    /// The turn exists before the wait, so that the entry is also removed if the caller's future is dropped.
    fn prepare(&self, key: &K) -> (KeyTurn<'_, K>, Arc<RwLock<()>>) {
        let turn = KeyTurn { locks: self, key: key.clone(), guard: Guard::None };
        (turn, self.lock_of(key))
    }

    fn lock_of(&self, key: &K) -> Arc<RwLock<()>> {
        let mut locks = self.locks();
        if let Some(lock) = locks.get(key).and_then(Weak::upgrade) {
            return lock;
        }
        let lock = Arc::default();
        locks.insert(key.clone(), Arc::downgrade(&lock));
        lock
    }
}

impl<K: Hash + Eq> KeyLocks<K> {
    fn locks(&self) -> MutexGuard<'_, Locks<K>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Hash + Eq> Drop for KeyTurn<'_, K> {
    fn drop(&mut self) {
        self.guard = Guard::None;
        let mut locks = self.locks.locks();
        if locks.get(&self.key).is_some_and(|lock| lock.strong_count() == 0) {
            locks.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn the_turns_of_a_key_follow_each_other_and_leave_nothing() {
        let (locks, key, other) = (KeyLocks::default(), "a", "b");
        let first = locks.turn(&key).now_or_never().unwrap();
        assert!(locks.turn(&other).now_or_never().is_some());
        let (mut second, mut third) = (Box::pin(locks.turn(&key)), Box::pin(locks.turn(&key)));
        assert!((&mut second).now_or_never().is_none() && (&mut third).now_or_never().is_none());
        drop(first);
        assert!((&mut third).now_or_never().is_none());
        drop(second);
        assert!((&mut third).now_or_never().is_some());
        drop(third);
        let (fourth, mut fifth) = (locks.shared_turn(&key).now_or_never().unwrap(), Box::pin(locks.shared_turn(&key)));
        let mut sixth = Box::pin(locks.turn(&key));
        let fifth = (&mut fifth).now_or_never().unwrap();
        assert!((&mut sixth).now_or_never().is_none() && locks.shared_turn(&key).now_or_never().is_none());
        drop((fourth, fifth));
        assert!((&mut sixth).now_or_never().is_some());
        drop(sixth);
        assert!(locks.locks().is_empty());
    }
}
