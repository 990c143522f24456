//! The keeper of one name: the task that owns the session with the lock.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bandog_core::{ClaimId, Error, Key, Result};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc, watch},
    time::{sleep_until, timeout, timeout_at},
};

use super::{
    lock,
    sessions::{Command, Held},
};
use crate::{context::Context, fault::Fault, session::Session};

/// A claim that has the lock, and the session that has it.
struct Hold {
    id: ClaimId,
    session: Session,
    /// The time at which the lock is freed, unless it is extended. The server ends the session later than this.
    until: Instant,
    /// Returned when the session is closed or idle.
    permit: OwnedSemaphorePermit,
}

/// An event for which a keeper waits.
enum Event {
    Command(Command),
    /// The backend is dropped.
    Closed,
    SessionEnded,
    Expired,
}

pub(super) fn start(held: Arc<Held>, context: Arc<Context>, key: Key, commands: mpsc::Receiver<Command>) {
    tokio::spawn(Keeper { held, context, key, commands, hold: None }.run());
}

struct Keeper {
    held: Arc<Held>,
    context: Arc<Context>,
    key: Key,
    commands: mpsc::Receiver<Command>,
    hold: Option<Hold>,
}

impl Keeper {
    /// Works until there is neither a hold nor a command, or the backend is dropped.
    async fn run(mut self) {
        loop {
            match self.next().await {
                // If a receiver is dropped, no caller waits for the answer. The engine releases such a claim.
                Event::Command(Command::Take { id, from, ttl, granted, reply }) => {
                    drop(reply.send(self.take(id, from, ttl, granted).await))
                }
                Event::Command(Command::Extend { id, ttl, reply }) => drop(reply.send(self.extend(id, ttl).await)),
                Event::Command(Command::Free { id, reply }) => {
                    let was_held = self.is_held_by(id) && self.free().await;
                    // If the receiver is dropped, no caller waits for the answer.
                    let _ = reply.send(was_held);
                }
                Event::Expired => {
                    self.free().await;
                }
                Event::SessionEnded => {
                    self.set(None);
                    // The engine renews its holds now, and finds that this one is gone.
                    self.context.connected(true);
                }
                Event::Closed => return,
            }
            if self.hold.is_none() && self.held.retire(&self.key, &self.commands) {
                return;
            }
        }
    }

    async fn next(&mut self) -> Event {
        let command = |command: Option<Command>| command.map_or(Event::Closed, Event::Command);
        let Some(hold) = &mut self.hold else { return command(self.commands.recv().await) };
        tokio::select! {
            biased;
            _ = hold.session.ended() => Event::SessionEnded,
            received = self.commands.recv() => command(received),
            () = sleep_until(hold.until.into()) => Event::Expired,
        }
    }

    fn is_held_by(&self, id: ClaimId) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.id == id)
    }

    /// Sets the hold, and records its claim. Returns the previous hold.
    fn set(&mut self, hold: Option<Hold>) -> Option<Hold> {
        self.held.set_holder(&self.key, hold.as_ref().map(|hold| hold.id));
        std::mem::replace(&mut self.hold, hold)
    }

    async fn take(
        &mut self,
        id: ClaimId,
        from: Option<ClaimId>,
        ttl: Duration,
        granted: watch::Receiver<bool>,
    ) -> Result<bool> {
        if let Some(hold) = &mut self.hold {
            if hold.id != id && Some(hold.id) != from {
                return Ok(false);
            }
            hold.id = id;
            self.held.set_holder(&self.key, Some(id));
            return self.extend(id, ttl).await;
        }
        // It is shorter than the timeout of a request. So a request that waits for a permit fails with the cause.
        let deadline = Instant::now() + self.context.options.timeout * 9 / 10;
        let permit = self.permit(deadline, granted).await?;
        let until = Instant::now() + ttl;
        let Some(session) = self.lock(ttl, deadline).await? else { return Ok(false) };
        self.set(Some(Hold { id, session, until: until.max(Instant::now()), permit }));
        Ok(true)
    }

    /// Waits for a permit until the deadline, or until another claim of the same call is granted.
    async fn permit(&mut self, deadline: Instant, mut granted: watch::Receiver<bool>) -> Result<OwnedSemaphorePermit> {
        let asked_at = Instant::now();
        tokio::select! {
            biased;
            permit = self.held.permits.clone().acquire_owned() => {
                permit.map_err(|_| Error::unavailable("the backend was dropped"))
            }
            // An error means that no caller waits any more.
            _ = granted.wait_for(|is_granted| *is_granted) => Err(self.held.full(asked_at.elapsed())),
            () = sleep_until(deadline.into()) => Err(self.held.full(asked_at.elapsed())),
        }
    }

    /// Takes the lock in a session. None: another session has it. A session that was idle may have ended meanwhile, so then
    /// a new one is opened.
    async fn lock(&mut self, ttl: Duration, deadline: Instant) -> Result<Option<Session>> {
        let late =
            || Error::unavailable(format!("{} did not answer in time", self.context.options.store())).ambiguous();
        loop {
            let idle = self.held.idle().pop();
            let was_idle = idle.is_some();
            let mut session = match idle {
                Some(session) => session,
                None => timeout_at(deadline.into(), Session::open(&self.context)).await.map_err(|_| late())??,
            };
            let taken = session.drive(|link| lock::take(link, &self.context, &self.key, ttl));
            match timeout_at(deadline.into(), taken).await {
                Ok(Ok(true)) => return Ok(Some(session)),
                Ok(Ok(false)) => {
                    self.park(session).await;
                    return Ok(None);
                }
                Ok(Err(Fault::Broken(_))) if was_idle => session.discard(),
                Ok(Err(fault)) => {
                    session.discard();
                    return Err(fault.describe(&self.context.options.store()));
                }
                Err(_) => {
                    session.discard();
                    return Err(late());
                }
            }
        }
    }

    /// Extends the hold. While the server does not answer, the keeper waits until the hold expires: if the session were
    /// closed, the server would free the lock.
    async fn extend(&mut self, id: ClaimId, ttl: Duration) -> Result<bool> {
        let Some(hold) = self.hold.as_mut().filter(|hold| hold.id == id) else { return Ok(false) };
        let now = Instant::now();
        let until = hold.until.max(now + ttl);
        let extended = hold.session.drive(|link| lock::extend(link, &self.context, &self.key, until - now));
        if let Ok(Ok(true)) = timeout_at(hold.until.into(), extended).await {
            hold.until = until;
            return Ok(true);
        }
        self.discard();
        Ok(false)
    }

    /// Frees the lock, and keeps the session for the next one. Returns whether the session had the lock until now.
    async fn free(&mut self) -> bool {
        let Some(Hold { mut session, permit, .. }) = self.set(None) else { return false };
        let freed = session.drive(|link| lock::free(link, &self.context, &self.key));
        let was_held = matches!(timeout(self.context.options.timeout, freed).await, Ok(Ok(())));
        if was_held {
            self.park(session).await;
        } else {
            session.discard();
        }
        drop(permit);
        was_held
    }

    /// Keeps a session without a lock for later. A session with an open transaction is closed.
    async fn park(&mut self, mut session: Session) {
        let limit = self.context.options.timeout;
        match timeout(limit, session.roll_back()).await {
            Ok(Ok(())) => self.held.idle().push(session),
            Ok(Err(_)) | Err(_) => session.discard(),
        }
    }

    /// Closes the session, so the server frees the lock.
    fn discard(&mut self) {
        if let Some(hold) = self.set(None) {
            hold.session.discard();
        }
    }
}
