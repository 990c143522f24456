//! The folders that this client has used a short time ago.

use std::{
    collections::HashSet,
    mem,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bandog_core::Key;
use tokio::time::Instant;

/// Time for which a folder is remembered at least, after its last use. ZooKeeper deletes empty folders each minute.
const MEMORY: Duration = Duration::from_secs(5);
/// Maximum number of folders that are remembered, in each of the two sets.
const MAX: usize = 10_000;

/// The folders of locks that existed a short time ago.
#[derive(Debug, Default)]
pub(crate) struct Folders(Mutex<Recent>);

#[derive(Debug, Default)]
struct Recent {
    /// The folders that were used since `since`.
    now: HashSet<Key>,
    /// The folders that were used before.
    before: HashSet<Key>,
    since: Option<Instant>,
}

impl Folders {
    /// Records the use of a lock's folder. Returns whether the folder may be missing, because it was not used lately.
    pub(crate) fn is_new(&self, key: &Key) -> bool {
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = recent.since.is_none_or(|since| since.elapsed() >= MEMORY);
        if is_old || recent.now.len() >= MAX {
            recent.before = mem::take(&mut recent.now);
            recent.since = Some(Instant::now());
        }
        recent.now.insert(key.clone()) && !recent.before.contains(key)
    }

    /// Forgets the use of a lock's folder.
    pub(crate) fn forget(&self, key: &Key) {
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        recent.now.remove(key);
        recent.before.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_folder_is_new_until_it_was_used_and_some_time_after_its_last_use() {
        let (folders, key, other) = (Folders::default(), Key::new("a").unwrap(), Key::new("b").unwrap());
        assert!(folders.is_new(&key) && !folders.is_new(&key) && folders.is_new(&other));
        for _ in 0..4 {
            tokio::time::advance(MEMORY).await;
            assert!(!folders.is_new(&key));
        }
        assert!(folders.is_new(&other));
        folders.forget(&key);
        assert!(folders.is_new(&key) && !folders.is_new(&other));
    }

    #[test]
    fn the_number_of_folders_is_limited() {
        let folders = Folders::default();
        for number in 0..MAX * 5 {
            assert!(folders.is_new(&Key::new(number.to_string()).unwrap()));
        }
        let recent = folders.0.lock().unwrap();
        assert!(recent.now.len() <= MAX && recent.before.len() <= MAX);
    }
}
