//! A look at who holds what.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use crate::{ClientId, Error, ErrorKind, Fence, Fences, Finding, Key, MAX_BLOCK, Member, Result};

/// One lock as its store sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The lock's name.
    pub name: String,
    /// Whether somebody holds it.
    pub held: bool,
    /// Who holds it, as the store has it: text, because owners need not be ours.
    pub owner: Option<String>,
    /// The first fence of the holder's grant; none when the holder is not a bandog client.
    ///
    /// It is the holder's own fence ([`crate::Fence`]) unless its client passed the hold on to a later call: the
    /// holder's fence is between this and [`Row::last_fence`]. The store keeps only the last one, and this is
    /// [`MAX_BLOCK`] − 1 below it; a client with fewer local turns has fences from the end of that range.
    /// A resource that has seen this fence refuses no write of the holder.
    pub fence: Option<Fence>,
    /// The last fence that the holder reserved, as the store keeps it. Do not write with it: it is greater than the
    /// holder's own fence, so the resource would refuse the holder.
    pub last_fence: Option<Fence>,
    /// How long the hold lasts if nobody renews it; none for a hold without an end.
    pub ttl: Option<Duration>,
    /// Who the owner is, if its client is registered. Filled in by [`Row::tell`], not by backends.
    pub holder: Option<Member>,
    /// The registered clients that wait for it. Filled in by [`Row::tell`], not by backends.
    pub waiters: Vec<Member>,
}

impl Row {
    /// The row of a lock that nobody holds.
    pub fn free(key: &Key) -> Self {
        let (holder, waiters) = (None, Vec::new());
        let (fence, last_fence) = (None, None);
        Self { name: key.to_string(), held: false, owner: None, fence, last_fence, ttl: None, holder, waiters }
    }

    /// The row of a lock that somebody holds.
    pub fn held(key: &Key, owner: impl Into<String>) -> Self {
        Self { held: true, owner: Some(owner.into()), ..Self::free(key) }
    }

    /// The same row of a holder that is a bandog client, whose grant reserved fences up to this one.
    #[must_use]
    pub fn fenced(self, last: Fence) -> Self {
        let first = Fences::ending(last, MAX_BLOCK).first();
        Self { fence: Some(first), last_fence: Some(last), ..self }
    }

    /// Since when it is held, by the clock of the store: a fence is the time of its grant in microseconds. None when
    /// nobody holds it, or when the fence is a mere number, as those of other clients and of memory are.
    ///
    /// ```
    /// use bandog::{Fence, Key, Row};
    /// let key = Key::new("orders")?;
    /// let row = Row { fence: Some(Fence::new(1_790_000_000_000_000)), ..Row::held(&key, "somebody") };
    /// assert!(row.held_since().is_some());
    /// assert_eq!(Row { fence: Some(Fence::new(17)), ..row }.held_since(), None);
    /// # Ok::<(), bandog::Error>(())
    /// ```
    pub fn held_since(&self) -> Option<SystemTime> {
        const YEAR_2020: Duration = Duration::from_secs(1_577_836_800);
        let granted = Duration::from_micros(self.fence.filter(|_| self.held)?.get());
        if granted < YEAR_2020 { None } else { SystemTime::UNIX_EPOCH.checked_add(granted) }
    }

    /// The client that holds it: the first half of the owner, if a client of ours made it.
    ///
    /// ```
    /// use bandog::{ClientId, Key, Row};
    /// let (key, client) = (Key::new("orders")?, ClientId::random());
    /// assert_eq!(Row::held(&key, format!("{client}:7")).client(), Some(client));
    /// assert_eq!(Row::held(&key, "somebody").client(), None);
    /// # Ok::<(), bandog::Error>(())
    /// ```
    pub fn client(&self) -> Option<ClientId> {
        self.owner.as_deref()?.split_once(':')?.0.parse().ok()
    }

    /// Fills in who holds it and who waits, from the store's registry.
    pub fn tell(&mut self, members: &[Member]) {
        let client = self.client();
        let is_owner = |member: &&Member| client == Some(member.id);
        self.holder = members.iter().find(is_owner).cloned();
        // Whoever has just been granted the lock may still be told of as waiting.
        let waits = |member: &&Member| !is_owner(member) && member.waits.iter().any(|key| key.as_str() == self.name);
        self.waiters = members.iter().filter(waits).cloned().collect();
    }
}

/// Which names to list: a glob in which `*` stands for any text, `?` for one character and `\` takes away the meaning
/// of the next character.
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

    /// The pattern of the names that begin with this text and go on as this pattern says.
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

    /// The text.
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
        let mut star = None; // Where the last `*` stood and what it has swallowed up to.
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
            let Some((after, swallowed)) = star else {
                return false;
            };
            star = Some((after, swallowed + 1));
            (g, n) = (after, swallowed + 1);
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

/// For operators: what a store knows of its locks, and how it is. Reading never changes anything.
#[async_trait]
pub trait Inspect: Send + Sync + 'static {
    /// The locks that are held now and whose names match, sorted by name.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`].
    async fn list(&self, pattern: &Pattern) -> Result<Vec<Row>>;

    /// One lock, held or not. By default it is looked for in the list.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`]; `Denied` when the key is something else than a lock.
    async fn show(&self, key: &Key) -> Result<Row> {
        let rows = self.list(&Pattern::exactly(key)).await?;
        Ok(rows.into_iter().next().unwrap_or_else(|| Row::free(key)))
    }

    /// Several locks, held or not, each in its place. By default each of them is shown by itself.
    ///
    /// # Errors
    /// As [`Inspect::show`]: the first error ends it.
    async fn show_all(&self, keys: &[Key]) -> Result<Vec<Row>> {
        let mut rows = Vec::with_capacity(keys.len());
        for key in keys {
            rows.push(self.show(key).await?);
        }
        Ok(rows)
    }

    /// The clients that the store knows of, in no order. A backend without a registry knows of none.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`].
    async fn members(&self) -> Result<Vec<Member>> {
        Ok(Vec::new())
    }

    /// Those of these clients that the store knows of, in no order. By default they are looked for among all members.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`].
    async fn members_of(&self, clients: &[ClientId]) -> Result<Vec<Member>> {
        let mut members = self.members().await?;
        members.retain(|member| clients.contains(&member.id));
        Ok(members)
    }

    /// Frees a lock, wakes its waiters, and returns the row that the lock had, if it was held.
    ///
    /// The store reads and frees in one step, so the returned row is the evicted one. The fences go on rising. The
    /// holder notices the eviction at its next renewal.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`]; `Denied` when the key is something else than a lock, and is left alone;
    /// `Unsupported` by default.
    async fn evict(&self, key: &Key) -> Result<Option<Row>> {
        let message = "this backend cannot take a lock from its holder";
        Err(Error::new(ErrorKind::Unsupported, message).during("evict").at(key))
    }

    /// What may endanger locks in this store or its surroundings, and what is well. Nothing by default.
    ///
    /// # Errors
    /// As [`crate::Leases::ping`]; what cannot be looked at is a finding, and no error.
    async fn check(&self) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }

    /// As [`Inspect::check`], for a client whose names all begin with this prefix: what it may do with others does not
    /// matter. By default it is no different.
    ///
    /// # Errors
    /// As [`Inspect::check`].
    async fn check_for(&self, prefix: &str) -> Result<Vec<Finding>> {
        let _ = prefix;
        self.check().await
    }
}
