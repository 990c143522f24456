//! The answers to requests that were not served.

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};

use crate::BoxError;

/// A status and a text for the client.
pub(crate) struct Refusal(StatusCode, String);

impl Refusal {
    pub(crate) fn new(status: StatusCode, why: impl Into<String>) -> Self {
        Self(status, why.into())
    }
}

/// The store or the database has not answered, or the lock was lost: the client may send the request again.
impl<E: Into<BoxError>> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self(StatusCode::SERVICE_UNAVAILABLE, error.into().to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.0, format!("{}\n", self.1)).into_response()
    }
}
