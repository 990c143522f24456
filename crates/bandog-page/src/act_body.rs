//! Reads the actions that requests describe.

use std::time::Duration;

use bandog_core::{Error, queues::ElementId};
use http_body_util::{BodyExt, Limited};
use hyper::{Request, StatusCode, body::Body, header};
use tokio::time::timeout;

use crate::{
    route::Verb,
    source::{Act, ActFields, Trouble},
};

/// Timeout for receiving the body of a request.
const BODY_TIME: Duration = Duration::from_secs(10);
/// Maximum size of the body of a request, in bytes.
const BODY: usize = 64 * 1024;
/// Maximum length of the reason of a pause, in bytes.
const REASON: usize = 1024;

/// The action that this verb and the body of the request describe. A field that does not belong to the verb is refused.
pub(crate) async fn act<B>(verb: Verb, request: Request<B>) -> Result<Act, Trouble>
where
    B: Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    verb.with(body(request).await?)
}

impl Verb {
    fn with(self, ActFields { reason, id, from, to, ids }: ActFields) -> Result<Act, Trouble> {
        let wrong = |message| Err(Trouble::new(StatusCode::BAD_REQUEST, "body", message));
        let range = match (from, to) {
            (Some(from), Some(to)) => Some((from, to)),
            (None, None) => None,
            (Some(_), None) | (None, Some(_)) => return wrong("`from` and `to` belong together: write both".into()),
        };
        let ids = match (self, ids) {
            (Self::Retry | Self::Remove, ids) => ids.map(parsed).transpose()?,
            (_, None) => None,
            (_, Some(_)) => return wrong("only `retry` and `remove` take `ids`".into()),
        };
        match (self, reason, id, range) {
            (Self::Run, None, None, None) => Ok(Act::Run),
            (Self::Resume, None, None, None) => Ok(Act::Resume),
            (Self::Forget, None, None, None) => Ok(Act::Forget),
            (Self::Release, None, None, None) => Ok(Act::Release),
            (Self::PauseQueue, None, None, None) => Ok(Act::Pause { reason: String::new() }),
            (Self::Retry, None, None, None) => Ok(Act::Retry { ids: ids.unwrap_or_default() }),
            (Self::Remove, None, None, None) => match ids {
                Some(ids) => Ok(Act::Remove { ids }),
                None => wrong("`remove` needs `ids`".into()),
            },
            (Self::Cancel, None, id, None) => Ok(Act::Cancel { id }),
            (Self::Backfill, None, None, Some((from, to))) => match (from.parse(), to.parse()) {
                (Ok(from), Ok(to)) => Ok(Act::Backfill { from, to }),
                (Err(error), _) | (_, Err(error)) => wrong(error.to_string()),
            },
            (Self::Pause, reason, None, None) => {
                let reason = reason.unwrap_or_default();
                if reason.len() > REASON {
                    return wrong(format!("a reason has at most {REASON} bytes, but this one has {}", reason.len()));
                }
                Ok(Act::Pause { reason })
            }
            _ => wrong("only `pause` takes a reason, only `cancel` an id, and `backfill` needs `from` and `to`".into()),
        }
    }
}

/// Reads the ids of elements. An empty list is refused: without `ids`, `retry` means all.
fn parsed(ids: Vec<String>) -> Result<Vec<ElementId>, Trouble> {
    let wrong = |message: String| Trouble::new(StatusCode::BAD_REQUEST, "body", message);
    if ids.is_empty() {
        return Err(wrong("`ids` is empty".to_owned()));
    }
    ids.iter().map(|id| id.parse().map_err(|error: Error| wrong(error.to_string()))).collect()
}

/// Reads the body of a request. An empty body is allowed.
async fn body<B>(request: Request<B>) -> Result<ActFields, Trouble>
where
    B: Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
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
        return Ok(ActFields::default());
    }
    let kind = head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json") {
        let message = "the body of a request is JSON, with `Content-Type: application/json`";
        return Err(Trouble::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "body", message));
    }
    serde_json::from_slice(&body).map_err(|error| Trouble::new(StatusCode::BAD_REQUEST, "body", error.to_string()))
}
