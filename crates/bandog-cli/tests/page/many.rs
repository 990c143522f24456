//! A store with ten thousand jobs.

use std::{fmt::Write, fs};

use bandog_testkit::{RedisServer, eventually};

use crate::{
    browser::{Browser, DESK},
    help::{Place, SOON},
};

const JOBS: usize = 10_000;

/// Jobs that fire once a year, one that runs each second, and one that fails.
fn jobs() -> String {
    let mut text = String::from("[pool]\nsize = 4\n");
    for number in 0..JOBS - 2 {
        let name = format!("import-{number:04}");
        write!(text, "[[job]]\nname = \"{name}\"\ncron = \"0 0 0 1 1 ?\"\ncommand = \"true\"\n").unwrap();
    }
    text += "[[job]]\nname = \"tick\"\nfixed_rate = \"1s\"\ncommand = \"true\"\n";
    text + "[[job]]\nname = \"worker that fails\"\nfixed_rate = \"2s\"\ncommand = \"exit 3\"\n"
}

#[test]
fn ten_thousand_jobs_are_shown_in_parts() {
    let (redis, place) = (RedisServer::start(), Place::new());
    fs::write(place.path("jobs.toml"), jobs()).unwrap();
    let schedule = place.start(&["schedule", "jobs.toml", "--url", &redis.url()]);
    schedule.stderr_line("started", 6 * SOON);
    let page = place.start(&["page", "--url", &redis.url(), "--http", "127.0.0.1:0"]);
    let line = page.stderr_line("the page is at http://", SOON);
    let address = line.split_once(" is at ").unwrap().1.split(',').next().unwrap().to_owned();
    let browser = Browser::start();
    browser.open(&address, DESK);
    browser.says("#jobs", "import-0000");
    let shown = browser.eval("performance.now()").as_f64().unwrap();
    browser.says("#pages", "1–50 of 10,000");
    browser.says("[data-chip=all]", "10,000");
    let rows = || browser.eval("document.querySelectorAll('#jobs > li').length").as_u64();
    assert_eq!(rows(), Some(50));
    browser.click("#forth");
    browser.says("#pages", "51–100 of 10,000");
    browser.says("#jobs", "import-0050");

    // The filter works on the server, and its answer is one page of the list.
    let filter = "(async () => {
        const begun = performance.now();
        const input = document.querySelector('#filter');
        input.value = 'import-99';
        input.dispatchEvent(new Event('input'));
        const isShown = () => document.querySelector('#jobs > [data-key=import-9900]');
        while (!isShown()) await new Promise(requestAnimationFrame);
        input.value = '';
        input.dispatchEvent(new Event('input'));
        return performance.now() - begun;
    })()";
    let filtered = browser.eval(filter).as_f64().unwrap();
    browser.says("#jobs", "import-0000");
    let heap = browser.metric("JSHeapUsedSize") / 1e6;
    println!("first list {shown:.0} ms after the start of the load, filter {filtered:.0} ms, heap {heap:.1} MB");
    assert!(heap < 20.0, "{heap} MB");

    // One poll is small for any size of the store.
    let size = "fetch('api/jobs?limit=50').then((reply) => reply.text()).then((text) => text.length)";
    let size = browser.eval(size).as_u64().unwrap();
    assert!(size < 300_000, "{size} bytes");

    browser.click("[data-chip=failing]");
    browser.says("#jobs", "worker that fails");
    eventually(SOON, || rows() == Some(1));
    browser.says("#day", "worker that fails");
    browser.click("#oldest");
    browser.says("#jobs .runs", "failed");
    browser.says("#hour", "2 jobs that start more than 12 times an hour");
    browser.open_anew(&format!("{address}#tick"), DESK);
    browser.says("#jobs .facts", "fixed_rate");
    assert_eq!(browser.complaints(), [""; 0]);
}
