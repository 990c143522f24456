//! The laws about semaphores and about several kinds of locks, with plain semaphores.

use bandog_conformance::one_law;

use crate::{DataFormat, OnRedis};

struct Plain;

impl DataFormat for Plain {
    const NAME: &'static str = "redis with semaphores=plain";
    const QUERY: &'static str = "?semaphores=plain";
    const TYPE: &'static str = "hash";
}

one_law! { (#[tokio::test]) OnRedis<Plain>, 3, batches, independent_steps }
one_law! { (#[tokio::test]) OnRedis<Plain>, 5, kinds, repeated_calls_of_every_kind }
one_law! { (#[tokio::test]) OnRedis<Plain>, 13, kinds, kinds_do_not_collide }
one_law! { (#[tokio::test]) OnRedis<Plain>, 49, kinds, fences_rise_over_all_kinds }
one_law! { (#[tokio::test]) OnRedis<Plain>, 65, kinds, pass_rules }
one_law! { (#[tokio::test]) OnRedis<Plain>, 67, mix, random_mix }
one_law! { (#[tokio::test]) OnRedis<Plain>, 68, semaphore, limit_is_reached_and_never_exceeded }
one_law! { (#[tokio::test]) OnRedis<Plain>, 69, semaphore, drain_and_refill }
one_law! { (#[tokio::test]) OnRedis<Plain>, 70, semaphore, permits_all_or_none }
one_law! { (#[tokio::test]) OnRedis<Plain>, 70, semaphore, starving_claim_for_many_permits }
one_law! { (#[tokio::test]) OnRedis<Plain>, 70, semaphore, starving_grant_notifies }
one_law! { (#[tokio::test]) OnRedis<Plain>, 71, semaphore, crash_returns_permits }
one_law! { (#[tokio::test]) OnRedis<Plain>, 72, semaphore, limit_change_while_waiting }
one_law! { (#[tokio::test]) OnRedis<Plain>, 73, semaphore, limit_mismatch }
one_law! { (#[tokio::test]) OnRedis<Plain>, 74, semaphore, huge_limit }
one_law! { (#[tokio::test]) OnRedis<Plain>, 83, kinds, lost_answers_of_every_kind }
one_law! { (#[tokio::test]) OnRedis<Plain>, 95, kinds, rows_of_every_kind }
one_law! { (#[tokio::test]) OnRedis<Plain>, 96, kinds, evict_every_kind }
one_law! { (#[tokio::test]) OnRedis<Plain>, 96, kinds, forget_every_kind }
