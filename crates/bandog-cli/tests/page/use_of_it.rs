//! Using the page.

use bandog_testkit::eventually;

use crate::{
    browser::{Browser, DESK, PHONE},
    fixture::{Fixture, TOKEN},
    help::SOON,
};

/// Clicks on an action of a job, and submits the form with this token.
fn act(browser: &Browser, job: &str, act: &str, token: &str) {
    browser.click(&format!("{} [data-act='{act}']", Fixture::job(job)));
    browser.eval(&format!("document.querySelector('#ask [name=token]').value = '{token}'"));
    browser.click("#ask .main");
}

/// Waits until the page reports a finished action with these words.
#[track_caller]
fn expect_message(browser: &Browser, words: &str) {
    eventually(SOON, || {
        let (message, form) = (
            browser.text("#message"),
            browser.eval("[document.querySelector('#ask').open, document.querySelector('#ask').innerText]"),
        );
        if message.contains(words) { Ok(()) } else { Err(format!("the page says {message:?}; the form: {form}")) }
    });
}

#[test]
fn the_page_shows_jobs_a_countdown_and_new_runs() {
    let fixture = Fixture::open(DESK);
    let browser = &fixture.browser;
    for name in ["close-unpaid-orders", "reconcile-ledger", "report", "send-invoices", "warm-cache"] {
        browser.says(&Fixture::job(name), name);
    }
    browser.says(&Fixture::job("report"), "10:15:00 CE");
    let countdown = format!("{} .next time", Fixture::job("reconcile-ledger"));
    browser.says(&countdown, "in ");
    let first = browser.text(&countdown);
    eventually(SOON, || browser.text(&countdown) != first);
    browser.says(&format!("{} .now", Fixture::job("reconcile-ledger")), "for ");
    browser.says(&format!("{} .last", Fixture::job("close-unpaid-orders")), "ok in ");
    browser.says(&format!("{} .last", Fixture::job("send-invoices")), "failed in ");
    browser.says("#locks", "schedule/node/");

    fixture.unfold("close-unpaid-orders");
    let runs = format!("document.querySelectorAll(\"{} .runs tbody tr\").length", Fixture::job("close-unpaid-orders"));
    let count = eventually(SOON, || browser.eval(&runs).as_u64().filter(|count| *count > 0));
    eventually(SOON, || browser.eval(&runs).as_u64() > Some(count));
    fixture.unfold("send-invoices");
    browser.says(&format!("{} .runs", Fixture::job("send-invoices")), "exit code 3");

    // Equal failures in succession are one line, which can be unfolded.
    let rows = format!("document.querySelectorAll(\"{} .runs tbody tr\")", Fixture::job("send-invoices"));
    // Only rows of failed runs count, because another row might show a run that is running now.
    let lines = format!("[...{rows}].filter((row) => row.cells[1].textContent.startsWith('failed')).length");
    browser.says(&format!("{} .fold", Fixture::job("send-invoices")), "× ");
    assert_eq!(browser.eval(&lines), 1, "more than one line for the same failure");
    browser.click(&format!("{} .fold", Fixture::job("send-invoices")));
    assert!(browser.eval(&lines).as_u64() > Some(2));

    let bars = |name: &str| {
        let label = format!("document.querySelector(\"{} .bars svg\").getAttribute('aria-label')", Fixture::job(name));
        browser.eval(&label).as_str().unwrap().to_owned()
    };
    eventually(SOON, || bars("send-invoices").ends_with(" failed") && bars("close-unpaid-orders").ends_with(" ok"));
    assert_eq!(bars("report"), "No run has ended yet");
    browser.says("#day", "send-invoices");
    browser.says("#hour", "reconcile-ledger");
    fixture.is_clean();
}

// Promise: P3
#[test]
fn a_job_is_paused_resumed_run_and_cancelled_with_the_token() {
    let fixture = Fixture::open(PHONE);
    let browser = &fixture.browser;
    fixture.unfold("close-unpaid-orders");
    act(browser, "close-unpaid-orders", "pause", "not-the-token-at-all");
    browser.says("#ask", "This token is wrong.");
    assert!(fixture.api_job("close-unpaid-orders")["paused"].is_null());
    // Texts of other users are never markup.
    let reason = "<b id=bold>stock</b> & <img src=/x onerror=alert(1)>";
    browser.eval(&format!("document.querySelector('#ask [name=reason]').value = '{reason}'"));
    browser.eval(&format!("document.querySelector('#ask [name=token]').value = '{TOKEN}'"));
    browser.click("#ask .main");
    browser.says(&format!("{} .next", Fixture::job("close-unpaid-orders")), reason);
    browser.says(&format!("{} .held", Fixture::job("close-unpaid-orders")), reason);
    assert_eq!(fixture.api_job("close-unpaid-orders")["paused"]["reason"], reason);
    assert_eq!(browser.eval("document.querySelector('#bold')"), serde_json::Value::Null);

    // The form does not ask for the token a second time.
    browser.click(&format!("{} [data-act='resume']", Fixture::job("close-unpaid-orders")));
    assert_eq!(browser.eval("document.querySelector('#ask [data-part=token]').hidden"), true);
    browser.click("#ask .main");
    browser.says(&format!("{} .next", Fixture::job("close-unpaid-orders")), "in ");

    fixture.unfold("reconcile-ledger");
    let job = Fixture::job("reconcile-ledger");
    browser.says(&format!("{job} .runs"), "running");
    act(browser, "reconcile-ledger", "cancel", "");
    expect_message(browser, "cancelled run ");
    browser.says(&format!("{job} .runs"), "cancelled");

    fixture.unfold("report");
    act(browser, "report", "run", "");
    expect_message(browser, "is requested");
    browser.says(&format!("{} .last", Fixture::job("report")), "ok in ");
    browser.says(&format!("{} .runs", Fixture::job("report")), "manual");
    // The token is not shown, stored or sent in a URL.
    let kept = browser.eval("JSON.stringify([location.href, {...localStorage}, {...sessionStorage}, document.cookie])");
    assert!(!kept.as_str().unwrap().contains(TOKEN), "{kept}");
    assert!(browser.asked().iter().all(|url| !url.contains(TOKEN)));
    fixture.is_clean();
}

/// Submits the open form with these fields. The token is asked for at the first action only.
fn submit(browser: &Browser, fields: &[(&str, &str)]) {
    for (name, text) in [("token", TOKEN)].iter().chain(fields) {
        browser.eval(&format!("document.querySelector('#ask [name={name}]').value = '{text}'"));
    }
    browser.click("#ask .main");
}

#[test]
fn the_page_acts_as_the_command_does() {
    let fixture = Fixture::open(DESK);
    let browser = &fixture.browser;
    browser.says("#jobs", "warm-cache");
    browser.click("#pause-all");
    submit(browser, &[("reason", "stocktaking")]);
    expect_message(browser, "all jobs: paused");
    browser.says("#nodes", "All jobs are paused");
    browser.says("#pause-all", "Resume all");
    browser.click("#pause-all");
    submit(browser, &[]);
    expect_message(browser, "all jobs: resumed");

    browser.says("#node-acts button", "Pause ");
    browser.click("#node-acts button");
    submit(browser, &[("reason", "disk")]);
    browser.says("#node-acts button", "Resume ");
    browser.says("#nodes", "disk");
    browser.click("#node-acts button");
    submit(browser, &[]);
    browser.says("#node-acts button", "Pause ");

    fixture.unfold("send-invoices");
    let job = Fixture::job("send-invoices");
    browser.says(&format!("{job} .fold"), "× ");
    browser.click(&format!("{job} .fold"));
    browser.click(&format!("{job} .runs .part [data-act='again']"));
    submit(browser, &[]);
    expect_message(browser, "1 tick is requested");
    browser.says(&format!("{job} .runs"), "backfill");

    fixture.unfold("report");
    browser.click(&format!("{} [data-act='backfill']", Fixture::job("report")));
    browser.says("#ask", "First tick");
    submit(browser, &[("from", "2026-05-04T00:00:00Z"), ("to", "2026-05-05T23:00:00Z")]);
    expect_message(browser, "2 ticks are requested");
    eventually(SOON, || fixture.api_job("report")["ok"].as_u64() >= Some(2));
    browser.click(&format!("{} [data-act='forget']", Fixture::job("report")));
    submit(browser, &[]);
    expect_message(browser, "report: forgotten");

    let mut holder = fixture.place.start(&["lock", "deploy", "--url", &fixture.url, "--", "sleep", "1000"]);
    browser.says("#locks", "deploy");
    browser.click("#locks [data-name='deploy']");
    browser.says("#ask", "two clients believe that they hold the lock");
    submit(browser, &[]);
    expect_message(browser, "deploy: released");
    assert_eq!(holder.wait(SOON).code(), Some(76), "the holder notices the loss");
    fixture.is_clean();
}

/// A job that no node has any more, and a cancelled run during its grace.
#[test]
fn the_page_marks_a_job_without_a_node_and_a_run_that_is_cancelling() {
    let fixture = Fixture::open(DESK);
    let browser = &fixture.browser;
    let job =
        "[[job]]\nname = 'removed'\nfixed_rate = '1h'\ncommand = \"trap '' TERM; while true; do sleep 0.1; done\"";
    std::fs::write(fixture.place.path("removed.toml"), job).unwrap();
    let mut other = fixture.place.start(&["schedule", "removed.toml", "--url", &fixture.url]);
    fixture.unfold("removed");
    let row = Fixture::job("removed");
    browser.says(&format!("{row} .now"), "for ");
    browser.click(&format!("{row} [data-act='cancel']"));
    submit(browser, &[]);
    browser.says(&format!("{row} .runs"), "cancelling");
    browser.says(&format!("{row} .runs"), "cancelled");
    browser.says(&format!("{row} .facts"), "0 failed, 0 lost, 1 cancelled");
    other.term();
    other.wait(SOON);
    browser.says(&format!("{row} .next"), "no node has it");
    browser.says(&format!("{row} .facts"), "no live node has this job");
    fixture.is_clean();
}

/// The only jobs start too often to be drawn.
#[test]
fn the_next_hour_does_not_deny_starts_that_are_not_drawn() {
    let fixture = Fixture::open(DESK);
    let hour = |often: u32| {
        let hour = serde_json::json!({
            "from": "2026-01-01T00:00:00Z", "minutes": vec![0; 60], "starts": [], "often": often, "often_jobs": ["sweep"],
        });
        let paint = format!("paintHour({hour}, Date.parse('2026-01-01T00:00:00Z'))");
        let script = format!(
            "import('/dash.js').then(({{ paintHour }}) => {{ {paint}; return document.querySelector('#hour').innerText }})"
        );
        fixture.browser.eval(&script).as_str().unwrap().to_owned()
    };
    assert!(hour(0).contains("No start in the next hour."));
    let often = hour(1);
    assert!(!often.contains("No start") && often.contains("more than 12 times an hour (sweep)"), "{often}");
}

#[test]
fn the_page_can_be_used_with_the_keyboard_alone() {
    let fixture = Fixture::open(DESK);
    let browser = &fixture.browser;
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
    assert_eq!(browser.eval("document.activeElement.dataset.act"), "run", "the focus is on the same button as before");
    let unnamed: Vec<_> = browser.controls().into_iter().filter(|(_, name)| name.trim().is_empty()).collect();
    assert_eq!(unnamed, []);
}

/// Records layout shifts. It begins after two frames, when the last change of the screen is complete.
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
fn the_layout_does_not_shift_and_fits_the_screen() {
    let fixture = Fixture::open(PHONE);
    let browser = &fixture.browser;
    browser.says(&format!("{} .last", Fixture::job("warm-cache")), "ok in ");
    for screen in [PHONE, DESK] {
        browser.use_screen(screen);
        let wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
        eventually(SOON, || match browser.eval(wide).as_i64() {
            Some(more) if more <= 0 => Ok(()), // The difference is negative if there is a scroll bar.
            more => Err((screen.width, more)),
        });
    }
    browser.eval(WATCH);
    // While the test waits, runs start and end, and the texts of the page change.
    let before = fixture.api_job("warm-cache")["ok"].as_u64().unwrap();
    eventually(SOON, || fixture.api_job("warm-cache")["ok"].as_u64() > Some(before + 1));
    assert_eq!(browser.eval("window.shifts"), serde_json::json!([]));
}
