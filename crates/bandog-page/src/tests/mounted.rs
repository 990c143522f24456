//! The page mounted in another service, over a store in memory.

use bandog_core::structures::write_cache_reports;
use bandog_schedule::{Job, Scheduler};
use http_body_util::{BodyExt, Full};
use hyper::{Request, StatusCode, body::Bytes, header, service::Service};

use crate::{Page, Reply, Token};

/// A client of a new store in memory.
async fn client() -> bandog::Client {
    bandog::connect("memory:").await.unwrap()
}

async fn get(page: &Page, uri: &str) -> Reply {
    page.answer(Request::get(uri).body(Full::<Bytes>::default()).unwrap()).await
}

async fn body(reply: Reply) -> String {
    String::from_utf8(reply.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

#[tokio::test]
async fn the_page_answers_below_its_path_only() {
    let page = Page::over(&client().await).under("/ops/bandog/");
    for path in ["/ops/bandog/", "/ops/bandog/page.js", "/ops/bandog/healthz", "/ops/bandog/api/about"] {
        assert_eq!(get(&page, path).await.status(), 200, "{path}");
    }
    for path in ["/", "/healthz", "/ops", "/ops/bandogs", "/ops/bandog/nothing", "/ops/bandog/metrics"] {
        assert_eq!(get(&page, path).await.status(), 404, "{path}");
    }
    let moved = get(&page, "/ops/bandog").await;
    assert_eq!(moved.status(), StatusCode::PERMANENT_REDIRECT);
    assert_eq!(moved.headers()[header::LOCATION], "./bandog/", "relative, because a proxy can add a path");
}

#[tokio::test]
async fn the_page_answers_to_every_host_until_one_is_named() {
    let client = client().await;
    let ask = |page: Page, host: &'static str| async move {
        let request = Request::get("/api/about").header(header::HOST, host).body(Full::<Bytes>::default()).unwrap();
        page.answer(request).await.status()
    };
    let page = Page::over(&client);
    assert_eq!(ask(page.clone(), "shop.example").await, 200);
    let page = page.host("shop.example".parse().unwrap());
    assert_eq!(ask(page.clone(), "shop.example").await, 200);
    assert_eq!(ask(page.clone(), "evil.example").await, 421);
    // HTTP/2 names the host in the URI.
    assert_eq!(get(&page, "http://shop.example/api/about").await.status(), 200);
    assert_eq!(get(&page, "http://evil.example/api/about").await.status(), 421);
}

#[tokio::test]
async fn jobs_of_the_same_program_are_shown_and_run() {
    let client = client().await;
    let (ran, mut done) = tokio::sync::mpsc::channel(1);
    let body_of_job = move |_| {
        let ran = ran.clone();
        async move { ran.send(()).await }
    };
    let job = Job::cron("sweep", "0 0 0 1 1 ?").run(body_of_job);
    let scheduler = Scheduler::over(&client).job(job).start().await.unwrap();
    let page = Page::over(&client).named("the shop's store").token(Token::new("correct-horse-battery").unwrap());
    let text = body(get(&page, "/api/jobs?limit=10").await).await;
    assert!(text.contains(r#""name":"sweep""#) && text.contains("the shop's store"), "{text}");
    let run = || Request::post("/api/jobs/sweep/run").header(header::AUTHORIZATION, "Bearer correct-horse-battery");
    let request = run().body(Full::<Bytes>::default()).unwrap();
    assert_eq!(Service::call(&page, request).await.unwrap().status(), 200);
    done.recv().await.unwrap();
    let request = Request::post("/api/jobs/sweep/run").body(Full::<Bytes>::default()).unwrap();
    assert_eq!(page.answer(request).await.status(), 401);
    scheduler.stop().await.unwrap();
}

#[tokio::test]
async fn objects_of_a_store_are_listed_without_the_prefix() {
    use bandog::grid::ClientGrid;
    let client = bandog::connect("memory:?prefix=shop:").await.unwrap();
    client.grid().counter("<b>hits</b>").unwrap().add(12).await.unwrap();
    let page = Page::over(&client).named("the store");
    let answer: serde_json::Value = serde_json::from_str(&body(get(&page, "/api/objects").await).await).unwrap();
    let row =
        serde_json::json!({"name": "<b>hits</b>", "type": "value", "size": 2, "ttl_ms": null, "store": "the store"});
    assert_eq!((&answer["objects"], &answer["next"]), (&serde_json::json!([row]), &serde_json::Value::Null));
    assert!(body(get(&page, "/api/about").await).await.contains(r#""objects":true"#));
}

/// The counts of the clients of caches come with the first objects.
#[tokio::test]
async fn clients_of_caches_are_shown() {
    let client = bandog::connect("memory:?prefix=shop:").await.unwrap();
    let counts = r#"{"near_hits":6,"hits":2,"stale_hits":1,"misses":1,"age_ms":3000,"loads":1,"new":5}"#;
    let report = format!(r#"{{"program":"web","pid":7,"host":"one","counts":{counts}}}"#);
    let reports = [("prices", report.as_str()), ("other", "{}")];
    let reports = reports.map(|(name, text)| (client.key(name).unwrap(), text.to_owned()));
    let ops = write_cache_reports(client.id(), client.clock(), &reports).unwrap();
    assert!(client.structures().unwrap().run(&ops).await.iter().all(Result::is_ok));
    let page = Page::over(&client);
    let read = async |path: &str| {
        serde_json::from_str::<serde_json::Value>(&body(get(&page, path).await).await).unwrap()["caches"].take()
    };
    let mut caches = read("/api/objects").await;
    assert!(caches[0]["reported_ms"].take().as_u64().unwrap() < 60_000);
    let expected = serde_json::json!([{"name": "prices", "client": client.id().to_string(), "program": "web", "pid": 7,
        "host": "one", "counts": serde_json::from_str::<serde_json::Value>(counts).unwrap(), "hit_rate": 0.9,
        "mean_age_ms": 1000, "reported_ms": null}]);
    assert_eq!(caches, expected);
    assert_eq!(read("/api/objects?name=nothing").await, serde_json::json!([]));
}

/// The new acts over a real store.
#[tokio::test]
async fn jobs_nodes_and_locks_of_a_store_are_acted_on() {
    let client = client().await;
    let job = Job::cron("sweep", "0 0 * * * ?").run(async |_| ());
    let scheduler = Scheduler::over(&client).node("web-1").job(job).start().await.unwrap();
    let page = Page::over(&client).token(Token::new("correct-horse-battery").unwrap());
    let act = async |path: &str, text: &'static str| {
        let request =
            Request::post(format!("/api/{path}")).header(header::AUTHORIZATION, "Bearer correct-horse-battery");
        let request = request.header(header::CONTENT_TYPE, "application/json");
        let reply = page.answer(request.body(Full::<Bytes>::from(text)).unwrap()).await;
        let status = reply.status().as_u16();
        let answer: serde_json::Value = serde_json::from_str(&body(reply).await).unwrap();
        (status, answer["done"].clone())
    };
    let done = |value: serde_json::Value| (200, value);
    use serde_json::json;
    let range = r#"{"from": "2026-01-01T00:30:00Z", "to": "2026-01-01T02:30:00Z"}"#;
    assert_eq!(act("jobs/sweep/backfill", range).await, done(json!({ "ticks": 2 })));
    let none = r#"{"from": "2026-01-01T00:30:00Z", "to": "2026-01-01T00:31:00Z"}"#;
    assert_eq!(act("jobs/sweep/backfill", none).await.0, 400);
    assert_eq!(act("all/pause", r#"{"reason": "stocktaking"}"#).await, done(json!({ "paused": true })));
    assert!(body(get(&page, "/api/nodes").await).await.contains("stocktaking"));
    assert_eq!(act("all/resume", "").await, done(json!({ "resumed": true })));
    assert_eq!(act("nodes/web-1/pause", r#"{"reason": "disk"}"#).await, done(json!({ "paused": true })));
    assert_eq!(act("nodes/web-1/resume", "").await, done(json!({ "resumed": true })));
    let guard = client.mutex("deploy").lock().await.unwrap();
    assert_eq!(act("locks/deploy/release", "").await, done(json!({ "released": true })));
    assert_eq!(act("locks/deploy/release", "").await, done(json!({ "released": false })));
    drop(guard);
    scheduler.stop().await.unwrap();
    assert_eq!(act("jobs/sweep/forget", "").await, done(json!({ "forgotten": true })));
    assert_eq!(act("jobs/sweep/forget", "").await.0, 404);
    assert!(!body(get(&page, "/api/jobs").await).await.contains("sweep"));
}

#[tokio::test]
async fn the_page_can_be_mounted_in_axum() {
    use axum::extract::{OriginalUri, Request};

    let page = Page::over(&client().await).under("/bandog");
    let shop = axum::routing::get(|| async { "my shop" });
    let page = axum::Router::new().fallback(move |OriginalUri(uri): OriginalUri, mut request: Request| {
        *request.uri_mut() = uri;
        let page = page.clone();
        async move { page.answer(request).await }
    });
    let none = || async { (StatusCode::NOT_FOUND, "the shop has no such page") };
    let app: axum::Router = axum::Router::new().route("/", shop).nest_service("/bandog", page).fallback(none);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(async move { axum::serve(listener, app).await });
    let ask = |path: &'static str| async move {
        tokio::task::spawn_blocking(move || super::Asker::to(address).get(path)).await.unwrap()
    };
    assert_eq!(ask("/").await.body, "my shop");
    assert!(ask("/bandog/").await.body.contains("<title>bandog</title>"));
    assert_eq!(ask("/bandog/api/jobs").await.json()["jobs"], serde_json::json!([]));
    assert_eq!(ask("/bandog/api/jobs?limit=1").await.json()["total"], 0);
    assert_eq!(ask("/bandog").await.status, 308, "the page needs the slash for its relative URLs");
    ask("/bandog/other").await.refuses(404, "path");
    assert_eq!(ask("/other").await.body, "the shop has no such page", "other paths are those of the service");
    served.abort();
}
