//! The connection for commands: dialled when first needed, watched, and dialled again when it breaks.

#[cfg(test)]
pub(crate) mod shutdown;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    task::Poll,
    time::Instant,
};

use bandog_core::{Error, Result};
use futures_util::{
    FutureExt,
    future::{BoxFuture, Either},
    poll,
};
use redis::{Pipeline, Value, aio::MultiplexedConnection};
use tokio::{
    sync::{Mutex, Notify, watch},
    task::unconstrained,
    time::{sleep, timeout_at},
};

use crate::{
    dial::{Dialled, Probes, dial, once_met},
    options::RedisOptions,
    pause::Pause,
    refusal,
    script::{self, By},
};

/// So many requests in a row without an answer, and the connection is given up: it may be half open.
const SILENT: u32 = 2;

/// The connection for commands, and the task that keeps it.
#[derive(Debug)]
pub(crate) struct Link(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    options: RedisOptions,
    phase: watch::Sender<Phase>,
    /// Counts the connections made.
    epoch: watch::Sender<u64>,
    /// Counts the dials begun.
    dials: AtomicU64,
    /// Somebody wants a connection: after a refused login nobody dials without it.
    wanted: Notify,
    /// The calls that wait for a connection go out in the order of their arrival.
    turn: Mutex<()>,
    waiting: AtomicUsize,
    closed: Notify,
}

#[derive(Debug, Clone)]
enum Phase {
    /// No task runs.
    Idle,
    Dialling,
    Up(Arc<Live>),
    /// The dial of this number failed; another follows after a pause.
    Failed(u64, Error),
}

/// A connection that works, as far as we know.
#[derive(Debug)]
struct Live {
    mux: MultiplexedConnection,
    by_text: AtomicBool,
    /// Requests in a row that had no answer.
    silent: AtomicU32,
    given_up: Notify,
}

impl Link {
    /// A link that has not dialled yet.
    pub(crate) fn new(options: RedisOptions) -> Self {
        Self(Arc::new(Shared {
            options,
            phase: watch::Sender::new(Phase::Idle),
            epoch: watch::Sender::new(0),
            dials: AtomicU64::new(0),
            wanted: Notify::new(),
            turn: Mutex::new(()),
            waiting: AtomicUsize::new(0),
            closed: Notify::new(),
        }))
    }

    /// Counts the connections made.
    pub(crate) fn epoch(&self) -> watch::Receiver<u64> {
        self.0.epoch.subscribe()
    }

    /// The number of the connection made last.
    pub(crate) fn connection(&self) -> u64 {
        *self.0.epoch.borrow()
    }

    /// As [`Link::call_by`], with the time that one request may take.
    pub(crate) async fn call(&self, pack: impl FnOnce(By) -> Pipeline + Send) -> Result<Vec<Value>> {
        self.call_by(Instant::now() + self.0.options.timeout, pack).await
    }

    /// Sends one pipeline and gives one value for each of its commands; a refusal by the server is a value too.
    ///
    /// On a connection that stands the first poll sends it.
    ///
    /// # Errors
    /// `Unavailable` without a connection or an answer in time, `Denied` when the login is refused.
    ///
    /// # Cancel safety
    /// What was sent may be applied.
    pub(crate) async fn call_by(
        &self,
        deadline: Instant,
        pack: impl FnOnce(By) -> Pipeline + Send,
    ) -> Result<Vec<Value>> {
        match self.0.ready() {
            Some(live) => live.send(&pack(live.by()), deadline).await,
            // The long way is in a box of its own, so that the short one does not carry its size.
            None => self.0.call_later(deadline, pack).boxed().await,
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.0.closed.notify_one();
    }
}

impl Shared {
    /// The connection, if it stands and nobody came earlier and still waits for it.
    fn ready(&self) -> Option<Arc<Live>> {
        match &*self.phase.borrow() {
            Phase::Up(live) if self.waiting.load(Ordering::Relaxed) == 0 => Some(live.clone()),
            Phase::Up(_) | Phase::Idle | Phase::Dialling | Phase::Failed(..) => None,
        }
    }

    async fn call_later(
        self: &Arc<Self>,
        deadline: Instant,
        pack: impl FnOnce(By) -> Pipeline + Send,
    ) -> Result<Vec<Value>> {
        let seen = self.dials.load(Ordering::Relaxed);
        let waiting = Waiting::new(self);
        let sent = unconstrained(async {
            let _turn = self.turn.lock().await;
            let live = self.live(seen).await?;
            let pipe = pack(live.by());
            let mut answer: BoxFuture<'static, _> = async move { live.send(&pipe, deadline).await }.boxed();
            // The first poll sends it, and only then it is the next one's turn.
            Ok(match poll!(&mut answer) {
                Poll::Ready(answer) => Either::Left(std::future::ready(answer)),
                Poll::Pending => Either::Right(answer),
            })
        });
        let sent = timeout_at(deadline.into(), sent).await;
        drop(waiting);
        match sent {
            Ok(answer) => answer?.await,
            Err(_) => Err(self.not_connected()),
        }
    }

    /// Waits until the connection stands, or until a dial that was begun after the one of this number has failed.
    ///
    /// It starts the task at most once: a runtime that shuts down drops each new task before `spawn` returns.
    async fn live(self: &Arc<Self>, seen: u64) -> Result<Arc<Live>> {
        let mut phases = self.phase.subscribe();
        let mut has_started = false;
        self.wanted.notify_one();
        loop {
            let phase = phases.borrow_and_update().clone();
            match phase {
                Phase::Up(live) => return Ok(live),
                Phase::Failed(dial, error) if dial > seen => return Err(error),
                Phase::Idle if has_started => {
                    return Err(Error::unavailable("the Tokio runtime of the connection has shut down"));
                }
                Phase::Idle => has_started = self.start(),
                Phase::Dialling | Phase::Failed(..) => {}
            }
            // It cannot be closed, since we hold the sender.
            let _ = phases.changed().await;
        }
    }

    fn not_connected(&self) -> Error {
        let Self { options, phase, .. } = self;
        let error = Error::unavailable(format!("no connection to {} within {:?}", options.store(), options.timeout));
        match &*phase.borrow() {
            Phase::Failed(_, cause) => error.caused_by(cause.clone()),
            Phase::Idle | Phase::Dialling | Phase::Up(_) => error,
        }
    }

    /// Starts the task that keeps the connection on the current runtime, unless another call has just started it.
    /// Returns whether this call has.
    fn start(self: &Arc<Self>) -> bool {
        let is_mine = self.phase.send_if_modified(|phase| {
            let is_idle = matches!(phase, Phase::Idle);
            if is_idle {
                *phase = Phase::Dialling;
            }
            is_idle
        });
        if is_mine {
            tokio::spawn(keep(Keeper(self.clone())));
        }
        is_mine
    }

    /// Lets everybody use this connection until it ends.
    async fn serve(&self, dialled: Dialled) {
        let Dialled { mux, mut driver, reset } = dialled;
        let live =
            Arc::new(Live { mux, by_text: AtomicBool::new(false), silent: AtomicU32::new(0), given_up: Notify::new() });
        // The scripts are the first thing on the wire, so whatever is sent next finds them loaded.
        let mut loading = load(live.clone()).boxed();
        let mut loaded = poll!(&mut loading).is_ready();
        self.phase.send_replace(Phase::Up(live.clone()));
        self.epoch.send_modify(|epoch| *epoch += 1);
        loop {
            tokio::select! {
                () = &mut driver => break,
                () = live.given_up.notified() => { reset.set(); break }
                () = &mut loading, if !loaded => loaded = true,
            }
        }
        // Nobody may take this connection any more when those who wait on it hear that it is gone.
        self.phase.send_replace(Phase::Dialling);
        drop(driver);
    }
}

/// The task that keeps the connection. When its runtime shuts down, the task ends, and the next call on another runtime
/// starts a new one.
struct Keeper(Arc<Shared>);

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.phase.send_replace(Phase::Idle);
    }
}

async fn keep(keeper: Keeper) {
    let link = &*keeper.0;
    tokio::select! {
        () = link.closed.notified() => {}
        () = redial(link) => {}
    }
}

/// Dials, serves, and dials again, for ever.
async fn redial(link: &Shared) {
    let (mut pause, mut probes) = (Pause::default(), Probes::few());
    loop {
        sleep(pause.take()).await;
        // Who has asked by now is served by this dial.
        let _ = link.wanted.notified().now_or_never();
        let number = link.dials.fetch_add(1, Ordering::Relaxed) + 1;
        link.phase.send_replace(Phase::Dialling);
        match dial(&link.options, None, &mut probes).await {
            Ok(dialled) => {
                let since = Instant::now();
                link.serve(dialled).await;
                pause.lived(since.elapsed());
            }
            Err(error) => {
                let error = if *link.epoch.borrow() > 0 { once_met(error) } else { error };
                let hopeless = !error.is_retryable();
                link.phase.send_replace(Phase::Failed(number, error));
                if hopeless {
                    // The same login would be refused again, and servers lock out those who insist.
                    link.wanted.notified().await;
                }
            }
        }
    }
}

impl Live {
    fn by(&self) -> By {
        if self.by_text.load(Ordering::Relaxed) { By::Text } else { By::Hash }
    }

    /// Sends a pipeline on the first poll and waits for its answers.
    async fn send(self: &Arc<Self>, pipe: &Pipeline, deadline: Instant) -> Result<Vec<Value>> {
        let mut mux = self.mux.clone();
        mux.set_response_timeout(deadline.saturating_duration_since(Instant::now()));
        // A task out of its budget would otherwise be sent to the back, and what it asked with it.
        let answer = unconstrained(mux.send_packed_commands(pipe, 0, pipe.len())).await;
        let values = answer.map_err(|error| {
            if error.is_timeout() && self.silent.fetch_add(1, Ordering::Relaxed) + 1 >= SILENT {
                self.given_up.notify_one();
            }
            refusal::failed(error)
        })?;
        if self.silent.load(Ordering::Relaxed) != 0 {
            self.silent.store(0, Ordering::Relaxed);
        }
        if values.iter().any(refusal::is_no_script) {
            self.reload().await;
        }
        if values.len() == pipe.len() {
            Ok(values)
        } else {
            Err(Error::unavailable("Redis answered too little").ambiguous())
        }
    }

    /// Sends the scripts, ahead of whatever is sent once this has returned, and does not wait for the answer.
    async fn reload(self: &Arc<Self>) {
        let mut loading = load(self.clone()).boxed();
        if poll!(&mut loading).is_pending() {
            tokio::spawn(loading);
        }
    }
}

/// Loads the scripts, or finds out that they have to be sent with each call.
async fn load(live: Arc<Live>) {
    let (mut mux, scripts) = (live.mux.clone(), script::load());
    let Ok(answers) = unconstrained(mux.send_packed_commands(&scripts, 0, scripts.len())).await else {
        return; // Whoever needs them will be told that they are missing.
    };
    let denied = |answer: &Value| matches!(answer, Value::ServerError(error) if refusal::is_lasting(error));
    live.by_text.store(answers.iter().any(denied), Ordering::Relaxed);
}

/// Counts a call that waits, until it is dropped.
struct Waiting<'a>(&'a Shared);

impl<'a> Waiting<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.waiting.fetch_add(1, Ordering::Relaxed);
        Self(shared)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
