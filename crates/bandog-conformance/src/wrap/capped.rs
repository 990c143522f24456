//! A backend that grants less than was requested.

use std::{num::NonZeroU32, time::Duration};

use bandog_core::{Answer, Backend, Claim, MAX_BLOCK, MAX_TTL, Renewal, Result, Step};

use super::{Hooks, Wrapped};

/// A backend that limits the duration of a hold, or the number of fences of a grant.
///
/// If a claim, a pass or a renewal requests more than the limit, this backend grants only the limit. (A pass gives a
/// lock from one claim to another.) The answer says what was granted, as the trait `Leases` requires.
pub type Capped<B> = Wrapped<Caps, B>;

/// The limits of a [`Capped`] backend.
#[derive(Debug)]
pub struct Caps {
    max_ttl: Duration,
    max_fences: NonZeroU32,
}

impl<B: Backend> Capped<B> {
    /// Wraps this backend, and shortens its leases: a hold lasts for at most `max_ttl` after its grant or its last
    /// renewal.
    pub fn short_leases(backend: B, max_ttl: Duration) -> Self {
        Self::wrap(backend, Caps { max_ttl, max_fences: MAX_BLOCK })
    }

    /// Wraps this backend, and limits its fences: a grant reserves at most `max_fences` fences.
    pub fn few_fences(backend: B, max_fences: NonZeroU32) -> Self {
        Self::wrap(backend, Caps { max_ttl: MAX_TTL, max_fences })
    }
}

impl Hooks for Caps {
    async fn apply<B: Backend>(&self, inner: &B, steps: &[Step]) -> Vec<Result<Answer>> {
        let steps: Vec<_> = steps.iter().map(|step| self.capped_step(step)).collect();
        inner.apply(&steps).await
    }

    async fn renew<B: Backend>(&self, inner: &B, claims: &[Claim]) -> Vec<Result<Renewal>> {
        let claims: Vec<_> = claims.iter().map(|claim| self.capped(claim)).collect();
        inner.renew(&claims).await
    }
}

impl Caps {
    /// This claim with at most the maximum ttl and the maximum number of fences.
    fn capped(&self, claim: &Claim) -> Claim {
        let (ttl, fences) = (claim.ttl.min(self.max_ttl), claim.fences.min(self.max_fences));
        Claim { ttl, fences, ..claim.clone() }
    }

    fn capped_step(&self, step: &Step) -> Step {
        match step {
            Step::Claim(claim) => Step::Claim(self.capped(claim)),
            Step::Release(claim) => Step::Release(claim.clone()),
            Step::Pass { from, to } => Step::Pass { from: from.clone(), to: self.capped(to) },
        }
    }
}
