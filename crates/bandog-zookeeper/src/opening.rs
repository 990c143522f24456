//! The session, which is opened again after it has expired.

use std::{
    convert::Infallible,
    sync::{Arc, Weak},
    time::Duration,
};

use bandog_core::{Error, ErrorKind, Result};
use futures_util::FutureExt;
use tokio::{
    select,
    time::{Instant, sleep, timeout, timeout_at},
};

use crate::{check, fault, host::Shared, keeper, session::Session};

/// The first pause between two attempts to open a session. The pauses double.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Maximum pause between two attempts to open a session.
const MAX_PAUSE: Duration = Duration::from_secs(1);

impl Shared {
    /// The session, with a connection. Opens a new one if the last one has expired.
    ///
    /// # Errors
    /// The request was not sent, so no error is ambiguous.
    pub(crate) async fn session(&self, deadline: Instant) -> Result<Arc<Session>> {
        let usable = async {
            select! {
                biased;
                session = self.usable_session() => session,
                never = self.learn_why() => match never {},
            }
        };
        // It ends earlier than the call, so that a `try_lock` gets the reason and not the end of its own wait.
        let limit = deadline.checked_sub(self.timeout() / 10).unwrap_or(deadline);
        match timeout_at(limit, usable).await {
            Ok(Err(error)) if error.kind() == ErrorKind::Unavailable && self.why().is_some() => {
                Err(self.no_connection())
            }
            Ok(answer) => answer,
            Err(_) => Err(self.no_connection()),
        }
    }

    async fn usable_session(&self) -> Result<Arc<Session>> {
        let session = loop {
            match self.present() {
                Some(session) => break session,
                None => self.open().await?,
            }
        };
        session.connected().await.map_err(|error| fault::of_connection(&self.store, error))?;
        Ok(session)
    }

    /// Asks the servers after a while why there is no connection, unless another call does so. Does not return.
    async fn learn_why(&self) -> Infallible {
        sleep(self.timeout() / 4).await;
        if let Ok(_asking) = self.asking.try_lock() {
            let why = check::why_not(&self.options, self.timeout() / 2).await;
            *self.why() = why;
        }
        std::future::pending().await
    }

    /// Opens a session in a task of its own, so that a call with a short timeout does not end the attempt. All calls await
    /// the same attempt.
    async fn open(&self) -> Result<()> {
        let attempt = {
            let mut opened = self.opened();
            match opened.attempt.as_ref().filter(|(_, task)| !task.is_finished()) {
                Some((attempt, _)) => attempt.clone(),
                None => {
                    let task = tokio::spawn(open(self.weak.clone()));
                    let handle = task.abort_handle();
                    let attempt = task.map(|result| {
                        result.unwrap_or_else(|error| {
                            Err(Error::unavailable("the Tokio runtime is shutting down").caused_by(error))
                        })
                    });
                    let attempt = attempt.boxed().shared();
                    opened.attempt = Some((attempt.clone(), handle));
                    attempt
                }
            }
        };
        attempt.await
    }

    /// Prepares the opening of a session: forgets the last one if it has ended. Returns the number of the new one. None if
    /// there is a session.
    fn next_number(&self) -> Option<u64> {
        let before = self.opened().session.clone();
        match before {
            Some(session) if session.is_usable() => return None,
            Some(session) => self.session_ended(&session),
            None => {}
        }
        let mut opened = self.opened();
        opened.number += 1;
        Some(opened.number)
    }

    fn install(&self, session: Session) {
        let session = Arc::new(session);
        self.opened().session = Some(Arc::clone(&session));
        *self.why() = None;
        *self.failed() = None;
        tokio::spawn(keeper::keep(session, self.weak.clone()));
        self.connected_again();
    }
}

/// Attempts to open a session, for as long as a session lasts. A session that takes longer could expire before its first
/// use. The backend can be dropped meanwhile.
async fn open(backend: Weak<Shared>) -> Result<()> {
    let Some((number, options, store)) = backend.upgrade().map(|shared| {
        let number = shared.next_number();
        (number, shared.options.clone(), shared.store.clone())
    }) else {
        return Err(Error::closed());
    };
    let Some(number) = number else { return Ok(()) };
    let mut last = Error::unavailable(format!("{store}: no connection"));
    let limit = options.session.max(options.timeout);
    let opened = timeout(limit, async {
        let mut pause = FIRST_PAUSE;
        loop {
            match Session::open(&options, number).await {
                Ok(session) => return Ok(session),
                Err(error) if error.kind() == ErrorKind::Unavailable => {
                    if let Some(shared) = backend.upgrade() {
                        *shared.failed() = Some(error.clone());
                    }
                    last = error;
                }
                Err(error) => return Err(error),
            }
            if let Some(refusal) = check::tls_refusal(&options).await {
                return Err(refusal);
            }
            sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    });
    let session = opened.await.unwrap_or_else(|_| Err(last))?;
    let shared = backend.upgrade().ok_or_else(Error::closed)?;
    shared.install(session);
    Ok(())
}
