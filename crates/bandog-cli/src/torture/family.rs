//! The kinds of locks that the workers use.

use std::num::NonZeroU32;

use bandog::backend::Kind;

/// Number of permits of each semaphore.
pub(super) const PERMITS: NonZeroU32 = NonZeroU32::MIN.saturating_add(2);

/// A kind of lock. All workers use a name as the same kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Family {
    Mutex,
    Fair,
    ReadWrite,
    Semaphore,
}

pub(super) const FAMILIES: [Family; 4] = [Family::Mutex, Family::Fair, Family::ReadWrite, Family::Semaphore];

impl Family {
    /// The kind as text.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Fair => "fair",
            Self::ReadWrite => "read-write",
            Self::Semaphore => "semaphore",
        }
    }

    /// The kind of a claim that excludes all others.
    pub(super) fn exclusive_kind(self) -> Kind {
        match self {
            Self::Mutex => Kind::Mutex,
            Self::Fair => Kind::Fair,
            Self::ReadWrite => Kind::Write,
            Self::Semaphore => Kind::Permits { take: PERMITS, of: PERMITS },
        }
    }

    /// The kind of the next claim: a reader or a writer, or a number of permits, by chance.
    pub(super) fn random_kind(self) -> Kind {
        match self {
            Self::ReadWrite if fastrand::u8(..4) > 0 => Kind::Read,
            Self::Semaphore => Kind::Permits { take: NonZeroU32::MIN.saturating_add(fastrand::u32(..2)), of: PERMITS },
            Self::Mutex | Self::Fair | Self::ReadWrite => self.exclusive_kind(),
        }
    }
}
