//! Helper functions of the laws about kinds of locks. The claims of these laws are sent directly to a backend.

use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use bandog_core::{
    Answer, Backend, Claim, Error, ErrorKind, Fences, Inspect, Kind, Leases, Notifier, Released, Row, Step,
    Subscription, Verdict,
};

use crate::{
    Can, Law, Unkept, World,
    kit::{MAX_WAIT, bare_claim, claim, only_answer, release, until, verdict},
};

/// The ttl of holds that must not expire during a law.
pub(crate) const LONG: Duration = Duration::from_secs(600);

/// One of each kind of lock. The semaphore has five permits, and its claim takes two of them.
pub(crate) const KINDS: [Kind; 5] = [Kind::Mutex, Kind::Fair, Kind::Read, Kind::Write, permits(2, 5)];

/// Permits of a semaphore: `take` of `of`.
pub(crate) const fn permits(take: u32, of: u32) -> Kind {
    Kind::Permits { take: number(take), of: number(of) }
}

/// A number of permits.
pub(crate) const fn number(permits: u32) -> NonZeroU32 {
    NonZeroU32::new(permits).expect("the number is not zero")
}

/// A new claim of this kind. Like a claim of a `try_` method, it gets no place if it is refused.
pub(crate) fn attempt(kind: Kind, name: &str) -> Claim {
    Claim { kind, ..bare_claim(name, LONG) }
}

/// A new claim of this kind that gets a place if it is refused, as far as its kind has places.
pub(crate) fn waiting(kind: Kind, name: &str) -> Claim {
    Claim { joins: true, ..attempt(kind, name) }
}

/// A new claim of this kind of a client that starves.
pub(crate) fn starving(kind: Kind, name: &str) -> Claim {
    Claim { offers: true, ..waiting(kind, name) }
}

/// The same claim with another ttl.
pub(crate) fn for_only(ttl: Duration, claim: Claim) -> Claim {
    Claim { ttl, ..claim }
}

/// Sends a claim that must be granted.
pub(crate) async fn granted(backend: &impl Backend, asked: &Claim) -> Result<Fences, Error> {
    let fences = claim(backend, asked).await?;
    Ok(fences.unwrap_or_else(|| panic!("the claim of {} was refused: {:?}", asked.kind, asked.id)))
}

/// Sends a claim that must be refused because of other claims. Returns [`Verdict::Busy`]'s `retry_after` and `ahead`.
pub(crate) async fn refused(backend: &impl Backend, asked: &Claim) -> Result<(Duration, Option<u32>), Error> {
    match verdict(backend, asked).await? {
        Verdict::Busy { retry_after, ahead } => Ok((retry_after, ahead)),
        Verdict::Granted { fences, .. } => panic!("the claim of {} was granted with {fences:?}", asked.kind),
    }
}

/// Repeats a claim until it is granted, for at most `limit`.
pub(crate) async fn granted_within(limit: Duration, backend: &impl Backend, asked: &Claim) -> Fences {
    let try_once = async || match claim(backend, asked).await {
        Ok(Some(fences)) => Ok(fences),
        Ok(None) => Err(format!("{} is refused", asked.kind)),
        Err(error) => Err(error.to_string()),
    };
    bandog_testkit::eventually_async(limit, try_once).await
}

/// Sends a release of a claim that must hold the lock.
pub(crate) async fn freed(backend: &impl Backend, held: &Claim) -> Law {
    assert!(release(backend, held).await?, "the claim of {} did not hold the lock", held.kind);
    Ok(())
}

/// Sends a release of a claim that does not hold the lock. Returns true if the claim had a place.
pub(crate) async fn left_queue(backend: &impl Backend, asked: &Claim) -> Result<bool, Error> {
    match only_answer(backend.apply(&[Step::Release(asked.clone())]).await)? {
        Answer::Released(Released::LeftQueue) => Ok(true),
        Answer::Released(Released::NotHeld) => Ok(false),
        answer => panic!("a release of a claim that holds nothing was answered with {answer:?}"),
    }
}

/// Sends a pass, and returns the fences of `to`, or `None` if `to` was refused because of other claims.
pub(crate) async fn pass(backend: &impl Backend, from: &Claim, to: &Claim) -> Result<Option<Fences>, Error> {
    match only_answer(backend.apply(&[Step::Pass { from: Box::new(from.clone()), to: to.clone() }]).await)? {
        Answer::Claimed(Verdict::Granted { fences, .. }) => Ok(Some(fences)),
        Answer::Claimed(Verdict::Busy { .. }) => Ok(None),
        Answer::Released(_) => panic!("a pass was answered as a release"),
    }
}

/// An answer in words, without the parts that depend on the store's clock, fences and subscribers.
pub(crate) fn word(answer: &Result<Answer, Error>) -> String {
    match answer {
        Ok(Answer::Claimed(Verdict::Granted { .. })) => "granted".into(),
        Ok(Answer::Claimed(Verdict::Busy { .. })) => "busy".into(),
        Ok(Answer::Released(Released::Freed { .. })) => "freed".into(),
        Ok(Answer::Released(Released::LeftQueue)) => "left the queue".into(),
        Ok(Answer::Released(Released::NotHeld)) => "not held".into(),
        Err(error) if matches!(error.kind(), ErrorKind::Denied | ErrorKind::Misused) => format!("{:?}", error.kind()),
        Err(error) => error.to_string(),
    }
}

/// The row of a lock without the remaining ttls, so that rows of different times can be compared. The holders are
/// sorted by owner.
pub(crate) async fn row(backend: &impl Inspect, claim: &Claim) -> Result<Row, Error> {
    Ok(without_ttl(backend.show(&claim.key).await?))
}

/// See [`row`].
pub(crate) fn without_ttl(mut row: Row) -> Row {
    row.holders.iter_mut().for_each(|holder| holder.ttl = None);
    row.holders.sort_by(|a, b| a.owner.cmp(&b.owner));
    row
}

/// The law does not apply to a backend that lacks one of these kinds.
pub(crate) fn needs(backend: &impl Leases, kinds: &[Kind]) -> Can {
    let has = backend.profile().kinds;
    match kinds.iter().find(|kind| !has.contains(**kind)).map(|kind| kind.name()) {
        None => Ok(()),
        Some("fair") => Err(Unkept::Cannot("it has no fair mutexes")),
        Some("read-write") => Err(Unkept::Cannot("it has no read-write locks")),
        Some("semaphore") => Err(Unkept::Cannot("it has no semaphores")),
        Some(_) => Err(Unkept::Cannot("it has no mutexes")),
    }
}

/// Runs a law for each case whose kind the backend supports. The result names the other cases.
pub(crate) async fn each<W: World, C: Copy>(
    world: &W,
    cases: &[C],
    kind: impl Fn(C) -> Kind,
    law: impl AsyncFn(C) -> Law,
) -> Law {
    let kinds = world.backend().profile().kinds;
    let mut missing = Vec::new();
    for case in cases {
        if kinds.contains(kind(*case)) {
            law(*case).await?;
        } else {
            missing.push(kind(*case).to_string());
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(Unkept::Partly(format!("it does not support {}", missing.join(", "))))
}

/// Runs a law for each of [`KINDS`] that the backend supports. The result names the other kinds.
pub(crate) async fn each_kind<W: World>(world: &W, law: impl AsyncFn(Kind) -> Law) -> Law {
    each(world, &KINDS, |kind| kind, law).await
}

/// A lock that one tested claim can hold at a time: a mutex, a fair mutex, a write lock, a semaphore with one permit,
/// or the last free permit of a semaphore with five permits. The laws of a mutex apply to each of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sole {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The permits that other claims hold during the law.
    taken: Option<Kind>,
}

const SOLE: [Sole; 5] = [
    Sole { name: "law", kind: Kind::Mutex, taken: None },
    Sole { name: "fair", kind: Kind::Fair, taken: None },
    Sole { name: "write", kind: Kind::Write, taken: None },
    Sole { name: "one permit", kind: permits(1, 1), taken: None },
    Sole { name: "fifth permit", kind: permits(1, 5), taken: Some(permits(4, 5)) },
];

impl Sole {
    /// A new claim for this lock.
    pub(crate) fn claim(&self, ttl: Duration) -> Claim {
        for_only(ttl, attempt(self.kind, self.name))
    }

    /// The number of holders beside the tested claim.
    pub(crate) fn neighbours(&self) -> usize {
        self.taken.iter().len()
    }
}

/// Runs a law for each lock of [`Sole`] whose kind the backend supports.
pub(crate) async fn each_sole<W: World>(world: &W, law: impl AsyncFn(Sole) -> Law) -> Law {
    let backend = world.backend();
    each(
        world,
        &SOLE,
        |sole| sole.kind,
        async |sole| {
            let taken = sole.taken.map(|kind| attempt(kind, sole.name));
            if let Some(taken) = &taken {
                granted(&backend, taken).await?;
            }
            law(sole).await?;
            // An eviction also ends the hold of the neighbour. So the answer is not checked.
            if let Some(taken) = &taken {
                release(&backend, taken).await?;
            }
            Ok(())
        },
    )
    .await
}

/// A subscription that counts its notifications.
pub(crate) struct Subscribed {
    subscription: Subscription,
    count: Arc<AtomicUsize>,
}

impl Subscribed {
    /// Subscribes with this claim.
    pub(crate) async fn with(backend: &impl Backend, claim: &Claim) -> Result<Self, Error> {
        let count = Arc::new(AtomicUsize::new(0));
        let notifier = Notifier::new({
            let count = Arc::clone(&count);
            move || {
                count.fetch_add(1, Relaxed);
            }
        });
        Ok(Self { subscription: backend.subscribe(claim, notifier).await?, count })
    }

    /// The number of notifications.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Waits for another notification than the first `before`. The subscription of a backend without notifications is
    /// silent, so this method does not wait for it.
    pub(crate) async fn notified_after(&self, before: usize) {
        if !self.subscription.is_silent() {
            until(|| self.count() > before).await;
        }
    }
}

/// Asserts that a claim of this kind is granted now, and releases it.
pub(crate) async fn assert_free(backend: &impl Backend, kind: Kind, name: &str) -> Law {
    let probe = for_only(MAX_WAIT, attempt(kind, name));
    granted(backend, &probe).await?;
    freed(backend, &probe).await
}
