//! The laws about kinds find the flaws of a backend. Each law passes with a correct backend, and fails with each flaw
//! that is listed for it.

use std::{panic::AssertUnwindSafe, time::Duration};

use async_trait::async_trait;
use bandog_conformance::{
    Law, World, laws,
    wrap::{Flaw, Flawed},
};
use bandog_core::{Clock, Memory};
use bandog_sync::{Client, ClientOptions};
use futures_util::FutureExt;

struct InFlawedMemory(Flawed<Memory>);

#[async_trait]
impl World for InFlawedMemory {
    const NAME: &'static str = "flawed memory";
    type Backend = Flawed<Memory>;

    async fn start() -> Self {
        Self::with(Flaw::None)
    }

    fn backend(&self) -> Self::Backend {
        self.0.clone()
    }

    fn options(&self) -> ClientOptions {
        Client::options().clock(Clock::tokio()).on_current_runtime()
    }

    fn clock(&self) -> Clock {
        Clock::tokio()
    }

    fn ttl(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn slack(&self) -> Duration {
        Duration::from_millis(50)
    }
}

impl InFlawedMemory {
    fn with(flaw: Flaw) -> Self {
        Self(Flawed::new(Memory::new(Clock::tokio()), flaw))
    }
}

/// Whether the law passes with this flaw.
async fn passes(flaw: Flaw, law: impl AsyncFnOnce(&InFlawedMemory) -> Law) -> bool {
    let world = InFlawedMemory::with(flaw);
    let result = AssertUnwindSafe(tokio::time::timeout(Duration::from_secs(600), law(&world))).catch_unwind().await;
    matches!(result, Ok(Ok(Ok(()))))
}

/// Asserts that each law passes without a flaw, and fails with each of its flaws.
macro_rules! check {
    ($($group:ident::$law:ident: $($flaw:ident)+;)+) => {{
        let mut unexpected = Vec::new();
        $(
            let law = laws::$group::$law::<InFlawedMemory>;
            for flaw in [Flaw::None, $(Flaw::$flaw),+] {
                if passes(flaw, law).await != (flaw == Flaw::None) {
                    unexpected.push((stringify!($law), flaw));
                }
            }
        )+
        assert!(unexpected.is_empty(), "unexpected results: {unexpected:?}");
    }};
}

#[tokio::test(start_paused = true)]
async fn the_laws_of_fair_mutexes_find_flaws() {
    check! {
        fair::fair_order: NoPlaces NothingAhead;
        fair::fair_try_respects_the_queue: TriesJumpTheQueue TriesJoinTheQueue NoPlaces;
        fair::fair_dead_waiters: PlacesStay RenewalsKeepNoPlace NoPlaces;
        fair::fair_renewal_says_next: NeverNext RenewalsKeepNoPlace NoPlaces;
        fair::fair_leave: LeaversKeepTheirPlaces NothingAhead;
        fair::fair_leave_notifies: SilentLeave LeaversKeepTheirPlaces;
        fair::fair_notifies_the_next: NotifiesAll SilentRelease;
    };
}

#[tokio::test(start_paused = true)]
async fn the_laws_of_read_write_locks_find_flaws() {
    check! {
        read_write::many_readers_one_writer: ReadersExclude WritersShare;
        read_write::waiting_writer_keeps_new_readers_out:
            ReadersJumpWriters NoPlaces LeaversKeepTheirPlaces SilentLeave;
        read_write::dead_writer_lets_readers_in: PlacesStay RenewalsKeepNoPlace NoPlaces;
        read_write::starving_reader_passes_waiting_writers: NoStarvation ReadersJumpWriters;
        read_write::downgrade: DowngradeInTwoSteps SilentDowngrade;
        read_write::downgrade_only_by_the_holder: WritersShare;
        read_write::upgrade_is_refused: EveryPass;
        read_write::dead_reader_expires_alone: RenewalsRenewAll ShortestTtl HoldsStay;
        crowd::offer_of_a_read_write_lock: NoStarvation;
    };
}

#[tokio::test(start_paused = true)]
async fn the_laws_of_semaphores_find_flaws() {
    check! {
        semaphore::limit_is_reached_and_never_exceeded: LimitPlusOne HoldsTwice;
        semaphore::drain_and_refill: OnePermit HoldsTwice SilentRelease LimitPlusOne;
        semaphore::permits_all_or_none: SomePermits OnePermit;
        semaphore::starving_claim_for_many_permits: NoPlaces NoStarvation PlacesStay SilentLeave;
        semaphore::starving_grant_notifies: SilentGrant NoStarvation NoPlaces;
        semaphore::crash_returns_permits: HoldsStay RenewalsRenewAll ShortestTtl;
        semaphore::limit_change_while_waiting: SilentLimit PresentLimitOnly AnyLimit;
        semaphore::limit_mismatch: AnyLimit;
        semaphore::huge_limit: SignedLimit;
    };
}

#[tokio::test(start_paused = true)]
async fn the_laws_of_all_kinds_find_flaws() {
    check! {
        batches::independent_steps: AnswersByKind ReleasesFirst ErrorsSpread WritersShare;
        kinds::kinds_do_not_collide: FamiliesApart DeniedEvicts;
        kinds::mutex_and_fair_mutex_exclude_each_other: FamiliesApart;
        kinds::pass_rules: EveryPass;
        kinds::repeated_calls_of_every_kind: NewFencesAgain LastFencesAgain HoldsTwice ReleasesOthers;
        kinds::fences_rise_over_all_kinds: FamiliesApart;
        kinds::lost_answers_of_every_kind: HoldsTwice LeaversKeepTheirPlaces;
        kinds::rows_of_every_kind: RowOfOne RowWithoutQueue RowReversesQueue RowWithoutKind;
        kinds::evict_every_kind: SilentEviction EvictsOne;
        kinds::forget_every_kind: ForgetsHeld ForgetsNothing;
        unused::unused_names_of_every_kind: ForgetsHeld ForgetsFresh ForgetsNothing;
        unused::forget_beside_claims: ForgetsHeld;
        mix::random_mix: NoPlaces TriesJumpTheQueue OnePermit WritersShare ReadersExclude LastFencesAgain EveryPass;
    };
}

/// The laws of a mutex, which apply to each lock that one claim can hold at a time.
#[tokio::test(start_paused = true)]
async fn the_laws_of_mutexes_find_flaws_of_other_kinds() {
    check! {
        basics::release_idempotent: ReleasesOthers NewFencesAgain;
        lease::valid_for_is_kept: HalfTtl HoldsStay;
        lease::unlock_after_regrant_is_noop: ReleasesOthers HoldsStay;
        lease::same_host_same_thread_regrant: ReleasesOthers WritersShare;
        fencing::fences_of_a_grant: NewFencesAgain;
        admin::evict_notifies: SilentEviction EvictsOne;
    };
}
