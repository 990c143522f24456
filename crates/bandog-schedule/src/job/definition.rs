//! A checked job, and the execution of its body.

use std::{any::Any, panic::AssertUnwindSafe, sync::Arc};

use bandog_core::{Error, Failure, Result};
use futures_util::{FutureExt, future::BoxFuture};

use crate::{Run, policy::Policy, run::MAX_ERROR, trigger::Trigger};

/// Maximum length of a job's name, in bytes.
pub const MAX_NAME: usize = 200;

/// Checks the name of a job.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let fits = (1..=MAX_NAME).contains(&name.len()) && !name.chars().any(char::is_control) && !name.trim().is_empty();
    let wrong = "a job's name must have 1 to 200 bytes and no control characters, and must not be blank";
    if fits { Ok(()) } else { Err(Error::misused(wrong)) }
}

/// The body of a job: a function that creates the future of one attempt. The future resolves to the failure, or to none
/// if the attempt succeeds.
pub(crate) type Body = Arc<dyn Fn(Run) -> BoxFuture<'static, Option<Failure>> + Send + Sync>;

/// A checked job, as the scheduler keeps it.
#[derive(Clone)]
pub(crate) struct JobDefinition {
    pub(crate) name: Arc<str>,
    pub(crate) trigger: Trigger,
    pub(crate) policy: Arc<Policy>,
    pub(crate) body: Body,
}

/// Executes one attempt of a body. A panic counts as a failure.
pub(crate) async fn run_body(body: &Body, run: Run) -> Option<Failure> {
    let making = AssertUnwindSafe(async { body(run).await });
    let failure = making.catch_unwind().await;
    let failure =
        failure.unwrap_or_else(|panic| Some(Failure::new(format!("it panicked: {}", panic_message(&*panic)))));
    failure.map(|failure| failure.cut(MAX_ERROR))
}

/// The text of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{Job, Run};

    #[test]
    fn the_lease_is_the_jobs_or_else_the_clients_watchdog() {
        let seconds = Duration::from_secs;
        let lease = |job: Job, watchdog| job.run(async |_: Run| ()).prepare(watchdog).unwrap().policy.lease;
        assert_eq!(lease(Job::once("job").lease(seconds(7)), Some(seconds(50))), seconds(7));
        assert_eq!(lease(Job::once("job"), Some(seconds(50))), seconds(50));
        assert_eq!(lease(Job::once("job"), None), seconds(30), "the default, which is not used without a store");
    }
}
