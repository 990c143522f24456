//! Queries for operators.

use std::{collections::BTreeSet, time::Duration};

use async_trait::async_trait;
use bandog_core::{
    ErrorKind, Finding, IfUnused, Inspect, Key, Member, NamesPage, Pattern, Released, Result, Row, Usage,
};

use crate::{
    check,
    context::Context,
    dial::is_full,
    fault::Fault,
    job::Query,
    limits,
    options::Layout,
    registry::Members,
    rights,
    session::Link,
    sql::Sql,
    states::{self, Locked, Purpose},
    unused::{ForgetUnused, ReadFences, ReadUsage},
};

#[async_trait]
impl Inspect for Sql {
    async fn list(&self, pattern: &Pattern) -> Result<Vec<Row>> {
        self.query(List(pattern.clone())).await.map_err(|error| error.during("list"))
    }

    async fn show(&self, key: &Key) -> Result<Row> {
        let shown = self.query_in_order(Show(vec![key.clone()])).await.flatten();
        let row = shown.map(|rows| rows.into_iter().next().unwrap_or_else(|| Row::free(key)));
        row.map_err(|error| error.during("show").at(key))
    }

    async fn show_all(&self, keys: &[Key]) -> Result<Vec<Row>> {
        self.query_in_order(Show(keys.to_vec())).await.flatten().map_err(|error| error.during("show"))
    }

    async fn members(&self) -> Result<Vec<Member>> {
        self.query(Members).await.map_err(|error| error.during("members"))
    }

    async fn evict(&self, key: &Key) -> Result<Option<Row>> {
        self.query_in_order(Evict(key.clone())).await.flatten().map_err(|error| error.during("evict").at(key))
    }

    async fn forget(&self, key: &Key) -> Result<bool> {
        self.query_in_order(Forget(key.clone())).await.flatten().map_err(|error| error.during("forget").at(key))
    }

    async fn names_page(&self, pattern: &Pattern, unused_for: Duration, after: Option<&str>) -> Result<NamesPage> {
        let read = ReadFences(pattern.clone(), unused_for, after.unwrap_or_default().to_owned());
        self.query(read).await.map_err(|error| error.during("forget"))
    }

    async fn usage(&self, keys: &[Key], unused_for: Duration, then: IfUnused) -> Result<Vec<Usage>> {
        let usage = match then {
            IfUnused::Keep => self.query(ReadUsage(keys.to_vec(), unused_for)).await.flatten(),
            IfUnused::Forget => self.query(ForgetUnused(keys.to_vec(), unused_for)).await.flatten(),
        };
        usage.map_err(|error| error.during("forget"))
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        let found = match self.query(check::Check).await {
            Err(error) if is_full(&error) => Ok(vec![limits::no_connection(&error)]),
            // A refused password is not sent again: some servers lock the account after a few.
            Err(error) if error.kind() == ErrorKind::Denied && !error.is_about_login() => {
                rights::of_refused(self.context(), error).await
            }
            found => found,
        };
        found.map_err(|error| error.during("check"))
    }
}

/// Reads all held locks whose names match. It reads the whole table, so it does not delay the claims.
struct List(Pattern);

#[async_trait]
impl Query for List {
    type Output = Vec<Row>;

    async fn run(&self, link: &Link, _: &Context) -> Result<Vec<Row>, Fault> {
        let rows = link.query(&link.statements.list, &[]).await?;
        let mut found = Vec::new();
        for row in &rows {
            let name: &str = row.try_get(0)?;
            let Some(key) = Key::new(name).ok().filter(|_| self.0.matches(name)) else { continue };
            // A row with contents of another program is left out.
            if let Ok(stored) = states::read(row)? {
                found.extend(stored.row(&key, states::moment(row.try_get(7)?)));
            }
        }
        Ok(found)
    }
}

/// Reads these locks.
struct Show(Vec<Key>);

#[async_trait]
impl Query for Show {
    type Output = Result<Vec<Row>>;

    async fn run(&self, link: &Link, _: &Context) -> Result<Self::Output, Fault> {
        let names: Vec<_> = self.0.iter().map(Key::as_str).collect();
        let rows = link.query(&link.statements.show, &[&names]).await?;
        let mut shown: Vec<_> = self.0.iter().map(Row::free).collect();
        for row in &rows {
            let name: &str = row.try_get(0)?;
            let stored = match states::read(row)? {
                Ok(stored) => stored,
                Err(error) => return Ok(Err(error)),
            };
            let now = states::moment(row.try_get(7)?);
            for (key, shown) in self.0.iter().zip(&mut shown).filter(|(key, _)| key.as_str() == name) {
                if let Some(row) = stored.row(key, now) {
                    *shown = row;
                }
            }
        }
        Ok(Ok(shown))
    }
}

/// Frees a lock from its holders.
struct Evict(Key);

#[async_trait]
impl Query for Evict {
    type Output = Result<Option<Row>>;

    async fn run(&self, link: &Link, context: &Context) -> Result<Self::Output, Fault> {
        let Self(key) = self;
        if matches!(context.options.layout, Layout::ShedLock(_)) {
            // A hold of another program has no rows in the other tables.
            match Show(vec![key.clone()]).run(link, context).await? {
                Ok(rows) if rows.iter().any(Row::is_held) => {}
                Ok(_) => return Ok(Ok(None)),
                Err(error) => return Ok(Err(error)),
            }
            link.query(&link.statements.insert, &[&vec![key.as_str()]]).await?;
        }
        let mut locked = Locked::begin(link, BTreeSet::from([key.clone()]), Purpose::Change).await?;
        let evicted = locked.change(key, |stored, now| {
            let row = stored.row(key, now);
            Ok((row, stored.state.evict(now)))
        });
        if let Ok((_, Released::Freed { .. })) = evicted {
            locked.notify(key);
        }
        locked.commit(link).await?;
        Ok(evicted.map(|(row, _)| row))
    }
}

/// Deletes the rows of a lock that no claim holds, for which no claim has a place, and whose fence no transaction keeps.
struct Forget(Key);

#[async_trait]
impl Query for Forget {
    type Output = Result<bool>;

    async fn run(&self, link: &Link, _: &Context) -> Result<Self::Output, Fault> {
        let Self(key) = self;
        let mut locked = Locked::begin(link, BTreeSet::from([key.clone()]), Purpose::Grant).await?;
        let is_free = locked.change(key, |stored, now| {
            let is_waited_for = stored.state.places().iter().any(|place| now < place.until);
            Ok(stored.state.row(key, now).is_none() && !is_waited_for)
        });
        let is_free = is_free.map(|is_free| is_free && !locked.is_kept(key));
        match is_free {
            Ok(true) => {
                link.end(&[(&link.statements.forget, &[&key.as_str()])]).await?;
                Ok(Ok(true))
            }
            Ok(false) | Err(_) => {
                link.commit().await?;
                Ok(is_free)
            }
        }
    }
}
