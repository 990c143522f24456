//! What people see and do.

use bandog_testkit::eventually;

use crate::{
    browser::{Browser, DESK, PHONE},
    help::SOON,
    house::{House, TOKEN},
};

/// Everything that a person does by the form in front of the page.
fn act(browser: &Browser, job: &str, act: &str, token: &str) {
    browser.click(&format!("{} [data-act='{act}']", House::job(job)));
    browser.eval(&format!("document.querySelector('#ask [name=token]').value = '{token}'"));
    browser.click("#ask .main");
}

#[test]
fn jobs_are_there_a_countdown_runs_and_runs_appear() {
    let house = House::open(DESK);
    let browser = &house.browser;
    for name in ["close-unpaid-orders", "reconcile-ledger", "report", "send-invoices", "warm-cache"] {
        browser.says(&House::job(name), name);
    }
    browser.says(&House::job("report"), "10:15:00 CE");
    let countdown = format!("{} .next time", House::job("reconcile-ledger"));
    browser.says(&countdown, "in ");
    let first = browser.text(&countdown);
    eventually(SOON, || browser.text(&countdown) != first);
    browser.says(&format!("{} .now", House::job("reconcile-ledger")), "for ");
    browser.says(&format!("{} .last", House::job("close-unpaid-orders")), "ok in ");
    browser.says(&format!("{} .last", House::job("send-invoices")), "failed in ");
    browser.says("#locks", "schedule/node/");

    house.unfold("close-unpaid-orders");
    let runs = format!("document.querySelectorAll(\"{} .runs tbody tr\").length", House::job("close-unpaid-orders"));
    let count = eventually(SOON, || browser.eval(&runs).as_u64().filter(|count| *count > 0));
    eventually(SOON, || browser.eval(&runs).as_u64() > Some(count));
    house.unfold("send-invoices");
    browser.says(&format!("{} .runs", House::job("send-invoices")), "exit code 3");

    // The same failure again and again is one line, which opens.
    let rows = format!("document.querySelectorAll(\"{} .runs tbody tr\")", House::job("send-invoices"));
    // Beside a run that is running now.
    let lines = format!("[...{rows}].filter((row) => row.cells[1].textContent.startsWith('failed')).length");
    browser.says(&format!("{} .fold", House::job("send-invoices")), "× ");
    assert_eq!(browser.eval(&lines), 1, "more than one line for the same failure");
    browser.click(&format!("{} .fold", House::job("send-invoices")));
    assert!(browser.eval(&lines).as_u64() > Some(2));

    let bars = |name: &str| {
        let label = format!("document.querySelector(\"{} .bars svg\").getAttribute('aria-label')", House::job(name));
        browser.eval(&label).as_str().unwrap().to_owned()
    };
    eventually(SOON, || bars("send-invoices").ends_with(" failed") && bars("close-unpaid-orders").ends_with(" ok"));
    assert_eq!(bars("report"), "No run has ended yet");
    browser.says("#day", "send-invoices");
    browser.says("#hour", "reconcile-ledger");
    house.is_clean();
}

#[test]
fn a_job_is_paused_resumed_run_and_cancelled_with_the_token() {
    let house = House::open(PHONE);
    let browser = &house.browser;
    house.unfold("close-unpaid-orders");
    act(browser, "close-unpaid-orders", "pause", "not-the-token-at-all");
    browser.says("#ask", "That is not the token.");
    assert!(house.told("close-unpaid-orders")["paused"].is_null());
    // What others have written is text, whatever it looks like.
    let reason = "<b id=bold>stock</b> & <img src=/x onerror=alert(1)>";
    browser.eval(&format!("document.querySelector('#ask [name=reason]').value = '{reason}'"));
    browser.eval(&format!("document.querySelector('#ask [name=token]').value = '{TOKEN}'"));
    browser.click("#ask .main");
    browser.says(&format!("{} .next", House::job("close-unpaid-orders")), reason);
    browser.says(&format!("{} .held", House::job("close-unpaid-orders")), reason);
    assert_eq!(house.told("close-unpaid-orders")["paused"]["reason"], reason);
    assert_eq!(browser.eval("document.querySelector('#bold')"), serde_json::Value::Null);

    // The token is not asked for again.
    browser.click(&format!("{} [data-act='resume']", House::job("close-unpaid-orders")));
    assert_eq!(browser.eval("document.querySelector('#ask [data-part=token]').hidden"), true);
    browser.click("#ask .main");
    browser.says(&format!("{} .next", House::job("close-unpaid-orders")), "in ");

    house.unfold("reconcile-ledger");
    let job = House::job("reconcile-ledger");
    browser.says(&format!("{job} .runs"), "running");
    act(browser, "reconcile-ledger", "cancel", "");
    browser.says("#told", "told to cancel run ");
    browser.says(&format!("{job} .runs"), "cancelled");

    house.unfold("report");
    act(browser, "report", "run", "");
    browser.says("#told", "is asked for");
    browser.says(&format!("{} .last", House::job("report")), "ok in ");
    browser.says(&format!("{} .runs", House::job("report")), "manual");
    // Where it was shown, stored or sent it would be found.
    let kept = browser.eval("JSON.stringify([location.href, {...localStorage}, {...sessionStorage}, document.cookie])");
    assert!(!kept.as_str().unwrap().contains(TOKEN), "{kept}");
    assert!(browser.asked().iter().all(|url| !url.contains(TOKEN)));
    house.is_clean();
}

#[test]
fn it_is_used_by_keys_alone() {
    let house = House::open(DESK);
    let browser = &house.browser;
    browser.says("#jobs", "warm-cache");
    browser.press("/");
    assert_eq!(browser.eval("document.activeElement.id"), "filter");
    browser.type_text("WARM");
    eventually(SOON, || browser.eval("document.querySelectorAll('#jobs > li').length") == 1);
    browser.press("Tab");
    browser.press("Enter");
    let is_open = "document.querySelector('#jobs h3 button').getAttribute('aria-expanded')";
    eventually(SOON, || browser.eval(is_open) == "true");
    browser.says("#jobs .facts", "fixed_delay");
    browser.press("Tab");
    assert_eq!(browser.eval("document.activeElement.dataset.act"), "run");
    browser.press("Enter");
    eventually(SOON, || browser.eval("document.querySelector('#ask').open") == true);
    browser.press("Escape");
    eventually(SOON, || browser.eval("document.querySelector('#ask').open") == false);
    assert_eq!(browser.eval("document.activeElement.dataset.act"), "run", "the focus is where it was");
    let unnamed: Vec<_> = browser.controls().into_iter().filter(|(_, name)| name.trim().is_empty()).collect();
    assert_eq!(unnamed, []);
}

/// Notes what moves from the frame after the next one on: by then the last change of the screen is over.
const WATCH: &str = "(async () => {
    const frame = () => new Promise(requestAnimationFrame);
    await frame();
    await frame();
    const since = performance.now();
    window.shifts = [];
    const note = (entry) => window.shifts.push(...entry.sources.map(({ node }) => node?.textContent));
    const see = (list) => list.getEntries().filter((entry) => entry.startTime > since).forEach(note);
    new PerformanceObserver(see).observe({ type: 'layout-shift' });
})()";

#[test]
fn nothing_moves_and_nothing_is_too_wide() {
    let house = House::open(PHONE);
    let browser = &house.browser;
    browser.says(&format!("{} .last", House::job("warm-cache")), "ok in ");
    for screen in [PHONE, DESK] {
        browser.look_from(screen);
        let wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
        eventually(SOON, || match browser.eval(wide).as_i64() {
            Some(more) if more <= 0 => Ok(()), // A scroll bar's place is no width of the page.
            more => Err((screen.width, more)),
        });
    }
    browser.eval(WATCH);
    // Runs start and end meanwhile, and every text about them changes.
    let before = house.told("warm-cache")["ok"].as_u64().unwrap();
    eventually(SOON, || house.told("warm-cache")["ok"].as_u64() > Some(before + 1));
    assert_eq!(browser.eval("window.shifts"), serde_json::json!([]));
}
