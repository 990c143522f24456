//! The laws of messages ([`bandog_core::messages::Messages`]). Their numbers begin at 301.
//!
//! The tests of a backend implement [`MessageWorld`], and call `bandog_conformance::message_conformance!(MyWorld)`.

mod delivery;
mod kit;
mod subscribers;

use std::sync::Arc;

use async_trait::async_trait;
use bandog_core::messages::{Channels, Messages};

/// The laws, one function each.
pub mod laws {
    pub use super::{delivery::*, subscribers::*};
}

/// A store with channels, created for one test.
#[async_trait]
pub trait MessageWorld: Send + Sync + Sized + 'static {
    /// Starts a store.
    async fn start() -> Self;

    /// A new backend for this store, as if it were in another process.
    fn messages(&self) -> Arc<dyn Messages>;

    /// The number of subscriptions to these channels in the store. Those of a backend to one channel count once. None if the
    /// store does not count them so.
    async fn subscriptions(&self, _channels: &Channels) -> Option<u64> {
        None
    }

    /// Breaks the connections of all backends. Returns false if the store has no connections.
    async fn break_connections(&self) -> bool {
        false
    }
}

/// Makes one named test for each law of messages. Use `message_conformance!(MyWorld)`, or
/// `message_conformance!(paused MyWorld)` if Tokio's clock must be paused in the tests.
#[macro_export]
macro_rules! message_conformance {
    (paused $world:ty) => {
        $crate::each_message_law! { (#[tokio::test(start_paused = true)]) $world }
    };
    ($world:ty) => {
        $crate::each_message_law! { (#[tokio::test]) $world }
    };
}

/// Makes a test for each of these laws.
#[doc(hidden)]
#[macro_export]
macro_rules! message_laws {
    ((#[$test:meta]) $world:ty, $($law:ident)*) => {$(
        #[$test]
        async fn $law() {
            let world = <$world as $crate::messages::MessageWorld>::start().await;
            $crate::messages::laws::$law(&world).await;
        }
    )*};
}

/// Makes a test for each law of messages.
#[doc(hidden)]
#[macro_export]
macro_rules! each_message_law {
    ($test:tt $world:ty) => {
        $crate::message_laws! { $test $world,
            messages_reach_the_subscribers_of_this_moment messages_of_a_publisher_keep_their_order
            messages_of_any_bytes_arrive messages_of_other_channels_do_not_arrive
            messages_match_patterns messages_of_sharded_channels_match_no_pattern messages_are_answered_one_by_one
            subscribers_share_a_subscription subscriptions_end_when_they_are_dropped subscriptions_can_follow_each_other
            subscribers_that_are_slow_get_a_gap subscribers_get_a_gap_after_a_lost_connection
            subscribers_of_many_channels_get_their_messages
        }
    };
}
