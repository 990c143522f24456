//! A forced unlock of one neighbour, while the other one holds the lock.

use super::{SHORT, for_pairs, reports_losses};
use crate::{
    neighbour::SOON,
    objects::LockKind,
    rig::{Pair, blocked, settle},
};

for_pairs! {
    a_forced_unlock_of_a_fair_lock_wakes_the_waiter_and_the_holder_notices_it: java_alone short_java_and_bandog;
    a_forced_unlock_of_a_writer_wakes_the_waiter_and_the_holder_notices_it: java_alone short_java_and_bandog;
    a_forced_unlock_of_a_reader_wakes_the_waiter_and_the_holder_notices_it: java_alone short_java_and_bandog;
}

fn a_forced_unlock_of_a_fair_lock_wakes_the_waiter_and_the_holder_notices_it(pair: &Pair) {
    force(pair, LockKind::Fair, LockKind::Fair);
}

fn a_forced_unlock_of_a_writer_wakes_the_waiter_and_the_holder_notices_it(pair: &Pair) {
    force(pair, LockKind::Write, LockKind::Read);
}

fn a_forced_unlock_of_a_reader_wakes_the_waiter_and_the_holder_notices_it(pair: &Pair) {
    force(pair, LockKind::Read, LockKind::Write);
}

/// Java notices a forced unlock when it unlocks. bandog notices it at its next renewal.
fn force(pair: &Pair, held: LockKind, wanted: LockKind) {
    for (one, two) in pair.both_ways() {
        settle(&pair.server);
        let (holder, waiter) = (one.lock(held, "holder", "orders"), two.lock(wanted, "waiter", "orders"));
        holder.lock();
        let pending = blocked(&pair.server, || waiter.waits());
        pending.wait_for_sleep();
        assert!(two.lock(held, "other", "orders").force_unlock());
        assert_eq!(pending.answer(SOON), "held");
        if reports_losses(one) {
            assert_eq!(holder.reports_loss().answer(SHORT), "lost");
        }
        let refused = holder.refused_unlock();
        let reason = if reports_losses(one) { "the lock was lost" } else { "IllegalMonitorStateException" };
        assert!(refused.contains(reason), "{refused}");
        waiter.unlock();
        assert!(!two.lock(wanted, "other", "orders").force_unlock());
    }
}
