//! The task that asks the sentinels. All connections of a store share one, so the number of its connections to
//! sentinels does not depend on the number of connections to the master, nor on how often these fail.
//!
//! The task has one connection to each sentinel, and keeps it. A sentinel is asked when it publishes a change, each half
//! second, and when a connection to the master is needed.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bandog_core::Result;
use bandog_net::Backoff;
use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::{sync::watch, task::AbortHandle, time::sleep};

use super::{
    facts::{Answer, Facts},
    sentinel::Sentinel,
};
use crate::options::{Host, Options, Sentinels};

/// Maximum delay between two attempts to connect to a sentinel.
const MAX_DELAY: Duration = Duration::from_secs(1);
/// Maximum number of consecutive requests that are not answered in time. After them, the connection is closed. The
/// connection of a slow sentinel is kept, because a new one would make the sentinel slower.
const MAX_UNANSWERED: u32 = 3;

/// The answers of the sentinels, and the task that asks them.
#[derive(Debug)]
pub(crate) struct Discovery {
    facts: Arc<watch::Sender<Facts>>,
    /// Number of times that a connection to the master was needed.
    needs: watch::Sender<u64>,
    task: Mutex<Option<AbortHandle>>,
    /// The options of each sentinel, apart from its address.
    options: Options,
    /// The name of the master.
    master: String,
}

impl Discovery {
    /// This does no I/O.
    pub(crate) fn new(options: &Options, sentinels: &Sentinels) -> Self {
        Self {
            facts: Arc::new(watch::Sender::new(Facts::new(sentinels.hosts.clone()))),
            needs: watch::Sender::new(0),
            task: Mutex::default(),
            // Each sentinel gets its own address.
            options: options.sentinel_at(sentinels, &Host::default()),
            master: sentinels.master.clone(),
        }
    }

    /// The facts and their changes.
    pub(super) fn facts(&self) -> watch::Receiver<Facts> {
        self.facts.subscribe()
    }

    /// Has all sentinels asked soon. Starts the task if it does not run.
    pub(super) fn ask(&self) {
        self.facts.send_if_modified(Facts::forget_permanent_faults);
        self.needs.send_modify(|needs| *needs += 1);
        self.start();
    }

    /// Starts the task on the runtime of the caller, unless it runs.
    pub(super) fn start(&self) {
        let mut task = self.task();
        let starts = self.facts.send_if_modified(|facts| {
            let starts = !facts.is_watched;
            if starts {
                facts.forget();
                facts.is_watched = true;
            }
            starts
        });
        if starts {
            // The task must not own this value, whose drop ends the task.
            let asking = Asking {
                facts: self.facts.clone(),
                needs: self.needs.subscribe(),
                options: self.options.clone(),
                master: self.master.clone(),
            };
            *task = Some(tokio::spawn(ask_all(Watch(asking))).abort_handle());
        }
    }

    fn task(&self) -> MutexGuard<'_, Option<AbortHandle>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Discovery {
    fn drop(&mut self) {
        if let Some(task) = self.task().take() {
            task.abort();
        }
    }
}

/// The state of the task.
struct Asking {
    facts: Arc<watch::Sender<Facts>>,
    needs: watch::Receiver<u64>,
    /// The options of each sentinel, apart from its address.
    options: Options,
    /// The name of the master.
    master: String,
}

/// Records the end of the task when the task is dropped, for example by a runtime that shuts down. Then a connection to
/// the master on another runtime starts a new task.
struct Watch(Asking);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.facts.send_modify(|facts| facts.is_watched = false);
    }
}

/// The task. It never ends by itself.
async fn ask_all(watch: Watch) {
    let (asking, mut changes) = (&watch.0, watch.0.facts.subscribe());
    let (mut asked, mut hosts) = (FuturesUnordered::new(), Vec::<Host>::new());
    loop {
        for host in changes.borrow_and_update().hosts() {
            if !hosts.contains(host) {
                hosts.push(host.clone());
                asked.push(asking.ask_while_known(host.clone()));
            }
        }
        tokio::select! {
            Some(dropped) = asked.next() => hosts.retain(|host| *host != dropped),
            _ = changes.changed() => {}
        }
    }
}

impl Asking {
    /// Asks one sentinel at this address, and reconnects when the connection breaks. Returns the address when it is dropped
    /// from the list of the sentinels.
    async fn ask_while_known(&self, host: Host) -> Host {
        let (mut needs, mut backoff) = (self.needs.clone(), Backoff::up_to(MAX_DELAY));
        while self.is_known(&host) {
            needs.mark_unchanged();
            let error = match Sentinel::open(&self.options.other_sentinel(&host), &host, &self.master).await {
                Ok((sentinel, answer)) => {
                    let since = Instant::now();
                    self.record(&host, Ok(answer));
                    let Err(error) = self.ask_while_open(sentinel, &mut needs).await else { break };
                    backoff.connection_lasted(since.elapsed());
                    error
                }
                Err(error) => error,
            };
            let is_permanent = !error.is_retryable();
            self.record(&host, Err(error));
            sleep(backoff.next_delay()).await;
            if is_permanent && needs.changed().await.is_err() {
                break;
            }
        }
        host
    }

    /// Asks a sentinel until the connection should be closed.
    ///
    /// # Errors
    /// The fault of the connection. Without a fault, the address was dropped from the list of the sentinels.
    async fn ask_while_open(&self, mut sentinel: Sentinel, needs: &mut watch::Receiver<u64>) -> Result<()> {
        let mut unanswered = 0;
        while self.is_known(&sentinel.host) {
            sentinel.wait_for_news(needs).await;
            match sentinel.ask(&self.master).await {
                Ok(answer) => {
                    unanswered = 0;
                    self.record(&sentinel.host, Ok(answer));
                }
                Err(error) if sentinel.is_silent() && unanswered < MAX_UNANSWERED => {
                    unanswered += 1;
                    self.record(&sentinel.host, Err(error));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn is_known(&self, host: &Host) -> bool {
        self.facts.borrow().hosts().any(|known| known == host)
    }

    fn record(&self, host: &Host, said: Result<Answer>) {
        self.facts.send_if_modified(|facts| facts.record(host, said, Instant::now()));
    }
}
