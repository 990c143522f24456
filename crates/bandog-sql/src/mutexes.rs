//! Mutexes without a queue: statements for many names, and a shorter one for one name. The statements contain the rules.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use async_trait::async_trait;
use bandog_core::{Answer, Claim, ClaimId, Error, Key, OFFER, Released, Renewal, Result, Step, Verdict};
use futures_util::future::join;
use tokio::sync::oneshot;

use crate::{
    channel::Channel,
    context::Context,
    decisions::{Decided, Decision, granted, micros, strange},
    fault::Fault,
    job::Request,
    row::Row,
    session::Link,
    states,
    value::Parameter,
};
#[cfg(feature = "mysql")]
use crate::{mysql::blocks, session::Decides};

/// Maximum number of attempts at a renewal whose row another transaction has locked: 65 ms together, on average. A node that
/// writes records all the time keeps its lease locked on MySQL, with short gaps.
const MAX_ATTEMPTS: u32 = 16;

/// The columns of a claim.
#[derive(Default)]
struct ClaimColumns<'a> {
    names: Vec<&'a str>,
    ids: Vec<String>,
    others: Vec<Option<String>>,
    ttls: Vec<i64>,
    fences: Vec<i64>,
    offers: Vec<bool>,
    waits: Vec<bool>,
}

/// Claims and passes of mutexes. Each name is there once.
///
/// A lock gets its rows at its first claim. So that this takes no further round trip, the statement that creates rows is
/// sent before the claims of all names that this process has not claimed yet. A claim that was granted is answered even
/// if that statement has failed: its caller would not release it otherwise.
pub(crate) async fn claim(link: &Link, context: &Context, steps: &[&Step]) -> Decided {
    let asked: Vec<_> = steps.iter().filter_map(|step| asked(step)).collect();
    let new = context.known_names.unknown(asked.iter().map(|(claim, _)| &claim.key));
    let (inserted, claimed) = join(insert(link, &new), claim_all(link, context, &asked)).await;
    let failed = inserted.err().filter(|fault| !fault.is_lock_timeout());
    if failed.is_none() {
        context.known_names.add(new);
    }
    let Decided { mut decisions, failed: refused } = claimed;
    let failed = failed.or(refused);
    if failed.is_none() {
        // The rows are missing or locked.
        decisions.iter_mut().for_each(|decision| *decision = decision.take().or(Some(Decision::Complex)));
    }
    Decided { decisions, failed }
}

/// Creates the rows of these locks, if they do not exist.
async fn insert(link: &Link, keys: &BTreeSet<Key>) -> Result<(), Fault> {
    if keys.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = keys.iter().map(Key::as_str).collect();
    link.query(&link.statements.insert, &[&names]).await.map(drop)
}

/// The claim of a step, and the claim that it replaces.
fn asked(step: &Step) -> Option<(&Claim, Option<ClaimId>)> {
    match step {
        Step::Claim(claim) => Some((claim, None)),
        Step::Pass { from, to } => Some((to, Some(from.id))),
        Step::Release(_) => None,
    }
}

/// Sends claims. A claim without a decision has a row that is missing, or that another transaction has locked.
async fn claim_all(link: &Link, context: &Context, asked: &[(&Claim, Option<ClaimId>)]) -> Decided {
    #[cfg(feature = "mysql")]
    if link.decides == Decides::UsualSteps {
        return blocks::claim(link, asked).await;
    }
    match claim_on_postgres(link, context, asked).await {
        Ok(decisions) => Decided { decisions, failed: None },
        Err(fault) => Decided { failed: Some(fault), ..Decided::nothing(asked.len()) },
    }
}

async fn claim_on_postgres(
    link: &Link,
    context: &Context,
    asked: &[(&Claim, Option<ClaimId>)],
) -> Result<Vec<Option<Decision>>, Fault> {
    // A lock for which this process subscribes is held, probably.
    if let [(claim, None)] = asked
        && !context.subscriptions.has(Channel::of_lock(&claim.key))
    {
        let (name, id, ttl) = (claim.key.as_str(), claim.id.to_string(), micros(claim.ttl));
        let values = [&name as Parameter<'_>, &id, &ttl, &i64::from(claim.fences.get())];
        if let [row] = &link.transaction(&link.statements.claim_one, &values).await?[..] {
            return Ok(vec![Some(granted(row, row.try_get(0)?, claim)?)]);
        }
    }
    claim_many(link, context, asked).await
}

async fn claim_many(
    link: &Link,
    context: &Context,
    asked: &[(&Claim, Option<ClaimId>)],
) -> Result<Vec<Option<Decision>>, Fault> {
    let mut decisions: Vec<_> = asked.iter().map(|_| None).collect();
    if asked.is_empty() {
        return Ok(decisions);
    }
    let mut columns = ClaimColumns::default();
    for (claim, other) in asked {
        columns.names.push(claim.key.as_str());
        columns.ids.push(claim.id.to_string());
        columns.others.push(other.map(|other| other.to_string()));
        columns.ttls.push(micros(claim.ttl));
        columns.fences.push(claim.fences.get().into());
        columns.offers.push(claim.offers);
        columns.waits.push(context.subscriptions.has(Channel::of_lock(&claim.key)));
    }
    let ClaimColumns { names, ids, others, ttls, fences, offers, waits } = &columns;
    let offered = ClaimId::OFFERED.to_string();
    let values = [names as Parameter<'_>, ids, others, ttls, fences, offers, waits, &offered];
    let rows = link.transaction(&link.statements.claim, &values).await?;
    let numbers = numbers(names);
    for row in &rows {
        let number = *numbers.get(row.try_get::<&str>(0)?).ok_or_else(|| strange(row))?;
        decisions[number] = Some(decision(row, asked[number].0)?);
    }
    Ok(decisions)
}

/// The place of each name.
fn numbers<'n>(names: &[&'n str]) -> HashMap<&'n str, usize> {
    names.iter().enumerate().map(|(number, name)| (*name, number)).collect()
}

/// The result of a claim.
fn decision(row: &Row, claim: &Claim) -> Result<Decision, Fault> {
    let verdict: &str = row.try_get(1)?;
    let verdict = match verdict {
        "complex" => return Ok(Decision::Complex),
        "granted" | "again" => return granted(row, row.try_get(2)?, claim),
        "busy" => {
            let left: i64 = row.try_get(3)?;
            Verdict::Busy { retry_after: Duration::from_micros(left.max(0).unsigned_abs()), ahead: None }
        }
        _ => return Err(strange(row)),
    };
    Ok(Decision::Answer(Answer::Claimed(verdict)))
}

/// Releases of mutexes. Each name is there once.
pub(crate) async fn release(link: &Link, steps: &[&Step]) -> Decided {
    let claims: Vec<_> = steps.iter().filter_map(|step| released(step)).collect();
    #[cfg(feature = "mysql")]
    if link.decides == Decides::UsualSteps {
        return blocks::release(link, &claims).await;
    }
    match release_on_postgres(link, &claims).await {
        Ok(decisions) => Decided { decisions: decisions.into_iter().map(Some).collect(), failed: None },
        Err(fault) => Decided { failed: Some(fault), ..Decided::nothing(claims.len()) },
    }
}

async fn release_on_postgres(link: &Link, claims: &[&Claim]) -> Result<Vec<Decision>, Fault> {
    match claims {
        [] => return Ok(Vec::new()),
        [claim] => {
            let (name, id) = (claim.key.as_str(), claim.id.to_string());
            if !link.transaction(&link.statements.release_one, &[&name, &id]).await?.is_empty() {
                return Ok(vec![Decision::Answer(Answer::Released(Released::freed(false)))]);
            }
        }
        [_, ..] => {}
    }
    release_many(link, claims).await
}

async fn release_many(link: &Link, claims: &[&Claim]) -> Result<Vec<Decision>, Fault> {
    let names: Vec<_> = claims.iter().map(|claim| claim.key.as_str()).collect();
    let ids: Vec<_> = claims.iter().map(|claim| claim.id.to_string()).collect();
    let offers: Vec<_> = claims.iter().map(|claim| claim.offers).collect();
    let channels: Vec<_> = claims.iter().map(|claim| Channel::of_lock(&claim.key).to_string()).collect();
    let (offered, offer) = (ClaimId::OFFERED.to_string(), micros(OFFER));
    let values = [&names as Parameter<'_>, &ids, &offers, &channels, &offered, &offer];
    // A row that is missing or locked has no verdict.
    let mut decisions: Vec<_> = claims.iter().map(|_| Decision::Complex).collect();
    let rows = link.transaction(&link.statements.release, &values).await?;
    let numbers = numbers(&names);
    for row in &rows {
        let number = *numbers.get(row.try_get::<&str>(0)?).ok_or_else(|| strange(row))?;
        decisions[number] = match row.try_get(1)? {
            "freed" => Decision::Answer(Answer::Released(Released::freed(row.try_get(2)?))),
            "not held" => Decision::Answer(Answer::Released(Released::NotHeld)),
            "complex" => Decision::Complex,
            _ => return Err(strange(row)),
        };
    }
    Ok(decisions)
}

/// The claim that a step releases.
fn released(step: &Step) -> Option<&Claim> {
    match step {
        Step::Release(claim) => Some(claim),
        Step::Claim(_) | Step::Pass { .. } => None,
    }
}

/// The renewals of several calls.
#[derive(Default)]
pub(crate) struct Renewals {
    claims: Vec<Claim>,
    answers: Vec<Option<Result<Renewal>>>,
    calls: Vec<(usize, oneshot::Sender<Vec<Result<Renewal>>>)>,
    /// How often a claim was left out, because another transaction had locked its row.
    attempts: u32,
}

impl Renewals {
    pub(crate) fn add(&mut self, claims: Vec<Claim>, reply: oneshot::Sender<Vec<Result<Renewal>>>) {
        self.calls.push((claims.len(), reply));
        self.answers.resize(self.answers.len() + claims.len(), None);
        self.claims.extend(claims);
    }

    /// Sends the answers. The claims without an answer get this error.
    pub(crate) fn finish(self, failed: Option<Error>) {
        let failed = failed.unwrap_or_else(|| Error::unavailable("the renewal was not executed"));
        let mut answers = self.answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(failed.clone())));
        for (count, reply) in self.calls {
            // If the receiver is dropped, no caller waits for the answers.
            let _ = reply.send(answers.by_ref().take(count).collect());
        }
    }
}

#[async_trait]
impl Request for Renewals {
    async fn run(&mut self, link: &Link, context: &Context) -> Result<(), Fault> {
        let open: Vec<_> = (0..self.claims.len()).filter(|number| self.answers[*number].is_none()).collect();
        let asked: Vec<_> = open.iter().map(|number| &self.claims[*number]).collect();
        let renewed = if link.statements.renew_mutexes() {
            renew(link, &asked).await?
        } else {
            asked.iter().map(|_| None).collect()
        };
        let mut complex = Vec::new();
        for (number, renewal) in open.into_iter().zip(renewed) {
            match renewal {
                Some(renewal) => self.answers[number] = Some(Ok(renewal)),
                None => complex.push(number),
            }
        }
        if complex.is_empty() {
            return Ok(());
        }
        let claims: Vec<_> = complex.iter().map(|number| &self.claims[*number]).collect();
        let answers = states::renew(link, context, &claims).await?;
        let mut is_locked = false;
        for (number, answer) in complex.into_iter().zip(answers) {
            is_locked |= answer.is_none();
            self.answers[number] = answer;
        }
        if !is_locked {
            return Ok(());
        }
        self.attempts += 1;
        if self.attempts < MAX_ATTEMPTS {
            return Err(Fault::row_locked());
        }
        // The engine sends these renewals again soon. So one row delays no other renewal.
        for answer in self.answers.iter_mut().filter(|answer| answer.is_none()) {
            *answer = Some(Err(states::row_locked()));
        }
        Ok(())
    }

    fn finish(self: Box<Self>, failed: Option<Error>) {
        Self::finish(*self, failed);
    }
}

/// Renews these claims. None for a lock that is more than a mutex without a queue.
pub(crate) async fn renew(link: &Link, claims: &[&Claim]) -> Result<Vec<Option<Renewal>>, Fault> {
    let names: Vec<_> = claims.iter().map(|claim| claim.key.as_str()).collect();
    let ids: Vec<_> = claims.iter().map(|claim| claim.id.to_string()).collect();
    let ttls: Vec<_> = claims.iter().map(|claim| micros(claim.ttl)).collect();
    let rows = link.query(&link.statements.renew, &[&names, &ids, &ttls]).await?;
    let mut verdicts = HashMap::with_capacity(rows.len());
    for row in &rows {
        let place: (&str, &str) = (row.try_get(0)?, row.try_get(1)?);
        let verdict: &str = row.try_get(2)?;
        verdicts.insert(place, verdict);
    }
    let answer = |(claim, id): (&&Claim, &String)| match verdicts.get(&(claim.key.as_str(), id.as_str())) {
        Some(&"extended") => Some(Renewal::Extended { valid_for: claim.ttl }),
        Some(&"gone") => Some(Renewal::Gone),
        Some(_) | None => None,
    };
    Ok(claims.iter().zip(&ids).map(answer).collect())
}
