//! Answers requests.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use bandog_core::structures::Cursor;
use hyper::{
    Request, StatusCode,
    body::Body,
    header::{self, HeaderValue},
};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};

use crate::{
    Language, ObjectJson, access, act_body,
    aside::aside,
    cache_json::CacheJson,
    config::Config,
    digest::Bar,
    fresh::{Fetched, Fresh, Known},
    histories::{Histories, Marked},
    in_time::{STORE_TIME, in_time},
    objects,
    observed::Observed,
    parts::{About, ElementsPart, JobsPart, LocksPart, ObjectsPart, QueuesPart, Rows},
    past_day::PastDay,
    query::{Wanted, WantedElements, WantedObjects},
    queue_json::{ShownElement, ShownQueue},
    queues::{self, Queues},
    reply::{self, Reply},
    route::Route,
    snapshot::{Job, Snapshot},
    source::{Act, Answer, ListedLock, Source, Target, Trouble, json},
    summary::{self, Hour, Summary},
};

/// Timeout of a scan of all names in the store. The scan is slow on purpose, so that it does not disturb other clients.
const SCAN_TIME: Duration = Duration::from_secs(600);
/// A list of locks is served again until at least this multiple of the duration of its scan has passed.
const SCAN_MULTIPLE: u32 = 10;
/// Maximum time for which a request waits for a scan. This time is shorter in tests.
const SCAN_PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });
/// Maximum time for which a scan continues after the request that started the scan has stopped waiting. The next
/// request can then use the result.
const SCAN_LINGER: Duration = Duration::from_secs(if cfg!(test) { 5 } else { 30 });
/// A timeline is served again until at least this multiple of the duration of its computation has passed.
const TIMELINE_MULTIPLE: u32 = 20;
/// Media type of plain text.
const TEXT: &str = "text/plain; charset=utf-8";
/// Media type of Prometheus's text format.
const FIGURES: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Answers each request with data of the store. All clones share the answers of the store.
#[derive(Debug)]
pub(crate) struct Handler<S> {
    pub(crate) shared: Arc<Shared<S>>,
    pub(crate) config: Arc<Config>,
}

/// The state that all clones of a [`Handler`] share: the store, and the answers of the store that are kept for some
/// time.
#[derive(Debug)]
pub(crate) struct Shared<S> {
    source: Arc<S>,
    jobs: Arc<Fresh<Snapshot>>,
    locks: Fresh<Vec<ListedLock>>,
    /// The permit of the request for objects that queries the store.
    object_turn: Semaphore,
    /// The nodes and the pauses as JSON.
    nodes: Fresh<Box<RawValue>>,
    /// The starts of jobs in the next hour.
    timeline: Fresh<Hour>,
    /// The figures above the list of jobs, as JSON.
    summary: Fresh<Box<RawValue>>,
    pub(crate) histories: Arc<Histories<S>>,
    pub(crate) queues: Queues<S>,
    /// The clients of caches as JSON.
    caches: Fresh<Box<RawValue>>,
    /// The last 24 hours, for the charts.
    pub(crate) past_day: Fresh<PastDay>,
    pub(crate) observed: Mutex<Observed>,
    /// No lock is scanned for an observation until this time, because the last scan took too long.
    pub(crate) no_scan_until: Mutex<Option<Instant>>,
}

impl<S> Clone for Handler<S> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), config: Arc::clone(&self.config) }
    }
}

impl<S: Source> Handler<S> {
    pub(crate) fn new(source: S) -> Self {
        let source = Arc::new(source);
        let shared = Shared {
            jobs: Arc::default(),
            locks: Fresh::for_multiple(SCAN_MULTIPLE),
            object_turn: Semaphore::new(1),
            nodes: Fresh::default(),
            timeline: Fresh::for_multiple(TIMELINE_MULTIPLE),
            summary: Fresh::default(),
            histories: Arc::new(Histories::new(Arc::clone(&source))),
            queues: Queues::new(Arc::clone(&source)),
            caches: Fresh::default(),
            past_day: Fresh::default(),
            observed: Mutex::default(),
            no_scan_until: Mutex::default(),
            source,
        };
        Self { shared: Arc::new(shared), config: Arc::default() }
    }

    pub(crate) fn source(&self) -> &S {
        &self.shared.source
    }

    /// The response to a request, whether the request succeeds or not.
    pub(crate) async fn answer<B>(&self, request: Request<B>) -> Reply
    where
        B: Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.reply(request).await.unwrap_or_else(|trouble| {
            let mut reply = reply::trouble(&trouble);
            if trouble.status == StatusCode::UNAUTHORIZED {
                reply.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            reply
        })
    }

    /// The response to a request that succeeds, or the error of a request that was refused or failed.
    async fn reply<B>(&self, request: Request<B>) -> Result<Reply, Trouble>
    where
        B: Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.config.hosts.check(request.uri(), request.headers())?;
        let route = Route::of(request.method(), request.uri(), &self.config.prefix)?;
        match route {
            Route::Slash(place) => Ok(reply::moved(&place)),
            Route::Index(language) => {
                let language = language.or(self.config.language).or_else(|| Language::accepted(request.headers()));
                Ok(reply::index(language.unwrap_or_default()))
            }
            Route::Asset(asset) => Ok(asset.reply()),
            Route::Health => Ok(reply::reply(StatusCode::OK, TEXT, "ok\n")),
            Route::Figures => self.figures().await,
            Route::About => Ok(self.about()),
            Route::Jobs(wanted) => self.jobs(wanted).await,
            Route::Locks(wanted) => self.locks(&wanted).await,
            Route::Objects(wanted) => self.objects(&wanted).await,
            Route::Caches => self.rows(self.caches().await, "caches"),
            Route::Queues(wanted) => self.queues(&wanted).await,
            Route::Queue(name) => self.queue(&name).await,
            Route::Elements(name, wanted) => self.elements(&name, &wanted).await,
            Route::Nodes => self.rows(self.nodes().await, "nodes"),
            Route::Summary => self.rows(self.summary().await, "summary"),
            Route::PastDay(queue) => self.rows(self.past_day(queue).await, "history"),
            Route::Job(name) => self.job(&name).await,
            Route::History(name) => {
                // An unknown name is refused without a query.
                self.known(&name).await?;
                self.rows(self.shared.histories.whole(&name).await, "runs")
            }
            Route::Act(target, verb) => {
                access::check_actor(request.uri(), request.headers(), self.config.token.as_ref())?;
                let act = act_body::act(verb, request).await?;
                let done = self.act(target, act).await;
                self.rows(done.map(|rows| Known { at: SystemTime::now(), value: Arc::new(rows) }), "done")
            }
        }
    }

    /// A recent list of all jobs.
    pub(crate) async fn snapshot(&self) -> Fetched<Snapshot> {
        let source = Arc::clone(&self.shared.source);
        let ask = || aside(in_time(STORE_TIME, async move { Snapshot::new(&source.jobs().await?) }));
        self.shared.jobs.get_soon(ask).await
    }

    /// A recent list of all jobs. Returns an error if the job with this name is not in the list.
    async fn known(&self, name: &str) -> Fetched<Snapshot> {
        let jobs = self.snapshot().await?;
        jobs.value.get(name).ok_or_else(|| Trouble::no_job(name))?;
        Ok(jobs)
    }

    /// The response with one job.
    async fn job(&self, name: &str) -> Result<Reply, Trouble> {
        let Known { at, value } = self.snapshot().await?;
        let job = value.get(name).ok_or_else(|| Trouble::no_job(name))?;
        Ok(self.written(at, named("job", &job.json)))
    }

    /// The response with the requested part of the jobs.
    async fn jobs(&self, wanted: Wanted) -> Result<Reply, Trouble> {
        let Known { at, value } = self.snapshot().await?;
        if wanted.limit.is_none() {
            // This thread does not serialize the jobs, because that takes some time for thousands of jobs.
            let this = self.clone();
            return aside(async move { Ok(this.part(at, &value, &wanted, None)) }).await;
        }
        let marked: Vec<Marked> = value.part(&wanted).jobs.into_iter().map(Job::marked).collect();
        let digests = self.shared.histories.digests(&marked).await;
        let bars = digests.into_iter().map(|(name, digest)| (name, digest.bars())).collect();
        Ok(self.part(at, &value, &wanted, Some(bars)))
    }

    /// Writes the response with the requested part of the jobs. `bars` are the last runs of these jobs.
    fn part(&self, at: SystemTime, jobs: &Snapshot, wanted: &Wanted, bars: Option<HashMap<String, Vec<Bar>>>) -> Reply {
        let part = jobs.part(wanted);
        let jobs = part.jobs.iter().map(|job| &*job.json).collect();
        self.written(at, JobsPart { jobs, total: part.total, counts: part.counts, bars })
    }

    /// The response with the requested part of the locks.
    async fn locks(&self, wanted: &Wanted) -> Result<Reply, Trouble> {
        let mut scan = Box::pin(self.clone().scan());
        let Ok(fetched) = timeout(SCAN_PATIENCE, &mut scan).await else {
            tokio::spawn(timeout(SCAN_LINGER, scan));
            return Err(Trouble::scanning());
        };
        let Known { at, value } = fetched?;
        let locks = value.iter().skip(wanted.offset).take(wanted.limit.unwrap_or(usize::MAX));
        Ok(self.written(at, LocksPart { locks: locks.map(|lock| &*lock.json).collect(), total: value.len() }))
    }

    /// The locks that a scan has found. The scan is cancelled when no request waits for the scan.
    pub(crate) async fn scan(self) -> Fetched<Vec<ListedLock>> {
        let source = Arc::clone(&self.shared.source);
        self.shared.locks.get(|| aside(in_time(SCAN_TIME, async move { source.locks().await }))).await
    }

    /// The response with some of the objects. One request at a time queries the store.
    async fn objects(&self, wanted: &WantedObjects) -> Result<Reply, Trouble> {
        let Ok(Ok(turn)) = timeout(SCAN_PATIENCE, self.shared.object_turn.acquire()).await else {
            let message = "other requests for objects are in progress: retry later";
            return Err(Trouble::new(StatusCode::TOO_MANY_REQUESTS, "busy", message));
        };
        let (source, pattern) = (&*self.shared.source, &wanted.pattern);
        let step = |from| async move { in_time(STORE_TIME, source.objects(pattern, &from, objects::STEP)).await };
        let (rows, next) = objects::part(wanted, step).await?;
        let caches = match wanted.from.0.is_empty() {
            true => in_time(STORE_TIME, source.cache_reports()).await?,
            false => Vec::new(),
        };
        drop(turn);
        let objects = rows.iter().map(|row| ObjectJson::new(row, source.store())).collect();
        let caches = caches.into_iter().filter(|report| pattern.matches(report.cache.as_str()));
        let caches = caches.filter_map(CacheJson::read).collect();
        Ok(self.written(SystemTime::now(), ObjectsPart { objects, caches, next: next.map(|Cursor(next)| next) }))
    }

    /// The clients of caches as JSON.
    async fn caches(&self) -> Fetched<Box<RawValue>> {
        let source = Arc::clone(&self.shared.source);
        let ask = async move {
            if !source.has_objects() {
                return Err(Trouble::none_in_store("caches"));
            }
            let reports = in_time(STORE_TIME, source.cache_reports()).await?;
            json(&reports.into_iter().filter_map(CacheJson::read).collect::<Vec<_>>())
        };
        self.shared.caches.get(|| ask).await
    }

    /// The response with the requested part of the queues.
    async fn queues(&self, wanted: &Wanted) -> Result<Reply, Trouble> {
        let names = self.shared.queues.names().await?.value;
        let matching: Vec<&String> = names.iter().filter(|name| name.to_lowercase().contains(&wanted.name)).collect();
        let total = matching.len();
        let part =
            matching.into_iter().skip(wanted.offset).take(wanted.limit.unwrap_or(queues::MOST).min(queues::MOST));
        let states = self.shared.queues.states(part.cloned().collect()).await?;
        let at = states.iter().map(|(_, known)| known.at).min().unwrap_or_else(SystemTime::now);
        let store = self.shared.source.store();
        let queues = states.iter().map(|(name, known)| ShownQueue::new(name, &known.value, store)).collect();
        Ok(self.written(at, QueuesPart { queues, total }))
    }

    /// The response with one queue.
    async fn queue(&self, name: &str) -> Result<Reply, Trouble> {
        let Known { at, value } = self.shared.queues.state(name).await?;
        let queue = json(&ShownQueue::new(name, &value, self.shared.source.store()))?;
        Ok(self.written(at, named("queue", &queue)))
    }

    /// The response with some of the elements of a queue.
    async fn elements(&self, name: &str, wanted: &WantedElements) -> Result<Reply, Trouble> {
        let (state, (rows, next)) = self.shared.queues.elements(name, wanted).await?;
        let elements = rows.iter().map(|row| ShownElement::new(row, &state.value)).collect();
        Ok(self.written(SystemTime::now(), ElementsPart { elements, next: next.map(|Cursor(next)| next) }))
    }

    /// The nodes and the pauses as JSON.
    async fn nodes(&self) -> Fetched<Box<RawValue>> {
        let source = Arc::clone(&self.shared.source);
        self.shared.nodes.get(|| aside(in_time(STORE_TIME, async move { source.nodes().await }))).await
    }

    /// The figures (numbers of runs, failures and so on) of the last 24 hours and of the next hour.
    async fn summary(&self) -> Fetched<Box<RawValue>> {
        let this = self.clone();
        let ask = async move {
            let jobs = this.snapshot().await?.value;
            // Jobs without a run in the last 24 hours do not affect the figures.
            let recent = jobs.since(summary::day_before(SystemTime::now()));
            // `quiet` is the number of jobs without such a run.
            let (jobs, quiet) = (jobs.len(), jobs.len() - recent.len());
            let digests = this.shared.histories.catch_up(&recent).await;
            // The page shows the figures of the last day even if there is no timeline.
            let hour = this.timeline().await.ok().map(|known| known.value);
            aside(async move { json(&Summary::new(SystemTime::now(), (jobs, quiet), &digests, hour)) }).await
        };
        self.shared.summary.get(|| ask).await
    }

    /// The starts of jobs in the next hour.
    async fn timeline(&self) -> Fetched<Hour> {
        let source = Arc::clone(&self.shared.source);
        let ask = async move {
            let fires = source.fires(summary::AHEAD, summary::PER_JOB + 1).await?;
            Ok(Hour::new(SystemTime::now(), &fires))
        };
        self.shared.timeline.get(|| aside(in_time(STORE_TIME, ask))).await
    }

    /// Executes an action. The action is completed even if the client disconnects in the meantime.
    async fn act(&self, target: Target, act: Act) -> Answer {
        tracing::info!("requested on the page: {act:?} of {target:?}");
        let (source, of) = (Arc::clone(&self.shared.source), target.clone());
        let work = aside(async move { in_time(STORE_TIME, source.act(&of, act)).await });
        let done = tokio::spawn(work).await;
        match &target {
            Target::Job(name) => self.shared.histories.forget(name),
            Target::All | Target::Node(_) => self.shared.nodes.forget(),
            Target::Lock(_) => self.shared.locks.forget(),
            Target::Queue(name) => self.shared.queues.forget(name),
        }
        self.shared.jobs.forget();
        done.unwrap_or_else(|error| {
            Err(Trouble::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", format!("the request failed: {error}")))
        })
    }

    /// A response with these rows in the field `name`.
    fn rows(&self, fetched: Fetched<Box<RawValue>>, name: &'static str) -> Result<Reply, Trouble> {
        let Known { at, value } = fetched?;
        Ok(self.written(at, named(name, &value)))
    }

    /// A response with these rows. `at` is the time of the query.
    fn written(&self, at: SystemTime, rows: impl Serialize) -> Reply {
        let (now, store) = (SystemTime::now(), self.shared.source.store());
        reply::json(StatusCode::OK, &Rows { now: text(now), at: text(at), store, rows })
    }

    /// The response with general data about the page.
    fn about(&self) -> Reply {
        let (now, version) = (text(SystemTime::now()), env!("CARGO_PKG_VERSION"));
        let (source, acts, metrics) = (&self.shared.source, self.config.token.is_some(), self.config.metrics.is_some());
        let about = About {
            now,
            version,
            store: source.store(),
            acts,
            metrics,
            objects: source.has_objects(),
            queues: source.has_queues(),
        };
        reply::json(StatusCode::OK, &about)
    }

    /// The response with the metrics of the process and of the queues of the store.
    async fn figures(&self) -> Result<Reply, Trouble> {
        let metrics = self.config.metrics.as_ref().ok_or_else(Trouble::nothing_here)?;
        let of_queues = self.shared.queues.figures().await;
        Ok(reply::reply(StatusCode::OK, FIGURES, metrics() + &of_queues))
    }
}

/// A JSON object with one field. The field has this name and contains the rows.
fn named<'a>(name: &'static str, rows: &'a RawValue) -> BTreeMap<&'static str, &'a RawValue> {
    BTreeMap::from([(name, rows)])
}

/// The time in RFC 3339, to the millisecond.
fn text(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}
