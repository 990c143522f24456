//! Parameters of declared jobs. A parameter is either the run, or a value that jobs share.

use std::{
    any::{Any, TypeId, type_name},
    collections::HashMap,
    ops::Deref,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use bandog_core::Error;

use crate::Run;

/// A value that jobs share. Functions with `#[bandog::scheduled]` can have parameters of this type.
/// [`crate::Scheduler::share`] sets the value.
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
    /// If the scheduler has no value for a parameter of this type, returns the name of the missing type.
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

/// The values from which the parameters of a run are taken.
#[derive(Debug)]
pub struct Given {
    pub(crate) run: Run,
    pub(crate) shares: Arc<OnceLock<Shares>>,
}

/// A check for a single parameter ([`Inject::lacks`]). If the scheduler has no value for the parameter, the function
/// returns the name of the missing type.
type MissingValue = fn(&Shares) -> Option<&'static str>;

/// The values that the parameters of a declared job require.
#[derive(Debug, Clone, Default)]
pub(crate) struct WantedValues {
    /// The values of the job's scheduler. Empty until the job is added to a scheduler.
    pub(crate) shares: Arc<OnceLock<Shares>>,
    /// A check for each parameter.
    pub(crate) all: Vec<MissingValue>,
}

/// The shared values of one scheduler. Clones refer to the same values.
#[derive(Clone, Default)]
pub struct Shares(Arc<Mutex<SharedInner>>);

#[derive(Default)]
struct SharedInner {
    values: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
    /// The checks of all jobs, with the names of the jobs.
    wanted: Vec<(String, MissingValue)>,
    /// The names of the types of which the scheduler got more than one value.
    twice: Vec<&'static str>,
}

impl Shares {
    /// Registers the values that a job requires. The scheduler might get these values later.
    pub(crate) fn add_wants(&self, job: &str, wants: WantedValues) {
        self.locked(|inner| inner.wanted.extend(wants.all.into_iter().map(|lacks| (job.to_owned(), lacks))));
        // The cell is empty, because a job is added only once, to a single scheduler.
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

    /// Stores a value for the jobs that have a parameter of the value's type.
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

    /// Calls `with` under the lock.
    fn locked<T>(&self, with: impl FnOnce(&mut SharedInner) -> T) -> T {
        with(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl std::fmt::Debug for Shares {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shares").finish_non_exhaustive()
    }
}
