//! The node's side of the store: calls in flight, its sessions, the board.

use std::time::Duration;

use bandog_core::{ClientId, Error, Holding, Key, Moment, Reading, Records, Result, Swap, Swapped, Swaps, Version};
use bandog_sync::{Client, Guard, Notifications, Teller};
use futures_util::{
    future::BoxFuture,
    stream::{FuturesUnordered, StreamExt},
};
use tokio::time;

use super::JobId;
use crate::{
    news::{Changed, news_key, publish},
    nodes::{Told, announce},
    pauses::{Standing, standing as pauses_key},
};

/// Records in one call.
pub(crate) const BATCH: usize = 256;
/// What the names of nodes' locks begin with.
pub(crate) const SESSION: &str = "schedule/node/";
/// Locks of nodes are numbered from 1 to at most this.
const NODES: u32 = 10_000;
/// Jobs that fell back within this time of each other are told of once.
const FALL: Duration = Duration::from_secs(60);
/// How long a node rests before it asks for a session again.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// An answer.
pub(crate) enum Done {
    Swapped {
        jobs: Vec<JobId>,
        sent: Moment,
        result: Result<Swaps>,
    },
    Looked {
        sent: Moment,
        holdings: Vec<Holding>,
        result: Result<Reading>,
    },
    Read {
        jobs: Vec<Asked>,
        sent: Moment,
        result: Result<Reading>,
    },
    Session {
        lease: Duration,
        result: Result<Guard>,
    },
    /// The session may end soon, unless a renewal succeeds.
    Endangered {
        lease: Duration,
        holding: Holding,
    },
    Lost {
        lease: Duration,
        holding: Holding,
    },
    Bumped(Result<()>),
    /// The board, and what is said beside it.
    News {
        sent: Moment,
        result: Result<Reading>,
    },
    /// The other nodes, when this one has told of itself.
    Announced(Result<Told>),
    /// The store's era.
    Era(Result<String>),
    /// Somebody has news: on the board, or gone by now.
    Rung,
}

/// A job, and the version that this node knew when it asked.
pub(crate) type Asked = (JobId, Option<Version>);

/// One renewed lock that says that this node lives: one for each length of leases.
struct Session {
    lease: Duration,
    held: Option<(Guard, Holding)>,
}

pub(crate) struct Desk {
    client: Client,
    /// The dispatcher asks the store more often than the engine does, and tells of outages what they mean for jobs.
    _teller: Teller,
    flying: FuturesUnordered<BoxFuture<'static, Done>>,
    sessions: Vec<Session>,
    pub(crate) board: Option<Version>,
    /// The store's era, as it was told last.
    pub(crate) era: Option<String>,
    is_asking: bool,
    /// When everything was read last after an outage.
    pub(crate) outage: Option<Moment>,
    /// When it was told last that the store fell back.
    fell: Option<Moment>,
    /// What the other nodes are to be notified of.
    news: Option<Changed>,
    /// What they are being notified of.
    telling: Option<Changed>,
    /// The last look could not say which jobs have changed: the item may not have been written yet.
    pub(crate) in_doubt: bool,
    /// Notifications of news; none if they cannot be had, and the looks must do.
    rings: Option<Notifications>,
}

impl Desk {
    pub(crate) fn new(client: Client) -> Self {
        let rings = news_key().and_then(|news| client.subscribe(&news)).ok();
        Self {
            _teller: client.teller(),
            client,
            flying: FuturesUnordered::new(),
            sessions: Vec::new(),
            board: None,
            era: None,
            is_asking: false,
            outage: None,
            fell: None,
            news: None,
            telling: None,
            in_doubt: false,
            rings,
        }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.news.is_none() && self.flying.is_empty()
    }

    /// The other nodes are to read this job's record.
    pub(crate) fn add_news(&mut self, job: &str) {
        self.news.get_or_insert_with(Changed::none).add(job);
    }

    pub(crate) fn has_news(&self) -> bool {
        self.news.is_some()
    }

    /// What the other nodes have not been notified of for certain.
    pub(crate) fn take_untold(&mut self) -> Changed {
        let mut untold = Changed::none();
        self.telling.take().into_iter().chain(self.news.take()).for_each(|changed| untold.join(changed));
        untold
    }

    /// The session of this lease, if there is one; else it is asked for.
    pub(crate) fn session(&mut self, lease: Duration) -> Option<Holding> {
        if let Some(session) = self.sessions.iter().find(|session| session.lease == lease) {
            return session.held.as_ref().filter(|(guard, _)| !guard.is_lost()).map(|(_, holding)| holding.clone());
        }
        self.sessions.push(Session { lease, held: None });
        self.ask(lease);
        None
    }

    /// Whether this is a session of this node that stands.
    pub(crate) fn holds(&self, holding: &Holding) -> bool {
        let held = self.sessions.iter().filter_map(|session| session.held.as_ref());
        held.filter(|(guard, _)| !guard.is_lost()).any(|(_, held)| held == holding)
    }

    fn ask(&self, lease: Duration) {
        let client = self.client.clone();
        self.flying.push(Box::pin(async move { Done::Session { lease, result: lowest_free(&client, lease).await } }));
    }

    /// Keeps a session, and watches its end; asks again if there is none. Gives its holding.
    pub(crate) fn keep(&mut self, lease: Duration, result: Result<Guard>, margin: Duration) -> Result<Holding> {
        let guard = match result {
            Ok(guard) => guard,
            Err(error) => {
                let client = self.client.clone();
                self.flying.push(Box::pin(async move {
                    time::sleep(ASK_AGAIN).await;
                    Done::Session { lease, result: lowest_free(&client, lease).await }
                }));
                return Err(error);
            }
        };
        let holding = guard.holding();
        let (endangered, lost) = (guard.expiring(margin), guard.lost());
        let (soon, then) = (holding.clone(), holding.clone());
        self.flying.push(Box::pin(async move {
            endangered.await;
            Done::Endangered { lease, holding: soon }
        }));
        self.flying.push(Box::pin(async move {
            lost.await;
            Done::Lost { lease, holding: then }
        }));
        if let Some(session) = self.sessions.iter_mut().find(|session| session.lease == lease) {
            session.held = Some((guard, holding.clone()));
        }
        Ok(holding)
    }

    /// Watches again a session that was endangered and is renewed.
    pub(crate) fn watch_again(&self, lease: Duration, holding: &Holding, margin: Duration) {
        let held =
            self.sessions.iter().find(|session| session.lease == lease).and_then(|session| session.held.as_ref());
        let Some((guard, _)) = held.filter(|(_, held)| held == holding) else { return };
        let (endangered, soon) = (guard.expiring(margin), holding.clone());
        self.flying.push(Box::pin(async move {
            time::sleep(margin).await;
            endangered.await;
            Done::Endangered { lease, holding: soon }
        }));
    }

    /// A session has ended; the next one is asked for.
    pub(crate) fn forget(&mut self, lease: Duration, holding: &Holding) {
        let Some(session) = self.sessions.iter_mut().find(|session| session.lease == lease) else { return };
        if session.held.as_ref().is_some_and(|(_, held)| held == holding) {
            session.held = None;
            self.ask(lease);
        }
    }

    /// Gives every session back, so that others see at once that this node has gone.
    pub(crate) async fn leave(&mut self) -> Result<()> {
        self.flying.clear();
        let mut told = Ok(());
        for session in self.sessions.drain(..) {
            let Some((guard, _)) = session.held else { continue };
            let released = guard.release().await;
            told = told.and(released);
        }
        told
    }

    pub(crate) fn swap(&self, sent: Moment, jobs: Vec<JobId>, swaps: Vec<Swap>) {
        let client = self.client.clone();
        self.flying.push(Box::pin(async move {
            let result = client.swap(&swaps).await;
            Done::Swapped { jobs, sent, result }
        }));
    }

    /// Reads the board and these jobs at one moment.
    pub(crate) fn read(&self, sent: Moment, jobs: Vec<Asked>, keys: Vec<Key>) {
        let client = self.client.clone();
        self.flying.push(Box::pin(async move {
            let result = match board() {
                Ok(board) => client.read(&[&[board], &keys[..]].concat(), &[]).await,
                Err(error) => Err(error),
            };
            Done::Read { jobs, sent, result }
        }));
    }

    /// Asks for the store's era, or begins one. One that was known and is there without a name stays.
    pub(crate) fn ask_era(&mut self) {
        if !std::mem::replace(&mut self.is_asking, true) {
            let (client, known) = (self.client.clone(), self.era.clone());
            self.flying.push(Box::pin(async move { Done::Era(era(&client, known).await) }));
        }
    }

    /// The answer has come.
    pub(crate) fn asked_era(&mut self) {
        self.is_asking = false;
    }

    /// Tells that the store fell back to an earlier state: of the first job of many only.
    pub(crate) fn tell_of_fall(&mut self, now: Moment, job: &str) {
        if self.fell.replace(now).is_none_or(|last| now.since(last) > FALL) {
            tracing::error!(
                job,
                "the store fell back to an earlier state, as after a failover or from a backup: this node writes again \
                 what it remembers, of this job and others; a tick that only a node without memory claimed may run twice"
            );
        }
    }

    /// The sessions that this node has, as far as it knows, and how long each lasts.
    pub(crate) fn own(&self) -> impl Iterator<Item = (Duration, &Holding)> {
        self.sessions.iter().filter_map(|session| Some((session.lease, &session.held.as_ref()?.1)))
    }

    /// Looks at the board, at pauses and at other nodes' sessions.
    pub(crate) fn look(&self, sent: Moment, holdings: Vec<Holding>) {
        let client = self.client.clone();
        self.flying.push(Box::pin(async move {
            let result = match board().and_then(|board| Ok([board, pauses_key()?])) {
                Ok(keys) => client.read(&keys, &holdings).await,
                Err(error) => Err(error),
            };
            Done::Looked { sent, holdings, result }
        }));
    }

    /// Reads the board, and what is said beside it, at one moment.
    pub(crate) fn read_news(&self, sent: Moment) {
        let client = self.client.clone();
        self.flying.push(Box::pin(async move {
            let result = match board().and_then(|board| Ok([board, news_key()?])) {
                Ok(keys) => client.read(&keys, &[]).await,
                Err(error) => Err(error),
            };
            Done::News { sent, result }
        }));
    }

    /// Tells of this node.
    pub(crate) fn announce(&self, node: &str, session: Holding) {
        let told = announce(self.client.clone(), node.to_owned(), session);
        self.flying.push(Box::pin(async move { Done::Announced(told.await) }));
    }

    /// Writes the record of pauses again, where the store has lost it.
    pub(crate) fn write_pauses(&self, from: Option<Version>, standing: &Standing) {
        let (client, value) = (self.client.clone(), standing.write());
        self.flying.push(Box::pin(async move {
            let swap = async { client.swap(&[Swap::new(pauses_key()?, from, value?)]).await };
            Done::Bumped(swap.await.map(|_| ()))
        }));
    }

    /// Tells the other nodes if there is something to do. What comes while they are being told is told after that.
    pub(crate) fn tell(&mut self) {
        if self.telling.is_some() {
            return;
        }
        let Some(changed) = self.news.take() else { return };
        self.telling = Some(changed.clone());
        let (client, known) = (self.client.clone(), self.board.zip(self.era.clone()));
        self.flying.push(Box::pin(async move { Done::Bumped(bump(&client, known, &changed).await) }));
    }

    /// The others have been told, or could not be.
    pub(crate) fn told(&mut self) {
        self.telling = None;
    }

    /// The next answer or ring.
    pub(crate) async fn done(&mut self) -> Done {
        let Self { flying, rings, .. } = self;
        tokio::select! {
            Some(done) = flying.next() => done,
            Some(Ok(())) = async { Some(rings.as_mut()?.next().await) } => Done::Rung,
            else => std::future::pending().await,
        }
    }
}

/// The record whose version tells that somebody has a word for the nodes.
pub(crate) fn board() -> Result<Key> {
    Key::new("schedule/board")
}

/// The record of a job.
pub(crate) fn key(name: &str) -> Result<Key> {
    Key::new(format!("{PREFIX}{name}"))
}

/// What the names of jobs' records begin with.
pub(crate) const PREFIX: &str = "job/";

/// Gives the board a new version, and says beside it which jobs have changed, which notifies every node. What the board
/// says stays. `known` is the board as the caller knows it, which saves a trip to the store.
pub(crate) async fn bump(client: &Client, known: Option<(Version, String)>, changed: &Changed) -> Result<()> {
    let board = board()?;
    let (mut from, mut era) = match known {
        Some((version, era)) => (Some(version), era),
        None => (None, new_era()),
    };
    loop {
        let swap = Swap { notifies: true, ..Swap::new(board.clone(), from, era.clone()) };
        let swaps = client.swap(&[swap]).await?;
        match only(swaps.each)? {
            Swapped::Differs(Some(record)) => (from, era) = (Some(record.version), record.value),
            // The store has lost it.
            Swapped::Differs(None) => (from, era) = (None, new_era()),
            Swapped::Done(Some(to)) => return publish(client, from, to, changed).await,
            Swapped::Done(None) | Swapped::Early(_) | Swapped::NotHeld => return Ok(()),
        }
    }
}

/// What the board says: it names the era of the store's data, which ends when they are lost.
pub(crate) async fn era(client: &Client, known: Option<String>) -> Result<String> {
    let board = board()?;
    let (mut from, mut era) = (None, new_era());
    loop {
        let swaps = client.swap(&[Swap::new(board.clone(), from, era.clone())]).await?;
        match only(swaps.each)? {
            Swapped::Differs(Some(record)) if !record.value.is_empty() => return Ok(record.value),
            // A version before this one wrote nothing there.
            Swapped::Differs(Some(record)) => {
                from = Some(record.version);
                era = known.clone().unwrap_or(era);
            }
            Swapped::Differs(None) => from = None,
            Swapped::Done(_) | Swapped::Early(_) | Swapped::NotHeld => return Ok(era),
        }
    }
}

/// No two of them are alike.
fn new_era() -> String {
    ClientId::random().to_string()
}

/// The answer to one question.
pub(crate) fn only<T>(answers: Vec<Result<T>>) -> Result<T> {
    let too_few = || Err(Error::unavailable("the store gave no answer").ambiguous());
    answers.into_iter().next().unwrap_or_else(too_few)
}

/// The lock of the lowest number that no other node holds: so there are no more of them than there were nodes at a time.
async fn lowest_free(client: &Client, lease: Duration) -> Result<Guard> {
    for number in 1..=NODES {
        let lock = client.mutex(format!("{SESSION}{number}")).watchdog(lease).quiet();
        if let Some(guard) = lock.try_lock().await? {
            return Ok(guard);
        }
    }
    Err(Error::unavailable(format!("all of {NODES} nodes' sessions are held")))
}
