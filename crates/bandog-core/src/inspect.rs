//! The trait [`Inspect`], for operators: it shows locks, holders, waiters and the store's health.

use std::{
    num::NonZeroU32,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;

use crate::{
    ClientId, Error, ErrorKind, Fence, Fences, Finding, IfUnused, Key, Kind, MAX_BLOCK, Member, NamesPage, Result,
    Usage,
};

/// One lock, as it is in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The lock's name.
    pub name: String,
    /// The kind of the lock. None if the lock is free, or if a client of another library holds the lock and the kind of
    /// the lock is unknown.
    pub kind: Option<Kind>,
    /// The holders of the lock. A held mutex has one holder, and a free lock has none.
    pub holders: Vec<Holder>,
    /// The owners of the claims that have a place ([`crate::Claim::joins`]), in the order of the queue. Empty if the
    /// lock has no queue.
    pub queue: Vec<String>,
    /// The clients that wait for the lock and are in the store's registry (the list of clients): first the clients in
    /// the queue, in its order, and then the others. A backend leaves this list empty; [`Row::tell`] fills it in.
    pub waiters: Vec<Member>,
}

/// A call that waits for a lock ([`Row::waiting`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting<'a> {
    /// The owner of the place that the call has in the lock's queue. None if it has no place.
    pub place: Option<&'a str>,
    /// The client that waits, if the client is in the store's registry. If `place` is None, this field is not None.
    pub member: Option<&'a Member>,
    /// The places before this place in the queue, in the order of the queue. Empty if the call has no place.
    pub before: &'a [String],
}

/// A holder of a lock, as it is in the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holder {
    /// The owner, as it is in the store: the id of a claim, or the text of another library. None if the owner is not a
    /// text, or if the store does not record it. Such a holder can stand for several clients.
    pub owner: Option<String>,
    /// What the holder holds. None if the kind is unknown.
    pub kind: Option<Kind>,
    /// A fence ([`crate::Fence`]) that is not greater than the fence with which the holder writes. None if the holder
    /// is not a bandog client, or if too few nodes of a quorum have answered.
    ///
    /// A grant reserves a block of fences. The client's first caller writes with the first fence of the block. If the
    /// client then gives the lock to a second caller without a release, the second caller writes with the second fence.
    ///
    /// The store keeps only the last fence of the block. So this field is computed as if the block had the maximum
    /// size: it is the first fence of a block of [`MAX_BLOCK`] fences. If the grant reserved fewer fences, each fence
    /// of the grant is greater than this field. So a resource that has seen this fence still accepts every write of the
    /// holder. A kind with a single fence ([`Kind::has_one_fence`]) has a block of one fence.
    pub fence: Option<Fence>,
    /// The last fence of the block that the grant reserved, as it is in the store. Do not write to a resource with this
    /// fence: it can be greater than the fence of the holder, and the resource would refuse the holder's next writes.
    pub last_fence: Option<Fence>,
    /// The time after which the hold expires if it is not renewed. None for a hold that never expires.
    pub ttl: Option<Duration>,
    /// The client that holds the lock, if the client is in the store's registry. A backend leaves this field empty;
    /// [`Row::tell`] fills it in.
    pub member: Option<Member>,
}

impl Row {
    /// The row of a free lock.
    pub fn free(key: &Key) -> Self {
        Self { name: key.to_string(), kind: None, holders: Vec::new(), queue: Vec::new(), waiters: Vec::new() }
    }

    /// The row of a lock with one holder.
    pub fn held(key: &Key, kind: Option<Kind>, holder: Holder) -> Self {
        Self { kind, holders: vec![holder], ..Self::free(key) }
    }

    /// Whether the lock is held.
    pub fn is_held(&self) -> bool {
        !self.holders.is_empty()
    }

    /// The first holder. A mutex has at most one holder. None if the lock is free.
    pub fn holder(&self) -> Option<&Holder> {
        self.holders.first()
    }

    /// The first holder's owner.
    pub fn owner(&self) -> Option<&str> {
        self.holder()?.owner.as_deref()
    }

    /// The first holder's [`Holder::fence`].
    pub fn fence(&self) -> Option<Fence> {
        self.holder()?.fence
    }

    /// The client of the first holder, if the client is registered and [`Row::tell`] was called.
    pub fn member(&self) -> Option<&Member> {
        self.holder()?.member.as_ref()
    }

    /// The first holder's [`Holder::client`].
    pub fn client(&self) -> Option<ClientId> {
        self.holder()?.client()
    }

    /// Fills in [`Holder::member`] and [`Row::waiters`]. `members` are the clients in the store's registry.
    pub fn tell(&mut self, members: &[Member]) {
        let holding: Vec<_> = self.holders.iter().filter_map(Holder::client).collect();
        for holder in &mut self.holders {
            let client = holder.client();
            holder.member = members.iter().find(|member| client == Some(member.id)).cloned();
        }
        // The position of the client in the queue. A client with several places has the position of the first one.
        let place = |member: &Member| self.queue.iter().position(|owner| client(owner) == Some(member.id));
        // A client that has just got the lock can still be listed as a waiter, because the registry is updated later.
        let is_waiter = |member: &&Member| {
            place(member).is_some()
                || !holding.contains(&member.id) && member.waits.iter().any(|key| key.as_str() == self.name)
        };
        self.waiters = members.iter().filter(is_waiter).cloned().collect();
        self.waiters.sort_by_key(|member| place(member).unwrap_or(usize::MAX));
    }

    /// The registered client that has this place in the queue. Call [`Row::tell`] first.
    pub fn client_of(&self, place: &str) -> Option<&Member> {
        self.waiters.iter().find(|member| client(place) == Some(member.id))
    }

    /// All that is known to wait for the lock: first each place of the queue, in the order of the queue, and then the
    /// registered clients that have no place. Call [`Row::tell`] first.
    pub fn waiting(&self) -> impl Iterator<Item = Waiting<'_>> {
        let places = self.queue.iter().enumerate().map(|(at, owner)| Waiting {
            place: Some(owner),
            member: self.client_of(owner),
            before: &self.queue[..at],
        });
        let has_place = |member: &&Member| self.queue.iter().any(|owner| client(owner) == Some(member.id));
        let others = self.waiters.iter().filter(move |member| !has_place(member));
        places.chain(others.map(|member| Waiting { place: None, member: Some(member), before: &[] }))
    }
}

impl Holder {
    /// Creates a holder with this owner, without a ttl and without fences.
    pub fn new(owner: impl Into<String>) -> Self {
        Self { owner: Some(owner.into()), ..Self::default() }
    }

    /// The same holder with the fences of a grant of a bandog client. `last` is the last fence that the grant reserved.
    /// Set [`Holder::kind`] before this call.
    #[must_use]
    pub fn fenced(self, last: Fence) -> Self {
        let block = if self.kind.is_some_and(Kind::has_one_fence) { NonZeroU32::MIN } else { MAX_BLOCK };
        let first = Fences::ending(last, block).first();
        Self { fence: Some(first), last_fence: Some(last), ..self }
    }

    /// The time of the grant, by the store's clock. It is computed from the fence: on Redis and SQLite, a fence is the
    /// time of the grant in microseconds since 1970. None if the fence is unknown, or if fences are counters, as in the
    /// memory backend.
    ///
    /// ```
    /// use bandog::{Fence, Holder};
    /// let holder = Holder { fence: Some(Fence::new(1_790_000_000_000_000)), ..Holder::new("another library") };
    /// assert!(holder.since().is_some());
    /// assert_eq!(Holder { fence: Some(Fence::new(17)), ..holder }.since(), None);
    /// ```
    pub fn since(&self) -> Option<SystemTime> {
        const YEAR_2020: Duration = Duration::from_secs(1_577_836_800);
        let granted = Duration::from_micros(self.fence?.get());
        if granted < YEAR_2020 { None } else { SystemTime::UNIX_EPOCH.checked_add(granted) }
    }

    /// The id of the client that holds the lock, read from the owner's text. None if the owner is not a bandog client.
    ///
    /// ```
    /// use bandog::{ClientId, Holder};
    /// let client = ClientId::random();
    /// assert_eq!(Holder::new(format!("{client}:7")).client(), Some(client));
    /// assert_eq!(Holder::new("another library").client(), None);
    /// ```
    pub fn client(&self) -> Option<ClientId> {
        client(self.owner.as_deref()?)
    }
}

/// The id of the client in an owner's text. None if the owner is not a bandog client.
fn client(owner: &str) -> Option<ClientId> {
    owner.split_once(':')?.0.parse().ok()
}

/// A pattern for names. `*` matches any text, `?` matches one character, and a character after `\` matches itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// Creates a pattern from its text.
    pub fn new(glob: impl Into<String>) -> Self {
        Self(glob.into())
    }

    /// The pattern that matches every name.
    pub fn all() -> Self {
        Self::new("*")
    }

    /// The pattern that matches a name if the name begins with `prefix` and `self` matches the rest of the name.
    #[must_use]
    pub fn after(&self, prefix: &str) -> Self {
        let mut glob = String::with_capacity(prefix.len() + self.0.len());
        for c in prefix.chars() {
            if matches!(c, '*' | '?' | '\\') {
                glob.push('\\');
            }
            glob.push(c);
        }
        Self(glob + &self.0)
    }

    /// The pattern that matches this name only.
    ///
    /// ```
    /// use bandog::{Key, Pattern};
    /// let pattern = Pattern::exactly(&Key::new("what*?")?);
    /// assert!(pattern.matches("what*?") && !pattern.matches("whatever"));
    /// # Ok::<(), bandog::Error>(())
    /// ```
    pub fn exactly(key: &Key) -> Self {
        let escaped =
            key.as_str().chars().flat_map(|c| matches!(c, '*' | '?' | '\\').then_some('\\').into_iter().chain([c]));
        Self(escaped.collect())
    }

    /// The text of the pattern.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the pattern matches a name.
    ///
    /// ```
    /// use bandog::Pattern;
    /// assert!(Pattern::new("order-*").matches("order-17"));
    /// assert!(!Pattern::new("order-?").matches("order-17"));
    /// ```
    pub fn matches(&self, name: &str) -> bool {
        let glob: Vec<char> = self.0.chars().collect();
        let name: Vec<char> = name.chars().collect();
        // `g` is the position in the pattern, and `n` is the position in the name.
        let (mut g, mut n) = (0, 0);
        // The position after the last `*` that was read in the pattern, and the position in the name up to which this
        // `*` matches. None before the first `*`.
        let mut star = None;
        while n < name.len() {
            let (token, width) = token(&glob, g);
            match token {
                Some(Token::Any) => {
                    star = Some((g + width, n));
                    g += width;
                    continue;
                }
                Some(Token::One) => {
                    (g, n) = (g + width, n + 1);
                    continue;
                }
                Some(Token::This(c)) if c == name[n] => {
                    (g, n) = (g + width, n + 1);
                    continue;
                }
                Some(Token::This(_)) | None => {}
            }
            // The rest of the pattern does not match here. So the last `*` must match one more character of the name.
            let Some((after, matched)) = star else {
                return false;
            };
            star = Some((after, matched + 1));
            (g, n) = (after, matched + 1);
        }
        while let (Some(Token::Any), width) = token(&glob, g) {
            g += width;
        }
        g == glob.len()
    }
}

/// One part of a pattern.
enum Token {
    /// Any text.
    Any,
    /// Any one character.
    One,
    /// This character.
    This(char),
}

/// The token at a position of the pattern, and its length in characters. None at the end of the pattern.
fn token(glob: &[char], at: usize) -> (Option<Token>, usize) {
    match (glob.get(at), glob.get(at + 1)) {
        (Some('*'), _) => (Some(Token::Any), 1),
        (Some('?'), _) => (Some(Token::One), 1),
        (Some('\\'), Some(c)) => (Some(Token::This(*c)), 2),
        (Some(c), _) => (Some(Token::This(*c)), 1),
        (None, _) => (None, 0),
    }
}

/// Operations for operators: they show the locks of a store, its clients and its health. Only [`Inspect::evict`],
/// [`Inspect::forget`] and [`Inspect::usage`] change data.
#[async_trait]
pub trait Inspect: Send + Sync + 'static {
    /// The held locks whose names match the pattern, sorted by name.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`].
    async fn list(&self, pattern: &Pattern) -> Result<Vec<Row>>;

    /// One lock, held or free. The default implementation searches the result of [`Inspect::list`].
    ///
    /// # Errors
    /// As [`crate::Leases::ping`]. The kind is [`ErrorKind::Denied`] if the store has other data than a lock under this
    /// key.
    async fn show(&self, key: &Key) -> Result<Row> {
        let rows = self.list(&Pattern::exactly(key)).await?;
        Ok(rows.into_iter().next().unwrap_or_else(|| Row::free(key)))
    }

    /// Several locks, held or free, in the order of the keys. The default implementation calls [`Inspect::show`] for
    /// each key.
    ///
    /// # Errors
    /// As [`Inspect::show`]. If one key fails, the call returns the first error and no rows.
    async fn show_all(&self, keys: &[Key]) -> Result<Vec<Row>> {
        let mut rows = Vec::with_capacity(keys.len());
        for key in keys {
            rows.push(self.show(key).await?);
        }
        Ok(rows)
    }

    /// All clients in the store's registry, in no particular order. A backend without a registry returns an empty list.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`].
    async fn members(&self) -> Result<Vec<Member>> {
        Ok(Vec::new())
    }

    /// The rows of these clients in the store's registry, in no particular order. A client that is not in the registry
    /// has no row. The default implementation searches the result of [`Inspect::members`].
    ///
    /// # Errors
    /// As [`crate::Leases::ping`].
    async fn members_of(&self, clients: &[ClientId]) -> Result<Vec<Member>> {
        let mut members = self.members().await?;
        members.retain(|member| clients.contains(&member.id));
        Ok(members)
    }

    /// Evicts the holder of a lock: frees the lock without the holder's consent, and notifies the subscribers. Returns
    /// the row that the lock had before. None if the lock was free.
    ///
    /// The store reads and frees the lock in one step, so the returned row shows the holder that was evicted. The
    /// evicted holder notices the eviction at its next renewal. The fences of the lock continue to rise.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`]. The kind is [`ErrorKind::Denied`] if the store has other data than a lock under this
    /// key; the data is not changed. The default implementation returns [`ErrorKind::Unsupported`].
    async fn evict(&self, key: &Key) -> Result<Option<Row>> {
        let message = "this backend cannot take a lock from its holder";
        Err(Error::new(ErrorKind::Unsupported, message).during("evict").at(key))
    }

    /// Deletes all that the store keeps for a name, if no claim holds the lock or has a place: the last fence, and the
    /// number of permits of a semaphore. Returns whether the lock was free. If not, nothing changes,
    /// except on a quorum: there, the nodes that do not have the lock remove what they keep, also if other nodes have it.
    ///
    /// This is for names that are never used again. The next fence of the name may be smaller than its last one: it
    /// begins at the store's clock, or at 1 if fences are counters.
    ///
    /// # Errors
    /// As [`Inspect::evict`].
    async fn forget(&self, key: &Key) -> Result<bool> {
        Err(Error::new(ErrorKind::Unsupported, "this backend cannot delete names").during("forget").at(key))
    }

    /// Reads a part of the names for which the store keeps a fence. `after` is [`NamesPage::next`] of the part before; None
    /// for the first part. A name that is granted for the first time meanwhile can be left out.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`]. The default implementation returns [`ErrorKind::Unsupported`].
    async fn names_page(&self, pattern: &Pattern, unused_for: Duration, after: Option<&str>) -> Result<NamesPage> {
        let _ = (pattern, unused_for, after);
        Err(Error::new(ErrorKind::Unsupported, "this backend cannot search names").during("forget"))
    }

    /// Checks which of these names are unused: free, without a claim that has a place, and last granted at least
    /// `unused_for` ago by the store's clock. With [`IfUnused::Forget`], the store deletes what it keeps for the unused
    /// names; the check of a name and its deletion are one step. Returns one answer for each key.
    ///
    /// The next fence of a name that was forgotten is greater than each fence before, unless the store's clock was set back
    /// by more than `unused_for` since the last grant. The names of semaphores are never unused, because the number of their
    /// permits is a setting.
    ///
    /// # Errors
    /// As [`Inspect::names_page`]. Some of the names can be forgotten nevertheless.
    async fn usage(&self, keys: &[Key], unused_for: Duration, then: IfUnused) -> Result<Vec<Usage>> {
        let _ = (keys, unused_for, then);
        Err(Error::new(ErrorKind::Unsupported, "this backend cannot forget unused names").during("forget"))
    }

    /// Checks the store and its environment for dangers to locks, and returns one finding for each check. The default
    /// implementation checks nothing.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`]. If a single check cannot be made, the call returns a finding about this check, and
    /// no error.
    async fn check(&self) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }

    /// As [`Inspect::check`], for a client that puts this prefix before all its names. Rights for names without this
    /// prefix are not checked. The default implementation calls [`Inspect::check`].
    ///
    /// # Errors
    /// As [`Inspect::check`].
    async fn check_for(&self, prefix: &str) -> Result<Vec<Finding>> {
        let _ = prefix;
        self.check().await
    }
}

#[cfg(test)]
mod tests;
