//! Helper functions of the laws.

use std::{
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    task::{Context, Poll},
    time::Duration,
};

use bandog_core::{
    Answer, Backend, Claim, ClaimId, ClientId, Error, ErrorKind, Fences, Key, Kind, MAX_KEY_LEN, Released, Renewal,
    Step, Verdict,
};
use bandog_sync::{Client, Guard};
use bandog_testkit::eventually_async;
use tokio::{task::JoinHandle, time};

use crate::World;

/// The name of the lock in most laws.
pub(crate) const NAME: &str = "law";

/// Maximum time of any wait for an expected event.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(20);

/// Waits until this condition is true.
pub(crate) async fn until(fact: impl Fn() -> bool) {
    eventually_async(MAX_WAIT, async || fact()).await;
}

/// Awaits a future, and panics if it takes longer than `limit`.
pub(crate) async fn within<T>(limit: Duration, what: &str, future: impl Future<Output = T>) -> T {
    time::timeout(limit, future).await.unwrap_or_else(|_| panic!("{what} took longer than {limit:?}"))
}

/// The result of a call with a short limit. On a loaded machine, the store can answer later than the limit, and then the
/// call ends with an error. Such a call is repeated.
pub(crate) async fn answered_in_time<T>(call: impl AsyncFn() -> Result<T, Error>) -> Result<T, Error> {
    let attempt = async || match call().await {
        Err(error) if error.kind() == ErrorKind::Unavailable => Err(error),
        result => Ok(result),
    };
    eventually_async(MAX_WAIT, attempt).await
}

/// Waits until all requests of these clients have been answered. Then asserts that the store has no holds and no data
/// of waiters.
pub(crate) async fn nothing_left<W: World>(world: &W, clients: &[&Client]) {
    for client in clients {
        within(MAX_WAIT, "the last request of a client", client.idle()).await;
    }
    // The data of a dropped subscription can stay in the store for a moment. So the check is repeated.
    let empty = async || match world.left().await {
        left if left.is_empty() => Ok(()),
        left => Err(left),
    };
    eventually_async(world.slack(), empty).await;
}

/// Takes a lock. Panics if the lock is not free.
pub(crate) async fn take(client: &Client, name: &str) -> Result<Guard, Error> {
    Ok(client.mutex(name).try_lock().await?.expect("the lock was refused, although it was free"))
}

/// Returns true if this client can take the lock. In this case, the client releases the lock again.
pub(crate) async fn is_free(client: &Client, name: &str) -> Result<bool, Error> {
    match client.mutex(name).try_lock().await? {
        Some(guard) => guard.release().await.map(|()| true),
        None => Ok(false),
    }
}

/// The kind of the call's error, or `None` if the call succeeded.
pub(crate) fn error_kind<T>(result: Result<T, Error>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

/// Names that differ little, that have a special meaning in some store, or that have the maximum length.
pub(crate) fn odd_names() -> Vec<String> {
    let odd = [
        "a", "b", " a", "a ", "a  b", "a b", "/", "//", "/a", "a/", "a/b", ".", "..", "a.b", "\\", "a\\", "\\a", "{}",
        "{a}", "a{b}", "{a", "%", "a%", "_", "*", "a*", "?", "a?", "[a]", "[^a]", "'", "a'b", "\"", "`", "--", ";",
        "null", "NULL", "0", "-1", "a:b", "uuid:1", "ß", "ss", "é", "e\u{301}", "ﬁ", "fi", "ı", "i", "İ", "🐕", "犬",
        "\u{200b}", "\u{feff}", "a\u{a0}b",
    ];
    let long = ["x".repeat(MAX_KEY_LEN), "🐕".repeat(MAX_KEY_LEN / 4), "y".repeat(1000)];
    odd.into_iter().map(String::from).chain(long).collect()
}

/// A new claim for a mutex, which a test sends directly to a backend, without a client. The id of the client in this
/// claim is random.
pub(crate) fn bare_claim(name: &str, ttl: Duration) -> Claim {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    let id = ClaimId { client: ClientId::random(), number: NUMBER.fetch_add(1, Relaxed) };
    let key = Key::new(name).expect("the name is not valid");
    Claim::new(key, id, Kind::Mutex, ttl)
}

/// Sends a claim directly to the backend, and returns the backend's verdict.
pub(crate) async fn verdict(backend: &impl Backend, claim: &Claim) -> Result<Verdict, Error> {
    match only_answer(backend.apply(&[Step::Claim(claim.clone())]).await)? {
        Answer::Claimed(verdict) => Ok(verdict),
        Answer::Released(_) => panic!("a claim was answered as a release"),
    }
}

/// Sends a claim directly to the backend. Returns `None` if another claim holds the lock.
pub(crate) async fn claim(backend: &impl Backend, claim: &Claim) -> Result<Option<Fences>, Error> {
    match verdict(backend, claim).await? {
        Verdict::Granted { fences, .. } => Ok(Some(fences)),
        Verdict::Busy { .. } => Ok(None),
    }
}

/// Asserts that a claim or a pass that was sent again, and that held the lock, got the same fences as before. If the store
/// does not keep them ([`World::keeps_fences`]), greater ones are right, too.
#[track_caller]
pub(crate) fn assert_again(world: &impl World, again: &Fences, before: &Fences) {
    let is_greater = again.clone().take() > Some(before.last());
    assert!(again == before || is_greater && world.keeps_fences().is_err(), "sent again: {again:?} after {before:?}");
}

/// Sends a release directly to the backend. Returns false if the claim does not hold the lock.
pub(crate) async fn release(backend: &impl Backend, claim: &Claim) -> Result<bool, Error> {
    match only_answer(backend.apply(&[Step::Release(claim.clone())]).await)? {
        Answer::Released(Released::Freed { .. }) => Ok(true),
        Answer::Released(Released::LeftQueue | Released::NotHeld) => Ok(false),
        Answer::Claimed(_) => panic!("a release was answered as a claim"),
    }
}

/// Sends a renewal directly to the backend, and returns the answer.
pub(crate) async fn renewal(backend: &impl Backend, claim: &Claim) -> Result<Renewal, Error> {
    only_answer(backend.renew(std::slice::from_ref(claim)).await)
}

/// Sends a renewal directly to the backend. Returns false if the claim does not hold the lock.
pub(crate) async fn renew(backend: &impl Backend, claim: &Claim) -> Result<bool, Error> {
    match renewal(backend, claim).await? {
        Renewal::Extended { .. } => Ok(true),
        Renewal::Waiting { .. } | Renewal::Gone => Ok(false),
    }
}

/// The answer of a call with exactly one answer. Panics if the call has another number of answers.
pub(crate) fn only_answer<T>(answers: Vec<T>) -> T {
    let [answer] = <[T; 1]>::try_from(answers).unwrap_or_else(|all| panic!("{} answers to one request", all.len()));
    answer
}

/// Polls a future until it has completed, but at most `times` times. If the future has not completed then, drops the
/// future and returns `None`.
pub(crate) async fn polled_at_most<T>(times: usize, future: impl Future<Output = T>) -> Option<T> {
    struct Limited<F> {
        future: Pin<Box<F>>,
        left: usize,
    }
    impl<F: Future> Future for Limited<F> {
        type Output = Option<F::Output>;

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
            if self.left == 0 {
                return Poll::Ready(None);
            }
            self.left -= 1;
            match self.future.as_mut().poll(context) {
                Poll::Ready(value) => Poll::Ready(Some(value)),
                Poll::Pending if self.left == 0 => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        }
    }
    Limited { future: Box::pin(future), left: times }.await
}

/// Starts a call of this client that waits for the lock [`NAME`], which another client holds. Returns when the store
/// has refused the first claim of this call and the client has subscribed.
pub(crate) async fn start_waiter(client: &Client) -> JoinHandle<Result<Guard, Error>> {
    let mutex = client.mutex(NAME);
    let waiting = tokio::spawn(async move { mutex.lock().await });
    // Tests have a runtime with one thread. So when this task runs again, the new task has already sent its request to
    // the engine, which is the client's background task. The engine becomes idle only after it has subscribed.
    tokio::task::yield_now().await;
    within(MAX_WAIT, "a waiter's first claim", client.idle()).await;
    waiting
}

/// Waits until a call that [`start_waiter`] started has the lock, and returns the guard. Panics if this takes longer
/// than `limit`.
pub(crate) async fn guard_of_waiter(waiter: JoinHandle<Result<Guard, Error>>, limit: Duration) -> Result<Guard, Error> {
    within(limit, "the waiter", waiter).await.expect("the waiter's task has panicked")
}
