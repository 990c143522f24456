//! The store for tests that run over any store: a Redis server.

use bandog_testkit::RedisServer;

use crate::help::Place;

pub(crate) struct Store {
    place: Place,
    url: String,
    _redis: RedisServer,
}

impl Store {
    pub(crate) fn start() -> Self {
        let redis = RedisServer::start();
        Self { place: Place::new(), url: redis.url(), _redis: redis }
    }

    /// A directory, and the store's URL without options.
    pub(crate) fn place_and_url(&self) -> (&Place, &str) {
        (&self.place, &self.url)
    }
}
