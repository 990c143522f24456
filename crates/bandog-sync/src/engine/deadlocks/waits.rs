//! Which blocked call waits for which, as far as one search has read it from the store. A call is *blocked* if it waits
//! without a time limit while its owner holds other locks.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet, VecDeque},
    fmt::Write as _,
    mem,
};

use bandog_core::{Backend, BlockedCall, ClaimId, ClientId, Key, Kind, Member, Result, Row};

/// Maximum number of steps of one search. A step reads the holders of the locks for which the calls of the last step
/// wait. So this is also the maximum number of calls in a deadlock that is found.
const MAX_STEPS: usize = 16;
/// Maximum number of locks that one step reads.
const MAX_KEYS: usize = 256;

/// The rows that one search has read.
pub(in crate::engine) struct Waits {
    own: ClientId,
    /// The clients whose rows were read, and our own row, without their calls.
    members: BTreeMap<ClientId, Member>,
    /// The calls of these clients.
    calls: BTreeMap<ClaimId, BlockedCall>,
    /// For each claim, the calls whose owner holds a lock by this claim. The order makes the result of a search
    /// reproducible.
    calls_of_holder: BTreeMap<ClaimId, BTreeSet<ClaimId>>,
    /// The clients whose rows were requested. Clients without a row are only here.
    requested: HashSet<ClientId>,
    /// The holders of each lock that was read.
    holders: BTreeMap<Key, Vec<Holding>>,
    /// Whether all rows of the registry were read.
    has_all: bool,
}

struct Holding {
    claim: ClaimId,
    is_reader: bool,
}

/// One call of a deadlock, and the lock for which it waits. The next call of the deadlock is a call of the owner that
/// holds this lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::engine) struct CircleCall {
    pub(in crate::engine) id: ClaimId,
    pub(in crate::engine) key: Key,
    /// The claim by which the owner of the next call holds the lock.
    pub(in crate::engine) held_by: ClaimId,
    /// The client of this call, as text.
    pub(in crate::engine) client: String,
    /// The client that holds the lock, as text.
    pub(in crate::engine) holder: String,
}

/// Reads which calls wait for which, beginning with the calls in our own row.
pub(in crate::engine) async fn read(backend: &dyn Backend, own: Member) -> Result<Waits> {
    let mut waits = Waits::new(own);
    for _ in 0..MAX_STEPS {
        let keys = waits.unread_keys();
        if keys.is_empty() {
            break;
        }
        let rows = backend.show_all(&keys).await?;
        waits.add_rows(keys, &rows);
        let clients = waits.unread_clients();
        if !clients.is_empty() {
            waits.add_members(backend.members_of(&clients).await?);
        }
        if waits.needs_all() {
            waits.has_all = true;
            waits.add_members(backend.members().await?);
        }
    }
    Ok(waits)
}

impl Waits {
    pub(super) fn new(own: Member) -> Self {
        let mut waits = Self {
            own: own.id,
            members: BTreeMap::new(),
            calls: BTreeMap::new(),
            calls_of_holder: BTreeMap::new(),
            requested: HashSet::from([own.id]),
            holders: BTreeMap::new(),
            has_all: false,
        };
        waits.add_members(vec![own]);
        waits
    }

    /// The locks for which our own calls wait, and for which owners wait that hold a lock that was read. Locks that were
    /// read are left out.
    fn unread_keys(&self) -> Vec<Key> {
        let claims = self.claims();
        let is_next =
            |call: &BlockedCall| call.id.client == self.own || call.holds.iter().any(|claim| claims.contains(claim));
        let next = self.calls.values().filter(|call| is_next(call)).map(|call| &call.key);
        let unread: BTreeSet<&Key> = next.filter(|key| !self.holders.contains_key(*key)).collect();
        unread.into_iter().take(MAX_KEYS).cloned().collect()
    }

    pub(super) fn add_rows(&mut self, keys: Vec<Key>, rows: &[Row]) {
        for (key, row) in keys.into_iter().zip(rows) {
            let holding = |holder: &bandog_core::Holder| {
                let claim = holder.owner.as_deref()?.parse().ok()?;
                Some(Holding { claim, is_reader: matches!(holder.kind, Some(Kind::Read)) })
            };
            self.holders.insert(key, row.holders.iter().filter_map(holding).collect());
        }
    }

    /// The clients of holders whose rows were not requested yet. The result counts as requested.
    fn unread_clients(&mut self) -> Vec<ClientId> {
        let clients = self.holders.values().flatten().map(|holding| holding.claim.client);
        clients.filter(|client| self.requested.insert(*client)).collect()
    }

    pub(super) fn add_members(&mut self, members: Vec<Member>) {
        for mut member in members {
            if self.members.contains_key(&member.id) {
                continue;
            }
            for call in mem::take(&mut member.blocked.calls) {
                for claim in &call.holds {
                    self.calls_of_holder.entry(*claim).or_default().insert(call.id);
                }
                self.calls.insert(call.id, call);
            }
            self.members.insert(member.id, member);
        }
    }

    /// Whether a process that runs under a holder can have a blocked call that was not read yet. Its row can only be found
    /// among all rows.
    fn needs_all(&self) -> bool {
        let lends = |holding: &Holding| {
            self.members.get(&holding.claim.client).is_some_and(|member| member.blocked.lends)
                && !self.calls_of_holder.contains_key(&holding.claim)
        };
        !self.has_all && self.holders.values().flatten().any(lends)
    }

    /// The claims that hold the locks that were read.
    fn claims(&self) -> HashSet<ClaimId> {
        self.holders.values().flatten().map(|holding| holding.claim).collect()
    }

    pub(super) fn call(&self, id: ClaimId) -> Option<&BlockedCall> {
        self.calls.get(&id)
    }

    /// The other clients that hold one of the locks that were read and have blocked calls, with the numbers of their rows.
    pub(super) fn rounds(&self) -> Vec<(ClientId, u64)> {
        let claims = self.claims();
        let calls = claims.iter().filter_map(|claim| self.calls_of_holder.get(claim)).flatten();
        let clients: BTreeSet<ClientId> = calls.map(|call| call.client).filter(|client| *client != self.own).collect();
        let row = |client| Some((client, self.members.get(&client)?.blocked.round));
        clients.into_iter().filter_map(row).collect()
    }

    /// Whether the client wrote its row after it had read our row with this number or a later one.
    pub(super) fn has_seen(&self, client: ClientId, round: u64) -> bool {
        let seen = self.members.get(&client).map(|member| &member.blocked.seen);
        seen.is_some_and(|seen| seen.iter().any(|(seen, at)| *seen == self.own && *at >= round))
    }

    /// The calls whose owners hold the lock for which `call` waits, and the claims by which they hold it. Readers do not
    /// wait for readers.
    fn blockers<'a>(&'a self, call: &'a BlockedCall) -> impl Iterator<Item = (ClaimId, &'a BlockedCall)> {
        let holders = self.holders.get(&call.key).into_iter().flatten();
        let blocking = holders.filter(|holding| !(call.is_reader && holding.is_reader));
        blocking.flat_map(|holding| {
            let calls = self.calls_of_holder.get(&holding.claim).into_iter().flatten();
            calls.filter_map(|call| Some((holding.claim, self.call(*call)?)))
        })
    }

    /// The shortest circle of calls that begins with this call: each call waits for a lock that the owner of the next call
    /// holds. A call that already ends because of another deadlock does not count.
    pub(super) fn circle(&self, id: ClaimId) -> Option<Vec<CircleCall>> {
        let counts = |call: &BlockedCall| call.deadlock.is_empty() || call.deadlock.contains(&id);
        let first = self.call(id)?;
        // For each call that was reached: the call from which it was reached, and the claim between them.
        let mut reached_from: BTreeMap<ClaimId, (ClaimId, ClaimId)> = BTreeMap::new();
        let mut queue = VecDeque::from([first]);
        while let Some(call) = queue.pop_front() {
            for (claim, blocker) in self.blockers(call).filter(|(_, blocker)| counts(blocker)) {
                if reached_from.contains_key(&blocker.id) {
                    continue;
                }
                reached_from.insert(blocker.id, (call.id, claim));
                if blocker.id == id {
                    return self.path(id, &reached_from);
                }
                queue.push_back(blocker);
            }
        }
        None
    }

    /// The circle that ends where it begins, at the call `id`.
    fn path(&self, id: ClaimId, reached_from: &BTreeMap<ClaimId, (ClaimId, ClaimId)>) -> Option<Vec<CircleCall>> {
        let (mut circle, mut last) = (Vec::new(), id);
        loop {
            let (from, held_by) = *reached_from.get(&last)?;
            let (client, holder) = (self.text(from), self.client_text(held_by.client));
            circle.push(CircleCall { id: from, key: self.call(from)?.key.clone(), held_by, client, holder });
            last = from;
            if last == id {
                circle.reverse();
                return Some(circle);
            }
        }
    }

    /// The client of a call as text. The client can be the one that publishes the call for another process.
    fn text(&self, call: ClaimId) -> String {
        match call.client == self.own {
            true => "another owner of this client".into(),
            false => self.client_text(call.client),
        }
    }

    /// A client as text.
    fn client_text(&self, client: ClientId) -> String {
        match self.members.get(&client) {
            Some(Member { id, .. }) if *id == self.own => "this client".into(),
            Some(Member { program, pid, host, .. }) => format!("{program} (process {pid} on {host})"),
            None => "an unknown client".into(),
        }
    }
}

/// The circle in words, as the owner of its first call sees it. `is_thread`: whether that owner stands for a thread.
///
/// The client that holds a lock is not always the client that waits next: it can hold the lock for a process that runs
/// under it.
pub(super) fn describe(circle: &[CircleCall], is_thread: bool) -> String {
    let first = circle.first().map(|call| call.id.client);
    let runs_under_holder = circle.last().is_some_and(|call| Some(call.held_by.client) != first);
    let (own, advice) = match (runs_under_holder, is_thread) {
        (true, _) => (
            "this process",
            "take these locks in the same order everywhere, or wait with a limit (`bandog lock --wait`)",
        ),
        (false, true) => ("this thread", "release a lock of this thread before the next attempt"),
        (false, false) => ("this owner", "release a lock of this owner before the next attempt"),
    };
    let mut text = format!("deadlock: {own}");
    for (index, call) in circle.iter().enumerate() {
        let (key, holder) = (call.key.as_str(), &call.holder);
        // Writing to a string cannot fail.
        let _ = match circle.get(index + 1) {
            None if runs_under_holder => write!(text, " waits for {key:?}, held by {holder}, under which {own} runs"),
            None => write!(text, " waits for {key:?}, held by {own}"),
            Some(CircleCall { id, client, .. }) if id.client == call.held_by.client => {
                write!(text, " waits for {key:?}, held by {client}, which")
            }
            Some(CircleCall { client, .. }) => {
                write!(text, " waits for {key:?}, held by {holder}, under which {client} runs, which")
            }
        };
    }
    format!("{text}; {advice}")
}
