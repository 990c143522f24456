//! A Redis server, a node with jobs, and a browser with the page of this node.

use std::fs;

use bandog_testkit::{Process, RedisServer};
use serde_json::Value;

use crate::{
    browser::{Browser, Screen},
    help::{Place, SOON},
};

pub(crate) const TOKEN: &str = "correct-horse-battery-staple";

const JOBS: &str = r#"
[pool]
size = 4

[[job]]
name = "close-unpaid-orders"
fixed_rate = "1s"
command = "true"

[[job]]
name = "export-stock"
cron = "0 0/10 * * * ?"
command = "true"

[[job]]
name = "fetch-prices"
fixed_rate = "1s"
command = "t=$(date +%s%N); sleep 0.0$((t / 1000 % 90)); if [ $((t / 1000000000 % 9)) = 4 ]; then exit 75; fi"

[[job]]
name = "reconcile-ledger"
fixed_rate = "1h"
command = "echo 1204 of 1204 accounts agree; exec sleep 1000"
lease = "10s"

[[job]]
name = "report"
cron = "0 15 10 ? * MON-FRI"
zone = "Europe/Berlin"
command = "true"

[[job]]
name = "rotate-keys"
cron = "0 5,35,50 * * * ?"
zone = "America/New_York"
command = "true"

[[job]]
name = "send-invoices"
fixed_rate = "3s"
command = "echo connecting to smtp.example:587; echo 421 too many connections; exit 3"
on_crash = "retry"

[[job]]
name = "warm-cache"
fixed_delay = "3s"
command = "sleep 1"
"#;

pub(crate) struct Fixture {
    pub(crate) redis: RedisServer,
    pub(crate) place: Place,
    pub(crate) bandog: Process,
    pub(crate) browser: Browser,
    pub(crate) page: String,
    pub(crate) url: String,
}

impl Fixture {
    /// Starts everything, and opens the page.
    pub(crate) fn open(screen: Screen) -> Self {
        let (redis, place) = (RedisServer::start(), Place::new());
        fs::write(place.path("jobs.toml"), JOBS).unwrap();
        fs::write(place.path("token"), TOKEN).unwrap();
        let url = format!("{}?watchdog=5s&timeout=1s", redis.url());
        let http = ["--http", "127.0.0.1:0", "--http-token-file", "token"];
        let bandog = place.start(&[&["schedule", "jobs.toml", "--url", &url], &http[..]].concat());
        let line = bandog.stderr_line("the page is at http://", SOON);
        let page = line.split_once(" is at ").unwrap().1.trim().to_owned();
        let browser = Browser::start();
        browser.open(&page, screen);
        Self { redis, place, bandog, browser, page, url }
    }

    /// The part of the page about this job.
    pub(crate) fn job(name: &str) -> String {
        format!("#jobs > [data-key='{name}']")
    }

    /// Opens the details of a job.
    pub(crate) fn unfold(&self, name: &str) {
        self.browser.says("#jobs", name);
        self.browser.click(&format!("{} h3 button", Self::job(name)));
    }

    /// The job, as the API returns it.
    pub(crate) fn api_job(&self, name: &str) -> Value {
        self.browser.eval(&format!("fetch('/api/jobs/{name}').then((reply) => reply.json()).then(({{ job }}) => job)"))
    }

    /// Asserts that the browser has no errors and requested the page only.
    pub(crate) fn is_clean(&self) {
        assert_eq!(self.browser.complaints(), [""; 0]);
        let asked = self.browser.asked();
        assert!(asked.len() > 5 && asked.iter().all(|url| url.starts_with(&self.page)), "{asked:?}");
    }
}
