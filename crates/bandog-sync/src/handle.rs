//! The handle of a client: the part that the client, its locks and its guards share.

use std::{
    fmt,
    num::NonZeroU8,
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use bandog_core::{
    Backend, ClientId, Clock, Error, Key, Kind, Member, Result, messages::Messages, no_records, queues::Queues,
    structures::Structures,
};
use tokio::sync::{mpsc, oneshot};

use crate::{
    engine::{Engine, Msg, Runner},
    lane::SlotId,
    latch::Operations,
    process::HomeProcess,
    profile::StoreProfile,
    terms::{HoldId, Terms, Ticket},
    turn::{Report, TurnClient},
};

/// Maximum time for which the drop of a handle waits for pending releases.
const LAST_WAIT: Duration = Duration::from_millis(100);

/// The part of a client that the client, its locks and its guards share. The handle is dropped with the last of these
/// values. The drop of the handle ends the engine.
pub(crate) struct Handle {
    /// The mailbox has no limit, because a drop cannot wait until there is room. The mailbox stays small nevertheless,
    /// because each message belongs to a call or guard that exists or was just dropped.
    mailbox: mpsc::UnboundedSender<Msg>,
    pub(crate) id: ClientId,
    pub(crate) clock: Clock,
    pub(crate) profile: StoreProfile,
    /// The process in which the engine runs.
    process: HomeProcess,
    prefix: String,
    /// The client's program and machine, as `program@host`.
    pub(crate) identity: String,
    /// What the store has for the grid and for work queues, which do not use the engine. A backend is valid after a panic.
    pub(crate) structures: AssertUnwindSafe<Option<Arc<dyn Structures>>>,
    pub(crate) messages: AssertUnwindSafe<Option<Arc<dyn Messages>>>,
    pub(crate) queues: AssertUnwindSafe<Option<Arc<dyn Queues>>>,
    /// The terms (such as the ttl) of a lock for which the user has set no options.
    terms: Terms,
    /// The next number. The engine takes the numbers of claims from the same counter as the handle takes tickets (the
    /// numbers of calls and of record subscriptions), because a call for a fair mutex and its claim have the same number.
    numbers: Arc<AtomicU64>,
    /// The operations on latches that have not ended.
    pub(crate) latches: Arc<Operations>,
    /// Number of [`OutageReporter`]s.
    outage_reporters: AtomicUsize,
    /// Whether a log line has already said that the store does not let this user read the registry.
    denial_logged: AtomicBool,
    /// The same for a registry that does not answer.
    silence_logged: AtomicBool,
    /// Where the engine runs.
    runner: Runner,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("id", &self.id).field("store", &self.profile.store).finish_non_exhaustive()
    }
}

impl Handle {
    /// Starts an engine over a backend, and returns its handle.
    pub(crate) fn start(
        backend: impl Backend,
        member: Member,
        terms: Terms,
        max_waiting: usize,
        clock: Clock,
        on_current_runtime: bool,
    ) -> Result<Arc<Self>> {
        let (mailbox, messages) = mpsc::unbounded_channel();
        let (id, prefix) = (member.id, member.prefix.clone());
        let identity = format!("{}@{}", member.program, member.host);
        let profile = StoreProfile::of(backend.profile());
        let (structures, channels, queues) = (backend.structures(), backend.messages(), backend.queues());
        let numbers = Arc::new(AtomicU64::new(1));
        let engine = Engine::new(Arc::new(backend), member, terms, max_waiting, clock, messages, Arc::clone(&numbers));
        let runner =
            if on_current_runtime { Runner::on_current_runtime(engine)? } else { Runner::on_own_thread(engine)? };
        let (outage_reporters, denial_logged) = (AtomicUsize::new(0), AtomicBool::new(false));
        let silence_logged = AtomicBool::new(false);
        let handle = Arc::new(Self {
            mailbox,
            id,
            clock,
            profile,
            process: HomeProcess::current(),
            prefix,
            identity,
            structures: AssertUnwindSafe(structures),
            messages: AssertUnwindSafe(channels),
            queues: AssertUnwindSafe(queues),
            terms,
            numbers,
            latches: Arc::default(),
            outage_reporters,
            denial_logged,
            silence_logged,
            runner,
        });
        let client: Arc<dyn TurnClient> = handle.clone();
        handle.send(Msg::Start(Arc::downgrade(&client)))?;
        Ok(handle)
    }

    /// A sender of messages to the engine. This sender does not keep the client alive.
    pub(crate) fn mailbox(&self) -> mpsc::UnboundedSender<Msg> {
        self.mailbox.clone()
    }

    /// Returns an error in a child that was forked from the client's process. The engine does not run there.
    pub(crate) fn check_process(&self) -> Result<()> {
        self.process.check()
    }

    pub(crate) fn store(&self) -> &str {
        &self.profile.store
    }

    /// The ttl of locks without a lease.
    pub(crate) fn watchdog_ttl(&self) -> Duration {
        self.terms.ttl
    }

    /// The terms of a lock of this kind for which the user has set no options.
    pub(crate) fn terms(&self, kind: Kind) -> Result<Terms> {
        if !self.profile.kinds.contains(kind) {
            return Err(Error::misused(format!("{} has no locks of the kind {}", self.profile.store, kind.name())));
        }
        let fences = if kind.has_one_fence() { NonZeroU8::MIN } else { self.terms.fences };
        Ok(Terms { kind, fences, ..self.terms })
    }

    /// Refuses a backend without records before anything is locked. `verb` is the operation that needs them.
    pub(crate) fn check_records(&self, verb: &'static str) -> Result<()> {
        if self.profile.has_records { Ok(()) } else { Err(no_records(verb)) }
    }

    /// Returns true at the first call, and false at each later call. The caller logs that it may not read the registry only
    /// if the result is true, so this log line is written once per client.
    pub(crate) fn is_first_denial(&self) -> bool {
        !self.denial_logged.swap(true, Relaxed)
    }

    /// As [`Self::is_first_denial`], for the log line about a registry that does not answer.
    pub(crate) fn is_first_silence(&self) -> bool {
        !self.silence_logged.swap(true, Relaxed)
    }

    pub(crate) fn send(&self, msg: Msg) -> Result<()> {
        self.check_process()?;
        self.mailbox.send(msg).map_err(|_| Error::closed())
    }

    /// Runs a request of a user: the engine polls the request, and this call returns the result. If the future of this
    /// call is dropped, the request is dropped, too.
    pub(crate) async fn query<T: Send + 'static>(
        &self,
        query: impl FnOnce(Arc<dyn Backend>) -> QueryFuture<T> + Send + 'static,
    ) -> Result<T> {
        // Makes the message with this query. `reply` takes the result.
        let wrapped = |reply: oneshot::Sender<Result<T>>| {
            Msg::Query(Box::new(move |backend| {
                let query = query(backend);
                Box::pin(async move {
                    let mut reply = reply;
                    // This branch ends the query if the caller has dropped its future.
                    tokio::select! {
                        biased;
                        () = reply.closed() => {}
                        found = query => {
                            let _ = reply.send(found);
                        }
                    }
                })
            }))
        };
        self.request(wrapped).await?
    }

    /// Sends a message to the engine, and waits for the reply. `msg` makes the message from the sender of the reply.
    pub(crate) async fn request<T>(&self, msg: impl FnOnce(oneshot::Sender<T>) -> Msg) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.send(msg(reply))?;
        answer.await.map_err(|_| Error::closed())
    }

    /// The key of a lock: the prefix and the name.
    pub(crate) fn key(&self, name: &str) -> Result<Key> {
        self.key_of("the name of a lock", name)
    }

    /// The key for a name: the prefix and the name. `what` is the name of the name in the error message.
    pub(crate) fn key_of(&self, what: &str, name: &str) -> Result<Key> {
        let key = Key::named(what, name)?;
        if self.prefix.is_empty() { Ok(key) } else { Key::named(what, format!("{}{name}", self.prefix)) }
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn without_prefix(&self, key: String) -> String {
        key.strip_prefix(&self.prefix).map(ToOwned::to_owned).unwrap_or(key)
    }

    /// Resolves when the engine has ended.
    pub(crate) async fn ended(&self) {
        self.mailbox.closed().await;
    }

    pub(crate) fn has_own_thread(&self) -> bool {
        self.runner.is_own_thread()
    }

    /// The ticket of a new call or of a new record subscription.
    pub(crate) fn ticket(&self) -> Ticket {
        self.numbers.fetch_add(1, Relaxed)
    }
}

pub(crate) type QueryFuture<T> = futures_util::future::BoxFuture<'static, Result<T>>;

impl TurnClient for Handle {
    fn clock(&self) -> Clock {
        self.clock
    }

    fn check_process(&self) -> Result<()> {
        self.process.check()
    }

    fn has_outage_reporter(&self) -> bool {
        self.outage_reporters.load(Relaxed) > 0
    }

    fn turn_ended(&self, slot: SlotId, hold: HoldId, ticket: Ticket, report: Option<Report>) {
        let _ = self.send(Msg::Release { slot, hold, ticket, report });
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.send(Msg::LastHandleDropped).is_ok() {
            self.runner.wait_for_end(LAST_WAIT);
        }
    }
}

/// While a reporter exists, the engine does not log outages of the store, because the code that created the reporter
/// logs them.
#[doc(hidden)]
#[derive(Debug)]
pub struct OutageReporter(Arc<Handle>);

impl OutageReporter {
    pub(crate) fn new(handle: Arc<Handle>) -> Self {
        handle.outage_reporters.fetch_add(1, Relaxed);
        Self(handle)
    }
}

impl Drop for OutageReporter {
    fn drop(&mut self) {
        self.0.outage_reporters.fetch_sub(1, Relaxed);
    }
}
