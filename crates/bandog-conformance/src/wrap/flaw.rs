//! The flaws of [`super::Flawed`].

/// The rule that a [`super::Flawed`] backend breaks. No flaw affects a claim of a [`bandog_core::Kind::Mutex`], unless
/// its text says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// No rule is broken.
    None,
    /// A refused claim gets no place.
    NoPlaces,
    /// A try of a fair mutex does not respect the queue.
    TriesJumpTheQueue,
    /// A refused try of a fair mutex gets a place.
    TriesJoinTheQueue,
    /// Places do not expire.
    PlacesStay,
    /// The renewal of a waiting claim does not keep its place.
    RenewalsKeepNoPlace,
    /// The renewal of a waiting claim does not say that the claim is next.
    NeverNext,
    /// The release of a waiting claim does not remove its place.
    LeaversKeepTheirPlaces,
    /// When a claim leaves the queue, the next claim is not notified.
    SilentLeave,
    /// A release of a holder notifies no waiter.
    SilentRelease,
    /// A release of a fair mutex notifies all claims of the queue.
    NotifiesAll,
    /// A refusal does not say how many claims are ahead.
    NothingAhead,
    /// New readers do not respect waiting writers.
    ReadersJumpWriters,
    /// Starving claims have no privilege.
    NoStarvation,
    /// A reader excludes other readers.
    ReadersExclude,
    /// A writer shares the lock with readers.
    WritersShare,
    /// A downgrade is a release and a claim.
    DowngradeInTwoSteps,
    /// A downgrade does not notify readers.
    SilentDowngrade,
    /// The grant of a starving claim does not notify other claims that permits remain.
    SilentGrant,
    /// Each pass is allowed.
    EveryPass,
    /// A renewal of one holder renews all holders of the lock.
    RenewalsRenewAll,
    /// A hold lasts as long as the shortest hold of its lock.
    ShortestTtl,
    /// Holds do not expire.
    HoldsStay,
    /// A hold lasts for half of the time that the answer says.
    HalfTtl,
    /// A claim gets as many permits as are free.
    SomePermits,
    /// One permit more than the limit can be taken.
    LimitPlusOne,
    /// A claim takes one permit, however many it requests.
    OnePermit,
    /// A claim that names another limit sets the limit.
    AnyLimit,
    /// A claim that names the limit before the last change is refused with an error.
    PresentLimitOnly,
    /// A change of the limit notifies no waiter.
    SilentLimit,
    /// Limits above 2³¹ − 1 do not work.
    SignedLimit,
    /// Each family has its own locks and its own fences.
    FamiliesApart,
    /// A claim of another family ends the hold that it finds.
    DeniedEvicts,
    /// A repeated claim gets new fences.
    NewFencesAgain,
    /// A repeated claim gets the fences of the last grant of the lock.
    LastFencesAgain,
    /// A repeated claim holds the lock a second time, if its kind is shared.
    HoldsTwice,
    /// The release of a claim that does not hold the lock frees the lock.
    ReleasesOthers,
    /// An eviction notifies no waiter. This flaw also affects mutexes.
    SilentEviction,
    /// An eviction ends only one hold of a shared lock.
    EvictsOne,
    /// A name is deleted although a claim holds the lock.
    ForgetsHeld,
    /// A name that was just granted is deleted as unused.
    ForgetsFresh,
    /// A name stays, although the store says that it is deleted.
    ForgetsNothing,
    /// The answers of one call are sorted by the kinds of the steps.
    AnswersByKind,
    /// The releases of one call are applied before its other steps.
    ReleasesFirst,
    /// After a step that is refused with an error, the later steps of the call are refused, too.
    ErrorsSpread,
    /// A row has only one holder.
    RowOfOne,
    /// A row does not show the queue.
    RowWithoutQueue,
    /// A row shows the queue in the wrong order.
    RowReversesQueue,
    /// A row does not show what a holder holds.
    RowWithoutKind,
}
