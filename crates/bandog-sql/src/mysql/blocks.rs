//! The usual steps of mutexes on MariaDB: claims of free mutexes, and releases for which no client waits. One statement
//! changes all of its locks, or none. `LockState` decides the other steps.
//!
//! A statement that fails can leave its transaction open until it is rolled back. So no other statement is sent before its
//! answer is there: the next one would commit the half of a claim, or be rolled back with it.

use std::collections::{BTreeMap, HashMap};

use bandog_core::{Answer, Claim, ClaimId, Released};

use super::text::LONG_LIST;
use crate::{
    decisions::{Decided, Decision, granted, micros},
    fault::Fault,
    session::Link,
    statements::Statements,
    value::Parameter,
};

/// Claims these mutexes. A second id is that of the claim that is replaced; such a claim is alone.
pub(crate) async fn claim(link: &Link, asked: &[(&Claim, Option<ClaimId>)]) -> Decided {
    // A statement has one ttl and one number of fences.
    let mut groups: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (number, (claim, _)) in asked.iter().enumerate() {
        groups.entry((claim.ttl, claim.fences)).or_default().push(number);
    }
    let mut claimed = Decided::nothing(asked.len());
    for numbers in groups.values().flat_map(|numbers| numbers.chunks(LONG_LIST)) {
        let group: Vec<_> = numbers.iter().map(|number| asked[*number]).collect();
        match claim_group(link, &group).await {
            Ok(decisions) => {
                numbers
                    .iter()
                    .zip(decisions)
                    .for_each(|(number, decision)| claimed.decisions[*number] = Some(decision));
            }
            Err(fault) => {
                claimed.failed = Some(fault);
                break;
            }
        }
    }
    claimed
}

/// Claims mutexes with the same ttl and number of fences.
async fn claim_group(link: &Link, group: &[(&Claim, Option<ClaimId>)]) -> Result<Vec<Decision>, Fault> {
    let Some((first, other)) = group.first() else { return Ok(Vec::new()) };
    let (names, ids) = names_and_ids(group.iter().map(|(claim, _)| *claim));
    let (other, ttl, fences) = (other.map(|id| id.to_string()), micros(first.ttl), i64::from(first.fences.get()));
    let values = [&names as Parameter<'_>, &ids, &other, &ttl, &fences];
    let Statements { claim, claim_one, .. } = &*link.statements;
    let claimed = link.transaction(if group.len() == 1 { claim_one } else { claim }, &values).await;
    let Some(rows) = if_not_locked(link, claimed).await? else {
        return Ok(group.iter().map(|_| Decision::Complex).collect());
    };
    let mut rows_by_name = HashMap::with_capacity(rows.len());
    for row in &rows {
        rows_by_name.insert(row.try_get::<&str>(0)?, row);
    }
    let decision = |(claim, _): &(&Claim, _)| match rows_by_name.get(claim.key.as_str()) {
        Some(row) => granted(row, row.try_get(1)?, claim),
        None => Ok(Decision::Complex),
    };
    group.iter().map(decision).collect()
}

/// Releases these claims.
pub(crate) async fn release(link: &Link, claims: &[&Claim]) -> Decided {
    let mut released = Decided::nothing(claims.len());
    for (group, decisions) in claims.chunks(LONG_LIST).zip(released.decisions.chunks_mut(LONG_LIST)) {
        // The statements release only locks for which no client waits.
        let freed = || Decision::Answer(Answer::Released(Released::freed(false)));
        match release_group(link, group).await {
            Ok(are_freed) => {
                decisions.fill_with(|| Some(if are_freed { freed() } else { Decision::Complex }));
            }
            Err(fault) => {
                released.failed = Some(fault);
                break;
            }
        }
    }
    released
}

async fn release_group(link: &Link, group: &[&Claim]) -> Result<bool, Fault> {
    let (names, ids) = names_and_ids(group.iter().copied());
    let (Statements { release, release_one, .. }, values) = (&*link.statements, [&names as Parameter<'_>, &ids]);
    let released = if names.len() == 1 {
        link.change(release_one, &values).await.map(|changed| changed == 1)
    } else {
        link.transaction(release, &values).await.map(|rows| !rows.is_empty())
    };
    Ok(if_not_locked(link, released).await?.unwrap_or(false))
}

fn names_and_ids<'c>(claims: impl Iterator<Item = &'c Claim>) -> (Vec<&'c str>, Vec<String>) {
    claims.map(|claim| (claim.key.as_str(), claim.id.to_string())).unzip()
}

/// None if another transaction has locked a row. The statement did not wait for it, and has changed nothing.
async fn if_not_locked<T>(link: &Link, done: Result<T, Fault>) -> Result<Option<T>, Fault> {
    match done {
        Err(fault) if fault.is_lock_timeout() => link.roll_back().await.map(|()| None),
        done => done.map(Some),
    }
}
