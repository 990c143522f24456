//! Names that are not used any more.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use bandog_core::{Fence, Key, Moment, NamesPage, Pattern, Result, Usage};

use crate::{
    context::Context,
    fault::Fault,
    job::Query,
    session::Link,
    states::{self, Locked, Purpose, StoredState},
};

/// Maximum number of names in a part of all names, as in `fences.sql`.
const PAGE: u64 = 1000;

/// Reads a part of all names. The text is the last name of the part before.
pub(crate) struct ReadFences(pub(crate) Pattern, pub(crate) Duration, pub(crate) String);

/// Checks which names are unused. Changes nothing.
pub(crate) struct ReadUsage(pub(crate) Vec<Key>, pub(crate) Duration);

/// Deletes the rows of the names that are unused, and whose fence no transaction keeps.
pub(crate) struct ForgetUnused(pub(crate) Vec<Key>, pub(crate) Duration);

#[async_trait]
impl Query for ReadFences {
    type Output = NamesPage;

    async fn run(&self, link: &Link, _: &Context) -> Result<NamesPage, Fault> {
        let Self(pattern, unused_for, after) = self;
        let rows = link.query(&link.statements.fences, &[&after.as_str()]).await?;
        let (mut page, mut last) = (NamesPage { seen: rows.len() as u64, ..NamesPage::default() }, None);
        for row in &rows {
            let name: &str = row.try_get(0)?;
            let fence = Fence::new(row.try_get::<i64>(1)?.unsigned_abs());
            let now = micros(states::moment(row.try_get(2)?));
            let is_wanted = pattern.matches(name) && Usage::of_fence(fence, now, *unused_for) == Usage::Unused;
            page.keys.extend(Key::new(name).ok().filter(|_| is_wanted));
            last = Some(name);
        }
        page.next = last.filter(|_| page.seen == PAGE).map(str::to_owned);
        Ok(page)
    }
}

#[async_trait]
impl Query for ReadUsage {
    type Output = Result<Vec<Usage>>;

    async fn run(&self, link: &Link, _: &Context) -> Result<Self::Output, Fault> {
        let Self(keys, unused_for) = self;
        let names: Vec<_> = keys.iter().map(Key::as_str).collect();
        let rows = link.query(&link.statements.show, &[&names]).await?;
        let mut found = BTreeMap::new();
        for row in &rows {
            let usage = match states::read(row)? {
                Ok(stored) => usage(&stored, states::moment(row.try_get(7)?), *unused_for),
                Err(_) => Usage::Used, // The contents are those of another program.
            };
            found.insert(row.try_get::<&str>(0)?, usage);
        }
        Ok(Ok(names.iter().map(|name| found.get(name).copied().unwrap_or(Usage::Absent)).collect()))
    }
}

#[async_trait]
impl Query for ForgetUnused {
    type Output = Result<Vec<Usage>>;

    /// Rows that another transaction has locked are in use. The other rows are checked and deleted in one transaction.
    async fn run(&self, link: &Link, _: &Context) -> Result<Self::Output, Fault> {
        let Self(keys, unused_for) = self;
        let locked = Locked::begin_some(link, keys.iter().cloned().collect(), Purpose::Grant).await?;
        let (mut usages, mut names) = (Vec::with_capacity(keys.len()), Vec::new());
        for key in keys {
            let stored = locked.states.get(key).and_then(|stored| stored.as_ref().ok());
            let Some(stored) = stored.filter(|_| !locked.is_kept(key)) else {
                usages.push(Usage::Used);
                continue;
            };
            if !stored.state.is_in_use(locked.now)
                && Usage::of_fence(stored.state.fence(), micros(locked.now), *unused_for) == Usage::Unused
            {
                names.push(key.as_str());
            }
            usages.push(usage(stored, locked.now, *unused_for));
        }
        if names.is_empty() {
            link.commit().await?;
            return Ok(Ok(usages));
        }
        let forget = &link.statements.forget;
        let parameters: Vec<[crate::value::Parameter<'_>; 1]> = names.iter().map(|name| [name as _]).collect();
        let statements: Vec<_> = parameters.iter().map(|name| (forget.as_str(), &name[..])).collect();
        link.end(&statements).await?;
        Ok(Ok(usages))
    }
}

/// The usage of the name with this state.
fn usage(stored: &StoredState, now: Moment, unused_for: Duration) -> Usage {
    // The rows of a name that was never granted have no fence. They are created before the first claim.
    if stored.state.fence() == Fence::new(0) && !stored.state.is_in_use(now) {
        return Usage::Absent;
    }
    Usage::of_state(&stored.state, now, micros(now), unused_for)
}

/// The time of the database in microseconds, at which fences begin.
fn micros(now: Moment) -> u64 {
    now.as_nanos() / 1000
}
