//! The work queues.

use std::fs;

use bandog_testkit::eventually;
use serde_json::json;

use crate::{
    browser::{Browser, PHONE},
    fixture::TOKEN,
    help::{Place, SOON},
};

/// Clicks on an action, and submits its form. The token is asked for at the first action only.
fn act(browser: &Browser, act: &str, row: &str) {
    browser.click(&format!("#queue {row} [data-act='{act}']"));
    browser.eval(&format!("document.querySelector('#ask [name=token]').value = '{TOKEN}'"));
    browser.click("#ask .main");
}

#[test]
fn a_queue_is_opened_and_its_dead_elements_are_retried_and_removed() {
    let place = Place::new();
    let url = "sqlite:work.db";
    // The payload of a user is never markup.
    for payload in ["<b id=bold>one</b>", "two", "slow"] {
        place.run(&["push", "shop/mails", payload, "--url", url]).assert_ended(0, &[]);
    }
    let script = "read -r line || true; [ \"$line\" = slow ] && exec sleep 1000; echo no route >&2; exit 3";
    let words = ["work", "shop/mails", "--url", url, "--workers", "1", "--deliveries", "1", "--", "sh", "-c", script];
    let worker = place.start(&words);
    fs::write(place.path("token"), TOKEN).unwrap();
    let page = place.start(&["page", "--url", url, "--http", "127.0.0.1:0", "--http-token-file", "token"]);
    let line = page.stderr_line("the page is at http://", SOON);
    let browser = Browser::start();
    browser.open(&format!("{}#/queues", line.split_once(" is at ").unwrap().1.trim()), PHONE);
    browser.says("#queues", "shop/mails");
    browser.click("[data-queue='shop/mails']");
    browser.says("#queue-dead", "no route");
    eventually(SOON, || browser.eval("document.querySelectorAll('#queue-dead tbody tr').length") == json!(2));
    browser.says("#queue-taken", "slow");
    browser.says("#queue-workers", "1");
    assert_eq!(browser.eval("document.querySelector('#bold')"), json!(null));
    assert!(browser.text("#queue-dead").contains("<b id=bold>one</b>"));
    let wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
    assert!(browser.eval(wide).as_i64().unwrap() <= 0);
    let unnamed: Vec<_> = browser.controls().into_iter().filter(|(_, name)| name.trim().is_empty()).collect();
    assert_eq!(unnamed, []);

    act(&browser, "pause-queue", "");
    browser.says("#message", "paused");
    browser.says(".queues", "paused");
    act(&browser, "remove", "#queue-dead tbody tr:last-child");
    browser.says("#message", "removed");
    eventually(SOON, || browser.eval("document.querySelectorAll('#queue-dead tbody tr').length") == json!(1));
    act(&browser, "retry-all", "");
    browser.says("#message", "1 element ready again");
    eventually(SOON, || browser.eval("document.querySelector('#queue-dead').checkVisibility()") == json!(false));
    act(&browser, "resume-queue", "");
    browser.says("#message", "resumed");
    assert_eq!(browser.complaints(), [""; 0]);
    drop((worker, page));
}

#[test]
fn a_page_without_a_token_shows_no_actions_on_queues() {
    let place = Place::new();
    let url = "sqlite:work.db";
    place.run(&["push", "mails", "x", "--url", url]).assert_ended(0, &[]);
    let page = place.start(&["page", "--url", url, "--http", "127.0.0.1:0"]);
    let line = page.stderr_line("the page is at http://", SOON);
    let browser = Browser::start();
    let address = line.split_once(" is at ").unwrap().1.split(',').next().unwrap().to_owned();
    browser.open(&format!("{address}#/queues"), PHONE);
    browser.says("#queues", "mails");
    browser.click("[data-queue='mails']");
    browser.says("#queue", "No worker has reported");
    assert_eq!(browser.eval("document.querySelectorAll('#queue button').length"), json!(0));
    assert_eq!(browser.complaints(), [""; 0]);
}
