//! Objects of the grid, used from Rust and from Java: the real Redisson 4.7.0 and bandog on one Redis.
//!
//! The traps of Redisson's objects, and the tests that bandog does not step into them. A test without a crate is here;
//! `grid` is `crates/bandog-grid/tests/it`, `codec` is `crates/bandog-codec/tests/it`, and a law is one of
//! `crates/bandog-conformance/src/objects`.
//!
//! - Trap 1, waits of less than a second are rounded, or last for ever: `traps::a_wait_ends_and_blocks_no_connection`.
//! - Trap 2, a wait of 0 blocks for ever: the same.
//! - Trap 3, BLPOP gives an element to a connection that nobody reads: no command blocks: the same,
//!   `traps::a_stopped_process_that_waits_gets_nothing`, `contended::killed`.
//! - Trap 4, a bounded queue decodes with another codec: there is no bounded queue; a handle has one codec.
//! - Trap 5, a delayed queue moves only while a client holds it: there is no delayed queue.
//! - Trap 6, a pattern subscription breaks adders and local caches: bandog makes none, and answers if a program of Java clears
//!   all copies: `traps::a_wait_ends_and_blocks_no_connection`, `both_ways::copies_of_both_sides_agree`.
//! - Trap 7, `putIfAbsent` of Java gives an entry a time at which it is idle: such a time ends no entry without an idle time, and
//!   bandog removes it: `grid/timed::an_idle_time_of_an_entry_without_one_is_no_end`.
//! - Trap 8, `expireIfNotSet` of Java deletes an `RMapCache` at once: bandog sends times that begin now:
//!   `both_ways::timed_maps_go_both_ways`.
//! - Trap 9, the size counts dead entries, and nothing evicts without a holder: law `timed_entries_expire`;
//!   `grid/timed::expired_entries_are_removed_without_a_call`, and docs/grid.md says what stays.
//! - Trap 10, `has-listeners` is never unset: it is so for bandog too; events of expired entries do not depend on receivers: law
//!   `timed_map_reports_its_changes`.
//! - Trap 11, `RMapCacheNative` on Redis 7.0 writes without a ttl: `grid/timed::the_server_removes_entries_of_a_native_map`.
//! - Trap 12, scores that mean "never" are rounded: there is no `RSetCache`; a time of an entry beyond 9e15 ms is none, and a
//!   member that is no entry is ignored.
//! - Trap 13, a Bloom filter with other sizes answers wrongly; its bits lack the ttl:
//!   `traps::a_bloom_filter_with_other_sizes_is_refused_and_not_read`,
//!   `traps::bits_that_outlive_a_bloom_filter_are_not_those_of_the_next_one`.
//! - Trap 14, equal values with other bytes are different: `traps::the_type_of_a_number_is_a_part_of_its_identity`.
//! - Trap 15, Kryo reads several forms of a text: `traps::a_kryo_text_in_another_form_is_read_and_not_found`,
//!   `both_ways` (its texts), `codec/kryo5::bytes_are_read_as_java_reads_them_or_refused`.
//! - Trap 16, Jackson and `serde_json` write other bytes: `traps::json_of_both_sides_has_equal_bytes`,
//!   `codec/json::properties_are_sorted_at_each_level`.
//! - Trap 17, one foreign field makes `readAllMap` fail: `traps::one_foreign_field_is_one_error`,
//!   `grid/calls::one_foreign_entry_is_one_error_of_the_stream`.
//! - Trap 18, `set` removes a ttl, `set(null)` deletes; texts of doubles: `traps::a_set_removes_the_ttl_on_both_sides`,
//!   `codec/numbers::texts_of_java_and_of_redis_are_read`.
//! - Trap 19, the evictor of multimaps leaves values if a name has a brace:
//!   `traps::names_with_braces_have_the_keys_of_java`,
//!   `traps::values_that_the_evictor_of_java_has_left_do_not_come_back`; there is no priority queue.
//! - Trap 20, a restarted process is a new group of a reliable topic, and messages that all groups have received are
//!   trimmed: a group of a journal stays, and keeps what it has taken: `journals::reliable_topics_go_both_ways`.
//! - Trap 21, a plain write does not notify an `RLocalCachedMap`, and a late read is kept: a `NearMap` hears of both:
//!   `grid/near::copies_need_no_request_and_are_gone_after_each_change`; Java's copies cannot be mended, so a program that shares
//!   a map with them writes with a `NearMap`: `both_ways::copies_of_both_sides_agree`.
//! - Trap 22, Java sends a command again, which loses an element: these tests have no faults; bandog sends no write
//!   twice without an id: `grid/faults::lost_answers_neither_lose_nor_repeat_an_element`, laws `take_is_exact` and
//!   `list_pushes_once_with_an_id`.
//! - Trap 23, an executor finishes a task that has not run: there is no executor.
//! - Trap 24, channels of a cluster have another verb: scripts publish with SPUBLISH there: laws of timed maps on a cluster,
//!   `grid/near::copies_of_a_cluster_follow_a_moved_slot`; queues are notified by `CLIENT TRACKING`.
//! - Trap 25, a rate limiter counts twice; clocks of clients: there is no rate limiter; all times are those of the
//!   server.
//!
//! Found with these tests: an infinite score, which Java neither writes nor reads
//! (`both_ways::sorted_sets_go_both_ways`); and the time of a key that Java has removed
//! (`traps::a_ttl_without_a_key_is_not_counted`).

#![allow(clippy::unwrap_used, reason = "tests")]

mod both_ways;
mod contended;
mod journals;
mod live;
mod side;
mod spring;
mod traps;
