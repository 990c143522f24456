//! Functions that wait until a condition is true, instead of waiting for a fixed time. Such a condition is called a
//! *fact*.

use std::fmt::Debug;
use std::panic::Location;
use std::thread;
use std::time::{Duration, Instant};

/// Interval between two checks. A shorter interval would slow down the code under test, and a longer interval would
/// slow down the test.
const PAUSE: Duration = Duration::from_millis(2);

/// The result of a check: a `bool`, an `Option` or a `Result`.
pub trait Fact {
    /// The type of the value that a check returns if the fact holds.
    type Value;

    /// Returns the value if the fact holds.
    ///
    /// # Errors
    /// If the fact does not hold yet. The error is a text that describes the result of the check. If the timeout
    /// passes, the message of the panic contains this text.
    fn settle(self) -> Result<Self::Value, String>;
}

impl Fact for bool {
    type Value = ();

    fn settle(self) -> Result<(), String> {
        self.then_some(()).ok_or_else(|| "false".into())
    }
}

impl<T> Fact for Option<T> {
    type Value = T;

    fn settle(self) -> Result<T, String> {
        self.ok_or_else(|| "None".into())
    }
}

impl<T, E: Debug> Fact for Result<T, E> {
    type Value = T;

    fn settle(self) -> Result<T, String> {
        self.map_err(|seen| format!("{seen:?}"))
    }
}

/// Checks repeatedly until the fact holds, and returns the value of the fact.
///
/// # Panics
/// If the fact does not hold before the timeout `within` has passed. The message contains the place of the call and the
/// result of the last check.
///
/// ```
/// use std::time::{Duration, Instant};
/// let start = Instant::now();
/// bandog_testkit::eventually(Duration::from_secs(1), || start.elapsed().as_millis() > 5);
/// ```
#[track_caller]
pub fn eventually<F: Fact>(within: Duration, mut fact: impl FnMut() -> F) -> F::Value {
    let caller = Location::caller();
    let start = Instant::now();
    loop {
        match fact().settle() {
            Ok(value) => return value,
            Err(seen) if start.elapsed() >= within => give_up(within, caller, &seen),
            Err(_) => thread::sleep(PAUSE),
        }
    }
}

/// Like [`eventually()`], for an async check.
///
/// The timeout and the pauses between checks use Tokio's clock. So this function also works in a test that has paused
/// this clock.
///
/// # Panics
/// If the fact does not hold before the timeout `within` has passed.
///
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let mut left = 3;
/// bandog_testkit::eventually_async(Duration::from_secs(1), async || { left -= 1; left == 0 }).await;
/// # }
/// ```
#[track_caller]
pub fn eventually_async<F: Fact>(within: Duration, mut fact: impl AsyncFnMut() -> F) -> impl Future<Output = F::Value> {
    let caller = Location::caller();
    async move {
        let start = tokio::time::Instant::now();
        loop {
            match fact().await.settle() {
                Ok(value) => return value,
                Err(seen) if start.elapsed() >= within => give_up(within, caller, &seen),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

fn give_up(within: Duration, caller: &Location<'_>, seen: &str) -> ! {
    panic!("the fact awaited at {caller} did not hold within {within:?}; last seen: {seen}")
}
