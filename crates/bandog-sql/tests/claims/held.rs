//! Locks that other programs take in sessions of their own, beside mutexes of the modes `rowlock` and `advisory`.

use std::time::Duration;

use bandog_conformance::wrap::Counting;
use bandog_core::{Answer, ErrorKind, Inspect, Leases, Level, Released, Renewal, Step};
use bandog_sql::{Sql, SqlOptions};
use bandog_sync::Client;
use bandog_testkit::eventually_async;
use tokio::task::spawn_blocking;

use super::{SOON, claim, open, release, renew, take, terminal::Terminal, try_take};

/// A database, and how a program takes its locks by hand.
#[derive(Clone)]
pub(crate) struct ByHand {
    pub(crate) database: String,
    pub(crate) url: String,
    pub(crate) sql: fn(&str, &str) -> String,
    pub(crate) end_sessions: fn(&str),
    /// Starts a session.
    pub(crate) terminal: fn(&str) -> Terminal,
    /// The statements that try to take the lock `k`, that wait for it, and that free it or end the attempt. The last line
    /// of an answer is this text if the session has the lock.
    pub(crate) attempt: &'static str,
    pub(crate) wait: &'static str,
    pub(crate) free: &'static str,
    pub(crate) success: &'static str,
    /// The table of the leases.
    pub(crate) leases: &'static str,
}

impl ByHand {
    pub(crate) fn store(&self) -> Sql {
        open(&self.url)
    }

    fn run(&self, statements: &str) -> String {
        (self.sql)(&self.database, statements)
    }

    fn session(&self) -> Terminal {
        (self.terminal)(&self.database)
    }

    fn attempt(&self, session: &mut Terminal) -> bool {
        let is_taken = session.ask(self.attempt).last().is_some_and(|line| line == self.success);
        if !is_taken {
            session.ask(self.free);
        }
        is_taken
    }
}

pub(crate) async fn both_sides_exclude_each_other(hand: &ByHand) {
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
        theirs.ask(hand.free);
    }
    assert!(fences[1] > fences[0]);
}

/// A waiter of ours gets the lock after a session by hand has freed it, or has ended.
pub(crate) async fn a_waiter_gets_the_lock_of_a_session_that_ends(hand: &ByHand) {
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
            theirs.ask(hand.free);
        }
        let guard = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap().unwrap();
        assert!(!hand.attempt(&mut theirs));
        guard.release().await.unwrap();
    }
}

/// If the session of a holder ends, the database frees its lock at once, and the guard is lost.
pub(crate) async fn a_guard_is_lost_with_its_session(hand: &ByHand) {
    let client = Client::options().watchdog(Duration::from_secs(600)).over(hand.store()).unwrap();
    let guard = client.mutex("k").lock().await.unwrap();
    (hand.end_sessions)(&hand.database);
    // The renewals of this ttl are due after minutes: the end of the session is noticed by itself.
    tokio::time::timeout(SOON, guard.lost()).await.unwrap();
    let mut theirs = hand.session();
    assert!(hand.attempt(&mut theirs));
    theirs.ask(hand.free);
    let again = tokio::time::timeout(SOON, client.mutex("k").lock()).await.unwrap().unwrap();
    again.release().await.unwrap();
}

/// The number of connections limits the number of locks. A further claim fails with words, and others go on.
pub(crate) async fn the_number_of_connections_is_limited(hand: &ByHand) {
    let store = open(&format!("{}&connections=2", hand.url));
    let claims = ["a", "b", "c"].map(claim);
    take(&store, &claims[0]).await;
    take(&store, &claims[1]).await;
    let error = try_take(&store, &claims[2]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("connections="), "{error}");
    assert!(matches!(renew(&store, &claims[0]).await.unwrap(), Renewal::Extended { .. }));
    release(&store, &claims[0]).await;
    take(&store, &claims[2]).await;
}

/// The session of a claim ends while another claim of the same batch still waits. The answer of the batch comes after the epoch,
/// so it must not be a grant.
pub(crate) async fn a_session_that_ends_before_its_batch_is_answered_is_no_grant(hand: &ByHand) {
    let options = SqlOptions::from_url(&format!("{}&connections=1", hand.url)).unwrap();
    let store = Sql::new(options.timeout(Duration::from_secs(6))).unwrap();
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
        (hand.end_sessions)(&hand.database);
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
}

/// The check for operators tries a row, and leaves none.
pub(crate) async fn the_check_tries_a_row(hand: &ByHand, deny: &str) {
    let store = hand.store();
    let rows = async || {
        let findings = store.check().await.unwrap();
        findings.into_iter().find(|finding| finding.subject == "rows").map(|finding| finding.level)
    };
    assert_eq!(rows().await, Some(Level::Fine));
    assert_eq!(hand.run("select count(*) from tb_lock"), "0");
    hand.run(deny);
    assert_eq!(rows().await, Some(Level::Danger));
}

/// A release after the end of the session reports that the lock was lost, although the lease is still there.
pub(crate) async fn a_release_after_the_end_of_the_session_is_a_loss(hand: &ByHand) {
    let (store, ours) = (hand.store(), claim("k"));
    take(&store, &ours).await;
    (hand.end_sessions)(&hand.database);
    let row = eventually_async(SOON, async || store.show(&ours.key).await).await;
    assert!(row.is_held(), "{row:?}");
    assert_eq!(release(&store, &ours).await, Answer::Released(Released::NotHeld));
    assert!(!store.show(&ours.key).await.unwrap().is_held());
}

/// A release while a renewal is under way is no loss.
pub(crate) async fn a_release_during_a_renewal_is_answered(hand: &ByHand) {
    let (store, ours) = (hand.store(), claim("k"));
    for round in 0..50 {
        take(&store, &ours).await;
        let steps = [Step::Release(ours.clone())];
        let (_, mut answers) = tokio::join!(renew(&store, &ours), store.apply(&steps));
        let answer = answers.remove(0);
        assert!(matches!(answer, Ok(Answer::Released(Released::Freed { .. }))), "round {round}: {answer:?}");
    }
}

/// A release that frees the lock of the database, and cannot change the lease, may have been applied. So its repetition, which
/// finds no lock of the database, is no loss.
pub(crate) async fn a_release_beside_a_locked_lease_is_no_loss(hand: &ByHand) {
    let (store, ours) = (hand.store(), claim("k"));
    take(&store, &ours).await;
    let mut other = hand.session();
    other.ask(&format!("begin; select name from {} where name = 'k' for update", hand.leases));
    let error = store.apply(&[Step::Release(ours.clone())]).await.remove(0).unwrap_err();
    assert!(error.maybe_applied(), "{error}");

    other.ask("commit");
    assert_eq!(release(&store, &ours).await, Answer::Released(Released::NotHeld));

    let counts = Counting::new(store);
    let client = Client::options().over(counts.clone()).unwrap();
    let guard = client.mutex("k").lock().await.unwrap();
    other.ask(&format!("begin; select name from {} where name = 'k' for update", hand.leases));
    let (released, ()) = tokio::join!(guard.release(), async {
        // The second release repeats the first one.
        eventually_async(SOON, async || (counts.releases() > 1).then_some(())).await;
        other.ask("commit");
    });
    assert!(released.is_ok(), "{released:?}");
}

/// A hold that is not renewed ends after its ttl, although its session lives.
pub(crate) async fn a_hold_expires_after_its_ttl(hand: &ByHand) {
    let (store, mut ours) = (hand.store(), claim("k"));
    ours.ttl = Duration::from_millis(500);
    // The first call creates the tables. On a loaded machine, this or the grant can last longer than the ttl.
    eventually_async(SOON, async || try_take(&store, &ours).await.ok().flatten()).await;
    let mut theirs = hand.session();
    let taken = eventually_async(SOON, async || hand.attempt(&mut theirs).then_some(())).await;
    assert_eq!(taken, ());
    assert_eq!(renew(&store, &ours).await.unwrap(), Renewal::Gone);
}

pub(crate) async fn a_contended_counter_is_exact(hand: &ByHand) {
    const ROUNDS: u32 = 10;
    hand.run("create table counter (n int not null); insert into counter values (0)");
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
                let answer = session.ask(theirs.wait);
                assert_eq!(answer.last().map(String::as_str), Some(theirs.success));
                let n: u32 = session.ask("select n from counter").pop().unwrap().parse().unwrap();
                session.ask(&format!("update counter set n = {}", n + 1));
                session.ask(theirs.free);
            }
        }));
        let ours = hand.clone();
        tasks.push(tokio::spawn(async move {
            let client = Client::options().over(ours.store()).unwrap();
            for _ in 0..ROUNDS {
                let guard = client.mutex("k").lock().await.unwrap();
                let ours = ours.clone();
                let increase = move || {
                    let n: u32 = ours.run("select n from counter").parse().unwrap();
                    ours.run(&format!("update counter set n = {}", n + 1));
                };
                spawn_blocking(increase).await.unwrap();
                guard.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(hand.run("select n from counter"), (4 * ROUNDS).to_string());
}
