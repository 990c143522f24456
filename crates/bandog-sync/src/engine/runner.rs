//! Where an engine runs: on its own thread, or as a task of the user's runtime.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread::{self, ThreadId},
    time::Duration,
};

use bandog_core::{Error, Result};

use super::actor::Engine;

/// Where an engine runs. With this value, the last handle can wait for the end of the engine.
#[derive(Debug)]
pub(crate) enum Runner {
    OwnThread { thread: ThreadId, ended: Arc<EngineEnd> },
    CurrentRuntime,
}

impl Runner {
    /// Starts the engine on its own thread.
    pub(crate) fn on_own_thread(mut engine: Engine) -> Result<Self> {
        engine.may_spin = true;
        let failed = |source| Error::unavailable("the engine's thread could not be started").caused_by(source);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let ended = Arc::new(EngineEnd::default());
        let signal = SignalOnDrop(Arc::clone(&ended));
        let spawned = thread::Builder::new().name("bandog".into()).spawn(move || {
            let _signal = signal;
            runtime.block_on(engine.run());
        });
        Ok(Self::OwnThread { thread: spawned.map_err(failed)?.thread().id(), ended })
    }

    /// Starts the engine as a task of the caller's runtime.
    pub(crate) fn on_current_runtime(engine: Engine) -> Result<Self> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|source| {
            Error::misused("on_current_runtime() was used outside a Tokio runtime").caused_by(source)
        })?;
        runtime.spawn(engine.run());
        Ok(Self::CurrentRuntime)
    }

    /// Whether the engine has its own thread. Such an engine runs even while the user's threads are blocked.
    pub(crate) fn is_own_thread(&self) -> bool {
        matches!(self, Self::OwnThread { .. })
    }

    /// Waits until the engine has ended, if the engine has its own thread. Otherwise this function returns immediately,
    /// because the engine might need the caller's thread to run.
    pub(crate) fn wait_for_end(&self, at_most: Duration) {
        match self {
            // If the engine's own thread drops the last handle, that thread must not wait for itself.
            Self::OwnThread { thread, ended } if *thread != thread::current().id() => ended.wait(at_most),
            Self::OwnThread { .. } | Self::CurrentRuntime => {}
        }
    }
}

/// Lets other threads wait until the engine's thread has ended.
#[derive(Debug, Default)]
pub(crate) struct EngineEnd {
    /// Whether the engine's thread has ended.
    done: Mutex<bool>,
    changed: Condvar,
}

impl EngineEnd {
    fn signal(&self) {
        *self.done.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    fn wait(&self, at_most: Duration) {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        // If the engine has not ended within `at_most`, it continues in the background. If the process ends before a
        // release is answered, the lock of that release might expire only after its ttl.
        drop(self.changed.wait_timeout_while(done, at_most, |done| !*done));
    }
}

/// Its drop signals the end of the engine. So the end is signalled even if the engine panics.
struct SignalOnDrop(Arc<EngineEnd>);

impl Drop for SignalOnDrop {
    fn drop(&mut self) {
        self.0.signal();
    }
}
