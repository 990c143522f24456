//! Who asks for what.

use std::{fmt, num::NonZeroU32, str::FromStr, time::Duration};

use uuid::Uuid;

use crate::{Error, Key, Result};

/// The shortest ttl of a lease.
pub const MIN_TTL: Duration = Duration::from_millis(100);
/// The longest ttl of a lease: 365 days.
pub const MAX_TTL: Duration = Duration::from_secs(365 * 24 * 3600);

/// How long a released key is kept for clients that starve for it, if none of them takes it.
pub const OFFER: Duration = Duration::from_millis(250);

/// Checks that a ttl is between [`MIN_TTL`] and [`MAX_TTL`]; `what` names the value in the error.
///
/// # Errors
/// `Misused` with the value and what is allowed.
pub fn check_ttl(what: &str, ttl: Duration) -> Result<Duration> {
    if (MIN_TTL..=MAX_TTL).contains(&ttl) {
        return Ok(ttl);
    }
    Err(Error::misused(format!("{what} is {ttl:?}; it takes 100 ms to 365 days")))
}

/// One client: a UUID of version 8, so that tools can tell it from Redisson's, which are of version 4.
///
/// ```
/// use bandog::ClientId;
/// let id = ClientId::random();
/// assert_eq!(id.to_string().parse::<ClientId>()?, id);
/// assert!("957c1da6-54c9-4017-93c7-a4ef987df61c".parse::<ClientId>().is_err(), "version 4");
/// # Ok::<(), bandog::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(Uuid);

impl ClientId {
    /// A new client's id, from the operating system's randomness.
    pub fn random() -> Self {
        Self(Uuid::new_v8(*Uuid::new_v4().as_bytes()))
    }

    /// Whether the text of an owner (`uuid:number`) was made by a bandog client.
    pub fn made(owner: &str) -> bool {
        let Some((uuid, number)) = owner.split_once(':') else {
            return false;
        };
        number.parse::<u64>().is_ok() && Uuid::parse_str(uuid).is_ok_and(|uuid| uuid.get_version_num() == 8)
    }
}

/// Reads what `Display` writes. `Misused` for anything else.
impl FromStr for ClientId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let id = Uuid::parse_str(text).ok().filter(|uuid| uuid.get_version_num() == 8).map(Self);
        id.filter(|id| id.to_string() == text).ok_or_else(|| {
            Error::misused(format!("{text:?} is no client; it takes a UUID of version 8 in lower case with hyphens"))
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

/// One claim of one client, printed `uuid:number`: Redisson's owner field.
///
/// No two claims ever share an id. It is what makes every retry, lost reply and dropped future harmless.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimId {
    /// The client that claims.
    pub client: ClientId,
    /// Grows with every claim of that client.
    pub number: u64,
}

impl ClaimId {
    /// Holds a lock that is offered to clients that starve for it, for [`OFFER`]. No client has this id.
    pub const OFFERED: Self =
        Self { client: ClientId(Uuid::from_u128(0x0000_0000_0000_8000_8000_0000_0000_0000)), number: 0 };
}

/// Reads what `Display` writes. `Misused` for anything else.
impl FromStr for ClaimId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let read = || {
            let (client, number) = text.split_once(':')?;
            Some(Self { client: client.parse().ok()?, number: number.parse().ok()? })
        };
        // A number has several spellings, such as `+7`, and only one of them is written.
        read().filter(|id| id.to_string() == text).ok_or_else(|| {
            Error::misused(format!("{text:?} is no claim; it takes a client's id, a colon and a number"))
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

/// What kind of lock is claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One holder at a time, in no promised order between clients.
    Mutex,
}

/// A wish to hold a key for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// What is claimed.
    pub key: Key,
    /// Who claims.
    pub id: ClaimId,
    /// As what.
    pub kind: Kind,
    /// For how long, if nobody renews it.
    pub ttl: Duration,
    /// How many fences a grant reserves, one for each turn that the client may give within itself.
    pub fences: NonZeroU32,
    /// Whether offers matter to this step.
    ///
    /// A claim: the client has waited so long that it goes before others. If it is refused, the store notes that a
    /// client starves for the key. A release: if such a note is there, the key is offered to such claims alone, for
    /// [`OFFER`] at most; the release of a claim that does not hold the key removes the note, and other clients that
    /// starve leave it again. A store that would look for the note without a cost may do so at every release.
    pub offers: bool,
}
