//! The store for tests that run over any store: a file.

use crate::help::Place;

pub(crate) struct Store {
    place: Place,
    url: String,
}

impl Store {
    pub(crate) fn start() -> Self {
        let place = Place::new();
        let url = format!("sqlite:{}", place.path("a.db").display());
        Self { place, url }
    }

    /// A directory, and the store's URL without options.
    pub(crate) fn place_and_url(&self) -> (&Place, &str) {
        (&self.place, &self.url)
    }
}
