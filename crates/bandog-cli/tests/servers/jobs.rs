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

#[test]
fn next_tells_the_ticks_in_the_order_of_time() {
    check(jobs::next_tells_the_ticks_in_the_order_of_time);
}

#[test]
fn history_tells_what_became_of_runs() {
    check(jobs::history_tells_what_became_of_runs);
}

#[test]
fn cancel_ends_runs_that_wait_or_run() {
    check(jobs::cancel_ends_runs_that_wait_or_run);
}

#[test]
fn backfill_runs_ticks_of_the_past() {
    check(jobs::backfill_runs_ticks_of_the_past);
}

#[test]
fn forget_removes_a_job() {
    check(jobs::forget_removes_a_job);
}

#[test]
fn a_run_whose_node_was_killed_is_told_of() {
    check(jobs::a_run_whose_node_was_killed_is_told_of);
}

#[test]
fn a_store_that_is_away_or_refuses_is_told_of() {
    let place = Place::new();
    let redis = RedisServer::start();
    redis.cmd(&["ACL", "SETUSER", "weak", "on", ">secret", "~*", "+@connection", "+info"]);
    let weak = redis.url().replace("redis://", "redis://weak:secret@");
    for verb in [&["ls"][..], &["show", "x"], &["run", "x"], &["pause", "x", "--reason", "y"], &["history", "x"]] {
        let refused = place.run(&[&["jobs"], verb, &["--url", &weak]].concat());
        refused.told(77, &["bandog: "]);
        assert!(!refused.stderr.contains("secret"), "{refused:?}");
    }
    let url = redis.url();
    drop(redis);
    for verb in [&["ls"][..], &["run", "x"]] {
        place.run(&[&["jobs"], verb, &["--url", &url]].concat()).told(69, &["bandog: "]);
    }
}
