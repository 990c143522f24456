//! Servers and JVMs that several tests use one after the other, because the start of a JVM takes a second or more.
//!
//! A test gets JVMs that were used before only if no command of them is unanswered and no lock was held at the end of the
//! test before. Processes of bandog start fast, so each test gets new ones.

use std::{
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use bandog_testkit::RedisServer;

use crate::neighbour::{Neighbour, Program};

/// The stages that no test uses now.
static IDLE: Mutex<Vec<Stage>> = Mutex::new(Vec::new());

/// A server, and JVMs that are connected to it.
struct Stage {
    ttl: Duration,
    server: Arc<RedisServer>,
    javas: Vec<Neighbour>,
    _cleaner: Child,
}

/// A server and neighbours for one test.
pub(crate) struct Actors {
    pub(crate) server: Arc<RedisServer>,
    pub(crate) neighbours: Vec<Neighbour>,
    stage: Option<Stage>,
}

impl Actors {
    /// An empty server, and neighbours of these programs whose locks have this ttl.
    pub(crate) fn start(ttl: Duration, programs: &[Program]) -> Self {
        let mut stage = take(ttl);
        stage.server.cmd(&["FLUSHALL"]);
        let mut used = |program: &Program| {
            let found = stage.javas.iter().position(|java| java.program == *program)?;
            Some(stage.javas.swap_remove(found))
        };
        let found: Vec<_> = programs.iter().map(|program| (*program, used(program))).collect();
        let server: &RedisServer = &stage.server;
        let neighbours = thread::scope(|scope| {
            let starts = found.into_iter().map(|(program, found)| {
                scope.spawn(move || found.unwrap_or_else(|| Neighbour::start(program, &server.url(), ttl)))
            });
            let starts: Vec<_> = starts.collect();
            starts.into_iter().map(|start| start.join().expect("the neighbour started")).collect()
        });
        Self { server: Arc::clone(&stage.server), neighbours, stage: Some(stage) }
    }
}

impl Drop for Actors {
    /// Keeps the JVMs for the next test, if the test succeeded and has left nothing behind.
    fn drop(&mut self) {
        if thread::panicking() || is_locked(&self.server) {
            return;
        }
        let Some(mut stage) = self.stage.take() else { return };
        let javas = self.neighbours.drain(..).filter(|neighbour| neighbour.program.is_java());
        stage.javas.extend(javas.filter(Neighbour::is_idle));
        idle().push(stage);
    }
}

/// A stage with this ttl: an idle one, or a new one.
fn take(ttl: Duration) -> Stage {
    let mut idle = idle();
    if let Some(found) = idle.iter().position(|stage| stage.ttl == ttl) {
        return idle.swap_remove(found);
    }
    let server = RedisServer::start();
    let cleaner = delete_after_exit(&server);
    Stage { ttl, server: Arc::new(server), javas: Vec::new(), _cleaner: cleaner }
}

fn idle() -> MutexGuard<'static, Vec<Stage>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a lock is held: each lock is a hash.
fn is_locked(server: &RedisServer) -> bool {
    server.keys().iter().any(|key| !key.starts_with("bandog:") && server.cmd(&["TYPE", key]).text() == "hash")
}

/// Starts a process that deletes the server's folder when this process has ended. A static value is never dropped, so
/// the server itself does not delete its folder.
fn delete_after_exit(server: &RedisServer) -> Child {
    let socket = server.socket();
    let folder = socket.parent().expect("a folder");
    let mut command = Command::new("sh");
    // The process reads from a pipe that is closed when this process ends.
    command.args(["-c", "read -r line; rm -rf -- \"$0\""]).arg(folder).stdin(Stdio::piped());
    command.spawn().expect("a shell")
}
