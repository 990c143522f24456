//! Counters, and unique numbers.

use std::{sync::Arc, time::Duration};

use bandog_core::{
    Error, Result,
    structures::{Action, CounterOp, FloatOp, Reply},
};
use tokio::sync::Mutex;

use crate::{
    Call,
    object::{Object, checked_ttl, whole_object},
};

/// Defines a counter of one type of number.
macro_rules! counter {
    ($(#[$docs:meta])* $name:ident $op:ident $number:ty, $read:ident) => {
        $(#[$docs])*
        #[derive(Debug, Clone)]
        pub struct $name {
            object: Object,
            ttl: Option<Duration>,
            is_exact: bool,
        }

        impl $name {
            pub(crate) fn new(object: Object) -> Self {
                Self { object, ttl: None, is_exact: false }
            }

            whole_object!();

            /// With this, [`Self::add`] gives a new counter this ttl, in the same step. A counter that exists keeps its ttl.
            #[must_use]
            pub fn expiring(self, ttl: Duration) -> Self {
                Self { ttl: Some(ttl), ..self }
            }

            /// With this, the store remembers the additions, so [`Self::add`] is repeated after a lost answer, and counts
            /// once. It costs more in the store.
            #[must_use]
            pub fn exact(self) -> Self {
                Self { is_exact: true, ..self }
            }

            /// The number. A counter that does not exist is 0.
            pub fn get(&self) -> Call<$number> {
                self.object.call($op::Get, Reply::$read)
            }

            /// Writes the number. A ttl is removed.
            pub fn set(&self, number: $number) -> Call<()> {
                self.object.call($op::Set(number), Reply::done)
            }

            /// Writes `to` if the number is `from`. Returns whether it was written.
            pub fn swap(&self, from: $number, to: $number) -> Call<bool> {
                self.object.call($op::Swap(from, to), Reply::flag)
            }

            /// Adds to the number, and returns the sum. A sum that is no finite number of this type is `ErrorKind::Denied`.
            ///
            /// If the answer is lost, [`Error::maybe_applied`](bandog_core::Error::maybe_applied) is true, unless the
            /// counter is [`exact`](Self::exact).
            pub fn add(&self, by: $number) -> Call<$number> {
                let ttl = self.ttl;
                let op = |_: &mut _| Ok($op::Add { by, expiring: ttl.map(checked_ttl).transpose()?, once: None });
                let call = self.object.write(op, Reply::$read);
                if self.is_exact { call.exact() } else { call }
            }
        }
    };
}

counter! {
    /// A counter of 64 bits, as Redisson's `RAtomicLong`. Created by [`Grid::counter`](crate::Grid::counter).
    ///
    /// ```
    /// # use bandog::grid::ClientGrid;
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// let grid = bandog::connect("memory:").await?.grid();
    /// // At most 100 calls of a user in a minute.
    /// let calls = grid.counter("calls:ann")?.expiring(Duration::from_secs(60));
    /// assert!(calls.add(1).await? <= 100);
    /// # Ok(()) }
    /// ```
    Counter CounterOp i64, int
}

counter! {
    /// A counter of floating-point numbers, as Redisson's `RAtomicDouble`. Created by
    /// [`Grid::float_counter`](crate::Grid::float_counter). Infinite numbers and NaN are refused.
    ///
    /// ```
    /// # use bandog::grid::ClientGrid;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// let grid = bandog::connect("memory:").await?.grid();
    /// let litres = grid.float_counter("litres")?;
    /// assert_eq!(litres.add(0.5).await?, 0.5);
    /// # Ok(()) }
    /// ```
    FloatCounter FloatOp f64, float
}

/// The number of ids in a block of a new [`Ids`].
const BLOCK: u64 = 5_000;

/// Unique numbers, as Redisson's `RIdGenerator`. Created by [`Grid::ids`](crate::Grid::ids).
///
/// A handle reserves a block of numbers with one request, and its clones share the block. The numbers of a block that the
/// program does not use are lost, so the numbers have gaps, and those of several programs are not in the order of time.
///
/// ```
/// # use bandog::grid::ClientGrid;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
/// let grid = bandog::connect("memory:").await?.grid();
/// let orders = grid.ids("order")?;
/// assert_eq!((orders.next().await?, orders.next().await?), (1, 2));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Ids {
    object: Object,
    block_size: u64,
    /// The next number of the block, and the number after its last one.
    block: Arc<Mutex<(i64, i64)>>,
}

impl Ids {
    pub(crate) fn new(object: Object) -> Self {
        Self { object, block_size: BLOCK, block: Arc::default() }
    }

    whole_object!();

    /// The number of ids in a block, if this handle creates the object. Otherwise, the block has the size with which the
    /// object was created. Default: 5,000.
    #[must_use]
    pub fn block(self, ids: u64) -> Self {
        Self { block_size: ids, block: Arc::default(), ..self }
    }

    /// A number that no other call gets, as long as the object is not deleted.
    ///
    /// # Errors
    /// `ErrorKind::Misused`: the size of the block is 0. Otherwise those of a [`Call`].
    ///
    /// # Cancel safety
    /// If the future is dropped, at most one block of numbers is lost.
    pub async fn next(&self) -> Result<i64> {
        let mut block = self.block.lock().await;
        if block.0 >= block.1 {
            let size = self.block_size;
            if size == 0 {
                return Err(Error::misused("a block has 0 ids; it must have at least 1").at(&self.object.key));
            }
            let (first, size) = self.object.call(Action::Ids { size }, Reply::block).await?;
            *block = (first, first.saturating_add(i64::try_from(size).unwrap_or(i64::MAX)));
        }
        block.0 += 1;
        Ok(block.0 - 1)
    }
}
