//! The paths of the page.

use hyper::{Method, StatusCode, Uri};
use percent_encoding::percent_decode_str;

use crate::{
    Language,
    query::{self, Wanted, WantedElements, WantedObjects},
    reply::{ASSETS, Asset},
    source::{Target, Trouble},
};

/// The requested resource.
#[derive(Debug)]
pub(crate) enum Route {
    /// A request for the mount path without its final slash. The page redirects the browser to this relative URL, which
    /// has the final slash.
    Slash(String),
    /// The page itself, in this language if the request names one.
    Index(Option<Language>),
    /// A file of the page.
    Asset(&'static Asset),
    /// A fixed answer, which shows that the page is served.
    Health,
    /// The metrics of the process, under the path `/metrics`.
    Figures,
    /// General data about the page.
    About,
    /// A part of the jobs, or all jobs.
    Jobs(Wanted),
    /// The job with this name.
    Job(String),
    /// The history of the job with this name.
    History(String),
    /// A part of the locks, or all locks.
    Locks(Wanted),
    /// Some of the objects.
    Objects(WantedObjects),
    /// The clients of caches.
    Caches,
    /// The last 24 hours, with this queue.
    PastDay(Option<String>),
    /// A part of the work queues.
    Queues(Wanted),
    /// The work queue with this name.
    Queue(String),
    /// Some elements of the work queue with this name.
    Elements(String, WantedElements),
    /// The nodes and the pauses.
    Nodes,
    /// The figures above the list of jobs.
    Summary,
    /// An action.
    Act(Target, Verb),
}

/// The requested action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Run,
    Pause,
    Resume,
    Cancel,
    Backfill,
    Forget,
    Release,
    /// As [`Self::Pause`], without a reason.
    PauseQueue,
    Retry,
    Remove,
}

impl Route {
    /// The route of a request. `prefix` is the path under which the page is mounted, without a slash at its end.
    pub(crate) fn of(method: &Method, uri: &Uri, prefix: &str) -> Result<Self, Trouble> {
        let path = uri.path();
        let route = match path.strip_prefix(prefix) {
            Some("") => {
                let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
                Self::Slash(format!("./{}/{query}", path.rsplit('/').next().unwrap_or_default()))
            }
            Some(below) if below.starts_with('/') => Self::of_path(below, uri.query())?,
            Some(_) | None => return Err(Trouble::nothing_here()),
        };
        let allowed: &[Method] =
            if matches!(route, Self::Act(..)) { &[Method::POST] } else { &[Method::GET, Method::HEAD] };
        if allowed.contains(method) {
            return Ok(route);
        }
        let message = format!("{path} allows {}, not {method}", allowed[0]);
        Err(Trouble::new(StatusCode::METHOD_NOT_ALLOWED, "method", message))
    }

    /// The route of a path below the mount path.
    fn of_path(path: &str, query: Option<&str>) -> Result<Self, Trouble> {
        if path == "/" {
            return Ok(Self::Index(query::language(query)));
        }
        if let Some(asset) = ASSETS.iter().find(|asset| asset.path == path) {
            return Ok(Self::Asset(asset));
        }
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        Ok(match parts[..] {
            ["healthz"] => Self::Health,
            ["metrics"] => Self::Figures,
            ["api", "about"] => Self::About,
            ["api", "locks"] => Self::Locks(Wanted::read(query)?),
            ["api", "objects"] => Self::Objects(WantedObjects::read(query)?),
            ["api", "caches"] => Self::Caches,
            ["api", "history"] => Self::PastDay(query::queue(query)?),
            ["api", "nodes"] => Self::Nodes,
            ["api", "summary"] => Self::Summary,
            ["api", "jobs"] => Self::Jobs(Wanted::read(query)?),
            ["api", "jobs", name] => Self::Job(decoded(name)?),
            ["api", "jobs", name, "history"] => Self::History(decoded(name)?),
            ["api", "jobs", name, verb] => Self::Act(Target::Job(decoded(name)?), Verb::of_job(verb)?),
            ["api", "nodes", node, verb] => Self::Act(Target::Node(decoded(node)?), Verb::of_pause(verb)?),
            ["api", "all", verb] => Self::Act(Target::All, Verb::of_pause(verb)?),
            ["api", "locks", name, "release"] => Self::Act(Target::Lock(decoded(name)?), Verb::Release),
            ["api", "queues"] => Self::Queues(Wanted::read(query)?),
            ["api", "queues", name] => Self::Queue(decoded(name)?),
            ["api", "queues", name, "elements"] => Self::Elements(decoded(name)?, WantedElements::read(query)?),
            ["api", "queues", name, verb] => Self::Act(Target::Queue(decoded(name)?), Verb::of_queue(verb)?),
            _ => return Err(Trouble::nothing_here()),
        })
    }
}

impl Verb {
    /// The last part of the path of an action on a job.
    fn of_job(part: &str) -> Result<Self, Trouble> {
        Ok(match part {
            "run" => Self::Run,
            "cancel" => Self::Cancel,
            "backfill" => Self::Backfill,
            "forget" => Self::Forget,
            other => Self::of_pause(other)?,
        })
    }

    /// The last part of the path of an action on a work queue.
    fn of_queue(part: &str) -> Result<Self, Trouble> {
        match part {
            "pause" => Ok(Self::PauseQueue),
            "resume" => Ok(Self::Resume),
            "retry" => Ok(Self::Retry),
            "remove" => Ok(Self::Remove),
            _ => Err(Trouble::nothing_here()),
        }
    }

    /// The same for all jobs and for a node, which can only be paused and resumed.
    fn of_pause(part: &str) -> Result<Self, Trouble> {
        match part {
            "pause" => Ok(Self::Pause),
            "resume" => Ok(Self::Resume),
            _ => Err(Trouble::nothing_here()),
        }
    }
}

/// Decodes a name in a path.
fn decoded(encoded: &str) -> Result<String, Trouble> {
    match percent_decode_str(encoded).decode_utf8() {
        Ok(name) if !name.is_empty() => Ok(name.into_owned()),
        Ok(_) => Err(Trouble::new(StatusCode::NOT_FOUND, "path", "a name is missing in this path")),
        Err(_) => Err(Trouble::new(StatusCode::BAD_REQUEST, "path", "a name must be UTF-8 text")),
    }
}
