//! The sizes and the bits of a Bloom filter of Redisson.

use std::f64::consts::LN_2;

use super::h128;
use crate::decimal::whole;

/// The greatest size in bits: one more does not fit in a string of Redis.
const GREATEST: u64 = 4_294_967_294;

/// The shape of an `RBloomFilter`: its size in bits, and the number of bits of an element.
///
/// The hash `{name}:config` has the fields `size`, `hashIterations`, `expectedInsertions` and `falseProbability`; the last
/// one is the text of [`number::java`](crate::number::java). The bits are in the string `name`.
///
/// ```
/// use bandog_codec::hash::Bloom;
///
/// let bloom = Bloom::expecting(1000, 0.03).unwrap();
/// assert_eq!((bloom.size(), bloom.iterations()), (7298, 5));
/// let bits: Vec<_> = bloom.bits(b"\x03v\xb1").collect();
/// assert_eq!(bits, [6155, 2965, 2634, 6742, 5599]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bloom {
    size: u64,
    iterations: u32,
}

impl Bloom {
    /// The shape for this number of elements, and this probability that an absent element is found. `None` for the shapes
    /// that Redisson refuses: probabilities outside of 0 to 1, and sizes of 0 bits or more than 4,294,967,294.
    ///
    /// The formula has logarithms, whose last bit may differ between systems. So a program stores the size, and does not
    /// compute it again.
    pub fn expecting(elements: u64, false_probability: f64) -> Option<Self> {
        if !(0.0..=1.0).contains(&false_probability) {
            return None;
        }
        let smallest = f64::from_bits(1);
        let elements = elements as f64;
        let bits = -elements * false_probability.max(smallest).ln() / (LN_2 * LN_2);
        let size = Some(whole(bits)).filter(|size| (1..=GREATEST).contains(size))?;
        let iterations = whole(size as f64 / elements * LN_2 + 0.5).max(1);
        Self::with(size, u32::try_from(iterations).ok()?)
    }

    /// The shape that the configuration of a filter contains. `None` if a number is 0 or too great.
    pub fn with(size: u64, iterations: u32) -> Option<Self> {
        let is_valid = (1..=GREATEST).contains(&size) && iterations > 0;
        is_valid.then_some(Self { size, iterations })
    }

    /// The size in bits: the field `size`.
    pub fn size(self) -> u64 {
        self.size
    }

    /// The number of bits of an element: the field `hashIterations`.
    pub fn iterations(self) -> u32 {
        self.iterations
    }

    /// The indexes of the bits of an encoded element, in Redisson's order. An index may come twice.
    pub fn bits(self, element: &[u8]) -> impl Iterator<Item = u64> {
        let [first, second] = h128(element);
        let mut hash = first;
        (0..self.iterations).map(move |turn| {
            let index = (hash & i64::MAX as u64) % self.size;
            hash = hash.wrapping_add(if turn % 2 == 0 { second } else { first });
            index
        })
    }

    /// The estimated number of elements in a filter of which this number of bits is set.
    pub fn count(self, ones: u64) -> u64 {
        let size = self.size as f64;
        let count = -size / f64::from(self.iterations) * (1.0 - ones as f64 / size).ln();
        whole(count + 0.5)
    }
}
