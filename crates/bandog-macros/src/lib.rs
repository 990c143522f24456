//! The attributes of bandog, which re-exports them: `#[bandog::locked]`.

use proc_macro::TokenStream;

mod duration;
mod keys;
mod locked;
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

/// What was made, or the fault and the function as it was, so that nothing else is missing.
fn told(made: syn::Result<proc_macro2::TokenStream>, function: TokenStream) -> TokenStream {
    match made {
        Ok(made) => made.into(),
        Err(fault) => TokenStream::from_iter([fault.into_compile_error().into(), function]),
    }
}
