//! The numbers that fields of live objects can have.

/// A type of numbers. An index has numbers as `f64`.
pub trait LiveNumber: PartialOrd + Copy + Send + Sync + 'static {
    /// The number in an index. Two integers of 64 bits can have the same one; a search compares the integers, too.
    fn number(&self) -> f64;
}

/// A type of integers, to which [`NumberAt::add`](crate::NumberAt::add) can add.
pub trait LiveInteger: LiveNumber + TryFrom<i64> {
    /// The smallest sum.
    const LEAST: i64;
    /// The greatest sum: that of the type, but at most that of 64 bits with a sign.
    const GREATEST: i64;
}

macro_rules! integers {
    ($($int:ty),*) => {$(
        impl LiveNumber for $int {
            fn number(&self) -> f64 {
                *self as f64
            }
        }

        impl LiveInteger for $int {
            const LEAST: i64 = <$int>::MIN as i64;
            const GREATEST: i64 =
                if <$int>::MAX as u128 > i64::MAX as u128 { i64::MAX } else { <$int>::MAX as i64 };
        }
    )*};
}

integers!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

impl LiveNumber for f32 {
    fn number(&self) -> f64 {
        (*self).into()
    }
}

impl LiveNumber for f64 {
    fn number(&self) -> f64 {
        *self
    }
}
