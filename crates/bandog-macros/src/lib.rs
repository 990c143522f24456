//! The attributes of bandog, which re-exports them: `#[bandog::locked]` and `#[bandog::scheduled]`.

use proc_macro::TokenStream;

mod duration;
mod keys;
mod locked;
mod scheduled;
mod signature;
mod template;
#[cfg(test)]
mod tests;
mod words;

/// Runs a function's body under a lock: one call at a time, across processes and machines.
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
///         Ok(42) // nobody else sweeps now, on any machine
///     }
///
///     #[bandog::locked(name = "order-{id}", wait = "0s", guard = guard)]
///     async fn cancel(&self, id: u64) -> Result<Option<u64>> {
///         println!("order {id} is cancelled under fence {}", guard.fence());
///         Ok(Some(id)) // None: somebody else was at this order, and the body was not run
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
/// | key | what it says | default |
/// |---|---|---|
/// | `name` | the lock's name: a text, in which `{id}`, `{order.id}` and `{self.shop}` stand for parameters and their fields, formatted as by `format!`; or an expression that gives one | none: it must be there |
/// | `client` | an expression that gives the [`Client`](https://docs.rs/bandog/latest/bandog/struct.Client.html) | the parameter `client`, else `self.client` |
/// | `wait` | how long to wait for the lock; `"0s"` does not wait | until it is free |
/// | `lease` | a fixed time after which the lock is lost, instead of a watchdog that renews it; `"100ms"` to `"365d"` | the watchdog |
/// | `max_hold` | the longest that one call may hold the lock, however well it is renewed; as `lease` | no limit |
/// | `guard` | the name that the body has for the guard: `guard = guard` | the body has none |
///
/// Names, durations and keys are checked when the program is compiled.
///
/// # What it returns
///
/// A lock can fail, so the function returns `Result<T, E>` with `E: From<bandog::Error>`, and the body gives that
/// `Result`. With `wait` somebody else may be in the way for so long: then it returns `Result<Option<T>, E>`, and
/// `Ok(None)` says so.
///
/// ```compile_fail,E0277
/// #[bandog::locked(name = "orders")]
/// async fn sweep(client: &bandog::Client) -> u64 { // not a Result
///     42
/// }
/// ```
///
/// ```compile_fail,E0277
/// #[bandog::locked(name = "orders", wait = "5s")]
/// async fn sweep(client: &bandog::Client) -> bandog::Result<u64> { // not an Option: what if it is busy for 5 s?
///     Ok(42)
/// }
/// ```
///
/// # When the lock is lost
///
/// An `async fn` is dropped where it stands, before the store may grant the lock to somebody else, and gives the
/// error `Lost`. A function without async cannot be stopped: one that takes long looks at `guard.is_lost()` on its
/// way, and `Lost` is told at its end instead of what it returned. Either way send `guard.fence()` along with what you
/// write, since no lock can stop a process that stands still; see `docs/GUARANTEES.md`.
///
/// # Without async
///
/// The function blocks its thread, which is the lock's owner, as in [`bandog::blocking`]; the client may be one of
/// either kind. In async code it is `Misused`; call it in `spawn_blocking`.
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
/// Async calls do not re-enter: a locked `async fn` that calls another one of the same name waits for itself (for
/// ever, or with `wait` until that is over). Without async the thread is the owner, and gets the lock again.
///
/// # Cancel safety
///
/// Dropping the future gives up the place in the queue, or drops the body and then gives the lock back.
///
/// # With other attributes
///
/// Attributes below this one see the whole function, lock and all: `#[tracing::instrument]` below it covers the wait.
/// `#[async_trait]` turns an `async fn` into another one before this attribute sees it: let its methods call a locked
/// function of their own.
///
/// [`bandog::blocking`]: https://docs.rs/bandog/latest/bandog/blocking/
#[proc_macro_attribute]
pub fn locked(attribute: TokenStream, function: TokenStream) -> TokenStream {
    told(locked::expand(attribute.into(), function.clone().into()), function)
}

/// Declares a job: a function that a scheduler runs when its time has come, once per tick in the whole cluster.
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
/// fn poll() {} // without async it runs in the blocking pool
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
/// let client = bandog::connect("memory:").await?; // redis://localhost, sqlite:/var/lib/shop/jobs.db
/// let running = Scheduler::over(&client).share(Shop { name: "north".to_owned() }).declared().start().await?;
/// // in a program: running.until_signal().await
/// running.stop().await
/// # }
/// ```
///
/// The expression is checked when the program is compiled, and so are zones, durations and every other word:
///
/// ```text
/// error: `cron` is no expression of the quartz dialect
///
///        0 15 25 ? * MON-FRI
///             ^^ hours: 25 is too large; allowed are 0 to 23
/// ```
///
/// # When it runs
///
/// One of these:
///
/// | key | it fires |
/// |---|---|
/// | `cron = "0 15 10 ? * MON-FRI"` | when the expression does: see `docs/cron.md` |
/// | `fixed_rate = "5s"` | at once and then in every period |
/// | `fixed_delay = "5s"` | at once and then so long after each run's end |
/// | `at = "2026-12-31T23:59:00+01:00"` | once |
///
/// With `cron` go
///
/// | key | values | default | see |
/// |---|---|---|---|
/// | `zone` | an IANA name | `UTC` | `Job::zone` |
/// | `dialect` | `quartz`, `spring`, `unix` | `quartz` | `Dialect` |
/// | `day_match` | `and`, `or`: when a day matches if both day fields are restricted | what the dialect says; Quartz refuses it | `DayMatch` |
/// | `daylight` | `pinned`, `elapsed`, `skip`: what happens where clocks are set forward or back | `elapsed` if the hours are `*` or stepped, else `pinned` | `Daylight` |
///
/// With the two periods goes `initial_delay`.
///
/// # What else may be said
///
/// | key | values | default | see |
/// |---|---|---|---|
/// | `name` | a text of 1 to 200 bytes, one for the whole cluster | the function's name | |
/// | `overlap` | `skip`, `queue`, `queue(10)`, `allow(3)`, `replace` | `skip`; of `fixed_rate` `queue(1000)` | `Overlap` |
/// | `catch_up` | `skip`, `once`, `all(10)` | `once` | `CatchUp` |
/// | `window` | how old a missed tick may be to be caught up | `1h` | `Job::window` |
/// | `misfire_grace` | how late a tick still runs as if nothing had been | `1m` | `Job::misfire_grace` |
/// | `on_crash` | `abandon`, `retry`, `retry(3)` | `abandon` | `OnCrash` |
/// | `lease` | after what time a silent node counts as dead; 100 ms at least | the client's watchdog | `Job::lease` |
/// | `timeout` | how long one try may take | no limit | `Job::timeout` |
/// | `grace` | how long a run that was cancelled may go on | `5s` | `Job::grace` |
/// | `retry` | `3`, `"3 from 1s"`, `"3 from 1s to 1m"`, `"3 within 10m"`, `"3 until next tick"`, or all of it | not at all | `Retry` |
/// | `pause_after` | so many failures in a row pause the job | never | `Job::pause_after` |
/// | `jitter` | the most that a start is delayed by | none | `Job::jitter` |
/// | `scope` | `cluster`, `each_node` | `cluster` | `Scope` |
/// | `store_down` | `fail_closed`, `fail_open` | `fail_closed` | `StoreDown` |
/// | `revision` | which writing of the job it is, for rolling deploys: a number | 0 | `Job::revision` |
/// | `enabled` | `true`, `false` | `true` | `Job::disabled` |
///
/// Times are written `500ms`, `10s`, `2m`; numbers with or without quotes.
///
/// # What the environment says
///
/// In each text, `${NAME}` and `${NAME:default}` stand for a variable of the environment, read when the job is made.
/// It is looked up as it is written, and then in capitals with `_` for `.` and `-`, so `${app.report.cron}` is
/// `APP_REPORT_CRON`, too. A trigger that is `-` disables the job, as in Spring: `cron = "${app.report.cron:-}"`. A
/// default is checked when the program is compiled; the variable when the scheduler starts, which fails with the job's
/// name if there is neither or the value is wrong.
///
/// # The function
///
/// Async or not (then it runs in the blocking pool, and cannot be dropped where it stands). It takes, in any order, by
/// value or by reference, `Run` (its tick, its fence, whether it should stop) and `Shared<T>` (a value handed to
/// `Scheduler::share`), and returns nothing or `Result<(), E>`. An error and a panic are failures: logged, counted, recorded, tried again if
/// `retry` says so; they never stop the schedule. It stays an ordinary function, which can be called.
///
/// ```compile_fail,E0277
/// #[bandog::scheduled(fixed_rate = "5s")]
/// async fn poll(port: u16) {} // nobody gives it a port
/// ```
///
/// ```compile_fail,E0277
/// #[bandog::scheduled(fixed_rate = "5s")]
/// async fn poll() -> u64 { // neither well nor ill
///     42
/// }
/// ```
///
/// # How a scheduler gets it
///
/// `Scheduler::declared()` takes all functions of the program. They are gathered by the linker: a library that the
/// program never names is not linked, so name it, `use reports as _;`. Where that does not do, or in a test that wants
/// one job only, the attribute has made a type of the function's name, whose `job()` is the job:
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
/// A `TestScheduler` runs declared jobs on a clock that moves when the test says so:
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
/// let test = setting.start(|| vec![hourly::job()]).await?; // or start(bandog::schedule::declared): all of them
/// test.advance_to("2026-01-01T12:00:00Z").await;
/// assert_eq!(test.ticks("hourly").len(), 12);
/// # test.stop().await }
/// ```
#[proc_macro_attribute]
pub fn scheduled(attribute: TokenStream, function: TokenStream) -> TokenStream {
    told(scheduled::expand(attribute.into(), function.clone().into()), function)
}

/// What was made, or the fault and the function as it was, so that nothing else is missing.
fn told(made: syn::Result<proc_macro2::TokenStream>, function: TokenStream) -> TokenStream {
    match made {
        Ok(made) => made.into(),
        Err(fault) => TokenStream::from_iter([fault.into_compile_error().into(), function]),
    }
}
