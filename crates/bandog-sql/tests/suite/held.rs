//! Locks that other programs take in sessions of their own, beside mutexes of the modes `rowlock` and `advisory`.

use std::{sync::Arc, time::Duration};

use bandog_conformance::wrap::Counting;
use bandog_core::{Answer, ErrorKind, Inspect, Leases, Level, Released, Renewal, Step};
use bandog_sql::Sql;
use bandog_sync::Client;
use bandog_testkit::eventually_async;
use tokio::task::spawn_blocking;

use super::{Database, Place, SOON, claim, open, open_with, release, renew, take, terminal::Terminal, try_take};

/// A mode, and how a session by hand takes the lock `k`.
pub(crate) struct Mode {
    /// The options of the URL.
    pub(crate) query: &'static str,
    /// The statements that try to take the lock, that wait for it, and that free it or end the attempt. The last line of an
    /// answer is this text if the session has the lock.
    pub(crate) attempt: &'static str,
    pub(crate) wait: &'static str,
    pub(crate) free: &'static str,
    pub(crate) success: &'static str,
}

pub(crate) const ROWLOCK: Mode = Mode {
    query: "mode=rowlock&table=tb_lock&column=lockname",
    attempt: "begin; select lockname from tb_lock where lockname = 'k' for update skip locked",
    wait: "begin; select lockname from tb_lock where lockname = 'k' for update",
    free: "commit",
    success: "k",
};

/// Locks the lease of the lock `k`.
const LOCK_LEASE: &str = "begin; select name from bandog_lease where name = 'k' for update";

/// A database with the table of the rows, in which both sides use a mode.
#[derive(Clone)]
pub(crate) struct ByHand<D: Database> {
    pub(crate) place: Arc<Place<'static, D>>,
    pub(crate) mode: &'static Mode,
}

impl<D: Database> ByHand<D> {
    pub(crate) fn new(mode: &'static Mode) -> Self {
        let place = Place::new();
        place.server.sql(&place.database, D::ROWS);
        Self { place: Arc::new(place), mode }
    }

    /// A database of each mode.
    pub(crate) fn both() -> [Self; 2] {
        [&ROWLOCK, D::ADVISORY].map(Self::new)
    }

    pub(crate) fn url(&self) -> String {
        format!("{}?{}", self.place.url(), self.mode.query)
    }

    pub(crate) fn store(&self) -> Sql {
        open(&self.url())
    }

    /// Starts a session by hand.
    pub(crate) fn session(&self) -> Terminal {
        let mut session = Terminal::start(&mut D::terminal(self.place.server, &self.place.database));
        session.ask(D::USE_TABLES);
        session
    }

    /// Tries to take the lock, and frees it if the attempt fails.
    pub(crate) fn attempt(&self, session: &mut Terminal) -> bool {
        let is_taken = session.ask(self.mode.attempt).last().is_some_and(|line| line == self.mode.success);
        if !is_taken {
            session.ask(self.mode.free);
        }
        is_taken
    }
}

/// Checks a law in both modes.
async fn in_both_modes<D: Database>(law: impl AsyncFn(&ByHand<D>)) {
    let _alone = D::alone().await;
    for hand in ByHand::both() {
        law(&hand).await;
    }
}

pub(crate) async fn sessions_by_hand_and_ours_exclude_each_other<D: Database>() {
    in_both_modes::<D>(async |hand| {
        let (store, ours, mut theirs) = (hand.store(), claim("k"), hand.session());
        let mut fences = Vec::new();
        for round in 0..2 {
            fences.push(take(&store, &ours).await.take().unwrap());
            assert!(!hand.attempt(&mut theirs), "round {round}");
            assert!(matches!(renew(&store, &ours).await.unwrap(), Renewal::Extended { .. }));
            assert!(try_take(&hand.store(), &claim("k")).await.unwrap().is_none());
            release(&store, &ours).await;
            assert!(hand.attempt(&mut theirs), "round {round}: the lock is not free after a release");
            assert!(try_take(&store, &ours).await.unwrap().is_none());
            assert_eq!(renew(&store, &ours).await.unwrap(), Renewal::Gone);
            // Other names are free.
            let other = claim("other");
            take(&store, &other).await;
            release(&store, &other).await;
            theirs.ask(hand.mode.free);
        }
        assert!(fences[1] > fences[0]);
    })
    .await;
}

/// A waiter of ours gets the lock after a session by hand has freed it, or has ended.
pub(crate) async fn a_waiter_gets_the_lock_of_a_session_that_ends<D: Database>() {
    in_both_modes::<D>(async |hand| {
        let mut theirs = hand.session();
        let client = Client::options().over(hand.store()).unwrap();
        // The first lock creates the tables, and the row.
        client.mutex("k").lock().await.unwrap().release().await.unwrap();
        for ends in [false, true] {
            assert!(hand.attempt(&mut theirs));
            assert!(client.mutex("k").try_lock_for(Duration::from_millis(300)).await.unwrap().is_none());
            let mutex = client.mutex("k");
            let waiting = tokio::spawn(async move { mutex.lock().await });
            if ends {
                theirs = hand.session();
            } else {
                theirs.ask(hand.mode.free);
            }
            let guard = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap().unwrap();
            assert!(!hand.attempt(&mut theirs));
            guard.release().await.unwrap();
        }
    })
    .await;
}

/// If the session of a holder ends, the database frees its lock at once, and the guard is lost.
pub(crate) async fn a_guard_is_lost_with_its_session<D: Database>() {
    in_both_modes::<D>(async |hand| {
        let client = Client::options().watchdog(Duration::from_secs(600)).over(hand.store()).unwrap();
        let guard = client.mutex("k").lock().await.unwrap();
        hand.place.end_sessions();
        // The renewals of this ttl are due after minutes: the end of the session is noticed by itself.
        tokio::time::timeout(SOON, guard.lost()).await.unwrap();
        let mut theirs = hand.session();
        assert!(hand.attempt(&mut theirs));
        theirs.ask(hand.mode.free);
        let again = tokio::time::timeout(SOON, client.mutex("k").lock()).await.unwrap().unwrap();
        again.release().await.unwrap();
    })
    .await;
}

/// The number of connections limits the number of locks. A further claim fails with words, and others go on.
pub(crate) async fn the_number_of_connections_is_limited<D: Database>() {
    in_both_modes::<D>(async |hand| {
        let store = open_with(&format!("{}&connections=2", hand.url()), Duration::from_secs(4));
        let claims = ["a", "b", "c"].map(claim);
        take(&store, &claims[0]).await;
        take(&store, &claims[1]).await;
        let error = try_take(&store, &claims[2]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("connections="), "{error}");
        assert!(matches!(renew(&store, &claims[0]).await.unwrap(), Renewal::Extended { .. }));
        release(&store, &claims[0]).await;
        take(&store, &claims[2]).await;
    })
    .await;
}

/// The session of a claim ends while another claim of the same batch still waits. The answer of the batch comes after the epoch,
/// so it must not be a grant.
pub(crate) async fn a_session_that_ends_before_its_batch_is_answered_is_no_grant<D: Database>() {
    in_both_modes::<D>(async |hand| {
        let store = open_with(&format!("{}&connections=1", hand.url()), Duration::from_secs(6));
        let [ours, next] = [(); 2].map(|()| claim("k"));
        let [first, second] = [(); 2].map(|()| claim("other"));
        take(&store, &ours).await;
        // The only connection is in use. So this claim waits, and the next one of its name waits behind it.
        let steps = [Step::Claim(first.clone())];
        let mut waiting = std::pin::pin!(store.apply(&steps));
        tokio::select! {
            biased;
            answers = &mut waiting => panic!("{answers:?}"),
            () = std::future::ready(()) => {}
        }
        let batch = [Step::Pass { from: Box::new(ours), to: next.clone() }, Step::Claim(second)];
        let end = async {
            let (other, id) = (hand.store(), next.id.to_string());
            let is_passed = async || {
                let row = other.show(&next.key).await.unwrap();
                row.holders.iter().any(|holder| holder.owner.as_ref() == Some(&id))
            };
            eventually_async(SOON, is_passed).await;
            hand.place.end_sessions();
        };
        let (mut answers, _, ()) = tokio::join!(store.apply(&batch), waiting, end);
        let error = answers.swap_remove(0).unwrap_err();
        assert!(error.maybe_applied(), "{error}");
        // The other claim may have got the connection. Without it, the same claim, sent again, has both locks.
        release(&store, &first).await;
        let again = eventually_async(SOON, async || try_take(&store, &next).await.ok().flatten());
        again.await;
        // A session that the database has ended may be noticed as late as here. Then the renewal fails, and is sent again.
        let renewal = eventually_async(SOON, async || renew(&store, &next).await).await;
        assert!(matches!(renewal, Renewal::Extended { .. }));
    })
    .await;
}

/// The check for operators tries a row, and leaves none.
pub(crate) async fn the_check_tries_a_row<D: Database>() {
    let hand = ByHand::<D>::new(&ROWLOCK);
    let store = hand.store();
    let rows = async || {
        let findings = store.check().await.unwrap();
        findings.into_iter().find(|finding| finding.subject == "rows").map(|finding| finding.level)
    };
    assert_eq!(rows().await, Some(Level::Fine));
    assert_eq!(hand.place.sql("select count(*) from tb_lock"), "0");
    hand.place.sql(D::DENY_ROWS);
    assert_eq!(rows().await, Some(Level::Danger));
}

/// A release after the end of the session reports that the lock was lost, although the lease is still there.
pub(crate) async fn a_release_after_the_end_of_the_session_is_a_loss<D: Database>() {
    in_both_modes::<D>(async |hand| {
        let (store, ours) = (hand.store(), claim("k"));
        take(&store, &ours).await;
        hand.place.end_sessions();
        let row = eventually_async(SOON, async || store.show(&ours.key).await).await;
        assert!(row.is_held(), "{row:?}");
        assert_eq!(release(&store, &ours).await, Answer::Released(Released::NotHeld));
        assert!(!store.show(&ours.key).await.unwrap().is_held());
    })
    .await;
}

/// A release while a renewal is under way is no loss.
pub(crate) async fn a_release_during_a_renewal_is_answered<D: Database>() {
    in_both_modes::<D>(async |hand| {
        let (store, ours) = (hand.store(), claim("k"));
        for round in 0..50 {
            take(&store, &ours).await;
            let steps = [Step::Release(ours.clone())];
            let (_, mut answers) = tokio::join!(renew(&store, &ours), store.apply(&steps));
            let answer = answers.remove(0);
            assert!(matches!(answer, Ok(Answer::Released(Released::Freed { .. }))), "round {round}: {answer:?}");
        }
    })
    .await;
}

/// A release that frees the lock of the database, and cannot change the lease, may have been applied. So its repetition, which
/// finds no lock of the database, is no loss.
pub(crate) async fn a_release_beside_a_locked_lease_is_no_loss<D: Database>() {
    in_both_modes::<D>(async |hand| {
        let (store, ours) = (hand.store(), claim("k"));
        take(&store, &ours).await;
        let mut other = hand.session();
        other.ask(LOCK_LEASE);
        let error = store.apply(&[Step::Release(ours.clone())]).await.remove(0).unwrap_err();
        assert!(error.maybe_applied(), "{error}");

        other.ask("commit");
        assert_eq!(release(&store, &ours).await, Answer::Released(Released::NotHeld));

        let counts = Counting::new(store);
        let client = Client::options().over(counts.clone()).unwrap();
        let guard = client.mutex("k").lock().await.unwrap();
        other.ask(LOCK_LEASE);
        let (released, ()) = tokio::join!(guard.release(), async {
            // The second release repeats the first one.
            eventually_async(SOON, async || (counts.releases() > 1).then_some(())).await;
            other.ask("commit");
        });
        assert!(released.is_ok(), "{released:?}");
    })
    .await;
}

/// A hold that is not renewed ends after its ttl, although its session lives.
pub(crate) async fn a_hold_expires_after_its_ttl<D: Database>() {
    in_both_modes::<D>(async |hand| {
        let (store, mut ours) = (hand.store(), claim("k"));
        ours.ttl = Duration::from_millis(500);
        // The first call creates the tables. On a loaded machine, this or the grant can last longer than the ttl.
        eventually_async(SOON, async || try_take(&store, &ours).await.ok().flatten()).await;
        let mut theirs = hand.session();
        let taken = eventually_async(SOON, async || hand.attempt(&mut theirs).then_some(())).await;
        assert_eq!(taken, ());
        assert_eq!(renew(&store, &ours).await.unwrap(), Renewal::Gone);
    })
    .await;
}

pub(crate) async fn a_counter_under_sessions_by_hand_and_ours_is_exact<D: Database>() {
    in_both_modes::<D>(async |hand| {
        const ROUNDS: u32 = 10;
        hand.place.sql("create table counter (n int not null); insert into counter values (0)");
        // The first lock creates the tables, and the row.
        let first = claim("k");
        let store = hand.store();
        take(&store, &first).await;
        release(&store, &first).await;
        let mut tasks = Vec::new();
        for _ in 0..2 {
            let theirs = hand.clone();
            tasks.push(spawn_blocking(move || {
                let mut session = theirs.session();
                for _ in 0..ROUNDS {
                    let answer = session.ask(theirs.mode.wait);
                    assert_eq!(answer.last().map(String::as_str), Some(theirs.mode.success));
                    let n: u32 = session.ask("select n from counter").pop().unwrap().parse().unwrap();
                    session.ask(&format!("update counter set n = {}", n + 1));
                    session.ask(theirs.mode.free);
                }
            }));
            let ours = hand.clone();
            tasks.push(tokio::spawn(async move {
                let client = Client::options().over(ours.store()).unwrap();
                for _ in 0..ROUNDS {
                    let guard = client.mutex("k").lock().await.unwrap();
                    let ours = ours.clone();
                    let increase = move || {
                        let n: u32 = ours.place.sql("select n from counter").parse().unwrap();
                        ours.place.sql(&format!("update counter set n = {}", n + 1));
                    };
                    spawn_blocking(increase).await.unwrap();
                    guard.release().await.unwrap();
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(hand.place.sql("select n from counter"), (4 * ROUNDS).to_string());
    })
    .await;
}
