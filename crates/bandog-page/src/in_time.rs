//! The timeout of the queries of a store.

use std::time::Duration;

use hyper::StatusCode;
use tokio::time::timeout;

use crate::source::Trouble;

/// Timeout of each query of the store that is not a scan.
pub(crate) const STORE_TIME: Duration = Duration::from_secs(10);

/// Awaits an answer of the store, and returns an error if it takes longer than `limit`.
pub(crate) async fn in_time<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, Trouble>>,
) -> Result<T, Trouble> {
    timeout(limit, answer).await.unwrap_or_else(|_| {
        let message = format!("the store did not answer within {} s", limit.as_secs());
        Err(Trouble::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message))
    })
}
