//! Lists that cross a wire, bounded in items and in bytes.

/// The bytes of one request or of one answer, beside its first item, which has a limit of its own.
pub const PORTION: usize = 1 << 20;

/// How much a list may still take: a number of items, and their bytes. The first item is taken whatever its length is.
///
/// ```
/// use bandog::backend::Portion;
/// let mut portion = Portion::new(3, 10);
/// let lengths = [25, 0, 1, 1];
/// assert_eq!(lengths.map(|length| portion.takes(length)), [true, false, false, false]);
/// let mut portion = Portion::new(3, 10);
/// let lengths = [4, 6, 0, 0];
/// assert_eq!(lengths.map(|length| portion.takes(length)), [true, true, true, false]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Portion {
    items: usize,
    bytes: usize,
    is_begun: bool,
}

impl Portion {
    /// At most this number of items, of at most this number of bytes.
    pub fn new(items: usize, bytes: usize) -> Self {
        Self { items, bytes, is_begun: false }
    }

    /// Whether the next item, with this number of bytes, is part of the list. After the first one that is not, no other is:
    /// the list keeps its order.
    pub fn takes(&mut self, bytes: usize) -> bool {
        let left = self.bytes.checked_sub(bytes);
        let fits = self.items > 0 && (!self.is_begun || left.is_some());
        self.items = if fits && left.is_some() { self.items - 1 } else { 0 };
        self.bytes = left.unwrap_or(0);
        self.is_begun = true;
        fits
    }

    /// The number of items that it may still take, and their bytes.
    pub fn left(&self) -> (usize, usize) {
        (self.items, self.bytes)
    }

    /// As [`Portion::left`], for requests.
    pub fn limits(&self) -> [u32; 2] {
        [self.items, self.bytes].map(|number| u32::try_from(number).unwrap_or(u32::MAX))
    }

    /// Whether it takes nothing more.
    pub fn is_full(&self) -> bool {
        self.items == 0
    }

    /// The first items of a list, of which each has this number of bytes.
    pub fn first<T>(mut self, list: &[T], bytes: impl Fn(&T) -> usize) -> &[T] {
        let number = list.iter().take_while(|item| self.takes(bytes(item))).count();
        &list[..number]
    }
}

/// The portion of the next request of a kind: a fourth of the bytes, and a sixteenth of the items, after each request that had
/// no answer in time, and twice the bytes after each one that was answered, up to a whole portion. So a wire that is too slow for
/// a megabyte within the timeout of a request still carries what is smaller. The size that had no answer is tried again after 64
/// answers of smaller ones.
///
/// ```
/// use bandog::backend::{PORTION, Portion, Portions};
/// let mut portions = Portions::default();
/// portions.failed();
/// assert_eq!(portions.next(1_000), Portion::new(62, PORTION / 4));
/// portions.answered();
/// assert_eq!(portions.next(1_000), Portion::new(250, PORTION / 2));
/// (0..62).for_each(|_| portions.answered());
/// assert_eq!(portions.next(1_000), Portion::new(250, PORTION / 2));
/// portions.answered();
/// assert_eq!(portions.next(1_000), Portion::new(1_000, PORTION));
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Portions {
    /// The bytes of a portion are one of 2 to the power of this number of parts.
    halvings: u32,
    /// The portion that had no answer, and the number of answers until it is tried again.
    avoided: Option<(u32, u32)>,
    is_failing: bool,
}

/// The number of answers after which a portion that had no answer is tried again.
const PATIENCE: u32 = 64;

impl Portions {
    /// The next portion, if a whole one has this number of items. It has at least one.
    pub fn next(self, items: usize) -> Portion {
        Portion::new((items >> (self.halvings * 2)).max(1), PORTION >> self.halvings)
    }

    /// A request has had no answer, or may have been lost because of its size.
    pub fn failed(&mut self) {
        // A store that is away does not answer smaller ones either.
        if !self.is_failing {
            self.avoided = Some((self.halvings, PATIENCE));
        }
        self.is_failing = true;
        self.halvings = (self.halvings + 2).min(PORTION.ilog2());
    }

    /// A request was refused: the next one has one item.
    pub fn one_by_one(&mut self) {
        self.halvings = PORTION.ilog2();
    }

    /// A request was answered.
    pub fn answered(&mut self) {
        self.is_failing = false;
        self.avoided =
            self.avoided.filter(|(_, answers)| *answers > 1).map(|(avoided, answers)| (avoided, answers - 1));
        if self.avoided.is_none_or(|(avoided, _)| self.halvings > avoided + 1) {
            self.halvings = self.halvings.saturating_sub(1);
        }
    }
}
