//! The options that handles of several kinds of locks have in common.

/// Adds these options to a type that has a method `map(self, impl Fn(Lock) -> Lock) -> Self`.
macro_rules! lock_options {
    (lease) => {
        /// The same lock with a fixed lease: it is never renewed, and is lost after `ttl`. The ttl must be between 100
        /// ms and 365 days.
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
    ($($option:ident),+) => {
        $($crate::lock_options::lock_options!($option);)+
    };
}

pub(crate) use lock_options;
