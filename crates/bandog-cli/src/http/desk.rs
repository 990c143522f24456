//! Who answers requests.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use http_body_util::{BodyExt, Limited};
use hyper::{
    Request, StatusCode,
    body::Incoming,
    header::{self, HeaderValue},
};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::{
    answer::{self, Reply},
    door,
    figures::Figures,
    fresh::{Fresh, Told},
    route::{Route, Verb},
    source::{Act, Answer, Source, Trouble, Wish},
    token::Token,
};

/// How long a store may take.
const STORE_TIME: Duration = Duration::from_secs(10);
/// How long the body of a request may take, and how many bytes it may have.
const BODY_TIME: Duration = Duration::from_secs(10);
const BODY: usize = 64 * 1024;
/// The most bytes of a reason.
const REASON: usize = 1024;

const TEXT: &str = "text/plain; charset=utf-8";
const FIGURES: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Answers each request, from what a source tells.
#[derive(Debug)]
pub(super) struct Desk<S> {
    source: Arc<S>,
    jobs: Fresh,
    locks: Fresh,
    nodes: Fresh,
    token: Option<Token>,
    figures: Figures,
    is_local: bool,
}

/// What answers with rows say besides: when the answer was made and when the rows were read, by this machine's clock.
#[derive(Serialize)]
struct Rows<'a> {
    now: String,
    at: String,
    store: &'a str,
    #[serde(flatten)]
    rows: Named<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Named<'a> {
    Jobs(&'a RawValue),
    Job(&'a RawValue),
    Runs(&'a RawValue),
    Locks(&'a RawValue),
    Nodes(&'a RawValue),
    Done(&'a RawValue),
}

#[derive(Serialize)]
struct About<'a> {
    now: String,
    version: &'static str,
    store: &'a str,
    /// Whether there is a token with which the page may act.
    acts: bool,
}

impl<S: Source> Desk<S> {
    pub(super) fn new(source: S, token: Option<Token>, figures: Figures, address: SocketAddr) -> Self {
        let is_local = address.ip().is_loopback();
        let (jobs, locks, nodes) = (Fresh::default(), Fresh::default(), Fresh::default());
        Self { source: Arc::new(source), jobs, locks, nodes, token, figures, is_local }
    }

    pub(super) fn tidy(&self) {
        self.figures.tidy();
    }

    pub(super) async fn answer(&self, request: Request<Incoming>) -> Reply {
        self.reply(request).await.unwrap_or_else(|trouble| {
            let mut reply = answer::trouble(&trouble);
            if trouble.status == StatusCode::UNAUTHORIZED {
                reply.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            reply
        })
    }

    async fn reply(&self, request: Request<Incoming>) -> Result<Reply, Trouble> {
        if self.is_local {
            door::check_host(request.uri(), request.headers())?;
        }
        let route = Route::of(request.method(), request.uri().path())?;
        let source = &self.source;
        match route {
            Route::Asset(asset) => Ok(asset.reply()),
            Route::Health => Ok(answer::reply(StatusCode::OK, TEXT, "ok\n")),
            Route::Figures => Ok(answer::reply(StatusCode::OK, FIGURES, self.figures.text())),
            Route::About => Ok(self.about()),
            Route::Jobs => self.rows(self.jobs.get(in_time(source.jobs())).await, |rows| Named::Jobs(rows)),
            Route::Locks => self.rows(self.locks.get(in_time(source.locks())).await, |rows| Named::Locks(rows)),
            Route::Nodes => self.rows(self.nodes.get(in_time(source.nodes())).await, |rows| Named::Nodes(rows)),
            Route::Job(name) => self.rows(now(in_time(source.job(&name)).await), |rows| Named::Job(rows)),
            Route::History(name) => self.rows(now(in_time(source.history(&name)).await), |rows| Named::Runs(rows)),
            Route::Act(name, verb) => {
                door::check_actor(request.headers(), self.token.as_ref())?;
                let act = verb.with(wish(request).await?)?;
                self.rows(now(self.act(name, act).await), |rows| Named::Done(rows))
            }
        }
    }

    /// It is done to its end, even if nobody waits for it any more.
    async fn act(&self, name: String, act: Act) -> Answer {
        tracing::info!("asked on the page: {act:?} of {name:?}");
        let source = self.source.clone();
        let done = tokio::spawn(async move { in_time(source.act(&name, act)).await }).await;
        self.jobs.forget().await;
        done.unwrap_or_else(|error| {
            Err(Trouble::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", format!("it broke off: {error}")))
        })
    }

    fn rows(&self, told: Told, named: impl for<'a> FnOnce(&'a RawValue) -> Named<'a>) -> Result<Reply, Trouble> {
        let (at, rows) = told?;
        let (now, store) = (SystemTime::now(), self.source.store());
        Ok(answer::json(StatusCode::OK, &Rows { now: text(now), at: text(at), store, rows: named(&rows) }))
    }

    fn about(&self) -> Reply {
        let (now, version) = (text(SystemTime::now()), env!("CARGO_PKG_VERSION"));
        answer::json(StatusCode::OK, &About { now, version, store: self.source.store(), acts: self.token.is_some() })
    }
}

impl Verb {
    /// The act that is wished for; what belongs to another one is refused.
    fn with(self, Wish { reason, id }: Wish) -> Result<Act, Trouble> {
        let wrong = |message| Err(Trouble::new(StatusCode::BAD_REQUEST, "body", message));
        match (self, reason, id) {
            (Self::Run, None, None) => Ok(Act::Run),
            (Self::Resume, None, None) => Ok(Act::Resume),
            (Self::Cancel, None, id) => Ok(Act::Cancel { id }),
            (Self::Pause, reason, None) => {
                let reason = reason.unwrap_or_default();
                if reason.len() > REASON {
                    return wrong(format!("a reason has at most {REASON} bytes, and this one {}", reason.len()));
                }
                Ok(Act::Pause { reason })
            }
            _ => wrong("only `pause` takes a reason, and only `cancel` an id".into()),
        }
    }
}

/// What the body of a request says; an empty one wishes for nothing more.
async fn wish(request: Request<Incoming>) -> Result<Wish, Trouble> {
    let (head, body) = request.into_parts();
    let body = match timeout(BODY_TIME, Limited::new(body, BODY).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            let message = format!("a request has at most {BODY} bytes");
            return Err(Trouble::new(StatusCode::PAYLOAD_TOO_LARGE, "body", message));
        }
        Ok(Err(error)) => return Err(Trouble::new(StatusCode::BAD_REQUEST, "body", error.to_string())),
        Err(_) => return Err(Trouble::new(StatusCode::REQUEST_TIMEOUT, "body", "the request was not sent in time")),
    };
    if body.is_empty() {
        return Ok(Wish::default());
    }
    let kind = head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json") {
        let message = "the body of a request is JSON, with `Content-Type: application/json`";
        return Err(Trouble::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "body", message));
    }
    serde_json::from_slice(&body).map_err(|error| Trouble::new(StatusCode::BAD_REQUEST, "body", error.to_string()))
}

async fn in_time(answer: impl Future<Output = Answer>) -> Answer {
    timeout(STORE_TIME, answer).await.unwrap_or_else(|_| {
        let message = format!("the store did not answer within {} s", STORE_TIME.as_secs());
        Err(Trouble::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message))
    })
}

/// An answer of this moment.
fn now(answer: Answer) -> Told {
    answer.map(|rows| (SystemTime::now(), rows.into()))
}

fn text(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}
