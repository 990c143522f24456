//! The work queues.

use bandog::work::{ClientWork, Delivery, Phase, WorkQueue};
use futures_util::TryStreamExt;
use http_body_util::{BodyExt, Full};
use hyper::{Request, body::Bytes};
use serde_json::{Value, json};

use super::{Served, TOKEN};
use crate::{Page, Token, source::Act, source::Target};

/// The page over a store in memory, with the token.
async fn page() -> (bandog::Client, Page) {
    let client = bandog::connect("memory:").await.unwrap();
    let page = Page::over(&client).token(Token::new(TOKEN).unwrap()).metrics(|| "# figures\n".to_owned());
    (client, page)
}

async fn text(page: &Page, path: &str) -> String {
    let reply = page.answer(Request::get(path).body(Full::<Bytes>::default()).unwrap()).await;
    assert_eq!(reply.status(), 200, "{path}");
    String::from_utf8(reply.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

async fn get(page: &Page, path: &str) -> Value {
    serde_json::from_str(&text(page, path).await).unwrap()
}

/// Executes an action, and returns the result.
async fn act(page: &Page, path: &str, body: &str) -> Value {
    let request = Request::post(path).header("authorization", format!("Bearer {TOKEN}"));
    let request = request.header("content-type", "application/json").body(Full::new(Bytes::from(body.to_owned())));
    let reply = page.answer(request.unwrap()).await;
    let body = reply.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice::<Value>(&body).unwrap()["done"].clone()
}

#[tokio::test]
async fn a_queue_is_shown_and_changed() {
    let (client, page) = page().await;
    let queue: WorkQueue<String> = client.work_queue("shop/mails").unwrap();
    queue.push_all(&["good", "<b>bad</b>", "slow"].map(str::to_owned)).await.unwrap();
    let workers = queue.workers(4).deliveries(1).run(async |delivery: Delivery<String>| match delivery.as_str() {
        "good" => Ok(()),
        "slow" => {
            delivery.progress("half");
            std::future::pending().await
        }
        _ => Err(std::io::Error::other("no route")),
    });
    let is_settled = async || {
        let elements = get(&page, "/api/queues/shop%2Fmails/elements?phase=taken").await;
        elements["elements"][0]["progress"] == "half" && queue.status().await.unwrap().count(Phase::Dead) == 1
    };
    bandog_testkit::eventually_async(super::ask::SOON, is_settled).await;

    // An answer is kept for a second.
    let is_counted = async || get(&page, "/api/queues/shop%2Fmails").await["queue"]["dead"] == 1;
    bandog_testkit::eventually_async(super::ask::SOON, is_counted).await;
    let list = get(&page, "/api/queues").await;
    assert_eq!((&list["total"], &list["queues"][0]["name"]), (&json!(1), &json!("shop/mails")), "{list}");
    let shown = &list["queues"][0];
    let counts = ["ready", "taken", "dead"].map(|phase| shown[phase].as_u64().unwrap());
    assert_eq!((counts, &shown["paused"], &shown["done_per_second"]), ([0, 1, 1], &json!(false), &Value::Null));
    assert_eq!(shown["workers"][0]["slots"], 4);
    assert_eq!(get(&page, "/api/queues?name=other").await["total"], 0);
    assert_eq!(get(&page, "/api/about").await["queues"], true);

    let taken = get(&page, "/api/queues/shop%2Fmails/elements?phase=taken").await["elements"][0].clone();
    assert_eq!(
        (&taken["payload"], &taken["payload_bytes"], &taken["attempt"]),
        (&json!("\"slow\""), &json!(6), &json!(1))
    );
    assert!(taken["fence"].as_u64() > Some(0) && taken["worker"] == shown["workers"][0]["id"], "{taken}");
    assert_eq!(taken["place"], shown["workers"][0]["place"]);
    let dead = get(&page, "/api/queues/shop%2Fmails/elements?phase=dead").await["elements"][0].clone();
    assert_eq!((&dead["payload"], &dead["error"]), (&json!("\"<b>bad</b>\""), &json!("no route")));

    let figures = text(&page, "/metrics").await;
    let line = "bandog_work_elements{queue=\"shop/mails\",phase=\"dead\"} 1\n";
    assert!(figures.starts_with("# figures\n") && figures.contains(line), "{figures}");

    let path = |verb: &str| format!("/api/queues/shop%2Fmails/{verb}");
    assert_eq!(act(&page, &path("pause"), "").await["paused"], true);
    assert_eq!(get(&page, "/api/queues/shop%2Fmails").await["queue"]["paused"], true, "an old answer");
    let ids = json!({ "ids": [dead["id"]] }).to_string();
    assert_eq!(act(&page, &path("retry"), &ids).await["retried"], 1);
    assert_eq!(act(&page, &path("retry"), "").await["retried"], 0);
    assert_eq!(queue.status().await.unwrap().count(Phase::Ready), 1);
    assert_eq!(
        act(&page, &path("remove"), &json!({ "ids": [dead["id"], taken["id"]] }).to_string()).await["removed"],
        2
    );
    assert_eq!(act(&page, &path("resume"), "").await["resumed"], true);
    assert_eq!(act(&page, &path("resume"), "").await["resumed"], false);
    workers.stop().await.unwrap();
    let left: Vec<_> = queue.elements(Phase::Ready).try_collect().await.unwrap();
    assert_eq!(left, []);
}

#[tokio::test]
async fn payloads_are_shortened_and_elements_come_in_parts() {
    let (client, page) = page().await;
    let queue = client.work_queue::<Vec<u8>>("bytes").unwrap().codec(bandog::grid::codec::Bytes);
    queue.push(&vec![0xff; 2000]).await.unwrap();
    queue.push_all(&vec!["ä".repeat(2000).into_bytes(); 60]).await.unwrap();
    let (mut all, mut path) = (Vec::new(), "/api/queues/bytes/elements?phase=ready".to_owned());
    loop {
        let part = get(&page, &path).await;
        let elements = part["elements"].as_array().unwrap().clone();
        assert!(elements.len() <= 50);
        all.extend(elements);
        let Some(next) = part["next"].as_str() else { break };
        let next = percent_encoding::utf8_percent_encode(next, percent_encoding::NON_ALPHANUMERIC);
        path = format!("/api/queues/bytes/elements?phase=ready&cursor={next}");
    }
    assert_eq!(all.len(), 61);
    assert_eq!((&all[0]["payload"], &all[0]["payload_bytes"]), (&Value::Null, &json!(2000)));
    assert_eq!(all[0]["payload_hex"], "ff".repeat(500));
    assert_eq!((&all[1]["payload"], &all[1]["payload_hex"]), (&json!("ä".repeat(1000)), &Value::Null));
}

#[test]
fn acts_on_queues_need_the_token_and_their_own_fields() {
    let page = Served::to_act_on();
    let key = format!("Authorization: Bearer {TOKEN}");
    let id = "a3f09b1c2d4e5f60-2a";
    let ids = format!(r#"{{"ids": ["{id}"]}}"#);
    let headers = ["Host: localhost", "Content-Type: application/json", &key];
    let act = |verb: &str, body: &str| page.asker().ask("POST", &format!("/api/queues/a%2Fb/{verb}"), &headers, body);
    let acts = [("pause", ""), ("resume", ""), ("retry", ""), ("retry", &ids), ("remove", &ids)];
    for (verb, body) in acts {
        assert_eq!(act(verb, body).status, 200, "{verb}");
        let path = format!("/api/queues/a%2Fb/{verb}");
        page.asker().ask("POST", &path, &["Host: localhost"], "").refuses(401, "token");
        let foreign = ["Host: localhost", &key, "Sec-Fetch-Site: cross-site"];
        page.asker().ask("POST", &path, &foreign, "").refuses(403, "origin");
        page.get(&path).refuses(405, "method");
        Served::read_only().asker().ask("POST", &path, &["Host: localhost", &key], "").refuses(403, "read_only");
    }
    let ids = || vec![id.parse().unwrap()];
    let expected = [
        Act::Pause { reason: String::new() },
        Act::Resume,
        Act::Retry { ids: Vec::new() },
        Act::Retry { ids: ids() },
        Act::Remove { ids: ids() },
    ];
    assert_eq!(page.source.acts(), expected.map(|act| (Target::Queue("a/b".into()), act)));
    let wrong = [
        ("remove", ""),
        ("remove", r#"{"ids": []}"#),
        ("retry", r#"{"ids": []}"#),
        ("retry", r#"{"ids": ["x"]}"#),
        ("retry", r#"{"id": 7}"#),
        ("pause", r#"{"reason": "x"}"#),
        ("pause", r#"{"ids": ["a3f09b1c2d4e5f60-2a"]}"#),
    ];
    for (verb, body) in wrong {
        act(verb, body).refuses(400, "body");
    }
    act("purge", "").refuses(404, "path");
    page.get("/api/queues/a/elements?phase=ended").refuses(400, "query");
    page.get("/api/queues/a/elements").refuses(400, "query");
    assert_eq!(page.source.acts().len(), acts.len());
}

#[test]
fn the_store_is_queried_for_a_part_of_the_queues() {
    let page = Served::read_only();
    assert_eq!(page.get("/metrics").body, "# figures\n");
    page.source.has_queues(1000);
    let names = |path: &str| {
        let body = page.get(path).json();
        let queues = body["queues"].as_array().unwrap().iter();
        let names: Vec<_> = queues.map(|queue| queue["name"].as_str().unwrap().to_owned()).collect();
        (names, body["total"].as_u64().unwrap())
    };
    let (first, total) = names("/api/queues");
    assert_eq!((first.len(), total, page.source.queue_queries()), (100, 1000, 100));
    // The metrics of the first 100 queues come from the same answers.
    assert_eq!(page.get("/metrics").body.matches("bandog_work_oldest_seconds{").count(), 100);
    assert_eq!(names("/api/queues?name=UE-099&limit=3").0, ["queue-0990", "queue-0991", "queue-0992"]);
    assert_eq!(names("/api/queues?offset=999").0, ["queue-0999"]);
    page.source.goes_away();
    assert_eq!(page.get("/metrics").status, 200);
    page.get("/api/queues/other").refuses(503, "unavailable");
}
