//! The attributes `#[bandog::locked]`, `#[bandog::cached]` and `#[bandog::scheduled]`, and `#[derive(bandog::Live)]`, which the
//! crate `bandog` re-exports.

use proc_macro::TokenStream;

mod cached;
mod duration;
mod keys;
mod kind;
mod live;
mod locked;
mod none;
mod remote;
mod scheduled;
mod signature;
mod task;
mod template;
#[cfg(test)]
mod tests;
mod words; // Suggests and lists the allowed words in compile errors.

/// Runs the body of a function under a lock: one call at a time, across processes and machines.
///
/// ```
/// use bandog::{Client, Result};
///
/// struct Shop {
///     client: Client,
/// }
///
/// impl Shop {
///     #[bandog::locked(name = "orders")]
///     async fn sweep(&self) -> Result<u64> {
///         Ok(42) // no other call runs this body now, on any machine
///     }
///
///     #[bandog::locked(name = "order-{id}", wait = "0s", guard = guard)]
///     async fn cancel(&self, id: u64) -> Result<Option<u64>> {
///         println!("order {id} is cancelled under fence {}", guard.fence());
///         Ok(Some(id)) // the call returns None if the lock is busy; then the body does not run
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let shop = Shop { client: bandog::connect("memory:").await? };
/// assert_eq!(shop.sweep().await?, 42);
/// assert_eq!(shop.cancel(7).await?, Some(7));
/// # Ok(()) }
/// ```
///
/// | key | value | default |
/// |---|---|---|
/// | `name` | the lock's name: a text, in which `{id}`, `{order.id}` and `{self.shop}` stand for parameters and their fields, formatted as by `format!`; or an expression for the name | none: the key is required |
/// | `client` | an expression for the [`Client`](https://docs.rs/bandog/latest/bandog/struct.Client.html) | the parameter `client`, else `self.client` |
/// | `wait` | the maximum wait for the lock; with `"0s"` the call does not wait | no limit |
/// | `lease` | a fixed time after which the lock is lost, between `"100ms"` and `"365d"`; no watchdog renews the lock | a watchdog renews the lock |
/// | `max_hold` | the maximum time for which one call can hold the lock, even if the lock is renewed; the same bounds as `lease` | no limit |
/// | `guard` | a name by which the body can use the guard: `guard = guard` | the body cannot use the guard |
/// | `max_waiters` | a number: a call that would have to wait while this number of calls of its client wait for the lock returns `Overloaded` ([`Mutex::max_waiters`](https://docs.rs/bandog/latest/bandog/struct.Mutex.html#method.max_waiters)) | no limit |
/// | `fair` | no value: waiting calls get the lock in their order ([`Mutex::fair`](https://docs.rs/bandog/latest/bandog/struct.Mutex.html#method.fair)) | no guaranteed order |
/// | `shared`, `exclusive` | no value: the body runs as a reader or as the writer of a read-write lock ([`RwLock`](https://docs.rs/bandog/latest/bandog/struct.RwLock.html)) | a mutex |
/// | `permits`, `of` | numbers: `permits = 2, of = 5` takes 2 of the 5 permits of a semaphore ([`Semaphore`](https://docs.rs/bandog/latest/bandog/struct.Semaphore.html)) | a mutex |
///
/// Names, durations, numbers and keys are checked when the program is compiled.
///
/// # Kinds of locks
///
/// An attribute has at most one of `fair`, `shared`, `exclusive` and `permits`.
///
/// ```
/// use bandog::{Client, Result};
///
/// #[bandog::locked(name = "catalogue", shared)]
/// async fn look_up(client: &Client, id: u64) -> Result<u64> {
///     Ok(id) // beside other readers, but not beside `load`
/// }
///
/// #[bandog::locked(name = "catalogue", exclusive, wait = "5s")]
/// async fn load(client: &Client) -> Result<Option<()>> {
///     Ok(Some(()))
/// }
///
/// #[bandog::locked(name = "gpu", permits = 2, of = 5)]
/// async fn train(client: &Client) -> Result<()> {
///     Ok(()) // with 2 of 5 permits
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let client = bandog::connect("memory:").await?;
/// assert_eq!(look_up(&client, 7).await?, 7);
/// assert!(load(&client).await?.is_some());
/// train(&client).await
/// # }
/// ```
///
/// A semaphore with fewer permits than the attribute takes does not compile:
///
/// ```compile_fail
/// #[bandog::locked(name = "gpu", permits = 6, of = 5)]
/// async fn train(client: &bandog::Client) -> bandog::Result<()> {
///     Ok(())
/// }
/// ```
///
/// # What the function returns
///
/// A lock can fail, so the function and its body return `Result<T, E>` with `E: From<bandog::Error>`.
///
/// With `wait`, the function and its body return `Result<Option<T>, E>`. The call returns `Ok(None)` if the lock was
/// busy for the whole wait.
///
/// ```compile_fail,E0277
/// #[bandog::locked(name = "orders")]
/// async fn sweep(client: &bandog::Client) -> u64 { // not a Result
///     42
/// }
/// ```
///
/// ```compile_fail,E0277
/// struct Failed; // without `impl From<bandog::Error>`
///
/// #[bandog::locked(name = "orders")]
/// async fn sweep(client: &bandog::Client) -> Result<u64, Failed> {
///     Ok(42)
/// }
/// ```
///
/// ```compile_fail,E0277
/// #[bandog::locked(name = "orders", wait = "5s")]
/// async fn sweep(client: &bandog::Client) -> bandog::Result<u64> { // not an Option, as `wait` requires
///     Ok(42)
/// }
/// ```
///
/// Without `wait`, the call waits until the lock is free. So a body that returns `Ok(Some(…))` only is refused, because its
/// `Ok(None)` can never come:
///
/// ```compile_fail
/// #[bandog::locked(name = "orders")] // `wait = "0s"` is missing
/// async fn sweep(client: &bandog::Client) -> bandog::Result<Option<u64>> {
///     Ok(Some(42))
/// }
/// ```
///
/// # When the lock is lost
///
/// The body of an `async fn` is dropped at its current await, before the store can grant the lock to another client.
/// The call returns the error `ErrorKind::Lost`.
///
/// The body of a function without async cannot be stopped. A body that runs for a long time should check
/// `guard.is_lost()` from time to time. When the body ends, the call returns `ErrorKind::Lost` instead of the body's
/// value.
///
/// In both cases, a process can be paused, lose its lock, and then continue to write. No lock can prevent this. So send
/// `guard.fence()` with every write: then the resource can refuse a late write. See `docs/GUARANTEES.md`.
///
/// # Without async
///
/// The attribute also accepts a function without async. A call of such a function blocks its thread, and the thread
/// owns the lock, as in [`bandog::blocking`]. The client can be a `bandog::Client` or a `bandog::blocking::Client`. In
/// async code, the call fails with `ErrorKind::Misused`. To call the function from async code, use `spawn_blocking`.
///
/// ```
/// use bandog::blocking::Client;
///
/// #[bandog::locked(name = "report-{day}", wait = "5s", guard = guard)]
/// fn report(client: &Client, day: u32) -> Result<Option<String>, Box<dyn std::error::Error>> {
///     Ok(Some(format!("written under fence {}", guard.fence())))
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = bandog::blocking::connect("memory:")?;
/// assert!(report(&client, 3)?.is_some());
/// # Ok(()) }
/// ```
///
/// # Calls within calls
///
/// Async calls are not re-entrant. If a locked `async fn` calls another function with the same lock, the inner call
/// waits for the outer call. Without the key `wait`, the inner call waits forever. With the key `wait`, the inner call
/// waits for the given time. If the functions are not async, the thread owns the lock, so the inner call on the same
/// thread gets the lock again.
///
/// # Cancel safety
///
/// If the future of a call is dropped while the call waits for the lock, the call loses its place in the queue. If the
/// future is dropped while the body runs, the body is dropped and then the lock is released.
///
/// # With other attributes
///
/// If another attribute is written below `#[locked]`, it applies to the wait for the lock and to the body. For example,
/// `#[tracing::instrument]` below `#[locked]` measures the time of the wait together with the time of the body.
///
/// `#[async_trait]` rewrites an `async fn` before `#[locked]` can read the function. So do not put `#[locked]` on a
/// method of an async trait. Write a separate locked function, and call it in the method.
///
/// [`bandog::blocking`]: https://docs.rs/bandog/latest/bandog/blocking/
#[proc_macro_attribute]
pub fn locked(attribute: TokenStream, function: TokenStream) -> TokenStream {
    expanded_or_error(locked::expand(attribute.into(), function.clone().into()), function)
}

/// Caches the values of a function: the body runs if there is no fresh value for these arguments, once in the whole cluster.
///
/// ```
/// use bandog::grid::{ClientGrid, Grid};
///
/// #[derive(Clone)]
/// struct Shop {
///     grid: Grid,
/// }
///
/// impl Shop {
///     #[bandog::cached(name = "price-{sku}", fresh = "1m", stale = "1h", none = "10s")]
///     async fn price(&self, sku: u32) -> bandog::Result<Option<f64>> {
///         Ok((sku < 1000).then(|| f64::from(sku) / 100.0)) // a slow query
///     }
/// }
///
/// #[bandog::cached(name = "rates", cache = "process", fresh = "5m")]
/// fn rates() -> Vec<f64> {
///     vec![1.0, 1.1] // without a store: cached in this process
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
/// let shop = Shop { grid: bandog::connect("memory:").await?.grid() };
/// assert_eq!(shop.price(250).await?, Some(2.5));
/// shop.invalidate_price(&250).await?; // the next call runs the body again, in all processes
/// # Ok(()) }
/// ```
///
/// | key | value | default |
/// |---|---|---|
/// | `name` | a text: the name of the cache, and the key of the entry: `{sku}`, `{order.id}` and `{self.shop}` stand for parameters and their fields. The cache of `"price-{sku}"` is `price`, and the key of the entry is the part from the first brace | none: the key is required |
/// | `skip` | the names of parameters that are not in `name`, because the value does not depend on them: `"db, clock"` | none: each parameter must be in the name, except the grid |
/// | `grid` | an expression for the [`Grid`](https://docs.rs/bandog/latest/bandog/grid/struct.Grid.html) | the parameter `grid`, else `self.grid` |
/// | `cache` | `"process"`: without a store, in this process | in the store of the grid |
/// | `fresh` | the time for which a value is fresh | `1m` |
/// | `stale` | the time for which a value is returned at once while one call refreshes it | `0s` |
/// | `none` | the time for which it is known that there is no value | this is not cached |
/// | `wait` | the maximum wait for the body that runs in another process | `15s` |
/// | `near`, `max_age` | the number of copies in this process, and the maximum time for which they are used | no copies |
///
/// [`Cache`](https://docs.rs/bandog/latest/bandog/grid/struct.Cache.html) says what is promised.
///
/// # The function
/// It can be async or not, a method with `self`, and generic; a function of a trait, or one of a type without `self`, cannot be
/// cached. It returns `T`, `Option<T>`, `Result<T, E>` or `Result<Option<T>, E>`, with
/// `T: Clone + Serialize + DeserializeOwned` and `E: From<bandog::Error> + Display`. Errors are not cached: the caller whose
/// body ran has its error, and the callers that waited for it have an error with its text. A type alias for `Result` or `Option`
/// must have the same name, such as `io::Result`; others do not compile.
///
/// If the name has several placeholders, the characters between them are written as `%2F` and so on in the values, so that
/// different arguments never have the same key. The key of a generic function contains the names of its types, which another
/// version of the program may have changed.
///
/// The body runs in a task of its own, so that it continues if its caller goes away while others wait. For that the
/// arguments are owned: those behind references are cloned, and so is `self`.
///
/// A function without async blocks its thread, and runs its body on another one; async code calls it in `spawn_blocking`.
///
/// # Removing a value
/// `price::invalidate(&sku)` beside a function, and `shop.invalidate_price(&sku)` beside a method, take the parameters that
/// the key and the grid need, by reference.
///
/// # Errors
/// The name, durations, numbers and keys are checked when the program is compiled.
///
/// ```compile_fail
/// type Found<T> = Result<T, bandog::Error>; // errors would be cached
/// #[bandog::cached(name = "price-{sku}")]
/// async fn price(grid: &bandog::grid::Grid, sku: u32) -> Found<f64> {
///     Ok(1.0)
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
/// # use bandog::grid::ClientGrid;
/// # _ = price(&bandog::connect("memory:").await?.grid(), 1).await;
/// # Ok(()) }
/// ```
///
/// ```compile_fail
/// #[bandog::cached(name = "price-{sko}")] // names no parameter
/// async fn price(grid: &bandog::grid::Grid, sku: u32) -> bandog::Result<f64> {
///     Ok(1.0)
/// }
/// ```
///
/// # Cancel safety
/// If the future of a call is dropped, the body continues for other callers that wait for its value. If there are none, it
/// is dropped.
#[proc_macro_attribute]
pub fn cached(attribute: TokenStream, function: TokenStream) -> TokenStream {
    expanded_or_error(cached::expand(attribute.into(), function.clone().into()), function)
}

/// Makes a task of a function: programs submit calls of it to an executor, and other programs run them.
///
/// ```
/// use bandog::work::{ClientWork, TaskRun};
/// use std::time::Duration;
///
/// #[derive(Clone)]
/// struct Shop {
///     currency: &'static str,
/// }
///
/// #[bandog::task(deliveries = 5, timeout = "2m")]
/// async fn charge(run: TaskRun, cents: u32, shop: Shop) -> Result<String, std::io::Error> {
///     Ok(format!("{cents} {} at attempt {}", shop.currency, run.attempt()))
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let billing = bandog::connect("memory:").await?.executor("billing")?;
/// let workers = billing.workers(32).task(charge::on(Shop { currency: "EUR" })).start()?; // in one program
///
/// let task = billing.submit(charge::with(&1250)).await?; // in another one
/// assert_eq!(task.result(Duration::from_secs(60)).await?, "1250 EUR at attempt 1");
/// workers.stop().await?;
/// # Ok(()) }
/// ```
///
/// | key | value | default |
/// |---|---|---|
/// | `name` | the name of the task, which both programs must have in common | that of the function |
/// | `deliveries` | the number of runs after which a call that fails is dead | 5 |
/// | `timeout` | the time after which a run fails: its future is dropped | none |
///
/// # The function
/// It is an `async fn`. The first parameter may be the run ([`TaskRun`](https://docs.rs/bandog/latest/bandog/work/type.TaskRun.html)).
/// The next one has the arguments of a call, which are written as JSON: `Serialize + DeserializeOwned`. All others are values
/// of the program, given to `on` and cloned for each run. It returns `Result<R, E>` or `R`, with
/// `R: Serialize + DeserializeOwned` and `E: Into<Box<dyn Error + Send + Sync>>`.
///
/// The name of the function becomes that of a type, with the functions `with(&args)` and `on(values…)`.
#[proc_macro_attribute]
pub fn task(attribute: TokenStream, function: TokenStream) -> TokenStream {
    expanded_or_error(task::expand(attribute.into(), function.clone().into()), function)
}

/// Makes a remote service of a trait: a client that calls its methods, and a service that runs them in another program.
///
/// ```
/// use std::time::Duration;
///
/// #[bandog::remote(name = "stock.v1")]
/// trait Stock {
///     /// Reserves pieces. Returns the number of those that are left.
///     async fn reserve(&self, sku: String, pieces: u32) -> Result<u32, String>;
/// }
///
/// struct Shop;
///
/// impl Stock for Shop {
///     async fn reserve(&self, sku: String, pieces: u32) -> Result<u32, String> {
///         10_u32.checked_sub(pieces).ok_or(format!("there are not {pieces} of {sku}"))
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = bandog::connect("memory:").await?;
/// let server = StockService::of(Shop).serve(&client, 16)?; // in one program
///
/// let stock = StockClient::over(&client)?.within(Duration::from_secs(1)); // in another one
/// assert_eq!(stock.reserve("A-7".to_owned(), 3).await?, 7);
/// assert!(stock.reserve("A-7".to_owned(), 30).await.is_err());
/// server.stop().await?;
/// # Ok(()) }
/// ```
///
/// `name` is that of the service, which both programs must have in common.
///
/// # The trait
/// Its methods are `async fn` with `&self` and owned parameters, and return `Result<T, E>`. Parameters, values and errors are
/// written as JSON: `Serialize + DeserializeOwned`. The methods of the client return the same with
/// [`CallError`](https://docs.rs/bandog/latest/bandog/work/enum.CallError.html) around the error.
///
/// A call is begun at most once. Its deadline travels with it: a server does not begin it later.
///
/// # Cancel safety
/// If the future of a call is dropped, the call is cancelled: it is not begun, or the future of the method is dropped.
#[proc_macro_attribute]
pub fn remote(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expanded_or_error(remote::expand(attribute.into(), item.clone().into()), item)
}

/// Declares a job: a function that a scheduler runs. The times at which the job is due are its ticks. Each tick runs
/// once in the whole cluster.
///
/// ```standalone_crate
/// use bandog::schedule::{Run, Scheduler, Shared};
///
/// struct Shop {
///     name: String,
/// }
///
/// #[bandog::scheduled(cron = "0 15 10 ? * MON-FRI", zone = "Europe/Berlin")]
/// async fn report(run: Run, shop: Shared<Shop>) -> Result<(), std::io::Error> {
///     std::fs::write("report", format!("{}, {}", shop.name, run.tick()))
/// }
///
/// #[bandog::scheduled(fixed_rate = "5s", name = "poll the till", timeout = "1s")]
/// fn poll() {} // a function without async runs in the blocking pool
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
/// let client = bandog::connect("memory:").await?; // redis://localhost, sqlite:/var/lib/shop/jobs.db
/// let running = Scheduler::over(&client).share(Shop { name: "north".to_owned() }).declared().start().await?;
/// // in a program: running.until_signal().await
/// running.stop().await
/// # }
/// ```
///
/// All values are checked when the program is compiled: expressions, zones, durations and all others. For example:
///
/// ```text
/// error: `cron` is no expression of the quartz dialect
///
///        0 15 25 ? * MON-FRI
///             ^^ hours: 25 is too large; allowed are 0 to 23
/// ```
///
/// # When the job runs
///
/// A job has exactly one trigger:
///
/// | key | when the job is due |
/// |---|---|
/// | `cron = "0 15 10 ? * MON-FRI"` | at the times of the expression; see `docs/cron.md` |
/// | `fixed_rate = "5s"` | immediately, and then once in each period of 5 seconds |
/// | `fixed_delay = "5s"` | immediately, and then again 5 seconds after the end of each run |
/// | `at = "2026-12-31T23:59:00+01:00"` | once, at this instant |
///
/// These keys are for `cron` only:
///
/// | key | values | default | see |
/// |---|---|---|---|
/// | `zone` | an IANA name | `UTC` | `Job::zone` |
/// | `dialect` | `quartz`, `spring`, `unix` | `quartz` | `Dialect` |
/// | `day_match` | the rule for an expression that restricts both day fields (the day of the month and the day of the week); `and`: both must match; `or`: one must match | the dialect's rule; Quartz refuses such an expression | `DayMatch` |
/// | `daylight` | `pinned`, `elapsed`, `skip`: what happens when clocks are set forward or back | `elapsed` if the hours are `*` or have a step, else `pinned` | `Daylight` |
///
/// `initial_delay`, the delay of the first run, is for `fixed_rate` and `fixed_delay` only.
///
/// # Other keys
///
/// | key | values | default | see |
/// |---|---|---|---|
/// | `name` | a text of 1 to 200 bytes, unique in the cluster | the function's name | |
/// | `overlap` | `skip`, `queue`, `queue(10)`, `allow(3)`, `replace` | `skip`; for `fixed_rate` `queue(1000)` | `Overlap` |
/// | `catch_up` | `skip`, `once`, `all(10)` | `once` | `CatchUp` |
/// | `window` | maximum age of a missed tick; older ticks are not caught up | `1h` | `Job::window` |
/// | `misfire_grace` | maximum delay of a tick; a tick with a longer delay counts as missed | `1m` | `Job::misfire_grace` |
/// | `on_crash` | `abandon`, `retry`, `retry(3)` | `abandon` | `OnCrash` |
/// | `lease` | the time after which a node that sends nothing counts as dead; at least 100 ms | the ttl of the client's watchdog | `Job::lease` |
/// | `timeout` | maximum duration of one attempt | no limit | `Job::timeout` |
/// | `grace` | the time within which a cancelled run must end | `5s` | `Job::grace` |
/// | `retry` | maximum number of retries of a failed run: `3`; or a text, see below | no retries | `Retry` |
/// | `pause_after` | number of consecutive failures after which the job is paused | never | `Job::pause_after` |
/// | `jitter` | maximum random delay of a start | none | `Job::jitter` |
/// | `scope` | `cluster`, `each_node` | `cluster` | `Scope` |
/// | `store_down` | `fail_closed`, `fail_open` | `fail_closed` | `StoreDown` |
/// | `revision` | the version of the job's definition, for rolling deploys: a number | 0 | `Job::revision` |
/// | `enabled` | `true`, `false` | `true` | `Job::disabled` |
///
/// Durations are written as `500ms`, `10s` or `2m`. A number can be written with or without quotes.
///
/// If `retry` is a text, it begins with the maximum number of retries. These optional parts can follow, in this order:
/// - `from 1s`: the time between the failure and the first retry. Before each further retry, this time is doubled. The
///   default is 1 s.
/// - `to 1m`: the longest time between a failure and the next retry. The default is 1 minute.
/// - `within 10m`: no retry starts later than 10 minutes after the start of the first attempt.
/// - `until next tick`: no retry starts at or after the next tick of the job.
///
/// The time before each retry is increased at random by up to a tenth. An example with all parts is
/// `retry = "3 from 1s to 1m within 10m until next tick"`.
///
/// # Values from the environment
///
/// In each text, `${NAME}` and `${NAME:default}` stand for an environment variable, which is read when the job is
/// created. If no variable has this name, a second name is tried: the first name in capital letters, with `_` in place
/// of `.` and `-`. For example, `${app.report.cron}` also finds `APP_REPORT_CRON`.
///
/// The value `-` of a trigger disables the job, as in Spring. This value can be the default of a variable. For example,
/// in `cron = "${app.report.cron:-}"` the `:` begins the default, and the default is `-`. So this job is disabled
/// unless the variable is set.
///
/// A default is checked when the program is compiled. The variable is checked when the scheduler starts. If the value
/// of the variable is wrong, or if there is neither a variable nor a default, the start fails with an error that names
/// the job.
///
/// # The function
///
/// The function can be async. A function without async runs in the blocking pool, and cannot be dropped while it runs.
///
/// The parameters of the function can have two types, in any order, by value or by reference. The first type is `Run`:
/// it has the tick and the fence, and reports whether the run should stop. The second type is `Shared<T>`: it has a
/// value that the program gave to `Scheduler::share`.
///
/// The function returns nothing or `Result<(), E>`. An error or a panic is a failure, which is logged, counted and
/// recorded. With `retry`, the scheduler then runs the function again. Later ticks run as usual, unless `pause_after`
/// pauses the job.
///
/// The function is still an ordinary function, which the program can call.
///
/// ```compile_fail,E0277
/// #[bandog::scheduled(fixed_rate = "5s")]
/// async fn poll(port: u16) {} // the scheduler has no value for the port
/// ```
///
/// ```compile_fail,E0277
/// #[bandog::scheduled(fixed_rate = "5s")]
/// async fn poll() -> u64 { // u64 is neither () nor a Result
///     42
/// }
/// ```
///
/// # How a scheduler gets the job
///
/// `Scheduler::declared()` adds the jobs of all functions of the program that have this attribute. The linker collects
/// these functions. The linker leaves out a library that the program never names. If such a library has jobs, name the
/// library in the program: `use reports as _;`.
///
/// To add only one job, for example in a test, use the type that the attribute creates. The type has the function's
/// name, and its function `job()` returns the job:
///
/// ```
/// use bandog::schedule::Scheduler;
///
/// #[bandog::scheduled(fixed_rate = "5s")]
/// async fn poll() {}
///
/// let scheduler = Scheduler::new().job(poll::job());
/// ```
///
/// # In your tests
///
/// A `TestScheduler` runs declared jobs on a clock that the test advances:
///
/// ```
/// use bandog::schedule::{Shared, TestScheduler};
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// #[bandog::scheduled(cron = "0 0 * * * ?")]
/// async fn hourly(count: Shared<AtomicU32>) {
///     count.fetch_add(1, Ordering::Relaxed);
/// }
///
/// // In a test: #[tokio::test(start_paused = true)]
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> bandog::Result<()> {
/// let setting = TestScheduler::at("2026-01-01T00:30:00Z").replicas(3).share(AtomicU32::new(0));
/// let test = setting.start(|| vec![hourly::job()]).await?; // for all jobs: start(bandog::schedule::declared)
/// test.advance_to("2026-01-01T12:00:00Z").await;
/// assert_eq!(test.ticks("hourly").len(), 12);
/// # test.stop().await }
/// ```
#[proc_macro_attribute]
pub fn scheduled(attribute: TokenStream, function: TokenStream) -> TokenStream {
    expanded_or_error(scheduled::expand(attribute.into(), function.clone().into()), function)
}

/// Makes live objects of a struct with named fields: its fields are in the store of the grid, with indexes
/// ([`LiveObjects`](https://docs.rs/bandog/latest/bandog/grid/struct.LiveObjects.html)).
///
/// ```
/// use bandog::grid::ClientGrid;
///
/// #[derive(bandog::Live)]
/// #[live(name = "com.shop.User", index(email, age))]
/// struct User {
///     #[live(id)]
///     id: u64,
///     email: String,
///     age: u32,
///     #[live(name = "nickName")]
///     nick_name: Option<String>,
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
/// let users = bandog::connect("memory:").await?.grid().live::<User>()?;
/// users.insert(&User { id: 7, email: "ann@example.com".into(), age: 64, nick_name: None }).await?;
/// users.at(&7).nick_name().set("an").await?;
/// assert_eq!(users.find(User::age().lt(&65).and(User::email().eq("ann@example.com"))).ids().await?, [7]);
/// # Ok(()) }
/// ```
///
/// | key of the struct | value | default |
/// |---|---|---|
/// | `name` | the name of the class: that of the Java class, if Java uses the objects, too | the name of the struct |
/// | `index` | the indexed fields: `index(email, age)` | no index |
/// | `one_slot` | no value: all keys of the class are in one slot of a cluster, with names that Java does not know | the layout of Java |
///
/// | key of a field | value | default |
/// |---|---|---|
/// | `id` | no value: the field is the id; exactly one field is | |
/// | `name` | the name in the store | the name of the field |
///
/// A field whose type is written as `u8` to `u64`, `usize`, `i8` to `i64`, `isize`, `f32` or `f64` is a number: its index can be
/// compared. The same in an `Option`. Each other type needs the traits that its codec requires, such as `Serialize` and
/// `DeserializeOwned`; an indexed one needs `PartialEq`.
///
/// The derive adds a function with the name of each indexed field, such as `User::age()`, and a type `UserAt` with a method for
/// each field. Both have the visibility of the field. So the struct cannot have a method of its own with the name of an indexed
/// field.
///
/// A field without an index cannot be searched:
///
/// ```compile_fail,E0599
/// #[derive(bandog::Live)]
/// struct User {
///     #[live(id)]
///     id: u64,
///     age: u32,
/// }
/// let condition = User::age().ge(&65);
/// ```
///
/// Nor can a field that is no number be compared:
///
/// ```compile_fail,E0599
/// #[derive(bandog::Live)]
/// #[live(index(email))]
/// struct User {
///     #[live(id)]
///     id: u64,
///     email: String,
/// }
/// let condition = User::email().ge("a");
/// ```
#[proc_macro_derive(Live, attributes(live))]
pub fn live(item: TokenStream) -> TokenStream {
    live::expand(item.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Returns `made`, the expanded code. If the expansion failed, returns the error and the unchanged function. Without
/// the function, the compiler would also report that the function is missing.
fn expanded_or_error(made: syn::Result<proc_macro2::TokenStream>, function: TokenStream) -> TokenStream {
    match made {
        Ok(made) => made.into(),
        Err(fault) => TokenStream::from_iter([fault.into_compile_error().into(), function]),
    }
}
