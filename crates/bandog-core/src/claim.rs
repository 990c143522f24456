//! Claims (requests to hold a lock), and their ids.

use std::{fmt, num::NonZeroU32, str::FromStr, time::Duration};

use uuid::Uuid;

use crate::{Error, Fence, Key, Result};

/// Minimum ttl of a lease. The ttl is the time after which a hold expires if it is not renewed.
pub const MIN_TTL: Duration = Duration::from_millis(100);
/// Maximum ttl of a lease: 365 days.
pub const MAX_TTL: Duration = Duration::from_secs(365 * 24 * 3600);

/// Maximum duration of an offer. An offer reserves a released key for starving clients: the clients that have waited
/// for a second or more. See [`Claim::offers`].
pub const OFFER: Duration = Duration::from_millis(250);

/// Time for which a store keeps the place of a waiting claim that is neither sent again nor renewed. See
/// [`Claim::joins`].
pub const PLACE: Duration = Duration::from_secs(5);

/// Checks that a ttl is between [`MIN_TTL`] and [`MAX_TTL`], and returns the ttl. `what` is the name of the ttl in the
/// error message.
///
/// # Errors
/// The kind is [`ErrorKind::Misused`](crate::ErrorKind::Misused) for any other ttl. The message contains the ttl and
/// the allowed range.
pub fn check_ttl(what: &str, ttl: Duration) -> Result<Duration> {
    if (MIN_TTL..=MAX_TTL).contains(&ttl) {
        return Ok(ttl);
    }
    Err(Error::misused(format!("{what} is {ttl:?}; it must be between 100 ms and 365 days")))
}

/// The id of a client: a UUID of version 8.
///
/// The ids of Redisson (a Java library whose clients can use the same locks) are of version 4. So a tool can
/// distinguish a bandog client from a Java client.
///
/// ```
/// use bandog::admin::ClientId;
/// let id = ClientId::random();
/// assert_eq!(id.to_string().parse::<ClientId>()?, id);
/// assert!("957c1da6-54c9-4017-93c7-a4ef987df61c".parse::<ClientId>().is_err(), "version 4");
/// # Ok::<(), bandog::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(Uuid);

impl ClientId {
    /// Creates a random id from the operating system's random numbers.
    pub fn random() -> Self {
        Self(Uuid::new_v8(*Uuid::new_v4().as_bytes()))
    }

    /// Whether the text `owner` was written by a bandog client. For each holder of a lock, a store keeps such a text in
    /// the format `uuid:number`.
    pub fn made(owner: &str) -> bool {
        let Some((uuid, number)) = owner.split_once(':') else {
            return false;
        };
        number.parse::<u64>().is_ok() && Uuid::parse_str(uuid).is_ok_and(|uuid| uuid.get_version_num() == 8)
    }

    /// Whether this text has the format of an owner, which Redisson has, too: a UUID of 36 characters, a colon and a number.
    pub fn is_owner(text: &str) -> bool {
        let Some((uuid, number)) = text.split_once(':') else { return false };
        uuid.len() == 36 && Uuid::try_parse(uuid).is_ok() && number.parse::<i64>().is_ok()
    }
}

/// Parses the format of `Display`. Any other text is refused with [`ErrorKind::Misused`](crate::ErrorKind::Misused).
impl FromStr for ClientId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let id = Uuid::parse_str(text).ok().filter(|uuid| uuid.get_version_num() == 8).map(Self);
        id.filter(|id| id.to_string() == text).ok_or_else(|| {
            Error::misused(format!(
                "{text:?} is not the id of a client, which is a UUID of version 8 in lower case with hyphens"
            ))
        })
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The id of one claim of one client. Its text is `uuid:number`, the format of Redisson's owner field.
///
/// No two claims have the same id, so the store recognizes a claim that is sent again. So a client can safely repeat a
/// request whose answer was lost. A client can also safely release a claim after the caller has dropped the future that
/// waited for the claim.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimId {
    /// The client that makes the claim.
    pub client: ClientId,
    /// The number of the claim. Each claim of a client has a greater number than the claim before it.
    pub number: u64,
}

impl ClaimId {
    /// The id that a store keeps as the holder of a lock during an offer. The offer reserves the lock for starving
    /// clients (see [`Claim::offers`]). No claim of a client has this id.
    pub const OFFERED: Self =
        Self { client: ClientId(Uuid::from_u128(0x0000_0000_0000_8000_8000_0000_0000_0000)), number: 0 };
}

/// Parses the format of `Display`. Any other text is refused with [`ErrorKind::Misused`](crate::ErrorKind::Misused).
impl FromStr for ClaimId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parse_parts = || {
            let (client, number) = text.split_once(':')?;
            Some(Self { client: client.parse().ok()?, number: number.parse().ok()? })
        };
        // A number can be written in several ways, such as `7` and `+7`. Only the text of `Display` is accepted.
        parse_parts().filter(|id| id.to_string() == text).ok_or_else(|| {
            Error::misused(format!(
                "{text:?} is not the id of a claim, which is the id of a client, a colon and a number"
            ))
        })
    }
}

impl fmt::Display for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.client, self.number)
    }
}

impl fmt::Debug for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The kind of a claim. Each backend has a `match` over all kinds. So if a kind is added, a backend that does not
/// handle the new kind no longer compiles.
///
/// A name can be used by one *family* of kinds at a time ([`Kind::family`]). As long as a claim of one family holds the
/// name, a claim of another family is refused with an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A mutex: one holder at a time. The order in which clients get the lock is not promised.
    Mutex,
    /// A fair mutex: one holder at a time. The store keeps a queue of the waiting claims ([`Claim::joins`]), and grants
    /// the lock in the order of this queue. [`Kind::Mutex`] and this kind exclude each other on the same name, but a
    /// claim of [`Kind::Mutex`] does not respect the queue.
    Fair,
    /// The shared side of a read-write lock: any number of holders at a time, as long as no claim of [`Kind::Write`]
    /// holds the lock.
    Read,
    /// The exclusive side of a read-write lock: one holder, and no holder of [`Kind::Read`] at the same time.
    Write,
    /// Permits of a semaphore. The claim takes all of its permits or none.
    Permits {
        /// The number of permits that the claim takes.
        take: NonZeroU32,
        /// The limit: the number of permits that the semaphore has. If the store has another limit for this name, the
        /// claim is refused with an error.
        of: NonZeroU32,
    },
}

impl Kind {
    /// The family of the kind. Claims of one family work together on the same name.
    pub const fn family(self) -> Family {
        match self {
            Self::Mutex | Self::Fair => Family::Mutex,
            Self::Read | Self::Write => Family::ReadWrite,
            Self::Permits { .. } => Family::Semaphore,
        }
    }

    /// The name of this kind of lock, as the command, the page and JSON show it: `mutex`, `fair`, `read-write` or
    /// `semaphore`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Fair => "fair",
            Self::Read | Self::Write => "read-write",
            Self::Permits { .. } => "semaphore",
        }
    }

    /// Whether a client asks for a single fence in each claim of this kind: all readers of a claim share its fence.
    pub const fn has_one_fence(self) -> bool {
        match self {
            Self::Read => true,
            Self::Mutex | Self::Fair | Self::Write | Self::Permits { .. } => false,
        }
    }

    /// The number of permits that a claim of this kind takes. 0 for the kinds without permits.
    pub const fn permits(self) -> u32 {
        match self {
            Self::Permits { take, .. } => take.get(),
            Self::Mutex | Self::Fair | Self::Read | Self::Write => 0,
        }
    }
}

/// Writes `mutex`, `fair`, `read`, `write`, or `permits:2/5` (2 of 5 permits). `FromStr` reads this text.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mutex => f.write_str("mutex"),
            Self::Fair => f.write_str("fair"),
            Self::Read => f.write_str("read"),
            Self::Write => f.write_str("write"),
            Self::Permits { take, of } => write!(f, "permits:{take}/{of}"),
        }
    }
}

/// Parses the format of `Display`. Any other text is refused with [`ErrorKind::Misused`](crate::ErrorKind::Misused).
impl FromStr for Kind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let permits = || {
            let (take, of) = text.strip_prefix("permits:")?.split_once('/')?;
            Some(Self::Permits { take: take.parse().ok()?, of: of.parse().ok()? })
        };
        let kind = match text {
            "mutex" => Some(Self::Mutex),
            "fair" => Some(Self::Fair),
            "read" => Some(Self::Read),
            "write" => Some(Self::Write),
            _ => permits(),
        };
        // A number can be written in several ways, such as `7` and `+7`. Only the text of `Display` is accepted.
        kind.filter(|kind| kind.to_string() == text)
            .ok_or_else(|| Error::misused(format!("{text:?} is not a kind of lock")))
    }
}

/// A family of kinds whose claims work together on the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// [`Kind::Mutex`] and [`Kind::Fair`].
    Mutex,
    /// [`Kind::Read`] and [`Kind::Write`].
    ReadWrite,
    /// [`Kind::Permits`].
    Semaphore,
}

/// Writes `a mutex`, `a read-write lock` or `a semaphore`, for messages.
impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mutex => "a mutex",
            Self::ReadWrite => "a read-write lock",
            Self::Semaphore => "a semaphore",
        })
    }
}

/// A set of kinds of locks. It says which kinds a backend supports.
///
/// ```
/// use bandog::backend::{Kind, Kinds};
/// assert!(Kinds::MUTEX.contains(Kind::Mutex) && !Kinds::NONE.contains(Kind::Mutex));
/// assert!(Kinds::MUTEX.and(Kinds::READ_WRITE).contains(Kind::Read));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kinds(u8);

impl Kinds {
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// [`Kind::Mutex`] alone.
    pub const MUTEX: Self = Self(1);
    /// [`Kind::Fair`] alone.
    pub const FAIR: Self = Self(2);
    /// [`Kind::Read`] and [`Kind::Write`].
    pub const READ_WRITE: Self = Self(4);
    /// [`Kind::Permits`] alone.
    pub const PERMITS: Self = Self(8);

    /// The union of both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether this kind is in the set.
    pub const fn contains(self, kind: Kind) -> bool {
        let set_of_kind = match kind {
            Kind::Mutex => Self::MUTEX,
            Kind::Fair => Self::FAIR,
            Kind::Read | Kind::Write => Self::READ_WRITE,
            Kind::Permits { .. } => Self::PERMITS,
        };
        self.0 & set_of_kind.0 != 0
    }
}

/// A client's request to hold a key for a limited time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The name of the lock.
    pub key: Key,
    /// The id of this claim.
    pub id: ClaimId,
    /// The kind of the lock.
    pub kind: Kind,
    /// The requested duration of a hold that is not renewed. The store is allowed to grant a shorter duration
    /// ([`crate::Verdict::Granted`]).
    pub ttl: Duration,
    /// The maximum number of fences that a grant reserves. During one hold, the client can give the lock to several of
    /// its own callers, one after the other, and each caller needs its own fence. The store is allowed to reserve fewer
    /// fences ([`crate::Verdict::Granted`]).
    pub fences: NonZeroU32,
    /// A fence that all fences of the grant exceed. None in a step of a client: only a quorum asks for it, so that the
    /// fences of its nodes agree. In a renewal, it is the fence before the fences of the hold. Only a quorum uses it: a node
    /// that has lost the hold grants it again with the same or with greater fences.
    ///
    /// If the claim holds the key already, and one of its fences is not greater than `above`, the store reserves a new
    /// block of fences for the hold. The new block replaces the old block. It is the smallest block whose fences are
    /// greater than `above` and greater than the fences of all other grants. In any other case, a claim that is sent
    /// again keeps its fences.
    pub above: Option<Fence>,
    /// Whether the store keeps a *place* for this claim if it refuses the claim. The place lasts for [`PLACE`], counted
    /// from the last time at which the claim was sent again or renewed. A release of the claim removes its place.
    ///
    /// - [`Kind::Fair`]: the place is a position in the queue of the lock. A claim without a place gets the lock only
    ///   if the lock is free and no claim has a place. Such a claim is a `try_lock`.
    /// - [`Kind::Write`]: while a claim of a writer has a place, new claims of readers are refused, so that the writer
    ///   does not starve. Exception: claims of starving readers ([`Claim::offers`]).
    /// - [`Kind::Permits`]: a claim that starves and has a place is served before claims that do not starve. So a claim
    ///   for many permits does not wait forever while other clients take one permit each.
    /// - [`Kind::Mutex`] and [`Kind::Read`] have no places.
    pub joins: bool,
    /// Whether this step takes part in offers. An offer reserves a released key for starving clients: the clients that
    /// have waited for a second or more.
    ///
    /// In a step that claims the key, `offers` means that the client starves. If the store refuses the claim, the store
    /// writes a note that a client starves for the key.
    ///
    /// In a step that releases the key, `offers` means that the store checks for this note. If the note exists, the
    /// store removes the note and makes an offer: for at most [`OFFER`], the store grants the key only to claims with
    /// `offers`. A store that can check for the note without extra cost is allowed to check at every release.
    ///
    /// A client that stops waiting for the key also releases its claim, although the claim does not hold the key. If
    /// such a release has `offers`, the store removes the note. If other clients starve for the key, their next claims
    /// write the note again.
    ///
    /// For the other kinds, `offers` in a claim also means that the client starves:
    /// - [`Kind::Write`]: as for a mutex.
    /// - [`Kind::Read`]: as for a mutex, and the claim is granted although writers have places ([`Claim::joins`]).
    /// - [`Kind::Permits`]: see [`Claim::joins`]. There are no offers.
    /// - [`Kind::Fair`]: no effect, because its queue is fair.
    pub offers: bool,
}

impl Claim {
    /// A claim whose grant reserves one fence, and that keeps no place and takes no part in offers.
    pub fn new(key: Key, id: ClaimId, kind: Kind, ttl: Duration) -> Self {
        Self { key, id, kind, ttl, fences: NonZeroU32::MIN, above: None, joins: false, offers: false }
    }
}
