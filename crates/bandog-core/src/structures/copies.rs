//! The changes of a map of which programs keep copies.

use std::{fmt, sync::Arc};

use crate::Error;

/// A change of a tracked map.
#[derive(Debug, Clone)]
pub enum MapChange {
    /// The entries whose fields have these hashes (HighwayHash of 128 bits) were written or removed.
    Entries(Vec<[u8; 16]>),
    /// The map has changed. Unless the writer keeps copies, [`MapChange::Entries`] does not follow.
    Written,
    /// Any entry may have changed. From now on, each change is reported.
    Any,
    /// Changes are not reported any more.
    Lost,
    /// Changes are not reported, because this user has no right to it, or the store does not have it.
    Denied(Error),
}

/// Gets the changes of a tracked map.
#[derive(Clone)]
pub struct MapChanges(Arc<dyn Fn(MapChange) + Send + Sync>);

impl MapChanges {
    /// Calls this function with each change. It must not block, and must not call the backend.
    pub fn new(call: impl Fn(MapChange) + Send + Sync + 'static) -> Self {
        Self(Arc::new(call))
    }

    /// Reports a change.
    pub fn report(&self, change: MapChange) {
        (self.0)(change);
    }
}

impl fmt::Debug for MapChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MapChanges")
    }
}
