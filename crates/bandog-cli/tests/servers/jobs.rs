//! `bandog jobs` over Redis.

use std::fs;

use bandog_testkit::RedisServer;

use crate::{
    help::{Place, SOON, ends},
    verbs::jobs,
};

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
fn pauses_of_all_jobs_and_of_nodes_hold_and_are_seen() {
    check(jobs::pauses_of_all_jobs_and_of_nodes_hold_and_are_seen);
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
fn reset_lets_a_job_go_on_that_was_claimed_ahead_of_time() {
    check(jobs::reset_lets_a_job_go_on_that_was_claimed_ahead_of_time);
}

#[test]
fn jobs_that_no_scheduler_has_are_marked_and_forgotten_by_a_word() {
    check(jobs::jobs_that_no_scheduler_has_are_marked_and_forgotten_by_a_word);
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

#[test]
fn a_wait_outlives_a_store_that_is_away_for_a_moment_and_no_longer() {
    let place = Place::new();
    let redis = RedisServer::start();
    let url = redis.url();
    fs::write(
        place.path("jobs.toml"),
        "[[job]]\nname = 'x'\ncron = '0 0 2 1 1 ?'\ncommand = 'until [ -e go ]; do sleep 0.02; done'\n",
    )
    .unwrap();
    let scheduler = place.start(&["schedule", "jobs.toml", "--url", &url]);
    scheduler.stderr_line("started", SOON);
    let wait = || {
        let wait = place.start(&["jobs", "run", "x", "--wait", "--url", &url]);
        wait.stdout_line("", SOON);
        wait
    };
    let mut first = wait();
    redis.kill_clients();
    fs::write(place.path("go"), "").unwrap();
    ends(&mut first, 0);
    fs::remove_file(place.path("go")).unwrap();
    let mut second = wait();
    redis.kill();
    ends(&mut second, 69);
}
