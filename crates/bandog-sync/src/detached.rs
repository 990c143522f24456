//! Locks that stay in the store without a guard.

use std::{fmt, num::NonZeroU32, str::FromStr, time::Duration};

use bandog_core::{
    Answer, Claim, ClaimId, Error, ErrorKind, Fence, Key, Kind, MIN_TTL, Released, Renewal, Result, Step, check_ttl,
};

use crate::{
    Client,
    engine::{apply_one, renew_one},
};

/// The proof of a lock that was left in the store ([`crate::Guard::detach`]). As a text it can be passed to another
/// process: it has no blanks and no quotes, and ends in `@` and the fence. A text that was changed is refused, because it
/// has a checksum.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
/// # let client = bandog::testing::client();
/// let guard = client.mutex("deploy").lease(std::time::Duration::from_secs(60)).lock().await?;
/// let token = guard.detach().await?;
/// let text = token.to_string();
/// assert!(text.ends_with(&format!("@{}", token.fence())));
/// assert_eq!(text.parse::<bandog::Token>()?, token);
/// assert!(text.replace("mutex", "read").parse::<bandog::Token>().is_err());
/// # client.close().await }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Token {
    kind: Kind,
    /// The claim that holds the lock in the store.
    id: ClaimId,
    fence: Fence,
}

impl Token {
    pub(crate) fn of(kind: Kind, id: ClaimId, fence: Fence) -> Self {
        Self { kind, id, fence }
    }

    /// The checksum of the text, FNV-1a of 32 bits: a store finds the hold by its id, so it would not notice another kind,
    /// number of permits or fence.
    fn checksum(&self) -> u32 {
        let text = format!("{}@{}@{}", self.kind, self.id, self.fence.get());
        text.bytes().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193))
    }

    /// The kind of the hold, with the permits of a semaphore.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The fencing token of the lock.
    pub fn fence(&self) -> Fence {
        self.fence
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}.{:08x}@{}", self.kind, self.id, self.checksum(), self.fence.get())
    }
}

/// Parses the format of `Display`. Any other text is refused with `ErrorKind::Misused`.
impl FromStr for Token {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parse_parts = || {
            let (kind, rest) = text.split_once('@')?;
            let (id, fence) = rest.split_once('@')?;
            let (id, _) = id.rsplit_once('.')?;
            let fence = Fence::new(fence.parse().ok()?);
            Some(Self { kind: kind.parse().ok()?, id: id.parse().ok()?, fence })
        };
        parse_parts().filter(|token| token.to_string() == text).ok_or_else(|| {
            Error::misused(format!(
                "{text:?} is not the token of a lock, or was changed; it must be as `bandog acquire` has printed it"
            ))
        })
    }
}

impl Client {
    /// Releases a lock that another client has left in the store ([`crate::Guard::detach`]). Returns false if the claim of
    /// the token does not hold this lock: the lease has expired, the lock was released or taken away, or the token is that
    /// of another lock. Then nothing is changed. Waiting clients are notified.
    ///
    /// # Errors
    /// As [`Client::show`]. After `ErrorKind::Unavailable`, the lock may be released; the call can be repeated, and then
    /// returns false.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the lock might be released nevertheless.
    pub async fn release_detached(&self, name: impl AsRef<str>, token: &Token) -> Result<bool> {
        let (claim, client) = (self.detached_claim(name.as_ref(), token, MIN_TTL)?, token.id.client);
        let key = claim.key.clone();
        let release = Step::Release(claim);
        match self.query(|backend| apply_one(backend, release)).await {
            Ok(Answer::Released(Released::Freed { .. })) => {}
            Ok(Answer::Released(Released::NotHeld | Released::LeftQueue)) => return Ok(false),
            Err(error) => return self.unless_not_held(error, key, token).await,
            Ok(Answer::Claimed(_)) => {
                let message = "the backend gave an answer that does not fit the request";
                return Err(Error::new(ErrorKind::Corrupt, message).during("release").at(&key).ambiguous());
            }
        }
        // The row of the holder is for operators. Without an answer, it expires together with the lease. Other detached locks of
        // the same client are shown without it. This client keeps its own row.
        if client == self.id() {
            return Ok(true);
        }
        let _ = self.query(move |backend| Box::pin(async move { backend.deregister(client).await })).await;
        Ok(true)
    }

    /// Extends the lease of a lock that another client has left in the store, so that it lasts for at least `ttl` from now.
    /// A lease is never shortened. Returns false as [`Client::release_detached`].
    ///
    /// # Errors
    /// As [`Client::show`], and `ErrorKind::Misused`: the ttl is not between 100 ms and 365 days. After
    /// `ErrorKind::Unavailable`, the lease may be extended.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the lease might be extended nevertheless.
    pub async fn extend_detached(&self, name: impl AsRef<str>, token: &Token, ttl: Duration) -> Result<bool> {
        let claim = self.detached_claim(name.as_ref(), token, check_ttl("the extended lease", ttl)?)?;
        let key = claim.key.clone();
        match self.query(|backend| renew_one(backend, claim)).await {
            Ok(Renewal::Extended { .. }) => Ok(true),
            Ok(Renewal::Waiting { .. } | Renewal::Gone) => Ok(false),
            Err(error) => self.unless_not_held(error, key, token).await,
        }
    }

    /// False if the claim of the token does not hold the lock: a store can refuse a claim of a kind that the name does not
    /// have. Otherwise the error.
    async fn unless_not_held(&self, error: Error, key: Key, token: &Token) -> Result<bool> {
        if error.kind() != ErrorKind::Denied {
            return Err(error);
        }
        let row = self.query(move |backend| Box::pin(async move { backend.show(&key).await })).await?;
        let owner = token.id.to_string();
        if row.holders.iter().any(|holder| holder.owner.as_ref() == Some(&owner)) { Err(error) } else { Ok(false) }
    }

    /// The claim of the token, for a lock of this client's store.
    fn detached_claim(&self, name: &str, token: &Token, ttl: Duration) -> Result<Claim> {
        let (key, fences) = (self.handle().key(name)?, NonZeroU32::MIN);
        Ok(Claim { fences, ..Claim::new(key, token.id, token.kind, ttl) })
    }
}
