//! The list of objects.

use std::time::{SystemTime, UNIX_EPOCH};

use bandog::grid::ClientGrid;
use bandog_testkit::{Process, RedisServer, eventually};
use serde_json::json;

use crate::{
    browser::{Browser, DESK, PHONE},
    help::{Place, SOON},
};

/// Serves the page of a store, and opens this view.
fn open(place: &Place, url: &str, view: &str, screen: crate::browser::Screen) -> (Process, Browser) {
    let page = place.start(&["page", "--url", url, "--http", "127.0.0.1:0"]);
    let line = page.stderr_line("the page is at http://", SOON);
    let address = line.split_once(" is at ").unwrap().1.split(',').next().unwrap().to_owned();
    let browser = Browser::start();
    browser.open(&format!("{address}#/{view}"), screen);
    (page, browser)
}

/// The names in the list.
fn names(browser: &Browser) -> Vec<String> {
    let names = browser.eval("[...document.querySelectorAll('#objects tbody th')].map((cell) => cell.textContent)");
    names.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

#[test]
fn objects_are_listed_with_type_size_and_ttl() {
    let (redis, place) = (RedisServer::start(), Place::new());
    // Names of other users are never markup.
    let evil = "<b id=bold>x</b><img src=/x onerror=alert(1)>";
    redis.cmd(&["HSET", evil, "a", "1"]);
    redis.cmd(&["RPUSH", "mails", "a", "b", "c"]);
    redis.cmd(&["SET", "motd", "closed", "PX", "3600000"]);
    redis.cmd(&["SET", "bandog:client:x", "1"]);
    let (_page, browser) = open(&place, &redis.url(), "objects", PHONE);
    browser.says("#objects", "mails");
    assert_eq!(names(&browser), [evil, "mails", "motd"]);
    assert_eq!(browser.eval("document.querySelector('#bold')"), json!(null));
    let cells = "[...document.querySelectorAll('#objects tbody tr')].map((row) => row.innerText.split('\\t'))";
    let rows = browser.eval(cells);
    assert_eq!((&rows[1][1], &rows[1][2], &rows[1][3]), (&json!("list"), &json!("3"), &json!("never")), "{rows}");
    assert!(rows[2][3].as_str().unwrap().starts_with("59 min"), "{rows}");
    browser.says("#objects-age", "As of ");
    // The list is read again on request.
    redis.cmd(&["SADD", "new", "a"]);
    browser.click("#objects-read");
    browser.says("#objects tbody", "new");
    browser.eval("document.querySelector('#objects-filter').focus()");
    browser.type_text("ma");
    eventually(SOON, || names(&browser) == ["mails"]);
    browser.type_text("zzz");
    browser.says("#no-objects", "No object matches.");
    let wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
    assert!(browser.eval(wide).as_i64().unwrap() <= 0);
    let unnamed: Vec<_> = browser.controls().into_iter().filter(|(_, name)| name.trim().is_empty()).collect();
    assert_eq!(unnamed, []);
    redis.kill();
    browser.click("#objects-read");
    browser.says("#objects-age", "Not read: ");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn caches_are_shown_with_their_clients() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let cache = bandog::connect(redis.url()).await.unwrap().grid().cache::<u32, u32>("prices").unwrap();
        for key in 0..3 {
            cache.put(&key, &key).await.unwrap();
        }
    });
    // What a client reports after 20 s.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let counts = r#"{"near_hits":60,"hits":20,"stale_hits":10,"misses":10,"age_ms":90000,"loads":7}"#;
    let report = format!(r#"{now} {{"program":"<b>web","pid":7,"host":"one","counts":{counts}}}"#);
    redis.cmd(&["HSET", "bandog:caches", "957c1da6-54c9-8017-93c7-a4ef987df61c prices", &report]);
    let (_page, browser) = open(&place, &redis.url(), "caches", PHONE);
    browser.says("#caches", "prices");
    let cells = "[...document.querySelector('#caches tbody tr').cells].map((cell) => cell.textContent).slice(0, 6)";
    assert_eq!(browser.eval(cells), json!(["prices", "<b>web (7 on one)", "90.0 %", "100", "7", "3 s"]));
    browser.click("#views [data-go=objects]");
    browser.says("#objects tbody", "prices");
    let cells = "[...document.querySelector('#objects tbody tr').cells].map((cell) => cell.textContent)";
    assert_eq!(browser.eval(cells), json!(["prices", "cache", "3", "each entry"]));
    let wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
    assert!(browser.eval(wide).as_i64().unwrap() <= 0);
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn ten_thousand_objects_are_shown_in_parts() {
    let (redis, place) = (RedisServer::start(), Place::new());
    let names_of = |from: usize| (from..from + 1000).flat_map(|number| [format!("key-{number:05}"), "v".to_owned()]);
    for from in (0..10_000).step_by(1000) {
        let words: Vec<_> = ["MSET".to_owned()].into_iter().chain(names_of(from)).collect();
        redis.cmd(&words.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let (_page, browser) = open(&place, &redis.url(), "objects", DESK);
    browser.says("#objects tbody", "key-");
    let first = names(&browser);
    assert!(first.len() < 300, "{}", first.len());
    browser.says("#objects-pages", "Part 1");
    browser.click("#objects-forth");
    browser.says("#objects-pages", "Part 2");
    let second = names(&browser);
    assert!(second.len() < 300 && second.iter().all(|name| !first.contains(name)), "{first:?} {second:?}");
    browser.click("#objects-back");
    browser.says("#objects-pages", "Part 1");
    assert_eq!(names(&browser), first);
    // Each part is small, and the parts have all objects.
    let walk = "(async () => {
        const names = new Set();
        let [cursor, parts, most] = ['', 0, 0];
        do {
            const answer = await (await fetch(`api/objects?cursor=${encodeURIComponent(cursor)}`)).json();
            answer.objects.forEach(({ name }) => names.add(name));
            [cursor, parts, most] = [answer.next, parts + 1, Math.max(most, answer.objects.length)];
        } while (cursor != null);
        return [names.size, parts, most];
    })()";
    let walked = browser.eval(walk);
    assert_eq!(walked[0], 10_000);
    assert!(walked[1].as_u64() > Some(30) && walked[2].as_u64() < Some(300), "{walked}");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_store_without_objects_has_no_list_of_objects() {
    let place = Place::new();
    place.run(&["lock", "x", "--url", "sqlite:locks.db", "--", "true"]).assert_ended(0, &[]);
    let (_page, browser) = open(&place, "sqlite:locks.db", "objects", DESK);
    browser.says("footer", "bandog 0.");
    for view in ["objects", "caches"] {
        let link = format!("document.querySelector('#views [data-go={view}]').checkVisibility()");
        assert_eq!((browser.eval(&link), browser.eval("location.hash")), (json!(false), json!("#/objects")));
    }
    // The link of the URL shows the jobs instead.
    assert_eq!(browser.eval("document.querySelector('#objects').checkVisibility()"), false);
    assert_eq!(browser.eval("document.querySelector('#jobs-head').checkVisibility()"), true);
    assert!(browser.asked().iter().all(|url| !url.contains("objects?")), "{:?}", browser.asked());
}
