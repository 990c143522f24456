//! Queries for operators, and `check`.

use std::time::Duration;

use async_trait::async_trait;
use bandog_core::{
    Error, Fence, Finding, IfUnused, Inspect, Key, Kind, Member, NamesPage, Pattern, Released, Result, Row, Usage,
    rounded,
};

use crate::{
    Sqlite, check,
    fault::Fault,
    sql,
    states::Change,
    stored_state::StoredState,
    table::{Table, read_lease},
    work::{CheckUsage, Evict, Forget, List, Members, ReadFences, Show},
};

/// Maximum number of names in a part of all names.
const PAGE: usize = 1000;

#[async_trait]
impl Inspect for Sqlite {
    async fn list(&self, pattern: &Pattern) -> Result<Vec<Row>> {
        self.request(List(pattern.clone())).await.map_err(|error| error.during("list"))
    }

    async fn show(&self, key: &Key) -> Result<Row> {
        self.request(Show(key.clone())).await.map_err(|error| error.during("show").at(key))
    }

    async fn members(&self) -> Result<Vec<Member>> {
        self.request(Members).await.map_err(|error| error.during("members"))
    }

    async fn evict(&self, key: &Key) -> Result<Option<Row>> {
        self.request(Evict(key.clone())).await.flatten().map_err(|error| error.during("evict").at(key))
    }

    async fn forget(&self, key: &Key) -> Result<bool> {
        self.request(Forget(key.clone())).await.flatten().map_err(|error| error.during("forget").at(key))
    }

    async fn names_page(&self, pattern: &Pattern, unused_for: Duration, after: Option<&str>) -> Result<NamesPage> {
        let read = ReadFences(pattern.clone(), unused_for, after.unwrap_or_default().to_owned());
        self.request(read).await.map_err(|error| error.during("forget"))
    }

    async fn usage(&self, keys: &[Key], unused_for: Duration, then: IfUnused) -> Result<Vec<Usage>> {
        let check = CheckUsage(keys.to_vec(), unused_for, then);
        self.request(check).await.flatten().map_err(|error| error.during("forget"))
    }

    /// The check has its own thread and its own connection, so that the writer thread can renew leases during the
    /// check.
    ///
    /// If the future is dropped, the thread still finishes the check.
    async fn check(&self) -> Result<Vec<Finding>> {
        let (context, timeout) = (self.clone_context(), self.context().options.timeout);
        let checking = tokio::task::spawn_blocking(move || check::all(&context));
        match tokio::time::timeout(timeout, checking).await {
            Ok(Ok(findings)) => Ok(findings),
            Ok(Err(cause)) => Err(Error::unavailable("the check of the database was cancelled").caused_by(cause)),
            Err(_) => Err(Error::unavailable(format!("the disk did not answer within {}", rounded(timeout)))),
        }
        .map_err(|error| error.during("check"))
    }
}

impl Table<'_> {
    /// The row of one lock, for operators.
    pub(crate) fn show(&mut self, key: &Key) -> Result<Row, Fault> {
        let now_ns = self.host().now_ns();
        let stored = self.load_holds(key, now_ns)?;
        Ok(self.row(key, &stored, now_ns).unwrap_or_else(|| Row::free(key)))
    }

    /// Frees a lock. Returns its row if it was held.
    pub(crate) fn evict(&mut self, key: &Key) -> Result<Option<Row>, Fault> {
        let now_ns = self.host().now_ns();
        let mut stored = self.load_holds(key, now_ns)?;
        let row = self.row(key, &stored, now_ns);
        let before = stored.state.clone();
        if let Released::Freed { .. } = stored.state.evict(self.moment(now_ns)) {
            self.store(key, &mut stored, (&before, None), Change::Freed, now_ns)?;
        }
        Ok(row)
    }

    /// Deletes the rows of a lock, if no claim holds it or waits for it with a place. Returns whether they are deleted.
    pub(crate) fn forget(&mut self, key: &Key) -> Result<bool, Fault> {
        let now_ns = self.host().now_ns();
        let stored = self.load_holds(key, now_ns)?;
        if self.row(key, &stored, now_ns).is_some() || !stored.state.places().is_empty() {
            return Ok(false);
        }
        self.drop_rows(key)?;
        Ok(true)
    }

    /// Whether a name is unused. If it is, its rows are deleted or kept.
    pub(crate) fn usage(&mut self, key: &Key, unused_for: Duration, then: IfUnused) -> Result<Usage, Fault> {
        let now_ns = self.host().now_ns();
        let stored = self.load_holds(key, now_ns)?;
        if stored.state.is_in_use(self.moment(now_ns)) || self.limit(key)?.is_some() {
            return Ok(Usage::Used);
        }
        let usage = Usage::of_fence(stored.state.fence(), self.fence_floor().get(), unused_for);
        if (usage, then) == (Usage::Unused, IfUnused::Forget) {
            self.drop_rows(key)?;
        }
        // The row of a name that was never granted has no fence.
        Ok(if stored.state.fence() == Fence::new(0) { Usage::Absent } else { usage })
    }

    /// Deletes the rows of a lock.
    fn drop_rows(&mut self, key: &Key) -> Result<(), Fault> {
        let has_locks = self.has_locks();
        self.write_together(|table| {
            table.write(sql::DROP_LEASE, [key.as_str()])?;
            table.write(sql::DROP_SIGHTINGS, [key.as_str()])?;
            if has_locks {
                table.write(sql::DROP_CLAIMS, [key.as_str()])?;
                table.write(sql::DROP_LIMIT, [key.as_str()])?;
            }
            Ok(())
        })
    }

    /// A part of all names: those after this one.
    pub(crate) fn fences(&mut self, pattern: &Pattern, unused_for: Duration, after: &str) -> Result<NamesPage, Fault> {
        let now_micros = self.fence_floor().get();
        let (mut page, mut last) = (NamesPage::default(), String::new());
        let mut rows = self.statement(sql::FENCES)?.query((after, PAGE as i64))?;
        while let Some(row) = rows.next()? {
            let (name, fence): (String, i64) = (row.get(0)?, row.get(1)?);
            let is_wanted = pattern.matches(&name)
                && Usage::of_fence(Fence::new(fence.unsigned_abs()), now_micros, unused_for) == Usage::Unused;
            page.keys.extend(Key::new(&name).ok().filter(|_| is_wanted));
            page.seen += 1;
            last = name;
        }
        page.next = (page.seen == PAGE as u64).then_some(last);
        Ok(page)
    }

    /// All held locks whose names match.
    pub(crate) fn list(&mut self, pattern: &Pattern) -> Result<Vec<Row>, Fault> {
        let now_ns = self.host().now_ns();
        let mut claims = self.all_claim_rows()?;
        let mut leases = Vec::new();
        let boot = self.host().boot();
        let mut rows = self.statement(sql::HELD)?.query([boot])?;
        while let Some(row) = rows.next()? {
            let name: String = row.get(7)?;
            if let Some(key) = Key::new(&name).ok().filter(|_| pattern.matches(&name)) {
                leases.push((key, read_lease(row)?));
            }
        }
        drop(rows);
        let mut found = Vec::new();
        for (key, lease) in leases {
            let claims = claims.remove(key.as_str()).unwrap_or_default();
            let limit = if claims.is_empty() { None } else { self.limit(&key)? };
            let stored = self.assemble(&key, lease, claims, limit, now_ns)?;
            found.extend(self.row(&key, &stored, now_ns));
        }
        Ok(found)
    }

    /// The state of a lock. The limit of a semaphore is left out if no client holds permits.
    fn load_holds(&mut self, key: &Key, now_ns: i64) -> Result<StoredState, Fault> {
        self.loaded = None; // The caller may change the rows.
        let (lease, claims) = (self.lease(key)?, self.claim_rows(key)?);
        let limit = if claims.is_empty() { None } else { self.limit(key)? };
        self.assemble(key, lease, claims, limit, now_ns)
    }

    /// The row of this lock for operators. None if no client holds the lock.
    fn row(&self, key: &Key, stored: &StoredState, now_ns: i64) -> Option<Row> {
        let mut row = stored.state.row(key, self.moment(now_ns))?;
        for holder in &mut row.holders {
            if holder.kind == Some(Kind::Mutex) {
                holder.owner.clone_from(&stored.lease.owner); // It can be a text that is not the id of a claim.
            }
        }
        Some(row)
    }
}
