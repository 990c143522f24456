//! The connection for commands. The first call opens it. After it breaks, a task opens it again.

mod sent;
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

use self::sent::Sent;
use crate::{
    backoff::Backoff,
    dial::{Connection, TlsProbeBudget, dial, make_retryable},
    options::{Format, RedisOptions},
    refusal,
    script::{self, ScriptForm},
};

/// Maximum number of consecutive requests that are not answered in time. When this number is reached, the connection is
/// closed and opened again. The connection might be half open: the server has ended it, and the client has not noticed.
const MAX_UNANSWERED: u32 = 2;

/// The connection for commands, and the task that opens it and reopens it.
#[derive(Debug)]
pub(crate) struct Link(Arc<SharedLink>);

#[derive(Debug)]
struct SharedLink {
    options: RedisOptions,
    phase: watch::Sender<Phase>,
    /// Number of connections opened so far.
    epoch: watch::Sender<u64>,
    /// Number of connection attempts started so far.
    dials: AtomicU64,
    /// Notified by each call that needs a connection. After a refused login, the task makes no further attempt until
    /// this is notified.
    wanted: Notify,
    /// Held by the waiting call that sends next. The other waiting calls queue for this lock, so they send in the order
    /// in which they arrived.
    send_order: Mutex<()>,
    /// Number of calls that wait for a connection or for earlier calls to send.
    waiting: AtomicUsize,
    /// Notified when the link is dropped.
    closed: Notify,
}

/// The state of the link.
#[derive(Debug, Clone)]
enum Phase {
    /// No task runs.
    Idle,
    /// The task opens a connection.
    Dialling,
    /// The connection is open.
    Up(Arc<LiveConnection>),
    /// The attempt with this number failed. The next attempt follows after the backoff. But after an error that is not
    /// retryable, such as a refused login, the next attempt follows when a call needs the connection.
    Failed(u64, Error),
}

/// The connection while it is open.
#[derive(Debug)]
struct LiveConnection {
    mux: MultiplexedConnection,
    /// Whether each call sends the text of its script instead of the hash. It is true if the user has no right to load
    /// scripts, or to run them by their hash.
    sends_text: AtomicBool,
    /// Number of consecutive requests without an answer.
    unanswered: AtomicU32,
    /// Notified when too many requests had no answer. Then the connection is closed.
    given_up: Notify,
    /// Decides which scripts are loaded.
    format: Format,
}

impl Link {
    /// A link that connects when it is first called.
    pub(crate) fn new(options: RedisOptions) -> Self {
        Self(Arc::new(SharedLink {
            options,
            phase: watch::Sender::new(Phase::Idle),
            epoch: watch::Sender::new(0),
            dials: AtomicU64::new(0),
            wanted: Notify::new(),
            send_order: Mutex::new(()),
            waiting: AtomicUsize::new(0),
            closed: Notify::new(),
        }))
    }

    /// A receiver of the number of connections opened so far.
    pub(crate) fn epoch(&self) -> watch::Receiver<u64> {
        self.0.epoch.subscribe()
    }

    /// The number of the latest connection. The first connection has the number 1.
    pub(crate) fn connection(&self) -> u64 {
        *self.0.epoch.borrow()
    }

    /// Sends commands that are not scripts. The deadline is the present time plus the timeout of one request. For errors
    /// and dropped futures, see [`Link::call_scripts`].
    pub(crate) async fn call(&self, pipe: Pipeline) -> Result<Vec<Value>> {
        Ok(self.0.call(Instant::now() + self.0.options.timeout, |_| pipe).await?.values)
    }

    /// Sends the pipeline that `pack` returns. Returns one value for each command of the pipeline. If the server
    /// refuses a command, the refusal is the value of this command, and the call does not fail.
    ///
    /// If the connection is open, the first poll of the future sends the pipeline. If the server does not have the
    /// scripts, or the user has no right to run scripts by their hash, the refused commands are sent a second time.
    ///
    /// # Errors
    /// - `Unavailable`: no connection could be opened, or no answer came in time.
    /// - `Denied`: the server refuses the login.
    ///
    /// Before the first connection is open, the call can also fail with the other errors of [`dial`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the server may still apply commands that were sent.
    pub(crate) async fn call_scripts(
        &self,
        deadline: Instant,
        pack: impl Fn(ScriptForm) -> Pipeline + Send + Sync,
    ) -> Result<Vec<Value>> {
        let sent = self.0.call(deadline, &pack).await?;
        // Boxed, so that the future of the usual case stays small.
        if sent.is_refused() { sent.send_again(deadline, pack).boxed().await } else { Ok(sent.values) }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.0.closed.notify_one();
    }
}

impl SharedLink {
    /// The connection, if it is open and no earlier call still waits to send.
    fn ready(&self) -> Option<Arc<LiveConnection>> {
        match &*self.phase.borrow() {
            Phase::Up(live) if self.waiting.load(Ordering::Relaxed) == 0 => Some(live.clone()),
            Phase::Up(_) | Phase::Idle | Phase::Dialling | Phase::Failed(..) => None,
        }
    }

    async fn call(
        self: &Arc<Self>,
        deadline: Instant,
        pack: impl FnOnce(ScriptForm) -> Pipeline + Send,
    ) -> Result<Sent> {
        match self.ready() {
            Some(live) => {
                let form = live.script_form();
                let values = live.send(&pack(form), deadline).await?;
                Ok(Sent { live, form, values })
            }
            // Boxed, so that the future of the usual case stays small.
            None => self.call_later(deadline, pack).boxed().await,
        }
    }

    /// Waits until the connection is open and all earlier calls have sent. Then sends.
    async fn call_later(
        self: &Arc<Self>,
        deadline: Instant,
        pack: impl FnOnce(ScriptForm) -> Pipeline + Send,
    ) -> Result<Sent> {
        let attempts_before = self.dials.load(Ordering::Relaxed);
        let waiting = WaitingCall::new(self);
        let sent = unconstrained(async {
            let _order = self.send_order.lock().await;
            let live = self.wait_until_open(attempts_before).await?;
            let form = live.script_form();
            let pipe = pack(form);
            let mut answer: BoxFuture<'static, _> = async move {
                let values = live.send(&pipe, deadline).await?;
                Ok(Sent { live, form, values })
            }
            .boxed();
            // The first poll sends the pipeline. Then the lock `send_order` is released, so that the next waiting call
            // can send.
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

    /// Waits until the connection is open. If a connection attempt starts during this call and fails, returns the error
    /// of the attempt. `attempts_before` is the number of attempts that were started before this call.
    ///
    /// This call starts the task at most once. A runtime that shuts down drops each new task before `spawn` returns. So
    /// a call that started the task again after each drop would never end.
    async fn wait_until_open(self: &Arc<Self>, attempts_before: u64) -> Result<Arc<LiveConnection>> {
        let mut phases = self.phase.subscribe();
        let mut has_started = false;
        self.wanted.notify_one();
        loop {
            let phase = phases.borrow_and_update().clone();
            match phase {
                Phase::Up(live) => return Ok(live),
                Phase::Failed(dial, error) if dial > attempts_before => return Err(error),
                Phase::Idle if has_started => {
                    return Err(Error::unavailable("the Tokio runtime of the connection has shut down"));
                }
                Phase::Idle => has_started = self.start(),
                Phase::Dialling | Phase::Failed(..) => {}
            }
            // The channel cannot be closed, because `self` has the sender.
            let _ = phases.changed().await;
        }
    }

    /// The error if no connection was open before the deadline.
    fn not_connected(&self) -> Error {
        let Self { options, phase, .. } = self;
        let error = Error::unavailable(format!("no connection to {} within {:?}", options.store(), options.timeout));
        match &*phase.borrow() {
            Phase::Failed(_, cause) => error.caused_by(cause.clone()),
            Phase::Idle | Phase::Dialling | Phase::Up(_) => error,
        }
    }

    /// Starts the connection's task, unless another call has just started it. The task runs on the runtime of this
    /// call. Returns whether this call has started the task.
    fn start(self: &Arc<Self>) -> bool {
        let starts_task = self.phase.send_if_modified(|phase| {
            let is_idle = matches!(phase, Phase::Idle);
            if is_idle {
                *phase = Phase::Dialling;
            }
            is_idle
        });
        if starts_task {
            tokio::spawn(keep(Keeper(self.clone())));
        }
        starts_task
    }

    /// Lets all calls use this connection until the connection ends.
    async fn serve(&self, dialled: Connection) {
        let Connection { mux, mut driver, tcp_reset } = dialled;
        let live = Arc::new(LiveConnection {
            mux,
            sends_text: AtomicBool::new(false),
            unanswered: AtomicU32::new(0),
            given_up: Notify::new(),
            format: self.options.format,
        });
        // The scripts are sent before any other command, so all later commands find them loaded.
        let mut loading = load(live.clone()).boxed();
        let mut loaded = poll!(&mut loading).is_ready();
        self.phase.send_replace(Phase::Up(live.clone()));
        self.epoch.send_modify(|epoch| *epoch += 1);
        loop {
            tokio::select! {
                () = &mut driver => break,
                () = live.given_up.notified() => { tcp_reset.set(); break }
                () = &mut loading, if !loaded => loaded = true,
            }
        }
        // When the driver is dropped, the calls in flight fail. The phase is changed before the driver is dropped. So a
        // caller that gets such an error and calls again does not use the same connection.
        self.phase.send_replace(Phase::Dialling);
        drop(driver);
    }
}

/// Sets the phase to `Idle` when the connection's task ends. The task owns this value, so a runtime that shuts down
/// drops the value together with the task. Then the next call on another runtime starts a new task.
struct Keeper(Arc<SharedLink>);

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.phase.send_replace(Phase::Idle);
    }
}

/// The connection's task. It ends when the link is dropped.
async fn keep(keeper: Keeper) {
    let link = &*keeper.0;
    tokio::select! {
        () = link.closed.notified() => {}
        () = redial(link) => {}
    }
}

/// Connects, lets calls use the connection, and reconnects when it breaks. This never returns.
async fn redial(link: &SharedLink) {
    // `tls_probes` limits the number of TLS probes. A probe checks whether the server uses TLS, if the URL seems to be
    // wrong about this.
    let (mut backoff, mut tls_probes) = (Backoff::default(), TlsProbeBudget::for_commands());
    loop {
        sleep(backoff.next_delay()).await;
        // Some calls may have notified `wanted` before this attempt. The attempt serves these calls, too, so the
        // notification is consumed here and does not cause a further attempt.
        let _ = link.wanted.notified().now_or_never();
        let number = link.dials.fetch_add(1, Ordering::Relaxed) + 1;
        link.phase.send_replace(Phase::Dialling);
        match dial(&link.options, None, &mut tls_probes).await {
            Ok(dialled) => {
                let since = Instant::now();
                link.serve(dialled).await;
                backoff.connection_lasted(since.elapsed());
            }
            Err(error) => {
                let error = if *link.epoch.borrow() > 0 { make_retryable(error) } else { error };
                let is_permanent = !error.is_retryable();
                link.phase.send_replace(Phase::Failed(number, error));
                if is_permanent {
                    // The server would refuse the same login again, and might lock out a client that repeats the login.
                    // So the next attempt is made only when a call needs the connection.
                    link.wanted.notified().await;
                }
            }
        }
    }
}

impl LiveConnection {
    fn script_form(&self) -> ScriptForm {
        if self.sends_text.load(Ordering::Relaxed) { ScriptForm::Text } else { ScriptForm::Hash }
    }

    /// Sends a pipeline in the first poll, and waits for the answers.
    async fn send(self: &Arc<Self>, pipe: &Pipeline, deadline: Instant) -> Result<Vec<Value>> {
        let mut mux = self.mux.clone();
        mux.set_response_timeout(deadline.saturating_duration_since(Instant::now()));
        // Without `unconstrained`, a task that has used up the poll budget of Tokio would not send in its first poll.
        // Then a later call could send before this call.
        let answer = unconstrained(mux.send_packed_commands(pipe, 0, pipe.len())).await;
        let values = answer.map_err(|error| {
            if error.is_timeout() && self.unanswered.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_UNANSWERED {
                self.given_up.notify_one();
            }
            refusal::failed(error)
        })?;
        if self.unanswered.load(Ordering::Relaxed) != 0 {
            self.unanswered.store(0, Ordering::Relaxed);
        }
        if values.len() == pipe.len() {
            Ok(values)
        } else {
            Err(Error::unavailable("Redis sent fewer answers than commands").ambiguous())
        }
    }
}

/// Loads the scripts. If the user has no right to load scripts, each later call sends the text of its script.
async fn load(live: Arc<LiveConnection>) {
    let (mut mux, scripts) = (live.mux.clone(), script::load(live.format));
    let Ok(answers) = unconstrained(mux.send_packed_commands(&scripts, 0, scripts.len())).await else {
        return; // The next call gets NOSCRIPT and loads the scripts again.
    };
    if sent::are_denied(&answers) {
        live.sends_text.store(true, Ordering::Relaxed);
    }
}

/// Counts one waiting call as long as this value exists.
struct WaitingCall<'a>(&'a SharedLink);

impl<'a> WaitingCall<'a> {
    fn new(shared: &'a SharedLink) -> Self {
        shared.waiting.fetch_add(1, Ordering::Relaxed);
        Self(shared)
    }
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
