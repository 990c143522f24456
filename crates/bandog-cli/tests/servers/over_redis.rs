//! The verbs over Redis.

use bandog_testkit::RedisServer;

use crate::{help::Place, verbs};

fn check(law: fn(&Place, &str)) {
    let redis = RedisServer::start();
    law(&Place::new(), &redis.url());
}

#[test]
fn show_and_ls_name_the_holder_and_the_waiters() {
    check(verbs::show_and_ls_name_the_holder_and_the_waiters);
}

#[test]
fn release_takes_a_lock_from_its_holder() {
    check(verbs::release_takes_a_lock_from_its_holder);
}

#[test]
fn release_of_a_lock_that_nobody_holds_is_busy() {
    check(verbs::release_of_a_lock_that_nobody_holds_is_busy);
}

#[test]
fn release_without_force_changes_nothing() {
    check(verbs::release_without_force_changes_nothing);
}
