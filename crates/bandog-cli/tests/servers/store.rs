//! The store of tests that are the same over any: a Redis.

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

    /// A place, and the store's URL without options.
    pub(crate) fn both(&self) -> (&Place, &str) {
        (&self.place, &self.url)
    }
}
