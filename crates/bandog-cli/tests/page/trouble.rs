//! Messages of the page when the store, a node or bandog does not answer.

use std::{fs, time::Duration};

use crate::{browser::DESK, fixture::Fixture, help::SOON};

// Promise: P5
#[test]
fn the_page_reports_a_store_without_an_answer_and_keeps_its_data() {
    let fixture = Fixture::open(DESK);
    let browser = &fixture.browser;
    browser.says("#link", "Live");
    browser.says(&Fixture::job("report"), "10:15:00 CE");
    fixture.redis.kill();
    browser.says("#trouble", "The store does not answer");
    browser.says("#link", "ago");
    browser.says(&Fixture::job("report"), "10:15:00 CE");
    fixture.redis.restart();
    browser.says("#link", "Live");
    assert_eq!(browser.eval("document.querySelector('#trouble').hidden"), true);
    fixture.is_clean();
}

// Promise: P5
#[test]
fn a_run_of_a_dead_node_is_marked_until_another_node_takes_it_over() {
    let fixture = Fixture::open(DESK);
    let jobs = "[[job]]\nname = \"elsewhere\"\nfixed_rate = \"1h\"\ncommand = \"exec sleep 1000\"\n";
    fs::write(fixture.place.path("other.toml"), jobs).unwrap();
    let other = fixture.place.start(&["schedule", "other.toml", "--url", &fixture.url]);
    let now = format!("{} .now", Fixture::job("elsewhere"));
    fixture.browser.says(&now, "for ");
    other.kill();
    fixture.browser.says(&now, "which is dead");
    fixture.is_clean();
}

// Promise: P5
#[test]
fn the_page_reports_that_bandog_has_ended() {
    let mut fixture = Fixture::open(DESK);
    fixture.browser.says(&Fixture::job("report"), "10:15:00 CE");
    fixture.bandog.term();
    // A second signal kills the present runs immediately.
    fixture.bandog.stderr_line("stopping", SOON);
    fixture.bandog.term();
    assert!(!fixture.bandog.wait(SOON + Duration::from_secs(10)).success());
    fixture.browser.says("#trouble", "bandog itself does not answer");
    fixture.browser.says(&Fixture::job("report"), "10:15:00 CE");
}
