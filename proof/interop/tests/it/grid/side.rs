//! The setup of each test of objects: a server, JVMs, and grids of bandog.

use std::{sync::Arc, time::Duration};

use bandog::grid::{
    ClientGrid, Grid,
    codec::{Codec, Decode, Encode},
};
use bandog_testkit::RedisServer;

use crate::{
    neighbour::{Neighbour, PendingAnswer, Program, SOON},
    rig::{TTL, connect},
    stage::Actors,
};

/// A ttl that does not expire during a test.
pub(crate) const HOUR: Duration = Duration::from_secs(3_600);

/// A codec for texts as keys and values.
pub(crate) trait Texts:
    Encode<str> + Encode<String> + Decode<String> + Codec<Keys: Encode<str> + Encode<String> + Decode<String>>
{
}

impl<C> Texts for C where
    C: Encode<str> + Encode<String> + Decode<String> + Codec<Keys: Encode<str> + Encode<String> + Decode<String>>
{
}

/// Calls a function with the name that Java has for a codec, and with the codec, for each codec.
macro_rules! each_codec {
    ($side:expr, $check:ident) => {{
        use bandog::grid::codec::{Kryo5, Text, TextJson, TypedJson};
        $check($side, "kryo5", Kryo5).await;
        $check($side, "text", Text).await;
        $check($side, "typed-json", TypedJson).await;
        $check($side, "text-json", TextJson).await;
    }};
}
pub(crate) use each_codec;

/// A server with this number of JVMs, and with the same number of clients of bandog.
pub(crate) struct Side {
    pub(crate) server: Arc<RedisServer>,
    pub(crate) javas: Vec<Neighbour>,
    pub(crate) grids: Vec<Grid>,
    _actors: Actors,
}

impl Side {
    pub(crate) async fn start(count: usize) -> Self {
        Self::start_with(Program::RedissonGrid, count).await
    }

    pub(crate) async fn start_with(program: Program, count: usize) -> Self {
        let actors = Actors::start(TTL, &vec![program; count]);
        let server = Arc::clone(&actors.server);
        let mut grids = Vec::new();
        for _ in 0..count {
            grids.push(connect(&server, TTL).await.grid());
        }
        Self { server, javas: actors.neighbours.clone(), grids, _actors: actors }
    }

    pub(crate) fn grid(&self) -> &Grid {
        &self.grids[0]
    }

    /// The answer of the first JVM to a command for an object.
    #[track_caller]
    pub(crate) fn java(&self, kind: &str, verb: &str, name: &str, args: &[&str]) -> String {
        self.send(kind, verb, name, args).answer(SOON * 3)
    }

    pub(crate) fn send(&self, kind: &str, verb: &str, name: &str, args: &[&str]) -> PendingAnswer {
        self.javas[0].command("a", &[&[kind, verb, name], args].concat())
    }

    /// The answer of the first JVM: texts.
    #[track_caller]
    pub(crate) fn java_texts(&self, kind: &str, verb: &str, name: &str, args: &[&str]) -> Vec<String> {
        let answer = self.java(kind, verb, name, args);
        assert!(!answer.starts_with("error "), "{kind} {verb} {name}: {answer}");
        let words = answer.split('\t').filter(|word| !word.is_empty());
        words.map(|word| word.strip_prefix('s').unwrap_or_else(|| panic!("no text: {answer}")).to_owned()).collect()
    }

    /// Deletes the last fences of locks of entries, which bandog keeps for ever.
    pub(crate) fn forget_locks(&self) {
        for key in self.keys_of("redisson_lock_token:") {
            self.server.cmd(&["DEL", &key]);
        }
    }

    /// The keys of this object.
    pub(crate) fn keys_of(&self, name: &str) -> Vec<String> {
        // The latch of the evictors of both sides is there for seconds, whether the object exists or not.
        let is_latch = |key: &str| key.starts_with("redisson__execute_task_once_latch:");
        self.server.keys().into_iter().filter(|key| key.contains(name) && !is_latch(key)).collect()
    }
}

impl Drop for Side {
    /// Removes the hashes of objects, which the stage takes for locks.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.server.cmd(&["FLUSHALL"]);
        }
    }
}

/// The word of a text for Java.
pub(crate) fn s(text: &str) -> String {
    format!("s{text}")
}
