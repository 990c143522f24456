//! `bandog schedule` over Redis.

use bandog_testkit::RedisServer;

use crate::{help::Place, schedules};

fn check(law: fn(&Place, &str)) {
    let redis = RedisServer::start();
    law(&Place::new(), &redis.url());
}

#[test]
fn two_nodes_run_each_tick_once() {
    check(schedules::two_nodes_run_each_tick_once);
}

#[test]
fn a_killed_nodes_run_goes_on_elsewhere() {
    check(schedules::a_killed_nodes_run_goes_on_elsewhere);
}

#[test]
fn a_stop_hands_over_at_once() {
    check(schedules::a_stop_hands_over_at_once);
}

#[test]
fn a_second_signal_ends_at_once_and_hands_over() {
    check(schedules::a_second_signal_ends_at_once_and_hands_over);
}
