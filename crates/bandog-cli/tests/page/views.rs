//! The navigation, its links, and the focus.

use std::fs;

use bandog_testkit::{Process, eventually};
use serde_json::json;

use crate::{
    browser::{Browser, DESK, PHONE},
    fixture::Fixture,
    help::{Place, SOON},
};

/// The page of a store in a file, with a queue.
fn page_of_queues(place: &Place) -> (Process, String) {
    for payload in ["one", "two"] {
        place.run(&["push", "shop/mails", payload, "--url", "sqlite:work.db"]).assert_ended(0, &[]);
    }
    let page = place.start(&["page", "--url", "sqlite:work.db", "--http", "127.0.0.1:0"]);
    let line = page.stderr_line("the page is at http://", SOON);
    let address = line.split_once(" is at ").unwrap().1.split(',').next().unwrap().to_owned();
    (page, address)
}

/// The name of the visible view, and the name of the present link of the navigation.
fn view(browser: &Browser) -> serde_json::Value {
    browser.eval(
        "[document.querySelector('[data-view]:not([hidden])').dataset.view, \
         document.querySelector('#views [aria-current=page]').dataset.go]",
    )
}

#[test]
fn one_navigation_leads_to_each_view() {
    let fixture = Fixture::open(DESK);
    let browser = &fixture.browser;
    browser.says("#views [data-go=jobs]", "8");
    browser.says("#views [data-go=nodes]", "1");
    let locks = "Number(document.querySelector('#views [data-count=locks]').textContent)";
    eventually(SOON, || browser.eval(locks).as_u64() > Some(0));
    browser.says("#views [data-go=queues]", "0");
    for name in ["locks", "queues", "caches", "objects", "nodes", "jobs"] {
        browser.click(&format!("#views [data-go={name}]"));
        eventually(SOON, || view(browser) == json!([name, name]));
        assert_eq!(browser.eval("document.querySelectorAll('#views [aria-current]').length"), 1);
        assert_eq!(browser.eval("location.hash"), format!("#/{name}"));
        eventually(SOON, || {
            browser.eval("document.title").as_str().unwrap().to_lowercase() == format!("{name} – bandog")
        });
    }
    browser.says("#nodes", "Schedulers: ");
    browser.eval("history.back()");
    eventually(SOON, || view(browser) == json!(["nodes", "nodes"]));
    browser.use_screen(PHONE);
    let wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
    for name in ["locks", "queues", "caches", "objects", "nodes", "jobs"] {
        browser.click(&format!("#views [data-go={name}]"));
        eventually(SOON, || view(browser) == json!([name, name]));
        eventually(SOON, || browser.eval(wide).as_i64() <= Some(0));
    }
    fixture.is_clean();
}

#[test]
fn links_lead_to_a_queue_and_to_jobs() {
    let (place, browser) = (Place::new(), Browser::start());
    let (_page, address) = page_of_queues(&place);
    browser.open(&format!("{address}#/queues/shop%2Fmails"), DESK);
    browser.says("#queue-name", "shop/mails");
    assert_eq!(view(&browser), json!(["queues", "queues"]));
    browser.says("#chart-queue", "Elements that wait");
    browser.says("#views [data-go=queues]", "1");
    browser.says("#chart-queues tbody", "shop/mails");
    browser.click("[data-queue='shop/mails']");
    assert_eq!(browser.eval("location.hash"), "#/queues");
    assert_eq!(browser.eval("document.querySelector('#queue').checkVisibility()"), false);
    browser.click("[data-queue='shop/mails']");
    assert_eq!(browser.eval("location.hash"), "#/queues/shop%2Fmails");
    // A fragment that the page did not write.
    for wrong in ["#/nothing/x", "#%E0%A4%A", "#/__proto__"] {
        browser.open_anew(&format!("{address}{wrong}"), DESK);
        browser.says("footer", "bandog 0.");
        assert_eq!(view(&browser), json!(["jobs", "jobs"]), "{wrong}");
    }
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_link_with_names_opens_these_jobs() {
    let fixture = Fixture::open(DESK);
    let browser = &fixture.browser;
    browser.says("#jobs", "warm-cache");
    for link in ["#report&warm-cache", "#/jobs/report&warm-cache"] {
        browser.eval(&format!("location.hash = '{link}'"));
        browser.says(&format!("{} .facts", Fixture::job("report")), "Europe/Berlin");
        browser.says(&format!("{} .facts", Fixture::job("warm-cache")), "fixed_delay");
        for name in ["report", "warm-cache"] {
            fixture.unfold(name);
        }
        assert_eq!(browser.eval("location.hash"), "#/jobs");
    }
    // An opened job stays open while another view is shown.
    fixture.unfold("report");
    browser.click("#views [data-go=locks]");
    eventually(SOON, || view(browser) == json!(["locks", "locks"]));
    browser.click("#views [data-go=jobs]");
    eventually(SOON, || browser.eval("location.hash") == "#report");
    browser.says(&format!("{} .facts", Fixture::job("report")), "Europe/Berlin");
    fixture.is_clean();
}

#[test]
fn the_tabulator_reaches_the_parts_in_their_order() {
    let fixture = Fixture::open(DESK);
    let browser = &fixture.browser;
    browser.says("#jobs", "warm-cache");
    browser.says("#chart-lag", "As a table");
    browser.eval("document.activeElement.blur()");
    let order = browser.tab(9);
    assert_eq!(order[..8], ["skip", "language", "jobs", "locks", "queues", "caches", "objects", "nodes"], "{order:?}");
    browser.eval("document.querySelector('#views [data-go=jobs]').focus()");
    browser.press("ArrowLeft");
    assert_eq!(browser.eval("document.activeElement.dataset.go"), "nodes");
    browser.press("ArrowRight");
    browser.press("ArrowRight");
    assert_eq!(browser.eval("document.activeElement.dataset.go"), "locks");
    browser.press("Enter");
    eventually(SOON, || view(browser) == json!(["locks", "locks"]));
    assert_eq!(browser.eval("document.activeElement.dataset.go"), "locks", "the focus stays on the link");
    browser.eval("document.querySelector('#skip').focus()");
    assert_eq!(browser.eval("getComputedStyle(document.querySelector('#skip')).clipPath"), "none");
    browser.press("Enter");
    assert_eq!(browser.eval("document.activeElement.id"), "main");
    let outline = "getComputedStyle(document.activeElement).outlineStyle";
    browser.eval("document.querySelector('#views [data-go=jobs]').focus({ focusVisible: true })");
    assert_eq!(browser.eval(outline), "solid");
    fixture.is_clean();
}

#[test]
fn updates_of_the_page_keep_the_focus() {
    let fixture = Fixture::open(DESK);
    let browser = &fixture.browser;
    fixture.unfold("close-unpaid-orders");
    browser.says(&format!("{} .runs", Fixture::job("close-unpaid-orders")), "ok");
    let ok = || fixture.api_job("close-unpaid-orders")["ok"].as_u64().unwrap();
    let job = Fixture::job("close-unpaid-orders");
    let places = [
        ("jobs", "warm-cache", format!("{job} [data-act=run]")),
        ("jobs", "warm-cache", "#chart-runs svg".to_owned()),
        ("locks", "schedule/node/", "#locks [data-act=release]".to_owned()),
    ];
    for (view, text, place) in places {
        browser.click(&format!("#views [data-go={view}]"));
        browser.says(&format!("[data-view={view}]"), text);
        browser.eval(&format!("(window.place = document.querySelector(\"{place}\")).focus()"));
        assert_eq!(browser.eval("document.activeElement === window.place"), true, "{place}");
        // Two further runs are on the page after at least two updates.
        let before = ok();
        eventually(SOON, || ok() > before + 4);
        assert_eq!(
            browser.eval("document.activeElement === window.place && window.place.isConnected"),
            true,
            "{place}"
        );
    }
    fixture.is_clean();
}

#[test]
fn assistive_programs_find_the_parts_by_role_and_name() {
    let place = Place::new();
    fs::write(place.path("jobs.toml"), "[[job]]\nname = \"sweep\"\nfixed_rate = \"1s\"\ncommand = \"true\"\n").unwrap();
    let url = "sqlite:work.db";
    place.run(&["push", "mails", "x", "--url", url]).assert_ended(0, &[]);
    let page = place.start(&["schedule", "jobs.toml", "--url", url, "--http", "127.0.0.1:0"]);
    let line = page.stderr_line("the page is at http://", SOON);
    let browser = Browser::start();
    browser.open(line.split_once(" is at ").unwrap().1.split(',').next().unwrap(), DESK);
    browser.says("#jobs", "sweep");
    browser.says("#chart-runs .note", "Observed once a minute");
    let expect = |role: &str, name: &str| {
        eventually(SOON, || {
            let roles = browser.roles();
            let is_there = roles.iter().any(|(other, text)| other == role && text.starts_with(name));
            if is_there { Ok(()) } else { Err((role.to_owned(), name.to_owned(), roles)) }
        });
    };
    for (role, name) in [
        ("navigation", "Views"),
        ("link", "Jobs"),
        ("link", "Queues"),
        ("main", ""),
        ("heading", "Last 24 hours"),
        ("group", "Which jobs are shown"),
        ("searchbox", "Filter jobs by name"),
        ("image", "Runs that ended, per 10 min"),
        ("image", "Lag: median"),
        ("image", "Last "),
        ("button", "sweep"),
    ] {
        expect(role, name);
    }
    browser.click("#views [data-go=queues]");
    browser.click("[data-queue=mails]");
    for (role, name) in [
        ("heading", "Work queues"),
        ("table", ""),
        ("columnheader", "In flight"),
        ("button", "mails"),
        ("image", "Elements that wait"),
        ("region", "Work queues, scrolls sideways"),
    ] {
        expect(role, name);
    }
    let unnamed = browser.roles().into_iter().filter(|(role, name)| {
        ["button", "link", "searchbox", "image", "region", "navigation"].contains(&role.as_str())
            && name.trim().is_empty()
    });
    assert_eq!(unnamed.collect::<Vec<_>>(), []);
    assert_eq!(browser.complaints(), [""; 0]);
}
