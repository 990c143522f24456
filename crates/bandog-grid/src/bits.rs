//! Bit sets.

use std::ops::{Bound, RangeBounds};

use bandog_core::{
    Error, ErrorKind, Result,
    structures::{BitCombine, BitField, BitsOp, FieldOp, Reply},
};

use crate::{Call, map::count, object::handle};

handle! {
    /// A sequence of bits, as Redisson's `RBitSet`. Created by [`Grid::bits`](crate::Grid::bits). A bit that was never set
    /// is 0. An index must be less than 2³², and the store needs memory for all bits up to the last one.
    ///
    /// ```
    /// # use bandog::grid::ClientGrid;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// let grid = bandog::connect("memory:").await?.grid();
    /// let seats = grid.bits("seats")?;
    /// assert!(!seats.set(17, true).await?);
    /// assert_eq!((seats.get(17).await?, seats.count().await?, seats.len().await?), (true, 1, 18));
    /// # Ok(()) }
    /// ```
    BitSet
}

impl BitSet {
    /// The bit with this index.
    pub fn get(&self, index: u64) -> Call<bool> {
        self.object.call(BitsOp::Get(vec![index]), one)
    }

    /// The bits with these indexes.
    pub fn get_all(&self, indexes: &[u64]) -> Call<Vec<bool>> {
        if indexes.is_empty() {
            return Call::known(Ok(Vec::new()));
        }
        self.object.call(BitsOp::Get(indexes.to_vec()), Reply::flags)
    }

    /// Writes a bit. Returns the former one.
    pub fn set(&self, index: u64, bit: bool) -> Call<bool> {
        self.object.call(BitsOp::Set(vec![index], bit), one)
    }

    /// Writes the bits with these indexes, in one step. Returns the former ones.
    pub fn set_all(&self, indexes: &[u64], bit: bool) -> Call<Vec<bool>> {
        if indexes.is_empty() {
            return Call::known(Ok(Vec::new()));
        }
        self.object.call(BitsOp::Set(indexes.to_vec(), bit), Reply::flags)
    }

    /// Writes all bits of a range, which must have an end.
    pub fn set_range(&self, range: impl RangeBounds<u64>, bit: bool) -> Call<()> {
        let from = match range.start_bound() {
            Bound::Included(from) => *from,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(last) => last.saturating_add(1),
            Bound::Excluded(to) => *to,
            Bound::Unbounded => {
                return Call::known(Err(Error::misused("the range has no end; it must end before 2^32")));
            }
        };
        match from < to {
            true => self.object.call(BitsOp::SetRange(from, to, bit), Reply::done),
            false => Call::known(Ok(())),
        }
    }

    /// The number of bits that are 1.
    pub fn count(&self) -> Call<u64> {
        self.object.call(BitsOp::Count, count)
    }

    /// The index after the last bit that is 1.
    pub fn len(&self) -> Call<u64> {
        self.object.call(BitsOp::Len, count)
    }

    /// Keeps the bits that all others have, too. In a cluster, the names of all must have the same part in braces.
    pub fn and(&self, others: &[&Self]) -> Call<()> {
        self.combine(BitCombine::And, others)
    }

    /// Adds the bits of the others, as [`BitSet::and`].
    pub fn or(&self, others: &[&Self]) -> Call<()> {
        self.combine(BitCombine::Or, others)
    }

    /// Keeps the bits that an odd number of these sets have, as [`BitSet::and`].
    pub fn xor(&self, others: &[&Self]) -> Call<()> {
        self.combine(BitCombine::Xor, others)
    }

    fn combine(&self, how: BitCombine, others: &[&Self]) -> Call<()> {
        match self.object.others(others.iter().map(|other| &other.object)) {
            Ok(keys) => self.object.call(BitsOp::Combine(how, keys), Reply::done),
            Err(error) => Call::known(Err(error)),
        }
    }

    /// Inverts each bit of the bytes that are stored: those up to the last byte in which a bit was ever written.
    pub fn not(&self) -> Call<()> {
        self.object.call(BitsOp::Not, Reply::done)
    }

    /// The bytes. The first bit is the highest one of the first byte.
    ///
    /// The size is that of the whole set: 12 MB for 100 million bits.
    pub fn to_vec(&self) -> Call<Vec<u8>> {
        self.object.call(BitsOp::Bytes, |reply| Ok(reply.bytes()?.unwrap_or_default()))
    }

    /// A number without a sign in the bits from `offset`: 1 to 63 bits, the highest one first. In Java: `setByte` and
    /// similar methods.
    pub fn unsigned(&self, offset: u64, width: u32) -> BitNumber {
        BitNumber { set: self.clone(), field: BitField { offset, width, is_signed: false } }
    }

    /// A number with a sign (two's complement) in the bits from `offset`: 1 to 64 bits, the highest one first.
    pub fn signed(&self, offset: u64, width: u32) -> BitNumber {
        BitNumber { set: self.clone(), field: BitField { offset, width, is_signed: true } }
    }
}

/// A number in a field of bits. Created by [`BitSet::unsigned`] and [`BitSet::signed`].
///
/// ```
/// # use bandog::grid::ClientGrid;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
/// let grid = bandog::connect("memory:").await?.grid();
/// let level = grid.bits("levels")?.unsigned(10, 5);
/// assert_eq!((level.set(30).await?, level.add(3).await?), (0, 1)); // 5 bits: 33 wraps around to 1.
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct BitNumber {
    set: BitSet,
    field: BitField,
}

impl BitNumber {
    /// The number.
    pub fn get(&self) -> Call<i64> {
        self.apply(FieldOp::Get)
    }

    /// Writes a number; its high bits that do not fit are left out. Returns the former number.
    pub fn set(&self, number: i64) -> Call<i64> {
        self.apply(FieldOp::Set(number))
    }

    /// Adds to the number, and wraps around at its limits. Returns the sum.
    pub fn add(&self, by: i64) -> Call<i64> {
        self.apply(FieldOp::Add(by))
    }

    fn apply(&self, op: FieldOp) -> Call<i64> {
        let BitField { width, is_signed, .. } = self.field;
        let max = if is_signed { 64 } else { 63 };
        if !(1..=max).contains(&width) {
            let error = Error::misused(format!("the number has {width} bits; it must have 1 to {max}"));
            return Call::known(Err(error.at(&self.set.object.key)));
        }
        self.set.object.call(BitsOp::Field(self.field, op), Reply::int)
    }
}

fn one(reply: Reply) -> Result<bool> {
    let flag = reply.flags()?.pop();
    flag.ok_or_else(|| Error::new(ErrorKind::Corrupt, "the store has given no answer for this bit"))
}
