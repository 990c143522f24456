//! The options that handles of several kinds of locks have in common.

/// Adds these options to a type that has a method `map(self, impl Fn(Lock) -> Lock) -> Self`.
macro_rules! lock_options {
    (lease) => {
        /// The same lock with a fixed lease: it is never renewed, and is lost after `ttl`. The ttl must be between 100
        /// ms and 365 days.
        ///
        /// A lock has a lease or a watchdog: if both are set, only the last one counts.
        ///
        /// With a ttl that is not allowed, each call that locks returns `ErrorKind::Misused`.
        #[must_use]
        pub fn lease(self, ttl: std::time::Duration) -> Self {
            self.map(|lock| lock.lease(ttl))
        }
    };
    (watchdog) => {
        /// The same lock with this ttl instead of the client's ttl. A held lock is renewed each time a third of its ttl
        /// has passed. The ttl must be between 100 ms and 365 days.
        ///
        /// A lock has a lease or a watchdog: if both are set, only the last one counts.
        ///
        /// With a ttl that is not allowed, each call that locks returns `ErrorKind::Misused`.
        #[must_use]
        pub fn watchdog(self, ttl: std::time::Duration) -> Self {
            self.map(|lock| lock.watchdog(ttl))
        }
    };
    (max_hold) => {
        /// The same lock with a maximum hold time. After this time the lock is lost, even if it was renewed. So a
        /// caller that hangs does not keep the lock forever. The loss is logged. The time must be between 100 ms and
        /// 365 days. Default: no limit.
        ///
        /// The time counts from the moment at which a caller gets the lock. If an owner takes the lock again, the time
        /// still counts from the owner's first guard. After the loss, the lock becomes free for other clients when the
        /// guard is dropped, or when the lock's ttl has passed.
        #[must_use]
        pub fn max_hold(self, time: std::time::Duration) -> Self {
            self.map(|lock| lock.max_hold(time))
        }
    };
    (max_waiters) => {
        /// The same lock with a maximum number of waiting calls. A call that would have to wait while `number` calls of
        /// this client wait for this lock already returns `ErrorKind::Overloaded` at once. So a service can answer
        /// "try again later" instead of letting requests pile up. Default: no limit, besides
        /// [`ClientOptions::max_waiting`](crate::ClientOptions::max_waiting).
        ///
        /// Each client counts its own calls. For a fair mutex, the store also counts the calls of all other clients: a
        /// call that finds `number` or more calls before it in the store's queue leaves the queue and returns the error.
        /// Calls that do not wait (`try_lock`) are not limited.
        ///
        /// ```
        /// # use bandog::ErrorKind;
        /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
        /// # let client = bandog::testing::client();
        /// let report = client.mutex("report").max_waiters(10);
        /// match report.lock().await {
        ///     Ok(guard) => guard.release().await,
        ///     Err(error) if error.kind() == ErrorKind::Overloaded => Ok(()), // answer the request with "try later"
        ///     Err(error) => Err(error),
        /// }
        /// # }
        /// ```
        ///
        /// With 0, each call that locks returns `ErrorKind::Misused`: a `try_` call is the call that never waits.
        #[must_use]
        pub fn max_waiters(self, number: u32) -> Self {
            self.map(|lock| lock.max_waiters(number))
        }
    };
    ($($option:ident),+) => {
        $($crate::lock_options::lock_options!($option);)+
    };
}

pub(crate) use lock_options;
