//! The charts of the last 24 hours, and the observation of the store.

use std::sync::Arc;

use bandog::work::{ClientWork, WorkQueue};
use bandog_testkit::{eventually, eventually_async};
use http_body_util::{BodyExt, Full};
use hyper::{Request, body::Bytes};
use serde_json::{Value, json};

use super::{Served, ask::SOON, fixed::Fixed};
use crate::{Page, handler::Handler, serve};

fn history(page: &Served, path: &str) -> Value {
    page.get(path).json()["history"].clone()
}

#[test]
fn the_history_has_a_value_for_each_step_of_ten_minutes() {
    let page = Served::read_only();
    page.source.has_queues(3);
    let day = eventually(SOON, || {
        let day = history(&page, "/api/history?queue=queue-0001");
        let runs = day["runs"]["ok"].as_array().unwrap().iter().filter_map(Value::as_u64).sum::<u64>();
        if runs == 1 { Ok(day) } else { Err(day) }
    });
    for list in [
        &day["runs"]["ok"],
        &day["runs"]["failed"],
        &day["runs"]["whole"],
        &day["lag"]["p50_ms"],
        &day["lag"]["p99_ms"],
    ] {
        assert_eq!(list.as_array().unwrap().len(), 144);
    }
    assert_eq!(day["step_ms"], 600_000);
    assert_eq!(day["locks"][0]["name"], "nightly");
    assert_eq!(day["locks"][0]["waiting"].as_array().unwrap().iter().filter_map(Value::as_u64).sum::<u64>(), 2);
    // The queues have no element, so none of them is listed, but a requested one is observed.
    assert_eq!((&day["queues"], &day["queue"]["name"]), (&json!([]), &json!("queue-0001")));
    assert_eq!(day["queue"]["depth"].as_array().unwrap().iter().filter_map(Value::as_u64).sum::<u64>(), 0);
    assert!(day["observed_since"].is_string() && day["queue"]["depth"][0].is_null(), "{day}");
}

#[test]
fn readers_cause_one_observation_a_minute() {
    let page = Served::read_only();
    page.source.has_queues(30);
    for _ in 0..20 {
        history(&page, "/api/history");
    }
    assert_eq!((page.source.queue_queries(), page.source.scans().0), (30, 1));
}

#[test]
fn a_scan_that_takes_long_ends_and_is_not_repeated() {
    let page = Served::read_only();
    page.source.scans_take_long();
    let day = history(&page, "/api/history");
    assert_eq!(day["locks"], json!([]));
    eventually(SOON, || page.source.scans() == (1, 0));
    assert!(day["observed_since"].is_string(), "{day}");
}

/// A page on its own port observes the store from its start on. In another service, it does not.
#[test]
fn a_served_page_observes_the_store_without_a_reader() {
    let source = Fixed::default();
    source.has_queues(5);
    let mut handler = Handler::new(source.clone());
    Arc::make_mut(&mut handler.config).observes = true;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let serving = serve::start(listener, handler).unwrap();
    eventually(SOON, || source.queue_queries() == 5 && source.scans() == (1, 0));
    assert_eq!((source.job_queries(), source.histories()), (1, 0));
    drop(serving);
}

#[tokio::test]
async fn elements_that_wait_are_observed() {
    let client = bandog::connect("memory:").await.unwrap();
    let queue: WorkQueue<u32> = client.work_queue("mails").unwrap();
    queue.push_all(&[1, 2, 3]).await.unwrap();
    let page = Page::over(&client);
    let get = async || {
        let request = Request::get("/api/history").body(Full::<Bytes>::default()).unwrap();
        let body = page.answer(request).await.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice::<Value>(&body).unwrap()["history"].clone()
    };
    let is_seen = async || get().await["queues"][0]["depth"].as_array().is_some_and(|depth| depth.contains(&json!(3)));
    eventually_async(SOON, is_seen).await;
}

#[test]
fn clients_of_caches_have_their_own_list() {
    let page = Served::read_only();
    page.get("/api/caches").refuses(404, "path");
    page.source.has_names(1);
    let is_listed = || page.get("/api/caches").status == 200;
    eventually(SOON, is_listed);
    assert_eq!(page.get("/api/caches").json()["caches"], json!([]));
}
