//! The connection on which a server reports changed keys (`CLIENT TRACKING` with `BCAST`), for copies of data in this
//! process.
//!
//! One task keeps the connection. The prefixes of a connection never change: if others are needed, another connection is
//! opened. A connection that does not answer for [`MAX_SILENCE`] is closed, so a copy is never old for much longer unnoticed.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bandog_core::{Error, Subscription};
use bandog_net::{Backoff, retryable};
use redis::{
    PushInfo, PushKind, RedisError, ServerError, Value,
    aio::{MultiplexedConnection, SendError},
};
use tokio::{
    sync::Notify,
    task::AbortHandle,
    time::{MissedTickBehavior, interval, timeout},
};

use crate::{
    dial::{Connection, TlsProbeBudget},
    dialler::Dialler,
    refusal,
};

/// The interval at which the connection is checked.
const CHECK: Duration = Duration::from_millis(300);
/// The time after which a connection that does not answer is closed.
const MAX_SILENCE: Duration = Duration::from_millis(700);

/// What happened to the keys with a prefix.
#[derive(Debug, Clone)]
pub enum KeyChange<'a> {
    /// This key was written, has expired or was evicted.
    Key(&'a [u8]),
    /// Any of the keys may have changed. From now on, each change is reported.
    Any,
    /// Changes are not reported any more.
    Lost,
    /// Changes are not reported, because this user has no right to it, or the server does not have it.
    Denied(&'a Error),
}

/// Gets the changes of keys. It must not block.
#[derive(Clone)]
pub struct KeyChanges(Arc<dyn Fn(KeyChange<'_>) + Send + Sync>);

impl KeyChanges {
    /// Calls this function with each change.
    pub fn new(call: impl Fn(KeyChange<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(call))
    }

    pub(crate) fn report(&self, change: KeyChange<'_>) {
        (self.0)(change);
    }
}

impl fmt::Debug for KeyChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyChanges")
    }
}

/// The tracked keys of a server.
#[derive(Debug)]
pub(crate) struct Tracking(Arc<SharedTracking>);

#[derive(Debug)]
struct SharedTracking {
    dialler: Dialler,
    state: Mutex<State>,
    /// Notified when the subscribers have changed.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    subscribers: Vec<Subscriber>,
    last_id: u64,
    /// The prefixes of the open connection. None: no connection reports changes.
    reported: Option<Vec<Arc<str>>>,
    task: Option<AbortHandle>,
}

#[derive(Debug, Clone)]
struct Subscriber {
    id: u64,
    prefix: Arc<str>,
    changes: KeyChanges,
}

impl Tracking {
    pub(crate) fn new(dialler: Dialler) -> Self {
        Self(Arc::new(SharedTracking { dialler, state: Mutex::default(), changed: Notify::new() }))
    }

    /// Reports the changes of the keys with this prefix, until the subscription is dropped. The first report is
    /// [`KeyChange::Any`], as soon as there is a connection. The caller is in a Tokio runtime.
    pub(crate) fn add(&self, prefix: &str, changes: KeyChanges) -> Subscription {
        let mut state = self.0.state();
        state.last_id += 1;
        let id = state.last_id;
        let is_reported = state.reported.as_ref().is_some_and(|prefixes| covers(prefixes, prefix));
        state.subscribers.push(Subscriber { id, prefix: prefix.into(), changes: changes.clone() });
        let must_start = state.task.as_ref().is_none_or(AbortHandle::is_finished);
        if must_start {
            state.reported = None;
        }
        drop(state);
        if must_start {
            // Not under the lock: a runtime that shuts down drops the new task immediately.
            let task = tokio::spawn(run(self.0.clone())).abort_handle();
            self.0.state().task = Some(task);
        } else if is_reported {
            changes.report(KeyChange::Any);
        } else {
            self.0.changed.notify_one();
        }
        let shared = self.0.clone();
        Subscription::new(move || {
            let removed: Vec<_> = shared.state().subscribers.extract_if(.., |subscriber| subscriber.id == id).collect();
            drop(removed); // Not under the lock: what it owns may take it again.
            shared.changed.notify_one();
        })
    }
}

impl Drop for Tracking {
    fn drop(&mut self) {
        let task = self.0.state().task.take();
        if let Some(task) = task {
            task.abort(); // Not under the lock, which the end of the task needs.
        }
    }
}

impl SharedTracking {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports a change to all subscribers, or to those of this key.
    fn report(&self, change: &KeyChange<'_>) {
        let subscribers = self.state().subscribers.clone();
        for Subscriber { prefix, changes, .. } in &subscribers {
            match change {
                KeyChange::Key(key) if !key.starts_with(prefix.as_bytes()) => {}
                change => changes.report(change.clone()),
            }
        }
    }

    fn pushed(&self, push: &PushInfo) {
        if push.kind != PushKind::Invalidate {
            return;
        }
        match push.data.first() {
            Some(Value::Array(keys)) => keys.iter().for_each(|key| {
                if let Value::BulkString(key) = key {
                    self.report(&KeyChange::Key(key));
                }
            }),
            // All keys were deleted.
            _ => self.report(&KeyChange::Any),
        }
    }

    /// The prefixes that are needed. No one begins with another one, which a server refuses.
    fn prefixes(&self) -> Vec<Arc<str>> {
        let mut prefixes: Vec<_> =
            self.state().subscribers.iter().map(|subscriber| subscriber.prefix.clone()).collect();
        prefixes.sort_unstable();
        prefixes.dedup_by(|next, before| next.starts_with(&**before));
        prefixes
    }
}

fn covers(prefixes: &[Arc<str>], prefix: &str) -> bool {
    prefixes.iter().any(|reported| prefix.starts_with(&**reported))
}

/// Reports that changes are not reported any more when the task ends with its runtime.
struct Ending(Arc<SharedTracking>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.state().reported = None;
        self.0.report(&KeyChange::Lost);
    }
}

/// Keeps a connection open as long as there are subscribers.
async fn run(shared: Arc<SharedTracking>) {
    let _ending = Ending(shared.clone());
    let (mut backoff, mut was_reached) = (Backoff::default(), false);
    loop {
        let prefixes = shared.prefixes();
        if prefixes.is_empty() {
            shared.changed.notified().await;
            continue;
        }
        shared.dialler.wait(backoff.next_delay()).await;
        let pushes = shared.clone();
        let pushed = Arc::new(move |push: PushInfo| {
            pushes.pushed(&push);
            Ok::<(), SendError>(())
        });
        let ended = match shared.dialler.dial(Some(pushed), &mut TlsProbeBudget::none()).await {
            Ok(connection) => {
                was_reached = true;
                let since = Instant::now();
                let ended = serve(&shared, connection, prefixes).await;
                shared.state().reported = None;
                backoff.connection_lasted(since.elapsed());
                ended
            }
            Err(error) => Err(if was_reached { retryable(error) } else { error }),
        };
        match ended {
            Ok(()) => shared.report(&KeyChange::Lost),
            Err(error) if error.is_retryable() => {}
            Err(error) => {
                shared.report(&KeyChange::Denied(&error));
                // The server would refuse it again.
                shared.changed.notified().await;
            }
        }
    }
}

/// Has the changes of these keys reported until the connection ends, or others are needed.
///
/// # Errors
/// The server has not confirmed that it reports changes.
async fn serve(shared: &SharedTracking, connection: Connection, prefixes: Vec<Arc<str>>) -> Result<(), Error> {
    let Connection { mux, mut driver, tcp_reset, mut moved } = connection;
    let mut tracking = redis::cmd("CLIENT");
    tracking.arg("TRACKING").arg("ON").arg("BCAST");
    prefixes.iter().for_each(|prefix| _ = tracking.arg("PREFIX").arg(&**prefix));
    let mut asked = mux.clone();
    let confirmed = tokio::select! {
        () = &mut driver => return Err(Error::unavailable("the connection has ended")),
        confirmed = tracking.exec_async(&mut asked) => confirmed,
    };
    confirmed.map_err(|error: RedisError| match ServerError::try_from(error) {
        Ok(refused) => refusal::refused(&refused),
        Err(error) => refusal::failed(error),
    })?;
    shared.state().reported = Some(prefixes.clone());
    shared.report(&KeyChange::Any);
    let mut checks = interval(CHECK);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = &mut driver => break,
            () = &mut moved => {
                tcp_reset.set();
                break;
            }
            () = shared.changed.notified() => {
                let needed = shared.prefixes();
                if needed.is_empty() || !needed.iter().all(|prefix| covers(&prefixes, prefix)) {
                    break;
                }
            }
            _ = checks.tick() => {
                let answers = tokio::select! {
                    () = &mut driver => false,
                    answers = answers(mux.clone()) => answers,
                };
                if !answers {
                    tcp_reset.set();
                    break;
                }
            }
        }
    }
    Ok(())
}

/// Whether the server answers in time.
async fn answers(mut mux: MultiplexedConnection) -> bool {
    let ping: Result<Result<Value, RedisError>, _> =
        timeout(MAX_SILENCE, redis::cmd("PING").query_async(&mut mux)).await;
    matches!(ping, Ok(Ok(_)))
}
