//! The functions for the code that the attribute `#[bandog::cached]` generates. They are not a public API: only the
//! attribute of the same version of bandog is allowed to use them.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    fmt::{self, Display, Write},
    marker::PhantomData,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use bandog_core::{Clock, Error, ErrorKind, Memory};

use crate::{
    Client,
    grid::{
        Cache, ClientGrid, Grid, InLoad, LoadError,
        codec::{Decode, Encode, TextJson},
    },
};

/// The grid of this process, in memory.
pub fn process() -> &'static Result<Grid, Error> {
    static GRID: OnceLock<Result<Grid, Error>> = OnceLock::new();
    GRID.get_or_init(|| Ok(Client::over(Memory::new(Clock::system()))?.grid()))
}

/// A grid, or that of this process.
pub trait AsGrid {
    /// The grid.
    fn as_grid(&self) -> Result<&Grid, Error>;
}

impl AsGrid for Grid {
    fn as_grid(&self) -> Result<&Grid, Error> {
        Ok(self)
    }
}

impl AsGrid for Result<Grid, Error> {
    fn as_grid(&self) -> Result<&Grid, Error> {
        self.as_ref().map_err(Clone::clone)
    }
}

impl<G: AsGrid> AsGrid for &G {
    fn as_grid(&self) -> Result<&Grid, Error> {
        (*self).as_grid()
    }
}

/// The cache of this name, for the function at this place. What its handles share is kept between calls.
///
/// # Errors
/// `Misused`: another function has the cache. Their values are not those of the same arguments, so they must not share it.
pub fn cache<V: Send + Sync + 'static>(
    grid: &impl AsGrid,
    name: &str,
    place: &'static str,
) -> Result<Cache<String, V>, Error> {
    /// The function of each cache of this program.
    static PLACES: Mutex<BTreeMap<String, &'static str>> = Mutex::new(BTreeMap::new());
    let cache = grid.as_grid()?.cache(name)?;
    let first = *PLACES.lock().unwrap_or_else(PoisonError::into_inner).entry(cache.name().to_owned()).or_insert(place);
    if first != place {
        tracing::error!(
            cache = name,
            first,
            second = place,
            "two cached functions have one cache; give one another name"
        );
        return Err(Error::misused(format!(
            "the cached functions {first} and {place} have the same cache {name:?}, and would give each other's values: give \
             one of them another name"
        )));
    }
    cache.linger();
    Ok(cache)
}

/// A part of a key, beside others: the characters between the parts are written as `%` and their number, so that different
/// parts never make the same key.
#[derive(Debug)]
pub struct Part<'a, T: ?Sized> {
    value: &'a T,
    between: &'static str,
}

/// A part of a key.
pub fn part<'a, T: Display + ?Sized>(value: &'a T, between: &'static str) -> Part<'a, T> {
    Part { value, between }
}

impl<T: Display + ?Sized> Display for Part<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for char in self.value.to_string().chars() {
            match char == '%' || self.between.contains(char) {
                true => write!(f, "%{:X}", u32::from(char))?,
                false => f.write_char(char)?,
            }
        }
        Ok(())
    }
}

/// Checks that a return type with another name is neither `Result` nor `Option`, whose errors and absences would be cached.
#[derive(Debug)]
pub struct Returned<T>(PhantomData<T>);

impl<T, E> Returned<Result<T, E>> {
    /// Fails while it is compiled.
    pub const CHECK: () = panic!("a cached function must name its return type `Result`, because errors are not cached");
}

impl<T> Returned<Option<T>> {
    /// Fails while it is compiled.
    pub const CHECK: () = panic!("a cached function must name its return type `Option`, because of `none`");
}

/// All other types.
pub trait OfValue {
    /// Is fine.
    const CHECK: () = ();
}

impl<T> OfValue for Returned<T> {}

/// The error type of a cached function.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a cached function",
    label = "it needs `impl From<bandog::Error>`, because the cache itself may fail, and `impl Display`",
    note = "wrap it in an error type of your own, or use `Box<dyn std::error::Error + Send + Sync>`"
)]
pub trait CachedError: From<Error> + Display + Send + 'static {}

impl<E: From<Error> + Display + Send + 'static> CachedError for E {}

/// Removes an entry.
pub async fn remove(cache: Result<Cache<String, ()>, Error>, key: impl Into<String>) -> Result<(), Error> {
    cache?.remove(&key.into()).await
}

/// The error of a load, for the callers that waited for it.
struct Failed(String);

/// The error of the load of this caller.
struct Own<E>(Arc<Mutex<Option<E>>>);

impl<E: From<Error> + Display> Own<E> {
    fn new() -> Self {
        Self(Arc::default())
    }

    fn keep(&self, error: E) -> Failed {
        let text = error.to_string();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        Failed(text)
    }

    /// The error that the function returns.
    fn or_of(&self, error: LoadError<Failed>) -> E {
        if let Some(own) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return own;
        }
        E::from(match error {
            LoadError::Load(failed) => {
                Error::new(ErrorKind::Unavailable, format!("the load of another caller has failed: {}", failed.0))
            }
            LoadError::Store(error) => error,
            LoadError::Recursive => Error::misused("the cached function calls itself with the same key"),
            _ => Error::new(ErrorKind::Unavailable, "the load has panicked, or its Tokio runtime has ended"),
        })
    }
}

/// The value of a function that returns `Result<T, E>`.
pub async fn result<T, E>(
    cache: Result<Cache<String, T>, Error>,
    key: String,
    body: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Result<T, E>
where
    T: Clone + Send + Sync + 'static,
    E: CachedError,
    TextJson: Encode<T> + Decode<T>,
{
    let own = Own::new();
    let kept = Own(own.0.clone());
    let load = async move |_| body.await.map_err(|error| kept.keep(error));
    let value = cache?.get_or_load(&key, load).await;
    value.map(|value| T::clone(&value)).map_err(|error| own.or_of(error))
}

/// The value of a function that returns `Result<Option<T>, E>`.
pub async fn result_option<T, E>(
    cache: Result<Cache<String, T>, Error>,
    key: String,
    body: impl Future<Output = Result<Option<T>, E>> + Send + 'static,
) -> Result<Option<T>, E>
where
    T: Clone + Send + Sync + 'static,
    E: CachedError,
    TextJson: Encode<T> + Decode<T>,
{
    let own = Own::new();
    let kept = Own(own.0.clone());
    let load = async move |_| body.await.map_err(|error| kept.keep(error));
    let value = cache?.get_or_find(&key, load).await;
    value.map(|value| value.map(|value| T::clone(&value))).map_err(|error| own.or_of(error))
}

/// The value of a function that returns another value. Without a cache, its body runs.
pub async fn value<T>(
    cache: Result<Cache<String, T>, Error>,
    key: String,
    body: impl Future<Output = T> + Send + 'static,
) -> T
where
    T: Clone + Send + Sync + 'static,
    TextJson: Encode<T> + Decode<T>,
{
    let Ok(cache) = cache else { return body.await };
    let value = cache.get_or_load(&key, async move |_| Ok::<T, Infallible>(body.await)).await;
    value.map_or_else(|error| never_loaded(&error), |value| T::clone(&value))
}

/// The value of a function that returns `Option<T>`. Without a cache, its body runs.
pub async fn option<T>(
    cache: Result<Cache<String, T>, Error>,
    key: String,
    body: impl Future<Output = Option<T>> + Send + 'static,
) -> Option<T>
where
    T: Clone + Send + Sync + 'static,
    TextJson: Encode<T> + Decode<T>,
{
    let Ok(cache) = cache else { return body.await };
    let value = cache.get_or_find(&key, async move |_| Ok::<Option<T>, Infallible>(body.await)).await;
    value.map_or_else(|error| never_loaded(&error), |value| value.map(|value| T::clone(&value)))
}

/// Panics, because the body has panicked, or calls itself.
fn never_loaded(error: &LoadError<Infallible>) -> ! {
    panic!("a cached function has no value: {error}")
}

/// The same functions for functions without async. The calls block their thread.
pub mod blocking {
    use std::{panic::resume_unwind, sync::mpsc};

    use tokio::{
        runtime::{Builder, Handle, Runtime},
        task::spawn_blocking,
    };

    use super::{Cache, CachedError, Decode, Encode, Error, InLoad, OnceLock, TextJson};

    /// The runtime of all calls. None if it cannot be made.
    fn runtime() -> Option<&'static Runtime> {
        static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();
        let make =
            || Builder::new_multi_thread().worker_threads(1).thread_name("bandog-cached").enable_all().build().ok();
        RUNTIME.get_or_init(make).as_ref()
    }

    /// Waits for a future. A thread of Tokio that may block waits for another thread, because it cannot run the future itself.
    fn wait<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> Result<T, Error> {
        let runtime = runtime().ok_or_else(|| Error::unavailable("no thread for the cache could be started"))?;
        let future = InLoad::current().scope(future);
        if Handle::try_current().is_err() {
            return Ok(runtime.block_on(future));
        }
        let (sender, answer) = mpsc::sync_channel(1);
        // The receiver waits below.
        drop(runtime.spawn(async move { _ = sender.send(tokio::spawn(future).await) }));
        let ended = |_| Error::unavailable("the thread of the cache has ended");
        answer.recv().map_err(ended)?.map_err(|error| match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_) => Error::unavailable("the thread of the cache has ended"),
        })
    }

    /// Runs the body on a thread that may block.
    async fn run<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
        let loading = InLoad::current();
        match spawn_blocking(|| loading.run(body)).await {
            Ok(value) => value,
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(ended) => panic!("the body of a cached function did not run: {ended}"),
            },
        }
    }

    /// Removes an entry.
    pub fn remove(cache: Result<Cache<String, ()>, Error>, key: impl Into<String>) -> Result<(), Error> {
        wait(super::remove(cache, key.into()))?
    }

    /// The value of a function that returns `Result<T, E>`.
    pub fn result<T, E>(
        cache: Result<Cache<String, T>, Error>,
        key: String,
        body: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Clone + Send + Sync + 'static,
        E: CachedError,
        TextJson: Encode<T> + Decode<T>,
    {
        wait(super::result(cache, key, run(body)))?
    }

    /// The value of a function that returns `Result<Option<T>, E>`.
    pub fn result_option<T, E>(
        cache: Result<Cache<String, T>, Error>,
        key: String,
        body: impl FnOnce() -> Result<Option<T>, E> + Send + 'static,
    ) -> Result<Option<T>, E>
    where
        T: Clone + Send + Sync + 'static,
        E: CachedError,
        TextJson: Encode<T> + Decode<T>,
    {
        wait(super::result_option(cache, key, run(body)))?
    }

    /// The value of a function that returns another value.
    pub fn value<T>(cache: Result<Cache<String, T>, Error>, key: String, body: impl FnOnce() -> T + Send + 'static) -> T
    where
        T: Clone + Send + Sync + 'static,
        TextJson: Encode<T> + Decode<T>,
    {
        wait(super::value(cache, key, run(body))).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The value of a function that returns `Option<T>`.
    pub fn option<T>(
        cache: Result<Cache<String, T>, Error>,
        key: String,
        body: impl FnOnce() -> Option<T> + Send + 'static,
    ) -> Option<T>
    where
        T: Clone + Send + Sync + 'static,
        TextJson: Encode<T> + Decode<T>,
    {
        wait(super::option(cache, key, run(body))).unwrap_or_else(|error| panic!("{error}"))
    }
}
