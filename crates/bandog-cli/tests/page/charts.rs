//! The charts of the last 24 hours.

use bandog_testkit::{RedisServer, eventually};
use serde_json::json;

use crate::{
    browser::{Browser, DESK},
    fixture::Fixture,
    help::{Place, SOON},
};

#[test]
fn the_chart_of_runs_shows_its_values_for_the_pointer_the_keys_and_in_a_table() {
    let fixture = Fixture::open(DESK);
    let browser = &fixture.browser;
    let up = "document.querySelector('#chart-runs .up').getAttribute('d') \
              + document.querySelector('#chart-runs .least').getAttribute('d')";
    browser.says("#chart-runs .note", "Observed once a minute since ");
    // The chart is read every 30 s; the test asks at once.
    let poll = "import('/history.js').then(({ pollHistory }) => pollHistory())";
    eventually(SOON, || {
        browser.eval(poll);
        browser.eval(up).as_str() > Some("") && browser.text("#chart-runs .peak").contains("Highest failed: ")
    });
    let label = browser.eval("document.querySelector('#chart-runs svg').getAttribute('aria-label')");
    let label = label.as_str().unwrap();
    assert!(label.starts_with("Runs that ended, per 10 min") && label.contains("Highest ok: "), "{label}");

    browser.eval("document.querySelector('#chart-runs svg').focus()");
    browser.press("ArrowLeft");
    browser.says("#chart-runs .one", "ok ");
    let last = browser.text("#chart-runs .one");
    assert!(last.contains(" · failed "), "{last}");
    browser.press("ArrowLeft");
    assert_ne!(browser.text("#chart-runs .one"), last);
    browser.press("End");
    assert_eq!(browser.text("#chart-runs .one"), last);
    browser.press("Home");
    assert_ne!(browser.text("#chart-runs .one"), last);
    browser.eval("document.activeElement.blur()");
    assert_eq!(browser.text("#chart-runs .one"), "");
    let at =
        "(({ left, width, top }) => new PointerEvent('pointermove', { clientX: left + width - 1, clientY: top + 5 }))";
    let svg = "document.querySelector('#chart-runs svg')";
    browser.eval(&format!("{svg}.dispatchEvent({at}({svg}.getBoundingClientRect()))"));
    browser.says("#chart-runs .one", "ok ");

    browser.click("#chart-runs summary");
    let rows = "document.querySelectorAll('#chart-runs tbody tr').length";
    eventually(SOON, || browser.eval(rows) == 24);
    let heads = "[...document.querySelectorAll('#chart-runs thead th')].map((cell) => cell.textContent)";
    assert_eq!(browser.eval(heads), json!(["Hour from", "ok", "failed"]));
    browser.says("#chart-lag .peak", "Highest median: ");
    fixture.is_clean();
}

#[test]
fn calls_that_wait_for_a_lock_are_charted() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let (name, url) = ("<b>stock</b>", redis.url());
    let holder = place.start(&["lock", name, "--url", &url, "--", "sh", "-c", "echo in; read word"]);
    holder.stdout_line("in", SOON);
    let waiter = place.start(&["lock", name, "--url", &url, "--", "true"]);
    eventually(SOON, || place.show(name, &["--url", &url])["waiters"][0].is_object());
    // A page observes the store at its start.
    let page = place.start(&["page", "--url", &url, "--http", "127.0.0.1:0"]);
    let line = page.stderr_line("the page is at http://", SOON);
    let browser = Browser::start();
    browser.open(&format!("{}#/locks", line.split_once(" is at ").unwrap().1.split(',').next().unwrap()), DESK);
    browser.says("#chart-locks tbody", name);
    let cells = "[...document.querySelector('#chart-locks tbody tr').cells].slice(2).map((cell) => cell.textContent)";
    assert_eq!(browser.eval(cells), json!(["1", "1"]));
    let label = browser.eval("document.querySelector('#chart-locks tbody svg').getAttribute('aria-label')");
    assert!(label.as_str().unwrap().starts_with("1 now; highest 1, "), "{label}");
    assert_eq!(browser.complaints(), [""; 0]);
    drop((holder, waiter));
}
