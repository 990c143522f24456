//! The trait for operators: locks, holders, waiters and the store's health.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use crate::{ClientId, Error, ErrorKind, Fence, Fences, Finding, Key, Kind, MAX_BLOCK, Member, Result};

/// One lock as the store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The lock's name.
    pub name: String,
    /// The kind of the lock. None for a free lock, and for a hold of another library whose kind is unknown.
    pub kind: Option<Kind>,
    /// The holders: one of a mutex, none of a free lock.
    pub holders: Vec<Holder>,
    /// The registered clients that wait for the lock. Filled in by [`Row::tell`], not by backends.
    pub waiters: Vec<Member>,
}

/// A holder of a lock, as the store has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holder {
    /// The owner as the store has it: the id of a claim, or the text of another library. None if it is not a text.
    pub owner: Option<String>,
    /// The first fence of the holder's grant. None when the holder is not a bandog client.
    ///
    /// It is the holder's own fence ([`crate::Fence`]), unless the client passed the hold on to a later call of its
    /// own: then the holder's fence is between this one and [`Holder::last_fence`]. The store keeps only the last
    /// fence, so this one is computed: [`MAX_BLOCK`] − 1 below the last. A grant that reserved fewer fences has fences
    /// from the end of that range. A resource that has seen this fence refuses no write of the holder.
    pub fence: Option<Fence>,
    /// The last fence that the holder reserved, as the store keeps it. Do not write to a resource with it: it is
    /// greater than the holder's own fence, so the resource would then refuse the holder.
    pub last_fence: Option<Fence>,
    /// The time until the hold expires if it is not renewed. None for a hold that never expires.
    pub ttl: Option<Duration>,
    /// The client that holds the lock, if it is registered. Filled in by [`Row::tell`], not by backends.
    pub member: Option<Member>,
}

impl Row {
    /// The row of a free lock.
    pub fn free(key: &Key) -> Self {
        Self { name: key.to_string(), kind: None, holders: Vec::new(), waiters: Vec::new() }
    }

    /// The row of a lock with one holder.
    pub fn held(key: &Key, kind: Option<Kind>, holder: Holder) -> Self {
        Self { kind, holders: vec![holder], ..Self::free(key) }
    }

    /// Whether the lock is held.
    pub fn is_held(&self) -> bool {
        !self.holders.is_empty()
    }

    /// The first holder: the only one of a mutex. None for a free lock.
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

    /// The registered client that is the first holder.
    pub fn member(&self) -> Option<&Member> {
        self.holder()?.member.as_ref()
    }

    /// The first holder's [`Holder::client`].
    pub fn client(&self) -> Option<ClientId> {
        self.holder()?.client()
    }

    /// Fills in the clients of the holders, and the waiters, from the store's registry.
    pub fn tell(&mut self, members: &[Member]) {
        let holding: Vec<_> = self.holders.iter().filter_map(Holder::client).collect();
        for holder in &mut self.holders {
            let client = holder.client();
            holder.member = members.iter().find(|member| client == Some(member.id)).cloned();
        }
        // The registry may still list a client as waiting that has just been granted the lock.
        let is_waiter = |member: &&Member| {
            !holding.contains(&member.id) && member.waits.iter().any(|key| key.as_str() == self.name)
        };
        self.waiters = members.iter().filter(is_waiter).cloned().collect();
    }
}

impl Holder {
    /// The holder with this owner, which never expires and has no fence.
    pub fn new(owner: impl Into<String>) -> Self {
        Self { owner: Some(owner.into()), ..Self::default() }
    }

    /// The same holder with the fences of a bandog client, whose grant reserved fences up to `last`.
    #[must_use]
    pub fn fenced(self, last: Fence) -> Self {
        let first = Fences::ending(last, MAX_BLOCK).first();
        Self { fence: Some(first), last_fence: Some(last), ..self }
    }

    /// The time of the grant, by the store's clock: on Redis and SQLite, a fence is the time of its grant in
    /// microseconds. None when the fence is only a counter, as in the memory backend, or is unknown.
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

    /// The client that holds the lock, from the text of the owner. None if the owner is not a bandog client.
    ///
    /// ```
    /// use bandog::{ClientId, Holder};
    /// let client = ClientId::random();
    /// assert_eq!(Holder::new(format!("{client}:7")).client(), Some(client));
    /// assert_eq!(Holder::new("another library").client(), None);
    /// ```
    pub fn client(&self) -> Option<ClientId> {
        self.owner.as_deref()?.split_once(':')?.0.parse().ok()
    }
}

/// A glob for names: `*` matches any text, `?` matches one character, and `\` makes the next character literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// A pattern from its text.
    pub fn new(glob: impl Into<String>) -> Self {
        Self(glob.into())
    }

    /// The pattern that every name matches.
    pub fn all() -> Self {
        Self::new("*")
    }

    /// The pattern of the names that begin with this prefix and whose rest matches this pattern.
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

    /// The pattern that only this name matches.
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

    /// Whether a name matches.
    ///
    /// ```
    /// use bandog::Pattern;
    /// assert!(Pattern::new("order-*").matches("order-17"));
    /// assert!(!Pattern::new("order-?").matches("order-17"));
    /// ```
    pub fn matches(&self, name: &str) -> bool {
        let glob: Vec<char> = self.0.chars().collect();
        let name: Vec<char> = name.chars().collect();
        let (mut g, mut n) = (0, 0);
        let mut star = None; // The position after the last `*`, and the end of the text that it has matched.
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

enum Token {
    Any,
    One,
    This(char),
}

fn token(glob: &[char], at: usize) -> (Option<Token>, usize) {
    match (glob.get(at), glob.get(at + 1)) {
        (Some('*'), _) => (Some(Token::Any), 1),
        (Some('?'), _) => (Some(Token::One), 1),
        (Some('\\'), Some(c)) => (Some(Token::This(*c)), 2),
        (Some(c), _) => (Some(Token::This(*c)), 1),
        (None, _) => (None, 0),
    }
}

/// Operations for operators: the locks of a store, its clients, and its health. Only [`Inspect::evict`] changes data.
#[async_trait]
pub trait Inspect: Send + Sync + 'static {
    /// The locks that are held and whose names match the pattern, sorted by name.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`].
    async fn list(&self, pattern: &Pattern) -> Result<Vec<Row>>;

    /// One lock, held or free. By default it is searched for in the list.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`]; `Denied` when the store has something else than a lock under this key.
    async fn show(&self, key: &Key) -> Result<Row> {
        let rows = self.list(&Pattern::exactly(key)).await?;
        Ok(rows.into_iter().next().unwrap_or_else(|| Row::free(key)))
    }

    /// Several locks, held or free, in the order of the keys. By default it calls [`Inspect::show`] for each of them.
    ///
    /// # Errors
    /// As [`Inspect::show`]. The first error is returned, without the rows.
    async fn show_all(&self, keys: &[Key]) -> Result<Vec<Row>> {
        let mut rows = Vec::with_capacity(keys.len());
        for key in keys {
            rows.push(self.show(key).await?);
        }
        Ok(rows)
    }

    /// All registered clients, in no particular order. A backend without a registry returns none.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`].
    async fn members(&self) -> Result<Vec<Member>> {
        Ok(Vec::new())
    }

    /// The registered clients among these, in no particular order. By default they are searched for in
    /// [`Inspect::members`].
    ///
    /// # Errors
    /// As [`crate::Leases::ping`].
    async fn members_of(&self, clients: &[ClientId]) -> Result<Vec<Member>> {
        let mut members = self.members().await?;
        members.retain(|member| clients.contains(&member.id));
        Ok(members)
    }

    /// Frees a lock, notifies its subscribers, and returns the row that the lock had. None if the lock was free.
    ///
    /// The store reads and frees in one step, so the returned row is the evicted one. The fences continue to rise. The
    /// holder notices the eviction at its next renewal.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`]; `Denied` when the store has something else than a lock under this key, which stays
    /// unchanged; `Unsupported` by default.
    async fn evict(&self, key: &Key) -> Result<Option<Row>> {
        let message = "this backend cannot take a lock from its holder";
        Err(Error::new(ErrorKind::Unsupported, message).during("evict").at(key))
    }

    /// Checks the store and its environment for dangers to locks, and reports each check. By default there are no
    /// checks.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`]. A check that cannot be made is a finding, not an error.
    async fn check(&self) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }

    /// As [`Inspect::check`], for a client whose names all begin with this prefix: its rights for other names are not
    /// checked. By default it calls [`Inspect::check`].
    ///
    /// # Errors
    /// As [`Inspect::check`].
    async fn check_for(&self, prefix: &str) -> Result<Vec<Finding>> {
        let _ = prefix;
        self.check().await
    }
}
