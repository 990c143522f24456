//! The functions for the code that the attribute `#[bandog::cached]` generates. They are not a public API: only the
//! attribute of the same version of bandog is allowed to use them.

use std::{
    convert::Infallible,
    fmt::Display,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use bandog_core::{Clock, Error, ErrorKind, Memory};

use crate::{
    Client,
    grid::{
        Cache, ClientGrid, Grid, LoadError,
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

/// The cache of this name.
pub fn cache<V: Send + Sync + 'static>(grid: &impl AsGrid, name: &str) -> Result<Cache<String, V>, Error> {
    grid.as_grid()?.cache(name)
}

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
    E: From<Error> + Display + Send + 'static,
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
    E: From<Error> + Display + Send + 'static,
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
    use std::{fmt::Display, panic::resume_unwind};

    use tokio::{
        runtime::{Builder, Handle, Runtime},
        task::spawn_blocking,
    };

    use super::{Cache, Decode, Encode, Error, OnceLock, TextJson};

    /// The runtime of all calls. None if it cannot be made.
    fn runtime() -> Option<&'static Runtime> {
        static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();
        let make =
            || Builder::new_multi_thread().worker_threads(1).thread_name("bandog-cached").enable_all().build().ok();
        RUNTIME.get_or_init(make).as_ref()
    }

    /// Waits for a future.
    fn wait<T>(future: impl Future<Output = T>) -> Result<T, Error> {
        if Handle::try_current().is_ok() {
            return Err(Error::misused(
                "a cached function without async blocks; in async code, call it in spawn_blocking",
            ));
        }
        let runtime = runtime().ok_or_else(|| Error::unavailable("no thread for the cache could be started"))?;
        Ok(runtime.block_on(future))
    }

    /// Runs the body on a thread that may block.
    async fn run<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
        match spawn_blocking(body).await {
            Ok(value) => value,
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(ended) => panic!("the body of a cached function did not run: {ended}"),
            },
        }
    }

    /// Removes an entry.
    pub fn remove(cache: Result<Cache<String, ()>, Error>, key: impl Into<String>) -> Result<(), Error> {
        wait(super::remove(cache, key))?
    }

    /// The value of a function that returns `Result<T, E>`.
    pub fn result<T, E>(
        cache: Result<Cache<String, T>, Error>,
        key: String,
        body: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Clone + Send + Sync + 'static,
        E: From<Error> + Display + Send + 'static,
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
        E: From<Error> + Display + Send + 'static,
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
