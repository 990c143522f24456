//! The function that runs a law, and the macro that makes one test for each law.

use std::{
    env,
    fs::OpenOptions,
    io::{self, Write},
    time::Duration,
};

use tokio::time;

use crate::{Law, Unkept, World};

/// Maximum time of a law.
const LAW_TIMEOUT: Duration = Duration::from_secs(600);

/// The environment variable with the path of a file. Each law that passes or does not apply appends a line to the file:
/// the law's number and name, the world, `passed`, `in part` or `not promised`, and the reason, separated by tabs.
const RESULTS: &str = "BANDOG_LAW_RESULTS";

/// Runs one law on a new world. If the law does not apply to this world, or only to some kinds of locks, the reason is
/// printed.
///
/// # Panics
/// If the backend breaks the law, or if the law does not end within ten minutes.
pub async fn keep<W: World>(number: u32, name: &str, law: impl AsyncFnOnce(&W) -> Law) {
    let world = W::start().await;
    let tried = time::timeout(LAW_TIMEOUT, law(&world)).await;
    let (result, reason) = match tried
        .unwrap_or_else(|_| panic!("law {number} ({name}) did not end within {LAW_TIMEOUT:?} on {}", W::NAME))
    {
        Ok(()) => ("passed", String::new()),
        Err(Unkept::Cannot(why)) => {
            say(&format!("law {number} ({name}) does not apply to {}: {why}\n", W::NAME));
            ("not promised", why.to_owned())
        }
        Err(Unkept::Partly(rest)) => {
            say(&format!("law {number} ({name}) applies to {} in part: {rest}\n", W::NAME));
            ("in part", rest)
        }
        Err(Unkept::Failed(error)) => panic!("law {number} ({name}) is broken by {}: {error}", W::NAME),
    };
    record(&format!("{number}\t{name}\t{}\t{result}\t{reason}\n", W::NAME));
}

/// Appends a line to the file that [`RESULTS`] names. One write appends the whole line, because several processes can
/// write to the file at the same time.
fn record(line: &str) {
    let Some(path) = env::var_os(RESULTS) else { return };
    let written = OpenOptions::new().append(true).create(true).open(&path);
    let written = written.and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("cannot write to {}: {error}", path.display()));
}

/// Prints a line directly to stdout, because the test harness hides the output of `println!` if the test passes.
fn say(line: &str) {
    // An error means that stdout is closed. The law passes nevertheless.
    let _ = io::stdout().lock().write_all(line.as_bytes());
}

/// Makes one named test for each law. Use `conformance!(MyWorld)`, or `conformance!(paused MyWorld)` if Tokio's clock
/// must be paused in the tests.
#[macro_export]
macro_rules! conformance {
    (paused $world:ty) => {
        $crate::each_law! { (#[tokio::test(start_paused = true)]) $world }
    };
    ($world:ty) => {
        $crate::each_law! { (#[tokio::test]) $world }

        /// This function tests nothing by itself. A law about processes starts this binary again as a child process,
        /// which runs only this function. The environment of the child process has the address of a store. In an
        /// ordinary test run, there is no such address, and this function does nothing.
        #[test]
        fn child_of_the_laws() {
            $crate::serve_as_child::<$world>();
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! one_law {
    (($(#[$test:meta])+) $world:ty, $number:literal, $group:ident, $law:ident) => {
        $(#[$test])+
        async fn $law() {
            $crate::keep::<$world>($number, stringify!($law), $crate::laws::$group::$law::<$world>).await;
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! each_law {
    ($test:tt $world:ty) => {
        $crate::one_law! { $test $world, 1, basics, acquire_release }
        $crate::one_law! { $test $world, 1, basics, supported_kinds }
        $crate::one_law! { $test $world, 2, basics, second_try_fails }
        $crate::one_law! { $test $world, 3, basics, independent_names }
        $crate::one_law! { $test $world, 3, batches, independent_steps }
        $crate::one_law! { $test $world, 4, basics, relock_after_unlock }
        $crate::one_law! { $test $world, 5, basics, release_idempotent }
        $crate::one_law! { $test $world, 5, kinds, repeated_calls_of_every_kind }
        $crate::one_law! { $test $world, 6, basics, drop_releases }
        $crate::one_law! { $test $world, 7, basics, explicit_release_reports }
        $crate::one_law! { $test $world, 8, names, bad_arguments }
        $crate::one_law! { $test $world, 9, names, name_roundtrip }
        $crate::one_law! { $test $world, 10, names, name_case_sensitive }
        $crate::one_law! { $test $world, 11, names, long_names_no_truncation }
        $crate::one_law! { $test $world, 13, kinds, kinds_do_not_collide }
        $crate::one_law! { $test $world, 13, kinds, mutex_and_fair_mutex_exclude_each_other }
        $crate::one_law! { $test $world, 14, names, existing_record }
        $crate::one_law! { $test $world, 15, waiting, wait_then_get }
        $crate::one_law! { $test $world, 16, waiting, wait_timeout }
        $crate::one_law! { $test $world, 17, waiting, zero_timeout_equals_try }
        $crate::one_law! { $test $world, 18, waiting, infinite_wait }
        $crate::one_law! { $test $world, 19, waiting, cancel_waiter }
        $crate::one_law! { $test $world, 20, cancel, cancel_at_every_await }
        $crate::one_law! { $test $world, 22, waiting, cancel_race_with_grant }
        $crate::one_law! { $test $world, 23, fair, fair_order }
        $crate::one_law! { $test $world, 23, fair, fair_try_respects_the_queue }
        $crate::one_law! { $test $world, 24, fair, fair_dead_waiters }
        $crate::one_law! { $test $world, 24, fair, fair_renewal_says_next }
        $crate::one_law! { $test $world, 24, kind_faults, stopped_head_of_the_queue }
        $crate::one_law! { $test $world, 25, fair, fair_leave }
        $crate::one_law! { $test $world, 25, fair, fair_leave_notifies }
        $crate::one_law! { $test $world, 26, crowd, no_herd }
        $crate::one_law! { $test $world, 26, fair, fair_notifies_the_next }
        $crate::one_law! { $test $world, 27, waiting, missed_wakeup }
        $crate::one_law! { $test $world, 29, crowd, many_waiters_many_names }
        $crate::one_law! { $test $world, 30, lease, expires_after_ttl }
        $crate::one_law! { $test $world, 30, lease, valid_for_is_kept }
        $crate::one_law! { $test $world, 31, lease, auto_renew_holds }
        $crate::one_law! { $test $world, 32, lease, extended_lease }
        $crate::one_law! { $test $world, 36, lease, unlock_after_regrant_is_noop }
        $crate::one_law! { $test $world, 37, lease, same_host_same_thread_regrant }
        $crate::one_law! { $test $world, 39, loss, lost_signal_on_kill }
        $crate::one_law! { $test $world, 40, loss, lost_signal_already_lost }
        $crate::one_law! { $test $world, 41, loss, lost_signal_not_on_release }
        $crate::one_law! { $test $world, 42, loss, lost_before_server_expiry }
        $crate::one_law! { $test $world, 43, lease, renew_transient_error }
        $crate::one_law! { $test $world, 44, lease, renew_after_unlock_never }
        $crate::one_law! { $test $world, 45, loss, lost_never_resurrects }
        $crate::one_law! { $test $world, 46, processes, paused_process }
        $crate::one_law! { $test $world, 47, lease, clock_jump }
        $crate::one_law! { $test $world, 48, loss, release_after_loss }
        $crate::one_law! { $test $world, 49, fencing, token_monotonic }
        $crate::one_law! { $test $world, 49, fencing, fences_of_a_grant }
        $crate::one_law! { $test $world, 49, kinds, fences_rise_over_all_kinds }
        $crate::one_law! { $test $world, 50, fencing, token_same_on_reentry }
        $crate::one_law! { $test $world, 51, fencing, token_after_backend_restart }
        $crate::one_law! { $test $world, 52, fencing, fenced_counter }
        $crate::one_law! { $test $world, 55, reentry, reentrant_count }
        $crate::one_law! { $test $world, 56, reentry, reentrant_other_owner_blocks }
        $crate::one_law! { $test $world, 59, reentry, reentry_after_loss_errors }
        $crate::one_law! { $test $world, 60, reentry, owner_is_explicit }
        $crate::one_law! { $test $world, 61, read_write, many_readers_one_writer }
        $crate::one_law! { $test $world, 62, read_write, waiting_writer_keeps_new_readers_out }
        $crate::one_law! { $test $world, 62, read_write, dead_writer_lets_readers_in }
        $crate::one_law! { $test $world, 63, read_write, starving_reader_passes_waiting_writers }
        $crate::one_law! { $test $world, 64, read_write, downgrade }
        $crate::one_law! { $test $world, 64, read_write, downgrade_only_by_the_holder }
        $crate::one_law! { $test $world, 65, read_write, upgrade_is_refused }
        $crate::one_law! { $test $world, 65, kinds, pass_rules }
        $crate::one_law! { $test $world, 66, read_write, dead_reader_expires_alone }
        $crate::one_law! { $test $world, 66, kind_faults, killed_reader_among_readers }
        $crate::one_law! { $test $world, 67, mix, random_mix }
        $crate::one_law! { $test $world, 68, semaphore, limit_is_reached_and_never_exceeded }
        $crate::one_law! { $test $world, 69, semaphore, drain_and_refill }
        $crate::one_law! { $test $world, 70, semaphore, permits_all_or_none }
        $crate::one_law! { $test $world, 70, semaphore, starving_claim_for_many_permits }
        $crate::one_law! { $test $world, 70, semaphore, starving_grant_notifies }
        $crate::one_law! { $test $world, 71, semaphore, crash_returns_permits }
        $crate::one_law! { $test $world, 71, kind_faults, killed_holder_of_permits }
        $crate::one_law! { $test $world, 72, semaphore, limit_change_while_waiting }
        $crate::one_law! { $test $world, 73, semaphore, limit_mismatch }
        $crate::one_law! { $test $world, 74, semaphore, huge_limit }
        $crate::one_law! { $test $world, 75, several, all_or_nothing }
        $crate::one_law! { $test $world, 76, several, all_in_opposite_orders }
        $crate::one_law! { $test $world, 77, several, all_are_lost_with_one }
        $crate::one_law! { $test $world, 79, processes, cross_process_exclusion }
        $crate::one_law! { $test $world, 80, processes, kill_holder }
        $crate::one_law! { $test $world, 81, processes, holder_exits }
        $crate::one_law! { $test $world, 82, faults, server_restart }
        $crate::one_law! { $test $world, 83, faults, ambiguous_acquire }
        $crate::one_law! { $test $world, 83, faults, ambiguous_acquire_on_the_wire }
        $crate::one_law! { $test $world, 83, faults, ambiguous_acquire_while_it_stands_still }
        $crate::one_law! { $test $world, 83, kinds, lost_answers_of_every_kind }
        $crate::one_law! { $test $world, 84, faults, ambiguous_release }
        $crate::one_law! { $test $world, 83, kind_faults, downgrade_without_an_answer }
        $crate::one_law! { $test $world, 84, kind_faults, release_of_permits_without_an_answer }
        $crate::one_law! { $test $world, 85, faults, broken_connection }
        $crate::one_law! { $test $world, 86, faults, no_connection_leak }
        $crate::one_law! { $test $world, 92, crowd, fuzz_lost_update }
        $crate::one_law! { $test $world, 93, crowd, parallel_100 }
        $crate::one_law! { $test $world, 100, crowd, waiter_without_subscription_is_served }
        $crate::one_law! { $test $world, 100, crowd, all_clients_are_served }
        $crate::one_law! { $test $world, 100, crowd, offer }
        $crate::one_law! { $test $world, 100, crowd, offer_of_a_read_write_lock }
        $crate::one_law! { $test $world, 94, admin, lock_notifications_end_themselves }
        $crate::one_law! { $test $world, 95, admin, inspect }
        $crate::one_law! { $test $world, 95, admin, registry }
        $crate::one_law! { $test $world, 95, admin, inspect_who }
        $crate::one_law! { $test $world, 95, kinds, rows_of_every_kind }
        $crate::one_law! { $test $world, 96, loss, force_unlock }
        $crate::one_law! { $test $world, 96, admin, evict }
        $crate::one_law! { $test $world, 96, admin, evict_notifies }
        $crate::one_law! { $test $world, 96, admin, evict_spares_others }
        $crate::one_law! { $test $world, 96, kinds, evict_every_kind }
        $crate::one_law! { $test $world, 96, kinds, forget_every_kind }
        $crate::one_law! { $test $world, 97, unused, unused_names_of_every_kind }
        $crate::one_law! { $test $world, 97, unused, forget_beside_claims }
        $crate::one_law! { $test $world, 98, lease, renewals_never_shorten }
        $crate::one_law! { $test $world, 99, admin, golden_layout }
        $crate::one_law! { $test $world, 101, records, record_support }
        $crate::one_law! { $test $world, 102, records, record_absent }
        $crate::one_law! { $test $world, 103, records, record_created_once }
        $crate::one_law! { $test $world, 104, records, record_swapped }
        $crate::one_law! { $test $world, 105, records, record_deleted }
        $crate::one_law! { $test $world, 106, records, record_versions_rise }
        $crate::one_law! { $test $world, 107, records, record_batch_order }
        $crate::one_law! { $test $world, 108, records, record_many }
        $crate::one_law! { $test $world, 109, records, record_closed }
        $crate::one_law! { $test $world, 111, record_conditions, record_too_early }
        $crate::one_law! { $test $world, 112, record_conditions, record_late_enough }
        $crate::one_law! { $test $world, 113, record_conditions, record_held }
        $crate::one_law! { $test $world, 114, record_conditions, record_held_no_more }
        $crate::one_law! { $test $world, 115, record_conditions, record_held_passed_on }
        $crate::one_law! { $test $world, 116, record_conditions, record_conditions_in_order }
        $crate::one_law! { $test $world, 117, record_conditions, record_wrong_clocks }
        $crate::one_law! { $test $world, 121, record_history, record_lines }
        $crate::one_law! { $test $world, 122, record_history, record_slots_go_round }
        $crate::one_law! { $test $world, 123, record_history, record_odd_slots }
        $crate::one_law! { $test $world, 124, record_history, record_histories_apart }
        $crate::one_law! { $test $world, 131, record_reading, record_time }
        $crate::one_law! { $test $world, 132, record_reading, record_reading_order }
        $crate::one_law! { $test $world, 133, record_reading, record_names }
        $crate::one_law! { $test $world, 134, record_reading, record_and_lock_apart }
        $crate::one_law! { $test $world, 135, record_reading, record_prefix }
        $crate::one_law! { $test $world, 136, record_reading, record_texts }
        $crate::one_law! { $test $world, 137, record_reading, record_name_roundtrip }
        $crate::one_law! { $test $world, 141, record_crowd, record_one_winner }
        $crate::one_law! { $test $world, 142, record_crowd, record_additions }
        $crate::one_law! { $test $world, 143, record_crowd, record_additions_of_processes }
        $crate::one_law! { $test $world, 151, record_faults, record_lost_answer }
        $crate::one_law! { $test $world, 152, record_faults, record_lossy_crowd }
        $crate::one_law! { $test $world, 153, record_faults, record_standstill }
        $crate::one_law! { $test $world, 154, record_faults, record_broken_connection }
        $crate::one_law! { $test $world, 155, record_faults, record_restart }
        $crate::one_law! { $test $world, 156, record_faults, record_restart_empty }
        $crate::one_law! { $test $world, 157, record_faults, record_existing }
        $crate::one_law! { $test $world, 158, record_faults, record_dropped }
        $crate::one_law! { $test $world, 161, record_notifications, record_notified }
        $crate::one_law! { $test $world, 162, record_notifications, record_notified_only_if_asked }
        $crate::one_law! { $test $world, 163, record_notifications, record_notifications_are_kept }
        $crate::one_law! { $test $world, 164, record_notifications, record_notified_when_it_subscribes }
        $crate::one_law! { $test $world, 165, record_notifications, record_notified_after_a_cut }
        $crate::one_law! { $test $world, 166, record_notifications, record_notified_after_a_restart }
        $crate::one_law! { $test $world, 167, record_notifications, record_notifications_end }
        $crate::one_law! { $test $world, 168, record_notifications, record_notified_by_processes }
        $crate::one_law! { $test $world, 169, record_notifications, record_notifications_end_themselves }
        $crate::one_law! { $test $world, 181, latches, latch_set_once }
        $crate::one_law! { $test $world, 182, latches, latch_opens_at_zero }
        $crate::one_law! { $test $world, 183, latches, latch_operation_counts_once }
        $crate::one_law! { $test $world, 184, latches, latch_below_zero }
        $crate::one_law! { $test $world, 185, latches, latch_deleted }
        $crate::one_law! { $test $world, 186, latches, latch_parties }
        $crate::one_law! { $test $world, 187, latches, latch_lost_answer }
        $crate::one_law! { $test $world, 188, latches, latch_lossy_crowd }
        $crate::one_law! { $test $world, 189, latches, latch_wait_ends }
        $crate::one_law! { $test $world, 190, latches, latch_without_subscription }
        $crate::one_law! { $test $world, 191, latches, latch_after_a_cut }
        $crate::one_law! { $test $world, 192, latches, latch_restart_empty }
        $crate::one_law! { $test $world, 193, latches, latch_of_another_process }
        $crate::one_law! { $test $world, 194, latches, latch_names }
        $crate::one_law! { $test $world, 195, latches, latch_list }
    };
}
