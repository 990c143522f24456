//! The connection for commands. The first call opens it. After it breaks, a task opens it again.

mod arguments;
mod live;
mod sent;
#[cfg(test)]
pub(crate) mod shutdown;

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    task::Poll,
    time::{Duration, Instant},
};

use bandog_core::{Error, Result, rounded};
use bandog_net::{Backoff, retryable};
use futures_util::{
    FutureExt,
    future::{BoxFuture, Either},
    poll,
};
use redis::{Pipeline, Value};
use tokio::{
    sync::{Mutex, Notify, watch},
    task::unconstrained,
    time::{sleep_until, timeout, timeout_at},
};

use self::{arguments::LongestArgument, live::LiveConnection, sent::Sent};
use crate::{
    dial::{Connection, TlsProbeBudget},
    dialler::Dialler,
    script::{ScriptForm, Scripts},
};

/// Minimum time between two connections to servers that answer that they are replicas. The address may lead to the new
/// master soon, or never.
const MIN_TIME_ON_REPLICA: Duration = Duration::from_secs(1);

/// The connection for commands, and the task that opens it and reopens it.
#[derive(Debug)]
pub struct Link(Arc<SharedLink>);

#[derive(Debug)]
struct SharedLink {
    dialler: Dialler,
    /// The scripts that each connection loads.
    scripts: Scripts,
    phase: watch::Sender<Phase>,
    /// Number of connections opened so far. The links to the nodes of a cluster share this number.
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
    /// Notified when the link leaves a server that has become a replica.
    left: Arc<Notify>,
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

impl Link {
    /// A link that connects when it is first called. It loads these scripts.
    pub(crate) fn new(dialler: Dialler, scripts: Scripts) -> Self {
        Self::counting(dialler, scripts, watch::Sender::new(0))
    }

    /// A link that never calls a script, and so loads none.
    pub(crate) fn without_scripts(dialler: Dialler) -> Self {
        Self::new(dialler, Scripts::default())
    }

    /// A link that counts its connections in this number, which the links to other nodes of a cluster share.
    pub(crate) fn counting(dialler: Dialler, scripts: Scripts, epoch: watch::Sender<u64>) -> Self {
        Self(Arc::new(SharedLink {
            dialler,
            scripts,
            phase: watch::Sender::new(Phase::Idle),
            epoch,
            dials: AtomicU64::new(0),
            wanted: Notify::new(),
            send_order: Mutex::new(()),
            waiting: AtomicUsize::new(0),
            closed: Notify::new(),
            left: Arc::default(),
        }))
    }

    /// Whether the connection is open.
    pub(crate) fn is_open(&self) -> bool {
        matches!(&*self.0.phase.borrow(), Phase::Up(_))
    }

    /// Notified when the link leaves a server that has become a replica. Other connections to this server should be left,
    /// too.
    pub(crate) fn left(&self) -> Arc<Notify> {
        self.0.left.clone()
    }

    /// A receiver of the number of connections opened so far.
    pub(crate) fn epoch(&self) -> watch::Receiver<u64> {
        self.0.epoch.subscribe()
    }

    /// The number of the latest connection. The first connection has the number 1.
    pub(crate) fn connection(&self) -> u64 {
        *self.0.epoch.borrow()
    }

    /// The number of the connection on which a call was answered. `before` is the number of the latest connection before
    /// the call. None if a connection was opened during the call, so that the number is not certain.
    pub(crate) fn answered_since(&self, before: u64) -> Option<u64> {
        let latest = self.connection();
        (latest == before || (before, latest) == (0, 1)).then_some(latest)
    }

    /// Closes the connection, if it is open, and opens it again.
    pub(crate) fn give_up(&self) {
        if let Phase::Up(live) = &*self.0.phase.borrow() {
            live.given_up.notify_one();
        }
    }

    /// Sends commands that are not scripts. The deadline is the present time plus the timeout of one request. For errors
    /// and dropped futures, see [`Link::call_scripts`].
    pub async fn call(&self, pipe: Pipeline) -> Result<Vec<Value>> {
        Ok(self.0.call(Instant::now() + self.0.dialler.options.timeout, |_| pipe).await?.values)
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
    /// Before the first connection is open, the call can also fail with the other errors of a connection attempt.
    ///
    /// # Cancel safety
    /// If the future is dropped, the server may still apply commands that were sent.
    pub async fn call_scripts(
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
        let Self { dialler: Dialler { options, .. }, phase, .. } = self;
        let error =
            Error::unavailable(format!("no connection to {} within {}", options.store(), rounded(options.timeout)));
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
        let Connection { mux, mut driver, tcp_reset, mut moved } = dialled;
        let live = Arc::new(LiveConnection {
            mux,
            sends_text: AtomicBool::new(false),
            unanswered: AtomicU32::new(0),
            given_up: Notify::new(),
            is_replica: Notify::new(),
            longest_argument: LongestArgument::default(),
            scripts: self.scripts.clone(),
            sharded: self.dialler.options.sharded,
            in_cluster: self.dialler.options.in_cluster,
            has_sentinels: self.dialler.has_sentinels(),
        });
        // The scripts are sent before any other command, so all later commands find them loaded.
        let mut loading = live::load(live.clone()).boxed();
        let mut loaded = self.scripts.are_none() || poll!(&mut loading).is_ready();
        let (opened, on_replica) = (Instant::now(), live.clone());
        let mut leave_replica = pin!(async move {
            on_replica.is_replica.notified().await;
            sleep_until((opened + MIN_TIME_ON_REPLICA).into()).await;
        });
        // The number rises first. So a call that sees the same number before and after has used one connection.
        self.epoch.send_modify(|epoch| *epoch += 1);
        self.phase.send_replace(Phase::Up(live.clone()));
        loop {
            tokio::select! {
                () = &mut driver => break,
                () = live.given_up.notified() => { tcp_reset.set(); break }
                () = &mut moved => { tcp_reset.set(); break }
                () = &mut leave_replica => {
                    self.phase.send_replace(Phase::Dialling);
                    self.left.notify_one();
                    // The calls in flight get their answers. The driver ends after them, because no call can begin.
                    tokio::spawn(timeout(self.dialler.options.timeout, driver));
                    return;
                }
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
        link.dialler.wait(backoff.next_delay()).await;
        // Some calls may have notified `wanted` before this attempt. The attempt serves these calls, too, so the
        // notification is consumed here and does not cause a further attempt.
        let _ = link.wanted.notified().now_or_never();
        let number = link.dials.fetch_add(1, Ordering::Relaxed) + 1;
        link.phase.send_replace(Phase::Dialling);
        match link.dialler.dial(None, &mut tls_probes).await {
            Ok(dialled) => {
                let since = Instant::now();
                link.serve(dialled).await;
                backoff.connection_lasted(since.elapsed());
            }
            Err(error) => {
                let error = if *link.epoch.borrow() > 0 { retryable(error) } else { error };
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
