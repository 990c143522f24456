//! Parameters of declared jobs: the run, and values that jobs share.

use std::{
    any::{Any, TypeId, type_name},
    collections::HashMap,
    ops::Deref,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use bandog_core::Error;

use crate::Run;

/// A value that jobs share: a parameter of `#[bandog::scheduled]` functions. [`crate::Scheduler::share`] sets the
/// value.
///
/// ```
/// use bandog::schedule::{Run, Shared};
///
/// struct Shop {
///     name: String,
/// }
///
/// // #[bandog::scheduled(cron = "0 0 6 * * ?")]
/// async fn report(run: Run, shop: Shared<Shop>) {
///     println!("the report of {} for {}", shop.name, run.tick());
/// }
/// ```
#[derive(Debug)]
pub struct Shared<T>(Arc<T>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// A type that a declared job can have as a parameter.
#[diagnostic::on_unimplemented(
    message = "the parameters of a job are `Run` and `Shared<T>`, by value or by reference; `{Self}` is neither",
    label = "a scheduler has no value of this type",
    note = "for another value, call `Scheduler::share(value)` and use a parameter of `bandog::schedule::Shared<T>`"
)]
pub trait Inject: Sized {
    /// The name of the parameter's type if the scheduler has no value of this type.
    fn lacks(shares: &Shares) -> Option<&'static str>;

    /// The parameter's value for this run.
    fn inject(given: &Given) -> Self;
}

impl Inject for Run {
    fn lacks(_: &Shares) -> Option<&'static str> {
        None
    }

    fn inject(given: &Given) -> Self {
        given.run.clone()
    }
}

impl<T: Send + Sync + 'static> Inject for Shared<T> {
    fn lacks(shares: &Shares) -> Option<&'static str> {
        shares.get::<T>().is_none().then(type_name::<T>)
    }

    #[expect(clippy::expect_used, reason = "start() refuses a scheduler without this value")]
    fn inject(given: &Given) -> Self {
        Self(given.shares.get().and_then(Shares::get).expect("start() has checked that the value exists"))
    }
}

/// The source of a run's parameters.
#[derive(Debug)]
pub struct Given {
    pub(crate) run: Run,
    pub(crate) shares: Arc<OnceLock<Shares>>,
}

/// A function that returns the name of a parameter's type if the scheduler has no value of this type.
type MissingValue = fn(&Shares) -> Option<&'static str>;

/// The values that a job requires (`all`), and the values that its scheduler has (`shares`).
#[derive(Debug, Clone, Default)]
pub(crate) struct WantedValues {
    pub(crate) shares: Arc<OnceLock<Shares>>,
    pub(crate) all: Vec<MissingValue>,
}

/// The shared values of one scheduler. Clones refer to the same values.
#[derive(Clone, Default)]
pub struct Shares(Arc<Mutex<SharedInner>>);

#[derive(Default)]
struct SharedInner {
    values: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
    wanted: Vec<(String, MissingValue)>,
    twice: Vec<&'static str>,
}

impl Shares {
    /// Registers the values that a job requires. The scheduler may get these values later.
    pub(crate) fn add_wants(&self, job: &str, wants: WantedValues) {
        self.locked(|inner| inner.wanted.extend(wants.all.into_iter().map(|lacks| (job.to_owned(), lacks))));
        // This cell is empty, because a job is added to one scheduler only.
        let _ = wants.shares.set(self.clone());
    }

    /// The errors about missing and duplicate values.
    pub(crate) fn errors(&self) -> Vec<Error> {
        let (wanted, twice) = self.locked(|inner| (inner.wanted.clone(), inner.twice.clone()));
        let twice = twice.into_iter().map(|name| Error::misused(format!("share() was given two values of {name}")));
        let lacking = wanted.into_iter().filter_map(|(job, lacks)| {
            let name = lacks(self)?;
            let message = format!(
                "job {job:?}: its function takes Shared<{name}>, but the scheduler has no such value; add .share(value)"
            );
            Some(Error::misused(message))
        });
        twice.chain(lacking).collect()
    }

    /// Stores a value for the jobs that have a parameter of its type.
    pub(crate) fn keep<T: Send + Sync + 'static>(&self, value: T) {
        self.locked(|inner| {
            if inner.values.insert(TypeId::of::<T>(), Arc::new(value)).is_some() {
                inner.twice.push(type_name::<T>());
            }
        });
    }

    fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.locked(|inner| inner.values.get(&TypeId::of::<T>()).cloned())?.downcast().ok()
    }

    fn locked<T>(&self, with: impl FnOnce(&mut SharedInner) -> T) -> T {
        with(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl std::fmt::Debug for Shares {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shares").finish_non_exhaustive()
    }
}
