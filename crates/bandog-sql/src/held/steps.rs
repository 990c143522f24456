//! Steps and renewals in the modes in which a claim needs the lease and a lock of the database.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bandog_core::{Answer, Claim, ClaimId, Error, Key, Renewal, Result, Step, Verdict};
use futures_util::future::join_all;
use tokio::time::{sleep, timeout};

use super::Held;
use crate::{
    leases::{Sql, Want},
    listen::Channel,
};

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
        let each = names.into_values().map(|numbers| async move {
            let mut answers = Vec::with_capacity(numbers.len());
            for number in numbers {
                answers.push((number, self.limited(self.step(held, &steps[number])).await));
            }
            answers
        });
        let mut answers: Vec<_> = join_all(each).await.into_iter().flatten().collect();
        answers.sort_unstable_by_key(|(number, _)| *number);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    async fn step(&self, held: &Arc<Held>, step: &Step) -> Result<Answer> {
        match step {
            Step::Claim(claim) => self.claim(held, step, claim, None).await,
            Step::Pass { from, to } => self.claim(held, step, to, Some(from.id)).await,
            Step::Release(claim) => {
                // The lease comes last: its release wakes waiters, which need both. If the database does not answer, its
                // lock is freed when it does, or when the ttl has passed.
                let freed = held.free(self.context(), claim).await;
                let answer = self.lease(step).await;
                freed.and(answer)
            }
        }
    }

    /// Claims the lock of the database, and then the lease.
    ///
    /// # Cancel safety
    /// If the future is dropped, the claim may have both. A release frees both.
    async fn claim(&self, held: &Arc<Held>, step: &Step, claim: &Claim, from: Option<ClaimId>) -> Result<Answer> {
        let context = self.context();
        if !held.take(context, claim, from).await? {
            if context.listener.has(Channel::of_lock(&claim.key)) {
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
        if !may_be_granted {
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
        join_all(claims.iter().map(|claim| self.limited(self.renew_one(held, claim)))).await
    }

    async fn renew_one(&self, held: &Arc<Held>, claim: &Claim) -> Result<Renewal> {
        if !held.extend(self.context(), claim).await? {
            self.release_lease(claim).await;
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
    async fn release_lease(&self, claim: &Claim) {
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
