//! `bandog jobs` over Redis.

use bandog_testkit::RedisServer;

use crate::{help::Place, verbs::jobs};

fn check(law: fn(&Place, &str)) {
    let redis = RedisServer::start();
    law(&Place::new(), &redis.url());
}

#[test]
fn ls_and_show_tell_of_each_job() {
    check(jobs::ls_and_show_tell_of_each_job);
}

#[test]
fn run_runs_a_job_beside_its_ticks() {
    check(jobs::run_runs_a_job_beside_its_ticks);
}

#[test]
fn pause_and_resume_stop_the_ticks_for_a_time() {
    check(jobs::pause_and_resume_stop_the_ticks_for_a_time);
}

#[test]
fn who_speaks_to_nobody_is_told() {
    check(jobs::who_speaks_to_nobody_is_told);
}

#[test]
fn bad_words_are_refused() {
    check(jobs::bad_words_are_refused);
}
