//! The values that queues and objects carry: a number, and further bytes. The number decides how many.

use std::{
    ops::Deref,
    panic::resume_unwind,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    thread::panicking,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// One of this number of payloads panics while it is read.
const UNREAD: u64 = 200;
/// The letter that fills a value.
const FILLER: u8 = b'x';
/// The bytes of the shortest encoded value: its quotes, and all digits of its two numbers.
const SHORTEST: usize = 44;

/// The number of bytes of the largest value of this process. 0: all values are short.
static LARGEST: AtomicUsize = AtomicUsize::new(0);
/// Is called with the number of a value that panics while it is read.
static ON_UNREAD: OnceLock<Box<dyn Fn(u64) + Send + Sync>> = OnceLock::new();
/// Whether values panic while they are read.
static PANICS: AtomicBool = AtomicBool::new(false);
/// The number of values that were read.
static READ: AtomicU64 = AtomicU64::new(0);

/// A value with this number. Its encoded form has [`size_of`] bytes, which its reader checks.
#[derive(Debug)]
pub(crate) struct Item {
    number: u64,
    explodes: AtomicBool,
}

impl Item {
    pub(crate) fn new(number: u64) -> Self {
        Self { number, explodes: AtomicBool::new(false) }
    }

    /// From now on, the drop of this value panics.
    pub(crate) fn explode(&self) {
        self.explodes.store(true, Relaxed);
    }
}

impl Deref for Item {
    type Target = u64;

    fn deref(&self) -> &u64 {
        &self.number
    }
}

impl Drop for Item {
    fn drop(&mut self) {
        if self.explodes.load(Relaxed) && !panicking() {
            // This panic prints nothing.
            resume_unwind(Box::new("the drop of a payload has panicked"));
        }
    }
}

impl Serialize for Item {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = format!("{:020}:{:020}:", self.number, size_of(self.number));
        text.extend(std::iter::repeat_n(char::from(FILLER), size_of(self.number).saturating_sub(SHORTEST)));
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let mut parts = text.splitn(3, ':');
        let mut number = || parts.next().and_then(|part| part.parse::<u64>().ok());
        let (Some(number), Some(size), Some(filler)) = (number(), number(), parts.next()) else {
            return Err(de::Error::custom("the value is not one of the storm"));
        };
        let is_whole = text.len() as u64 + 2 == size && filler.bytes().all(|byte| byte == FILLER);
        if !is_whole {
            return Err(de::Error::custom(format!("the value {number} has {} bytes, and had {size}", text.len() + 2)));
        }
        if PANICS.load(Relaxed) && READ.fetch_add(1, Relaxed) % UNREAD == UNREAD - 1 {
            ON_UNREAD.get().inspect(|on_unread| on_unread(number));
            resume_unwind(Box::new("the reader of a payload has panicked"));
        }
        Ok(Self::new(number))
    }
}

/// Sets the number of bytes of the largest value of this process.
pub(crate) fn set_largest(bytes: usize) {
    LARGEST.store(bytes, Relaxed);
}

/// From now on, some values panic while they are read, after this function was called.
pub(crate) fn panic_on_reads(on_unread: impl Fn(u64) + Send + Sync + 'static) {
    // All clients of a process call the first function.
    let _ = ON_UNREAD.set(Box::new(on_unread));
    PANICS.store(true, Relaxed);
}

/// From now on, values are read without panics.
pub(crate) fn read_calmly() {
    PANICS.store(false, Relaxed);
}

/// The number of bytes of an encoded value with this number: most are short, few are as large as is allowed, and very few are
/// too large.
pub(crate) fn size_of(number: u64) -> usize {
    let largest = LARGEST.load(Relaxed);
    size(number, largest)
}

/// As [`size_of`], of a process whose largest value has this number of bytes.
pub(crate) fn size(number: u64, largest: usize) -> usize {
    if largest == 0 {
        return SHORTEST;
    }
    let mut random = fastrand::Rng::with_seed(number);
    match random.u32(..2_000) {
        0 => largest + random.usize(1..1_000),
        1..3 => largest,
        3..20 => random.usize(100 << 10..largest),
        20..200 => random.usize(1 << 10..100 << 10),
        _ => SHORTEST + random.usize(..400),
    }
}

#[cfg(test)]
mod tests {
    use super::{Item, SHORTEST, read_calmly, size};

    #[test]
    fn a_value_is_read_as_it_was_written_and_a_cut_one_is_not() {
        read_calmly();
        let text = serde_json::to_string(&Item::new(u64::MAX)).unwrap();
        assert_eq!(text.len(), SHORTEST);
        assert_eq!(*serde_json::from_str::<Item>(&text).unwrap(), u64::MAX);
        assert!(serde_json::from_str::<Item>(&text.replace("44:", "44:x")).is_err());
        assert!(serde_json::from_str::<Item>(&text.replace("44:", "45:")).is_err());
    }

    #[test]
    fn sizes_are_those_of_the_number_and_few_are_too_large() {
        let sizes: Vec<usize> = (0..100_000).map(|number| size(number, 1 << 20)).collect();
        let share = |of: fn(&usize) -> bool| sizes.iter().filter(|size| of(size)).count();
        assert!((20..100).contains(&share(|size| *size > 1 << 20)));
        assert!((500..1_500).contains(&share(|size| *size > 100 << 10)));
        assert!(share(|size| *size < 1 << 10) > 80_000);
        assert_eq!(size(7, 1 << 20), size(7, 1 << 20));
    }
}
