//! The content of an object, and its structures.

use super::{
    bits::Bits,
    bloom::Bloom,
    journal::Journal,
    multimap::Multimap,
    sorted::Sorted,
    terms::{Ids, List, Map, Set},
    timed::Timed,
};
use crate::structures::Bytes;

/// The content of an object. Values, counters and bit sets are one structure, as in Redis.
#[derive(Debug)]
pub(super) enum Content {
    Value(Bytes),
    Ids(Ids),
    Map(Map),
    Timed(Timed),
    Set(Set),
    List(List),
    Sorted(Sorted),
    Multimap(Multimap),
    Bloom(Bloom),
    Journal(Journal),
}

impl Content {
    /// The number of elements that can be taken; of a journal, a number that rises with them.
    pub(super) fn elements(&self) -> usize {
        match self {
            Self::Set(set) => set.len(),
            Self::List(list) => list.len(),
            Self::Sorted(sorted) => sorted.len(),
            Self::Journal(journal) => journal.elements(),
            Self::Value(_) | Self::Ids(_) | Self::Map(_) | Self::Timed(_) | Self::Multimap(_) | Self::Bloom(_) => 0,
        }
    }

    /// Whether the object exists. The bound of a timed map without entries does not make one.
    pub(super) fn exists(&self) -> bool {
        match self {
            Self::Timed(timed) => timed.exists(),
            _ => true,
        }
    }
}

/// A structure: it is made of a content, and becomes one again.
pub(super) trait Structure: Sized {
    /// The structure with this content. An absent content is an empty structure. A content of another structure is
    /// returned.
    fn of(content: Option<Content>) -> Result<Self, Content>;
    /// The content. None if the structure is empty.
    fn into_content(self) -> Option<Content>;
}

/// Implements [`Structure`] for a collection whose empty form does not exist.
macro_rules! collections {
    ($($variant:ident),*) => {$(
        impl Structure for $variant {
            fn of(content: Option<Content>) -> Result<Self, Content> {
                match content {
                    None => Ok(Self::default()),
                    Some(Content::$variant(content)) => Ok(content),
                    Some(other) => Err(other),
                }
            }

            fn into_content(self) -> Option<Content> {
                (!self.is_empty()).then_some(Content::$variant(self))
            }
        }
    )*};
}

/// Implements [`Structure`] for a content that exists or not.
macro_rules! options {
    ($($variant:ident $content:ty),*) => {$(
        impl Structure for Option<$content> {
            fn of(content: Option<Content>) -> Result<Self, Content> {
                match content {
                    None => Ok(None),
                    Some(Content::$variant(content)) => Ok(Some(content)),
                    Some(other) => Err(other),
                }
            }

            fn into_content(self) -> Option<Content> {
                self.map(Content::$variant)
            }
        }
    )*};
}

collections!(Map, Timed, Set, List, Sorted, Multimap);
options!(Value Bytes, Ids Ids, Bloom Bloom, Journal Journal);

impl Structure for Bits {
    fn of(content: Option<Content>) -> Result<Self, Content> {
        let bytes = Option::<Bytes>::of(content)?;
        Ok(Self { exists: bytes.is_some(), bytes: bytes.unwrap_or_default() })
    }

    fn into_content(self) -> Option<Content> {
        (self.exists || !self.bytes.is_empty()).then_some(Content::Value(self.bytes))
    }
}
