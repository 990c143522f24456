//! The structures of contents, and what several of them need.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    hash::{BuildHasher, Hasher, RandomState},
};

use crate::{Error, ErrorKind, structures::Bytes};

pub(super) type List = VecDeque<Bytes>;
pub(super) type Map = BTreeMap<Bytes, Bytes>;
pub(super) type Set = BTreeSet<Bytes>;

/// A block of ids.
#[derive(Debug)]
pub(super) struct Ids {
    pub(super) next: i64,
    pub(super) size: u64,
}

/// The error of a number beyond its limits.
pub(super) fn overflow() -> Error {
    Error::new(ErrorKind::Denied, "the number would overflow")
}

/// The error of a value that is no number.
pub(super) fn no_number() -> Error {
    Error::new(ErrorKind::Denied, "the value is not a number")
}

/// The elements of a range of indexes, which may be negative and beyond the length.
pub(super) fn range(len: usize, from: i64, to: i64) -> std::ops::Range<usize> {
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let from_start = |index: i64| if index < 0 { len.saturating_add(index) } else { index };
    let (from, to) = (from_start(from).max(0), from_start(to).min(len - 1));
    let index = |index: i64| usize::try_from(index).unwrap_or(0);
    if from > to { 0..0 } else { index(from)..index(to) + 1 }
}

/// The index of an element, if it exists.
pub(super) fn index(len: usize, index: i64) -> Option<usize> {
    range(len, index, index).next().filter(|_| index >= 0 || index.unsigned_abs() <= len as u64)
}

/// A random number below `limit`, which must not be 0.
pub(super) fn random(limit: usize) -> usize {
    let random = RandomState::new().build_hasher().finish();
    usize::try_from(random % (limit as u64)).unwrap_or(0)
}
