//! The binary layouts that Redisson puts around encoded values: entries and messages of `RMapCache`, messages of
//! `RLocalCachedMap`, items of `RDelayedQueue`.
//!
//! `RMapCache` and `RDelayedQueue` pack with `struct` of Redis's Lua, so on the usual servers numbers are little-endian;
//! `RLocalCachedMap` packs in Java, big-endian.

use std::time::Duration;

use crate::{Corrupt, Unencodable, decimal::whole};

/// An encoded value in the hash of an `RMapCache`: f64 LE idle time in ms, u64 LE length, value.
///
/// ```
/// use bandog_codec::pack::CacheEntry;
///
/// let entry = CacheEntry { max_idle: None, value: b"v1" };
/// let bytes = entry.encode();
/// assert_eq!(bytes, b"\0\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0v1");
/// assert_eq!(CacheEntry::decode(&bytes)?, entry);
/// # Ok::<(), bandog_codec::Corrupt>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheEntry<'a> {
    /// The entry expires when it was not read for this time. `None`: it does not expire so. In the store the time is a
    /// number of milliseconds, and is rounded up.
    pub max_idle: Option<Duration>,
    /// The encoded value.
    pub value: &'a [u8],
}

impl<'a> CacheEntry<'a> {
    /// The bytes of the hash's field.
    pub fn encode(&self) -> Vec<u8> {
        let idle = self.max_idle.map_or(0, |idle| idle.as_nanos().div_ceil(1_000_000));
        let mut bytes = (idle as f64).to_le_bytes().to_vec();
        push_long(self.value, &mut bytes);
        bytes
    }

    /// Reads the bytes of the hash's field.
    ///
    /// # Errors
    /// [`Corrupt`] if the bytes have another layout.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Corrupt> {
        let mut unread = Unread { bytes, whole: bytes.len(), layout: "RMapCache entry" };
        let idle = f64::from_le_bytes(unread.array("an idle time")?);
        let is_time = (0.0..=u64::MAX as f64).contains(&idle);
        let idle = is_time.then_some(whole(idle.ceil())).ok_or_else(|| unread.corrupt("an idle time"))?;
        let value = unread.long("a value with its length")?;
        unread.end(Self { max_idle: Some(Duration::from_millis(idle)).filter(|idle| !idle.is_zero()), value })
    }
}

/// A message of an `RMapCache`: u64 LE length and bytes of the key, of the value, and on the channel for updates also of
/// the old value.
///
/// ```
/// use bandog_codec::pack::CacheEvent;
///
/// let created = CacheEvent { key: b"k1", value: b"v1", old: None };
/// assert_eq!(created.encode(), b"\x02\0\0\0\0\0\0\0k1\x02\0\0\0\0\0\0\0v1");
/// assert_eq!(CacheEvent::decode(&created.encode())?, created);
/// # Ok::<(), bandog_codec::Corrupt>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheEvent<'a> {
    /// The encoded key.
    pub key: &'a [u8],
    /// The encoded value. On the channels for removed and expired entries it is the last one.
    pub value: &'a [u8],
    /// The encoded value before an update.
    pub old: Option<&'a [u8]>,
}

impl<'a> CacheEvent<'a> {
    /// The bytes of the message.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        [Some(self.key), Some(self.value), self.old].into_iter().flatten().for_each(|part| push_long(part, &mut bytes));
        bytes
    }

    /// Reads the bytes of a message.
    ///
    /// # Errors
    /// [`Corrupt`] if the bytes have another layout.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Corrupt> {
        let mut unread = Unread { bytes, whole: bytes.len(), layout: "RMapCache message" };
        let (key, value) = (unread.long("a key with its length")?, unread.long("a value with its length")?);
        let old = (!unread.bytes.is_empty()).then(|| unread.long("an old value with its length")).transpose()?;
        unread.end(Self { key, value, old })
    }
}

/// A message of an `RLocalCachedMap`. Ids and hashes have 16 bytes; a hash is
/// [`h128_bytes`](crate::hash::h128_bytes) of an encoded key.
///
/// The types 3 to 6 of transactions are not read: a receiver of such a [`Corrupt`] message drops all of its copies.
///
/// ```
/// use bandog_codec::{hash::h128_bytes, pack::LocalCacheMessage};
///
/// let message = LocalCacheMessage::Invalidate { sender: [0; 16], hashes: vec![h128_bytes(b"k1")] };
/// let bytes = message.encode()?;
/// assert_eq!((bytes[0], bytes.len()), (1, 37));
/// assert_eq!(LocalCacheMessage::decode(&bytes)?, message);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalCacheMessage<'a> {
    /// All copies are old: type 0, sender, request, flag.
    Clear {
        /// The id of the instance that has sent the message, and ignores it.
        sender: [u8; 16],
        /// The id in the name of the semaphore that counts answers.
        request: [u8; 16],
        /// Whether each receiver releases a permit of this semaphore.
        answer: bool,
    },
    /// The copies of these keys are old: type 1, sender, i32 BE count, hashes.
    Invalidate {
        /// The id of the instance that has sent the message, and ignores it.
        sender: [u8; 16],
        /// The hashes of the encoded keys.
        hashes: Vec<[u8; 16]>,
    },
    /// These keys have new values: type 2, sender, and for each entry i32 BE length, key, i32 BE length, value.
    Update {
        /// The id of the instance that has sent the message, and ignores it.
        sender: [u8; 16],
        /// Encoded keys and values, at least one pair: Java cannot read an empty message.
        entries: Vec<(&'a [u8], &'a [u8])>,
    },
}

impl<'a> LocalCacheMessage<'a> {
    /// The bytes of the message.
    ///
    /// # Errors
    /// [`Unencodable`] if a length or the number of hashes does not fit in an `i32`, or an update has no entries.
    pub fn encode(&self) -> Result<Vec<u8>, Unencodable> {
        let mut bytes = Vec::new();
        match self {
            Self::Clear { sender, request, answer } => {
                bytes.push(0);
                bytes.extend([sender, request].into_iter().flatten());
                bytes.push((*answer).into());
            }
            Self::Invalidate { sender, hashes } => {
                bytes.push(1);
                bytes.extend(sender);
                bytes.extend(count(hashes.len())?);
                bytes.extend(hashes.as_flattened());
            }
            Self::Update { entries, .. } if entries.is_empty() => {
                return Err(Unencodable::new(LOCAL, "an update has at least one entry"));
            }
            Self::Update { sender, entries } => {
                bytes.push(2);
                bytes.extend(sender);
                for part in entries.iter().flat_map(|(key, value)| [key, value]) {
                    bytes.extend(count(part.len())?);
                    bytes.extend_from_slice(part);
                }
            }
        }
        Ok(bytes)
    }

    /// Reads the bytes of a message.
    ///
    /// # Errors
    /// [`Corrupt`] if the bytes have another layout or another type.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Corrupt> {
        let mut unread = Unread { bytes, whole: bytes.len(), layout: LOCAL };
        let message = match unread.array("a type")? {
            [0] => {
                let (sender, request) = (unread.array("a sender")?, unread.array("a request")?);
                let [flag] = unread.array("a flag")?;
                Self::Clear { sender, request, answer: flag != 0 }
            }
            [1] => {
                let sender = unread.array("a sender")?;
                let count = u32::from_be_bytes(unread.array("a count")?);
                let hashes = unread.take((count as usize).saturating_mul(16), "hashes")?.as_chunks().0.to_vec();
                Self::Invalidate { sender, hashes }
            }
            [2] => {
                let sender = unread.array("a sender")?;
                let mut entries = vec![(unread.int("a key")?, unread.int("a value")?)];
                while !unread.bytes.is_empty() {
                    entries.push((unread.int("a key")?, unread.int("a value")?));
                }
                Self::Update { sender, entries }
            }
            _ => return Err(Corrupt::new(LOCAL, "a message of type 0, 1 or 2").advise("drop all copies")),
        };
        unread.end(message)
    }
}

/// An item of an `RDelayedQueue`: `08`, 8 random bytes, u64 LE length, value.
///
/// ```
/// use bandog_codec::pack::DelayedItem;
///
/// let item = DelayedItem { id: *b"8 random", value: b"v1" };
/// assert_eq!(item.encode(), b"\x088 random\x02\0\0\0\0\0\0\0v1");
/// assert_eq!(DelayedItem::decode(&item.encode())?, item);
/// # Ok::<(), bandog_codec::Corrupt>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelayedItem<'a> {
    /// Random bytes, by which two items with one value differ.
    pub id: [u8; 8],
    /// The encoded value.
    pub value: &'a [u8],
}

impl<'a> DelayedItem<'a> {
    /// The bytes of the item.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![8];
        bytes.extend(self.id);
        push_long(self.value, &mut bytes);
        bytes
    }

    /// Reads the bytes of an item.
    ///
    /// # Errors
    /// [`Corrupt`] if the bytes have another layout.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Corrupt> {
        let mut unread = Unread { bytes, whole: bytes.len(), layout: "RDelayedQueue item" };
        let [8] = unread.array("the length 8 of an id")? else {
            return Err(Corrupt::new(unread.layout, "the length 8 of an id").at(0));
        };
        let (id, value) = (unread.array("an id")?, unread.long("a value with its length")?);
        unread.end(Self { id, value })
    }
}

const LOCAL: &str = "RLocalCachedMap message";

fn push_long(part: &[u8], to: &mut Vec<u8>) {
    to.extend((part.len() as u64).to_le_bytes());
    to.extend_from_slice(part);
}

fn count(count: usize) -> Result<[u8; 4], Unencodable> {
    let count = i32::try_from(count).map_err(|_| Unencodable::new(LOCAL, "a length does not fit in an i32"));
    count.map(i32::to_be_bytes)
}

/// The bytes that were not read yet.
struct Unread<'a> {
    bytes: &'a [u8],
    /// The number of all bytes.
    whole: usize,
    layout: &'static str,
}

impl<'a> Unread<'a> {
    fn corrupt(&self, expected: &'static str) -> Corrupt {
        Corrupt::new(self.layout, expected).at(self.whole - self.bytes.len())
    }

    fn take(&mut self, count: usize, expected: &'static str) -> Result<&'a [u8], Corrupt> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or_else(|| self.corrupt(expected))?;
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, expected: &'static str) -> Result<[u8; N], Corrupt> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or_else(|| self.corrupt(expected))?;
        self.bytes = rest;
        Ok(*taken)
    }

    /// Bytes behind their length as u64 LE.
    fn long(&mut self, expected: &'static str) -> Result<&'a [u8], Corrupt> {
        let count = u64::from_le_bytes(self.array(expected)?);
        let count = usize::try_from(count).map_err(|_| self.corrupt(expected))?;
        self.take(count, expected)
    }

    /// Bytes behind their length as i32 BE.
    fn int(&mut self, expected: &'static str) -> Result<&'a [u8], Corrupt> {
        let count = u32::from_be_bytes(self.array(expected)?);
        self.take(count as usize, expected)
    }

    fn end<T>(self, value: T) -> Result<T, Corrupt> {
        if self.bytes.is_empty() { Ok(value) } else { Err(self.corrupt("no more bytes")) }
    }
}
