//! An axum service that runs in several replicas: a request under a lock, a job, and a task that runs in one replica.
//!
//! ```sh
//! export BANDOG_URL=redis://localhost                       # or sqlite:/tmp/service.db, with --features sqlite
//! PORT=3000 cargo run -p bandog --example axum_service
//! PORT=3001 cargo run -p bandog --example axum_service      # in another terminal: the second replica
//! curl -X POST localhost:3000/orders/17/cancel
//! ```
//!
//! Ctrl-C stops a replica, and the other replica takes over. The tests at the end of this file need no server.

use std::{error::Error, future::Future, time::Duration};

use axum::{
    Router,
    extract::{Path, State},
    http::StatusCode,
    routing::{get, post},
};
use bandog::{
    Client, Guard,
    schedule::{Run, Scheduler, Shared},
};
use tokio::net::TcpListener;

type BoxError = Box<dyn Error + Send + Sync>;

/// The state that handlers and jobs share.
#[derive(Clone)]
struct App {
    client: Client,
}

fn router(app: App) -> Router {
    Router::new()
        .route("/orders/{id}/cancel", post(cancel))
        .route("/readyz", get(ready))
        .route("/livez", get(async || "alive")) // does not ask the store: a restart would not end the store's outage
        .with_state(app)
}

/// Runs under a lock: across all replicas, one request at a time cancels an order.
#[bandog::locked(name = "order-{id}", wait = "5s", guard = guard)]
async fn cancel_order(client: &Client, id: u64) -> bandog::Result<Option<String>> {
    Ok(Some(format!("order {id} is cancelled, under fence {}\n", guard.fence()))) // send the fence with each write
}

/// The handler of the route.
async fn cancel(State(app): State<App>, Path(id): Path<u64>) -> (StatusCode, String) {
    match cancel_order(&app.client, id).await {
        Ok(Some(done)) => (StatusCode::OK, done),
        Ok(None) => (StatusCode::CONFLICT, format!("order {id} is in use\n")), // the lock was busy for 5 s
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")), // no answer, or the lock was lost
    }
}

/// Readiness. Each second at most one probe asks the store; the others get its answer.
async fn ready(State(app): State<App>) -> (StatusCode, String) {
    match app.client.health().await {
        Ok(health) if health.reachable => (StatusCode::OK, format!("{health}\n")),
        Ok(health) => (StatusCode::SERVICE_UNAVAILABLE, format!("{health}\n")),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")), // the client is closed
    }
}

/// A job: each tick runs in one replica.
#[bandog::scheduled(fixed_rate = "10s", timeout = "5s")]
async fn sweep(run: Run, app: Shared<App>) {
    println!("{}: unpaid orders are swept, over {}", run.tick(), app.client.store());
}

/// A singleton task: the replica that holds the lock runs it.
async fn relay(guard: &Guard) -> Result<(), BoxError> {
    loop {
        println!("the outbox is relayed under fence {}", guard.fence());
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

/// Serves until `stop` resolves. Then it stops the jobs and releases all locks.
async fn serve(
    listener: TcpListener,
    client: Client,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), BoxError> {
    let app = App { client: client.clone() };
    let jobs = Scheduler::over(&client).share(app.clone()).declared().start().await?;
    let relay = client.singleton("outbox-relay", relay);
    let server = axum::serve(listener, router(app)).with_graceful_shutdown(stop);
    tokio::select! {
        served = server.into_future() => served?, // select! drops the relay, which frees its lock
        ended = relay => ended?,
    }
    jobs.stop().await?; // waits for runs to end, and hands the others over to another replica
    Ok(client.close().await?) // releases the locks that are still held
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::fmt::init(); // prints what bandog logs
    let url =
        std::env::var("BANDOG_URL").map_err(|_| "set BANDOG_URL: redis://localhost, or sqlite:/tmp/service.db")?;
    let port: u16 = std::env::var("PORT").map_or(Ok(3000), |port| port.parse())?;
    let client = bandog::connect(url).await?;
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    serve(listener, client, stop_signal()).await
}

/// Resolves at SIGTERM, which Kubernetes sends, or at Ctrl-C.
async fn stop_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).expect("no handler for SIGTERM");
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use bandog::{
        schedule::declared,
        testing::{Store, TestScheduler},
    };

    use super::{App, Duration, Path, State, StatusCode, cancel, ready, relay};

    #[tokio::test(start_paused = true)]
    async fn one_replica_at_a_time_cancels_an_order() {
        let store = Store::new();
        let (app, other) = (App { client: store.client() }, store.client()); // two replicas

        let guard = other.mutex("order-17").lease(Duration::from_secs(60)).lock().await.unwrap();
        let (status, _) = cancel(State(app.clone()), Path(17)).await; // waits for 5 s of virtual time
        assert_eq!(status, StatusCode::CONFLICT);

        guard.lost().await; // the minute is over
        let (status, _) = cancel(State(app), Path(17)).await;
        assert_eq!(status, StatusCode::OK);
    }

    #[tokio::test(start_paused = true)]
    async fn a_replica_is_ready_until_its_client_is_closed() {
        let app = App { client: Store::new().client() };
        assert_eq!(ready(State(app.clone())).await.0, StatusCode::OK);
        app.client.close().await.unwrap();
        assert_eq!(ready(State(app)).await.0, StatusCode::SERVICE_UNAVAILABLE);
    }

    #[tokio::test(start_paused = true)]
    async fn each_tick_runs_in_one_of_three_replicas() {
        let app = App { client: Store::new().client() };
        let test = TestScheduler::at("2026-03-08T06:00:00Z").replicas(3).share(app).start(declared).await.unwrap();
        test.advance_to("2026-03-08T06:00:55Z").await;
        assert_eq!(test.ticks("sweep").len(), 6);
        test.stop().await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn another_replica_takes_the_relay_over() {
        let store = Store::new();
        let start = || {
            let client = store.client();
            tokio::spawn(async move { client.singleton("outbox-relay", relay).await })
        };
        let (first, _second) = (start(), start());
        tokio::time::sleep(Duration::from_secs(60)).await;
        let before = store.client().show("outbox-relay").await.unwrap();

        first.abort(); // the first replica ends
        tokio::time::sleep(Duration::from_secs(60)).await;
        let after = store.client().show("outbox-relay").await.unwrap();
        assert!(before.is_held() && after.is_held() && before.owner() != after.owner());
    }
}
