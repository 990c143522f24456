//! The laws of work queues ([`bandog_core::queues::Queues`]). Their numbers begin at 341.
//!
//! The tests of a backend implement [`QueueWorld`], and call `bandog_conformance::queue_conformance!(MyWorld)`.

mod kit;
mod model;
mod operators;
mod order;
mod pushing;
mod settling;
mod taking;

use std::sync::Arc;

use async_trait::async_trait;
use bandog_core::queues::Queues;

/// The laws, one function each.
pub mod laws {
    pub use super::{model::*, operators::*, order::*, pushing::*, settling::*, taking::*};
}

/// A store with work queues, created for one test.
#[async_trait]
pub trait QueueWorld: Send + Sync + Sized + 'static {
    /// Starts a store.
    async fn start() -> Self;

    /// A new backend for this store, as if it were in another process.
    fn queues(&self) -> Arc<dyn Queues>;
}

/// Makes one named test for each law of work queues. Use `queue_conformance!(MyWorld)`, or
/// `queue_conformance!(paused MyWorld)` if Tokio's clock must be paused in the tests.
#[macro_export]
macro_rules! queue_conformance {
    (paused $world:ty) => {
        $crate::each_queue_law! { (#[tokio::test(start_paused = true)]) $world }
    };
    ($world:ty) => {
        $crate::each_queue_law! { (#[tokio::test]) $world }
    };
}

/// Makes a test for each of these laws.
#[doc(hidden)]
#[macro_export]
macro_rules! queue_laws {
    ((#[$test:meta]) $world:ty, $($law:ident)*) => {$(
        #[$test]
        async fn $law() {
            let world = <$world as $crate::queues::QueueWorld>::start().await;
            $crate::queues::laws::$law(&world).await;
        }
    )*};
}

/// Makes a test for each law of work queues.
#[doc(hidden)]
#[macro_export]
macro_rules! each_queue_law {
    ($test:tt $world:ty) => {
        $crate::queue_laws! { $test $world,
            elements_are_delivered_in_their_order elements_of_any_bytes_are_delivered elements_keep_their_headers pushes_that_are_repeated_add_nothing
            elements_with_an_id_are_pushed_once elements_with_a_greater_priority_come_first elements_wait_for_their_time
            deliveries_have_leases deliveries_of_a_repeated_take_are_the_same takes_that_arrive_late_are_given_back
            takes_are_limited_in_bytes
            repeated_takes_give_back_what_they_do_not_get deliveries_of_programs_that_died_count deliveries_are_extended
            elements_that_are_delivered_too_often_are_dead elements_are_delivered_once_to_many_takers
            elements_that_are_done_are_gone elements_that_failed_come_again elements_that_are_handed_back_keep_their_place
            elements_that_failed_for_good_are_dead settlements_of_a_late_taker_count_until_the_next_delivery
            elements_of_a_key_come_one_by_one keys_go_on_after_dead_elements elements_wait_for_their_predecessors
            results_are_kept_for_a_time bells_ring queues_can_be_paused queues_limit_what_is_taken queues_limit_the_rate
            elements_can_be_cancelled elements_are_withdrawn_if_they_were_not_delivered
            queues_show_their_elements elements_are_shown_in_portions queues_can_be_listed workers_are_shown_for_a_time
            queue_bells_end_themselves queues_agree_with_the_model
        }
    };
}
