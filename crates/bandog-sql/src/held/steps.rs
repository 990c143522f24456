//! Steps and renewals in the modes in which a claim needs the lease and a lock of the database.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bandog_core::{Answer, Claim, Error, Key, Released, Renewal, Result, Step, Verdict};
use futures_util::future::join_all;
use tokio::time::{sleep, timeout};

use super::{Batch, Held};
use crate::{channel::Channel, sql::Sql, want::Want};

/// The time after which a claim is sent again if a session of another program has the lock. It sends no notification.
const POLL: Duration = Duration::from_millis(250);

/// Interval between two attempts to release a lease.
const RETRY: Duration = Duration::from_millis(20);

impl Sql {
    /// Applies steps. Steps of different names are applied at the same time.
    pub(crate) async fn apply_held(&self, held: &Arc<Held>, steps: &[Step]) -> Vec<Result<Answer>> {
        let mut names: BTreeMap<&Key, Vec<usize>> = BTreeMap::new();
        for (number, step) in steps.iter().enumerate() {
            names.entry(step.key()).or_default().push(number);
        }
        let batch = &Batch::new();
        let each = names.into_values().map(|numbers| async move {
            let mut answers = Vec::with_capacity(numbers.len());
            for number in numbers {
                answers.push((number, self.limited(self.step(held, &steps[number], batch)).await));
            }
            answers
        });
        let mut answers: Vec<_> = join_all(each).await.into_iter().flatten().collect();
        answers.sort_unstable_by_key(|(number, _)| *number);
        // A session can end after its claim got the lease, before the other names are done. A session that ends after this
        // check raises the epoch after this answer. So the engine then knows the hold, and renews it.
        let is_last = |number: usize| steps[number + 1..].iter().all(|later| later.key() != steps[number].key());
        answers
            .into_iter()
            .map(|(number, answer)| if is_last(number) { self.confirmed(held, &steps[number], answer) } else { answer })
            .collect()
    }

    /// A grant without a session is no grant. Its claim is sent again, and takes the lock of the database again.
    fn confirmed(&self, held: &Held, step: &Step, answer: Result<Answer>) -> Result<Answer> {
        let (Step::Claim(claim) | Step::Pass { to: claim, .. }) = step else { return answer };
        if !matches!(answer, Ok(Answer::Claimed(Verdict::Granted { .. }))) || held.has(claim) {
            return answer;
        }
        Err(Error::unavailable(format!(
            "the session of {} that has the lock has ended",
            self.context().options.store()
        ))
        .ambiguous())
    }

    async fn step(&self, held: &Arc<Held>, step: &Step, batch: &Batch) -> Result<Answer> {
        match step {
            Step::Claim(claim) => self.claim(held, step, claim, None, batch).await,
            Step::Pass { from, to } => self.claim(held, step, to, Some(&**from), batch).await,
            Step::Release(claim) => {
                // The lease comes last: its release wakes waiters, which need both. If the database does not answer, its
                // lock is freed when it does, or when the ttl has passed.
                let _releasing = held.releasing(claim);
                let was_held = held.free(self.context(), claim).await;
                match (was_held, self.lease(step).await) {
                    // A part of the release may be done. If it is repeated, it finds the other part, or nothing.
                    (Err(error), _) | (Ok(true), Err(error)) => Err(error.ambiguous()),
                    // The database has freed its lock when the session ended, so another session may have had it since.
                    (Ok(false), Ok(Answer::Released(Released::Freed { .. }))) => {
                        Ok(Answer::Released(Released::NotHeld))
                    }
                    (Ok(_), answer) => answer,
                }
            }
        }
    }

    /// Claims the lock of the database, and then the lease.
    ///
    /// # Cancel safety
    /// If the future is dropped, the claim may have both. A release frees both.
    async fn claim(
        &self,
        held: &Arc<Held>,
        step: &Step,
        claim: &Claim,
        from: Option<&Claim>,
        batch: &Batch,
    ) -> Result<Answer> {
        let context = self.context();
        if !held.take(context, claim, from.map(|from| from.id), batch).await? {
            if let Some(from) = from {
                // Its session has ended. The engine does not release a claim that could not pass the lock on.
                self.release_lease(held, from).await;
            }
            if context.subscriptions.has(Channel::of_lock(&claim.key)) {
                self.query(Want(claim.key.clone())).await?;
            }
            return Ok(Answer::Claimed(Verdict::Busy { retry_after: POLL, ahead: None }));
        }
        let answer = self.lease(step).await;
        let may_be_granted = match &answer {
            Ok(Answer::Claimed(Verdict::Granted { .. })) => true,
            Ok(Answer::Claimed(Verdict::Busy { .. }) | Answer::Released(_)) => false,
            Err(error) => error.maybe_applied(),
        };
        if may_be_granted {
            batch.set_granted();
        } else {
            held.free(context, claim).await?;
        }
        answer
    }

    async fn lease(&self, step: &Step) -> Result<Answer> {
        let answer = self.apply_leases(std::slice::from_ref(step)).await.pop();
        answer.unwrap_or_else(|| Err(Error::unavailable("the step was not executed")))
    }

    /// Renews claims. A claim whose session has ended is gone, and its lease is released. The leases are renewed together.
    pub(crate) async fn renew_held(&self, held: &Arc<Held>, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let mut answers = join_all(claims.iter().map(|claim| self.limited(self.renew_one(held, claim)))).await;
        // A session can end while others are renewed. The engine ignores its epoch until it has this answer. Each round has
        // fewer extended claims.
        loop {
            let is_gone =
                |answer: &Result<Renewal>, claim| matches!(answer, Ok(Renewal::Extended { .. })) && !held.has(claim);
            let mut gone = Vec::new();
            for (answer, claim) in answers.iter_mut().zip(claims) {
                if is_gone(answer, claim) {
                    *answer = Ok(Renewal::Gone);
                    gone.push(self.release_lease(held, claim));
                }
            }
            if gone.is_empty() {
                return answers;
            }
            join_all(gone).await;
        }
    }

    async fn renew_one(&self, held: &Arc<Held>, claim: &Claim) -> Result<Renewal> {
        if !held.extend(self.context(), claim).await? {
            self.release_lease(held, claim).await;
            return Ok(Renewal::Gone);
        }
        let renewed = self.renew_leases(std::slice::from_ref(claim)).await.pop();
        let renewed = renewed.unwrap_or_else(|| Err(Error::unavailable("the renewal was not executed")));
        if matches!(renewed, Ok(Renewal::Gone)) {
            // If this fails, the lock is freed when its ttl has passed.
            let _ = held.free(self.context(), claim).await;
        }
        renewed
    }

    /// Releases the lease of a claim whose session has ended. The other connections may have ended, too, so the release is
    /// repeated for half the timeout of a request. If all attempts fail, the lease expires by itself.
    ///
    /// A release that is under way releases the lease itself. Otherwise it would find the claim gone, and report a loss.
    async fn release_lease(&self, held: &Held, claim: &Claim) {
        if held.is_releasing(claim) {
            return;
        }
        let release = Step::Release(claim.clone());
        let released = async {
            while self.lease(&release).await.is_err() {
                sleep(RETRY).await;
            }
        };
        let _ = timeout(self.context().options.timeout / 2, released).await;
    }

    /// Limits the time of a call that has several requests.
    async fn limited<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let options = &self.context().options;
        let limit = options.timeout;
        let late = || Error::unavailable(format!("{} did not answer within {limit:?}", options.store())).ambiguous();
        timeout(limit, work).await.unwrap_or_else(|_| Err(late()))
    }
}
