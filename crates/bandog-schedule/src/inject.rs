//! What a declared job takes as parameters: its run, and values that jobs share.

use std::{
    any::{Any, TypeId, type_name},
    collections::HashMap,
    ops::Deref,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use bandog_core::Error;

use crate::{Job, Run, Scheduler, TestSetting};

/// A value that jobs share, from [`Scheduler::share`]: a parameter of `#[bandog::scheduled]` functions.
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

impl Scheduler {
    /// A value that declared jobs take as [`Shared<T>`]: one of each type, before or after the jobs that take it.
    ///
    /// A job that takes a type of which there is no value, and a second value of a type, are told by
    /// [`Scheduler::start`].
    pub fn share<T: Send + Sync + 'static>(self, value: T) -> Self {
        self.shares.keep(value);
        self
    }

    /// The same values as somebody else.
    pub(crate) fn sharing(mut self, shares: &Shares) -> Self {
        self.shares = shares.clone();
        self
    }
}

impl TestSetting {
    /// A value that declared jobs take as [`Shared<T>`], the same on all replicas; see [`Scheduler::share`].
    pub fn share<T: Send + Sync + 'static>(self, value: T) -> Self {
        self.shares.keep(value);
        self
    }
}

/// What a parameter of a declared job can be.
#[diagnostic::on_unimplemented(
    message = "a job takes `Run` and `Shared<T>`, by value or by reference, and `{Self}` is neither",
    label = "a scheduler cannot give this",
    note = "a value of your own comes as `bandog::schedule::Shared<T>`, from `Scheduler::share(value)`"
)]
pub trait Inject: Sized {
    /// What a scheduler must have been given for it, by its type's name.
    fn lacks(shares: &Shares) -> Option<&'static str>;

    /// The value for this run.
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

    #[expect(clippy::expect_used, reason = "start() has refused schedulers without it")]
    fn inject(given: &Given) -> Self {
        Self(given.shares.get().and_then(Shares::get).expect("start() has looked"))
    }
}

/// What a run's parameters are made of.
#[derive(Debug)]
pub struct Given {
    pub(crate) run: Run,
    pub(crate) shares: Arc<OnceLock<Shares>>,
}

type Lacks = fn(&Shares) -> Option<&'static str>;

/// What a job asks of its scheduler, and where it finds that.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wants {
    pub(crate) shares: Arc<OnceLock<Shares>>,
    pub(crate) all: Vec<Lacks>,
}

impl Job {
    /// The job of a scheduler that has these values, now or later.
    pub(crate) fn given(mut self, shares: &Shares) -> Self {
        if let Some(wants) = self.wants.take() {
            let name = self.name().to_owned();
            shares.locked(|inner| inner.wanted.extend(wants.all.into_iter().map(|lacks| (name.clone(), lacks))));
            // A job is handed to one scheduler, so nobody has set it before.
            let _ = wants.shares.set(shares.clone());
        }
        self
    }
}

/// The values of one scheduler. Clones are the same values.
#[derive(Clone, Default)]
pub struct Shares(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    values: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
    wanted: Vec<(String, Lacks)>,
    twice: Vec<&'static str>,
}

impl Shares {
    /// What is missing or too much.
    pub(crate) fn faults(&self) -> Vec<Error> {
        let (wanted, twice) = self.locked(|inner| (inner.wanted.clone(), inner.twice.clone()));
        let twice = twice.into_iter().map(|name| Error::misused(format!("share() was given two values of {name}")));
        let lacking = wanted.into_iter().filter_map(|(job, lacks)| {
            let name = lacks(self)?;
            let message =
                format!("job {job:?}: it takes Shared<{name}>, and the scheduler has none: add .share(value)");
            Some(Error::misused(message))
        });
        twice.chain(lacking).collect()
    }

    fn keep<T: Send + Sync + 'static>(&self, value: T) {
        self.locked(|inner| {
            if inner.values.insert(TypeId::of::<T>(), Arc::new(value)).is_some() {
                inner.twice.push(type_name::<T>());
            }
        });
    }

    fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.locked(|inner| inner.values.get(&TypeId::of::<T>()).cloned())?.downcast().ok()
    }

    fn locked<T>(&self, with: impl FnOnce(&mut Inner) -> T) -> T {
        with(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl std::fmt::Debug for Shares {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shares").finish_non_exhaustive()
    }
}
