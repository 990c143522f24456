//! The usual steps of mutexes on MariaDB: claims of free mutexes, and releases for which no client waits. One statement
//! changes all of its locks, or none. `LockState` decides the other steps.
//!
//! A statement that fails can leave its transaction open until it is rolled back. So no other statement is sent before its
//! answer is there: the next one would commit the half of a claim, or be rolled back with it.

use std::collections::{BTreeMap, HashMap};

use bandog_core::{Answer, Claim, ClaimId, Fence, Fences, Released, Verdict};

use super::text::LONG_LIST;
use crate::{
    fault::Fault,
    mutexes::{Decided, Decision, micros, strange},
    session::Link,
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
    let granted = link.transaction(link.statements.claim_of(names.len()), &values).await;
    let Some(rows) = if_not_locked(link, granted).await? else {
        return Ok(group.iter().map(|_| Decision::Complex).collect());
    };
    let mut last = HashMap::with_capacity(rows.len());
    for row in &rows {
        let fence: i64 = row.try_get(1)?;
        last.insert(row.try_get::<&str>(0)?, Fence::new(u64::try_from(fence).map_err(|_| strange(row))?));
    }
    let decision = |(claim, _): &(&Claim, _)| match last.get(claim.key.as_str()) {
        Some(last) => {
            let fences = Fences::ending(*last, claim.fences);
            let verdict = Verdict::Granted { fences, valid_for: claim.ttl, followers: Vec::new() };
            Decision::Answer(Answer::Claimed(verdict))
        }
        None => Decision::Complex,
    };
    Ok(group.iter().map(decision).collect())
}

/// Releases these claims.
pub(crate) async fn release(link: &Link, claims: &[&Claim]) -> Decided {
    let mut released = Decided::nothing(claims.len());
    for (group, decisions) in claims.chunks(LONG_LIST).zip(released.decisions.chunks_mut(LONG_LIST)) {
        let freed = || Decision::Answer(Answer::Released(Released::Freed { others: None }));
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
    let (statement, values) = (link.statements.release_of(names.len()), [&names as Parameter<'_>, &ids]);
    let released = if names.len() == 1 {
        link.change(statement, &values).await.map(|changed| changed == 1)
    } else {
        link.transaction(statement, &values).await.map(|rows| !rows.is_empty())
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
