//! The laws of objects ([`bandog_core::structures::Structures`]). Their numbers begin at 201.
//!
//! The tests of a backend implement [`ObjectWorld`], and call `bandog_conformance::object_conformance!(MyWorld)`.

mod amounts;
mod bits;
mod caches;
mod journals;
mod kit;
mod lists;
mod live;
mod maps;
mod model;
mod sets;
mod sorted;
mod take;
mod timed;
mod values;
mod whole;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bandog_core::{Key, structures::Structures};

/// The laws, one function each.
pub mod laws {
    pub use super::{
        amounts::*, bits::*, caches::*, journals::*, lists::*, live::*, maps::*, model::*, sets::*, sorted::*, take::*,
        timed::*, values::*, whole::*,
    };
}

/// A store with objects, created for one test.
#[async_trait]
pub trait ObjectWorld: Send + Sync + Sized + 'static {
    /// Starts an empty store.
    async fn start() -> Self;

    /// A new backend for this store, as if it were in another process.
    fn structures(&self) -> Arc<dyn Structures>;

    /// The name of an object. In a cluster, all names of one test belong to one slot.
    fn key(&self, name: &str) -> Key {
        Key::new(name).expect("the name of a law is valid")
    }

    /// The names of all keys in the store.
    async fn left(&self) -> Vec<String>;

    /// The time after which objects and leases of the laws expire. It is long enough that calls within it succeed on a loaded
    /// machine.
    fn ttl(&self) -> Duration {
        Duration::from_secs(2)
    }
}

/// Makes one named test for each law of objects. Use `object_conformance!(MyWorld)`, or `object_conformance!(paused MyWorld)`
/// if Tokio's clock must be paused in the tests.
#[macro_export]
macro_rules! object_conformance {
    (paused $world:ty) => {
        $crate::each_object_law! { (#[tokio::test(start_paused = true)]) $world }
    };
    ($world:ty) => {
        $crate::each_object_law! { (#[tokio::test]) $world }
    };
}

/// Makes a test for each of these laws.
#[doc(hidden)]
#[macro_export]
macro_rules! object_laws {
    ((#[$test:meta]) $world:ty, $($law:ident)*) => {$(
        #[$test]
        async fn $law() {
            let world = <$world as $crate::objects::ObjectWorld>::start().await;
            $crate::objects::laws::$law(&world).await;
        }
    )*};
}

/// Makes a test for each law of objects.
#[doc(hidden)]
#[macro_export]
macro_rules! each_object_law {
    ($test:tt $world:ty) => {
        $crate::object_laws! { $test $world,
            value_is_written_and_read value_new_is_written_once value_swap_compares_bytes value_ttl_is_kept_or_cleared
            value_expires value_is_taken_once
            counter_adds counter_refuses_overflow_and_text counter_ttl_begins_with_the_first_addition counter_swaps
            counter_adds_once_with_an_id float_counter_adds_and_prints_plain_decimals ids_come_in_blocks
            map_writes_and_reads_fields map_insert_answers_with_the_former_value map_swap_compares_bytes map_adds
            map_pages_contain_each_entry map_without_fields_does_not_exist
            map_reports_its_changes
            multimap_of_sets_keeps_each_value_once multimap_of_lists_keeps_the_order multimap_keys_expire
            multimap_leaves_nothing_behind multimap_removes_expired_keys multimap_keys_made_later_expire_with_it
            set_inserts_and_removes set_random_members_are_different set_combines_with_others set_moves_members
            set_pages_contain_each_member
            list_pushes_at_both_ends list_indexes_count_from_both_ends list_removes_by_index_and_by_value
            list_slices_and_trims list_pushes_once_with_an_id list_pages_contain_each_element
            sorted_set_orders_by_score sorted_set_ranks_from_both_ends sorted_set_ranges_of_scores_include_their_ends
            sorted_set_adds_to_scores sorted_set_keeps_infinite_scores_and_refuses_nan
            pages_in_order_are_limited_in_bytes pages_without_an_order_are_limited_in_bytes
            journal_ranges_are_limited_in_bytes next_elements_are_limited_in_bytes
            bits_are_set_and_counted bits_of_ranges bits_combine bit_fields_wrap_around
            bloom_filter_has_no_false_negatives bloom_filter_with_other_sizes_is_refused
            journal_appends_in_order journal_appends_once_with_an_id journal_trims group_gets_each_entry group_begins_where_asked
            group_entries_come_again group_lease_expires group_of_many_takers_is_exclusive group_notifies_takers
            group_that_is_missing_begins_again group_is_removed_with_its_parts
            take_leaves_the_element_until_it_is_done take_again_counts_deliveries take_undelivered_keeps_the_order
            take_expires take_is_exact take_is_limited_in_bytes take_again_gives_back_what_it_does_not_get take_confirms_earlier_ones take_lease_is_extended take_of_sorted_sets_and_sets
            take_of_many_takers_is_exclusive take_notifies_subscribers take_moves_to_another_list
            whole_object_expires_with_its_parts whole_queue_expires_with_taken_elements whole_object_in_use_expires
            whole_object_is_deleted_with_its_parts whole_object_persists
            object_subscriptions_end_themselves
            other_structures_are_refused a_batch_answers_each_operation objects_are_listed an_object_is_described any_bytes_are_kept
            cache_entry_is_fresh_then_stale_then_gone cache_fill_has_one_owner cache_removal_ends_the_fill
            cache_is_cleared_by_parts cache_fill_expires cache_stale_entry_stays_during_a_fill cache_fill_replaces_another cache_fill_begins_instead_of_an_entry
            cache_notifies_when_a_fill_ends cache_has_a_name_of_its_own cache_leaves_nothing_behind
            cache_is_in_the_list_of_objects cache_reports_are_read_for_minutes
            timed_entries_expire timed_entries_expire_if_they_are_idle timed_entry_keeps_or_changes_its_life
            timed_map_is_bounded timed_map_loses_what_is_least_used timed_map_reports_its_changes
            timed_map_is_emptied_of_expired_entries timed_map_pages_have_no_expired_entry timed_map_adds
            timed_map_leaves_nothing_behind
            live_object_is_inserted_once live_object_write_compares_fields live_object_index_has_the_present_value
            live_object_adds_in_a_range live_object_leaves_nothing_behind live_object_refuses_other_structures
            live_object_pages_contain_each_object
            random_operations_agree_with_the_reference
        }
    };
}
