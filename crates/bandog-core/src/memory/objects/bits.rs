//! Bit sets.

use crate::{
    Error, ErrorKind, Result,
    structures::{BitField, BitsOp, Bytes, FieldOp, Reply},
};

/// The number of bits that a bit set can have, as in Redis.
const MAX_BITS: u64 = 1 << 32;

/// Bits. The first one is the highest one of the first byte.
#[derive(Debug, Default)]
pub(super) struct Bits {
    pub(super) bytes: Bytes,
    /// Whether there is a value, which can be empty.
    pub(super) exists: bool,
}

impl Bits {
    pub(super) fn get(&self, index: u64) -> bool {
        let byte = usize::try_from(index / 8).ok().and_then(|byte| self.bytes.get(byte));
        byte.is_some_and(|byte| byte & (0x80 >> (index % 8)) != 0)
    }

    /// Writes a bit, and returns the former one.
    pub(super) fn set(&mut self, index: u64, bit: bool) -> Result<bool> {
        let byte = (index < MAX_BITS).then(|| usize::try_from(index / 8).ok()).flatten().ok_or_else(beyond)?;
        if self.bytes.len() <= byte {
            self.bytes.resize(byte + 1, 0);
        }
        let mask = 0x80 >> (index % 8);
        let before = self.get(index);
        match bit {
            true => self.bytes[byte] |= mask,
            false => self.bytes[byte] &= !mask,
        }
        Ok(before)
    }

    pub(super) fn count(&self) -> i64 {
        self.bytes.iter().map(|byte| i64::from(byte.count_ones())).sum()
    }

    pub(super) fn apply(&mut self, op: &BitsOp) -> Result<Reply> {
        Ok(match op {
            BitsOp::Get(indexes) | BitsOp::Set(indexes, _) if indexes.iter().any(|index| *index >= MAX_BITS) => {
                return Err(beyond());
            }
            BitsOp::Get(indexes) => Reply::Flags(indexes.iter().map(|index| self.get(*index)).collect()),
            BitsOp::Set(indexes, bit) => {
                Reply::Flags(indexes.iter().map(|index| self.set(*index, *bit)).collect::<Result<_>>()?)
            }
            BitsOp::SetRange(from, to, bit) => {
                if *to > MAX_BITS {
                    return Err(beyond());
                }
                (*from..*to).try_for_each(|index| self.set(index, *bit).map(|_| ()))?;
                Reply::Done
            }
            BitsOp::Count => Reply::Int(self.count()),
            BitsOp::Len => {
                let last = self.bytes.iter().rposition(|byte| *byte != 0);
                Reply::Int(last.map_or(0, |last| (last as i64 + 1) * 8 - i64::from(self.bytes[last].trailing_zeros())))
            }
            BitsOp::Not => {
                self.exists = false; // Without bytes, nothing is left.
                self.bytes.iter_mut().for_each(|byte| *byte = !*byte);
                Reply::Done
            }
            BitsOp::Bytes => Reply::Bytes((!self.bytes.is_empty()).then(|| self.bytes.clone())),
            BitsOp::Field(field, op) => Reply::Int(self.field(*field, *op)?),
            // An operation on several objects is applied by `combine`.
            BitsOp::Combine(..) => Reply::Done,
        })
    }

    fn field(&mut self, field: BitField, op: FieldOp) -> Result<i64> {
        let BitField { offset, width, is_signed } = field;
        if offset.saturating_add(width.into()) > MAX_BITS {
            return Err(beyond());
        }
        let number = (offset..).take(width as usize).fold(0_u64, |number, bit| number << 1 | u64::from(self.get(bit)));
        let unused = 64 - width;
        let signed = |number: u64| match is_signed {
            true => (number << unused).cast_signed() >> unused,
            false => (number << unused >> unused).cast_signed(),
        };
        let (new, answer) = match op {
            FieldOp::Get => return Ok(signed(number)),
            FieldOp::Set(new) => (new.cast_unsigned(), signed(number)),
            FieldOp::Add(by) => {
                let sum = number.wrapping_add(by.cast_unsigned());
                (sum, signed(sum))
            }
        };
        for (bit, place) in (offset..).take(width as usize).zip((0..width).rev()) {
            self.set(bit, new >> place & 1 == 1)?;
        }
        Ok(answer)
    }
}

fn beyond() -> Error {
    Error::new(ErrorKind::Misused, "a bit set has at most 4,294,967,296 bits")
}
