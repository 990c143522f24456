//! What people are told when something is away.

use std::{fs, time::Duration};

use crate::{browser::DESK, help::SOON, house::House};

#[test]
fn a_store_that_is_away_is_told_and_what_was_known_stays() {
    let house = House::open(DESK);
    let browser = &house.browser;
    browser.says("#link", "Live");
    browser.says(&House::job("report"), "10:15:00 CE");
    house.redis.kill();
    browser.says("#trouble", "The store does not answer");
    browser.says("#link", "ago");
    browser.says(&House::job("report"), "10:15:00 CE");
    house.redis.restart();
    browser.says("#link", "Live");
    assert_eq!(browser.eval("document.querySelector('#trouble').hidden"), true);
    house.is_clean();
}

#[test]
fn a_run_whose_node_is_gone_is_told_as_long_as_nobody_takes_it_over() {
    let house = House::open(DESK);
    let jobs = "[[job]]\nname = \"elsewhere\"\nfixed_rate = \"1h\"\ncommand = \"exec sleep 1000\"\n";
    fs::write(house.place.path("other.toml"), jobs).unwrap();
    let other = house.place.start(&["schedule", "other.toml", "--url", &house.url]);
    let now = format!("{} .now", House::job("elsewhere"));
    house.browser.says(&now, "for ");
    other.kill();
    house.browser.says(&now, "which is gone");
    house.is_clean();
}

#[test]
fn a_bandog_that_has_ended_is_told() {
    let mut house = House::open(DESK);
    house.browser.says(&House::job("report"), "10:15:00 CE");
    house.bandog.term();
    // What still runs is ended at once by a second signal.
    house.bandog.stderr_line("stopping", SOON);
    house.bandog.term();
    assert!(!house.bandog.wait(SOON + Duration::from_secs(10)).success());
    house.browser.says("#trouble", "bandog itself does not answer");
    house.browser.says(&House::job("report"), "10:15:00 CE");
}
