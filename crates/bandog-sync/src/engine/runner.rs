//! Where an engine runs: on a thread of its own, or as a task of the user's runtime.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread::{self, ThreadId},
    time::Duration,
};

use bandog_core::{Error, Result};

use super::Engine;

/// A running engine, as its last handle sees it.
#[derive(Debug)]
pub(crate) enum Runner {
    OwnThread { thread: ThreadId, ended: Arc<Ended> },
    CurrentRuntime,
}

impl Runner {
    /// Starts the engine on a thread of its own.
    pub(crate) fn on_own_thread(mut engine: Engine) -> Result<Self> {
        engine.lingers = true;
        let failed = |source| Error::unavailable("the engine's thread could not be started").caused_by(source);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let ended = Arc::new(Ended::default());
        let tells = TellsAtEnd(Arc::clone(&ended));
        let spawned = thread::Builder::new().name("bandog".into()).spawn(move || {
            let _tells = tells;
            runtime.block_on(engine.run());
        });
        Ok(Self::OwnThread { thread: spawned.map_err(failed)?.thread().id(), ended })
    }

    /// Starts the engine as a task of the runtime that this is called in.
    pub(crate) fn on_current_runtime(engine: Engine) -> Result<Self> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|source| {
            Error::misused("on_current_runtime() was asked for outside a Tokio runtime").caused_by(source)
        })?;
        runtime.spawn(engine.run());
        Ok(Self::CurrentRuntime)
    }

    /// Whether the engine goes on while the user's threads are blocked.
    pub(crate) fn is_own_thread(&self) -> bool {
        matches!(self, Self::OwnThread { .. })
    }

    /// Waits until the engine has ended. On the current runtime there is nobody to wait for: it could not run.
    pub(crate) fn wait_for_end(&self, at_most: Duration) {
        match self {
            // The engine itself may be the last to let go; it must not wait for itself.
            Self::OwnThread { thread, ended } if *thread != thread::current().id() => ended.wait(at_most),
            Self::OwnThread { .. } | Self::CurrentRuntime => {}
        }
    }
}

/// Tells that the engine's thread is done.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    done: Mutex<bool>,
    told: Condvar,
}

impl Ended {
    fn tell(&self) {
        *self.done.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.told.notify_all();
    }

    fn wait(&self, at_most: Duration) {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        // The engine goes on a while if the process does; what is owed to a process that ends, ends with its ttl.
        drop(self.told.wait_timeout_while(done, at_most, |done| !*done));
    }
}

/// Tells even if the engine panics.
struct TellsAtEnd(Arc<Ended>);

impl Drop for TellsAtEnd {
    fn drop(&mut self) {
        self.0.tell();
    }
}
