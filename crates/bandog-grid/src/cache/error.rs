//! The error of a load.

use std::{any::Any, error, fmt, sync::Arc};

use bandog_core::Error;

/// Why a value could not be had. Errors are not cached.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError<E> {
    /// The load has failed. All callers that waited for it have the same error.
    Load(Arc<E>),
    /// The load has failed. It was that of another caller, whose errors have another type.
    OtherLoad,
    /// The load has panicked, or the Tokio runtime on which it ran has ended.
    Panicked,
    /// The load asks the cache for the value that it loads, so it would wait for itself.
    Recursive,
    /// The key cannot be encoded; or the store has failed, and the cache is [strict](crate::Cache::strict).
    Store(Error),
}

impl<E> Clone for LoadError<E> {
    fn clone(&self) -> Self {
        match self {
            Self::Load(error) => Self::Load(error.clone()),
            Self::OtherLoad => Self::OtherLoad,
            Self::Panicked => Self::Panicked,
            Self::Recursive => Self::Recursive,
            Self::Store(error) => Self::Store(error.clone()),
        }
    }
}

impl<E: fmt::Display> fmt::Display for LoadError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load(error) => error.fmt(f),
            Self::OtherLoad => f.write_str("the load of another caller has failed"),
            Self::Panicked => f.write_str("the load has panicked, or its Tokio runtime has ended"),
            Self::Recursive => f.write_str("the load asks the cache for the value that it loads"),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl<E: error::Error + 'static> error::Error for LoadError<E> {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Load(error) => error.source(),
            Self::Store(error) => error.source(),
            Self::OtherLoad | Self::Panicked | Self::Recursive => None,
        }
    }
}

/// Why a load has no value, without the type of its error.
#[derive(Debug, Clone)]
pub(super) enum Failure {
    Load(Arc<dyn Any + Send + Sync>),
    Panicked,
    Store(Error),
}

impl Failure {
    pub(super) fn into_error<E: Send + Sync + 'static>(self) -> LoadError<E> {
        match self {
            Self::Load(error) => error.downcast().map_or(LoadError::OtherLoad, LoadError::Load),
            Self::Panicked => LoadError::Panicked,
            Self::Store(error) => LoadError::Store(error),
        }
    }
}
