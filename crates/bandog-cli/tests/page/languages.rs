//! The languages of the page.

use std::fs;

use serde_json::json;

use crate::{
    browser::{Browser, DESK, PHONE},
    help::{Place, SOON},
};

const JOBS: &str = "[[job]]\nname = \"sweep\"\nfixed_rate = \"1s\"\ncommand = \"true\"\n";

#[test]
fn the_page_is_in_the_language_of_the_option_and_can_be_switched() {
    let place = Place::new();
    fs::write(place.path("jobs.toml"), JOBS).unwrap();
    let page = place.start(&["schedule", "jobs.toml", "--url", "sqlite:s.db", "--http", "127.0.0.1:0", "--lang", "zh"]);
    let line = page.stderr_line("the page is at http://", SOON);
    let browser = Browser::start();
    browser.open(&format!("{}#sweep", line.split_once(" is at ").unwrap().1.split(',').next().unwrap()), PHONE);
    browser.says("#jobs .last", "成功");
    browser.says("#day-head", "最近 24 小时");
    browser.says("#jobs .facts", "水位线");
    browser.says("#jobs .runs", "按计划");
    browser.says("#link", "实时");
    browser.says("#chart-runs .note", "每分钟观察一次");
    assert_eq!(browser.eval("document.documentElement.lang"), "zh-CN");
    let label = browser.eval("document.querySelector('#filter').getAttribute('aria-label')");
    assert_eq!(label, "按名字过滤定时任务");
    let wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
    assert!(browser.eval(wide).as_i64().unwrap() <= 0);
    for view in ["locks", "queues", "nodes"] {
        browser.click(&format!("#views [data-go={view}]"));
        browser.says("#views [aria-current]", if view == "locks" { "锁" } else { "" });
    }
    browser.says("#nodes", "调度器：");
    browser.says("#language", "English");
    browser.click("#language");
    browser.says("#nodes", "Schedulers: ");
    assert_eq!(browser.eval("[document.documentElement.lang, location.hash]"), json!(["en", "#/nodes"]));
    browser.says("#language", "中文");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn without_an_option_the_browser_chooses_the_language() {
    let place = Place::new();
    place.run(&["push", "mails", "x", "--url", "sqlite:s.db"]).assert_ended(0, &[]);
    let page = place.start(&["page", "--url", "sqlite:s.db", "--http", "127.0.0.1:0"]);
    let line = page.stderr_line("the page is at http://", SOON);
    let address = line.split_once(" is at ").unwrap().1.split(',').next().unwrap().to_owned();
    let browser = Browser::start();
    browser.accept("zh-CN,zh");
    browser.open(&address, DESK);
    browser.says("#no-jobs", "存储中还没有定时任务");
    browser.accept("de,en");
    browser.open_anew(&format!("{address}#/locks"), DESK);
    browser.says("#no-locks", "No lock is held now.");
    assert_eq!(browser.complaints(), [""; 0]);
}
