//! `bandog schedule` over one file.

use crate::{help::Place, schedules};

fn check(law: fn(&Place, &str)) {
    let place = Place::new();
    let url = format!("sqlite:{}", place.path("a.db").display());
    law(&place, &url);
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
