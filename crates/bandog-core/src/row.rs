//! A lock as it is in the store: its holders and its waiters.

use std::{
    num::NonZeroU32,
    time::{Duration, SystemTime},
};

use crate::{ClientId, Fence, Fences, Key, Kind, MAX_BLOCK, Member};

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
    /// the queue, in its order, and then the others. A backend leaves this list empty; [`Row::add_members`] fills it
    /// in.
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
    /// The kind of the hold. None if the kind is unknown.
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
    /// [`Row::add_members`] fills it in.
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

    /// The client of the first holder, if the client is registered and [`Row::add_members`] was called.
    pub fn member(&self) -> Option<&Member> {
        self.holder()?.member.as_ref()
    }

    /// The first holder's [`Holder::client`].
    pub fn client(&self) -> Option<ClientId> {
        self.holder()?.client()
    }

    /// Fills in [`Holder::member`] and [`Row::waiters`]. `members` are the clients in the store's registry.
    pub fn add_members(&mut self, members: &[Member]) {
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

    /// The registered client that has this place in the queue. Call [`Row::add_members`] first.
    pub fn client_of(&self, place: &str) -> Option<&Member> {
        self.waiters.iter().find(|member| client(place) == Some(member.id))
    }

    /// All that is known to wait for the lock: first each place of the queue, in the order of the queue, and then the
    /// registered clients that have no place. Call [`Row::add_members`] first.
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
    /// use bandog::{Fence, admin::Holder};
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
    /// use bandog::admin::{ClientId, Holder};
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

#[cfg(test)]
mod tests;
