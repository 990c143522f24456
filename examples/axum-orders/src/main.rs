//! An order service in several replicas: payments under a lock, an outbox, a job, a cache, metrics and the page.

mod orders;
mod products;
mod provider;
mod receipts;
mod refusal;
mod unpaid;

use std::{env, error::Error, str::FromStr, time::Duration};

use axum::{
    Router,
    extract::{OriginalUri, Request},
    routing::{get, post, put},
};
use bandog::{
    Client, ConnectOptions,
    grid::{Cache, ClientGrid},
    schedule::Scheduler,
    work::{ClientWork, WorkQueue},
};
use bandog_page::Page;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    time::sleep,
};

use crate::products::Product;

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// Time after which other replicas continue the work of one that was killed.
pub(crate) const TTL: Duration = Duration::from_secs(5);

/// Interval between two removals of old samples from the metrics.
const UPKEEP: Duration = Duration::from_secs(5);

/// The parts that requests, jobs and workers share. Its clones are the same shop.
#[derive(Clone)]
pub(crate) struct Shop {
    pub(crate) client: Client,
    pub(crate) db: PgPool,
    pub(crate) products: Cache<String, Product>,
    pub(crate) receipts: WorkQueue<i64>,
}

impl Shop {
    async fn open() -> Result<Self, BoxError> {
        let url = env::var("DATABASE_URL").map_err(|_| "set DATABASE_URL: postgres://USER:PASSWORD@HOST/DATABASE")?;
        let cache = env::var("CACHE_URL").unwrap_or_else(|_| "memory:".to_owned()); // several replicas: redis://HOST
        let client = ConnectOptions::parse(&url)?.watchdog(TTL).connect().await?;
        // The server ends a transaction of a replica that was stopped in the middle of it.
        let options = PgConnectOptions::from_str(&url)?.options([("idle_in_transaction_session_timeout", "5s")]);
        let db = PgPoolOptions::new().max_connections(8).connect_with(options).await?;
        bandog_sqlx::check(&client, &db).await?; // the pool is for the database that has the locks
        let grid = ConnectOptions::parse(cache)?.connect_lazy()?.grid(); // the service works without it, too
        let products = grid.cache("products")?.fresh(Duration::from_secs(60)).none(Duration::from_secs(10));
        let receipts = client.work_queue("receipts")?;
        let schema = client.mutex("schema"); // one replica at a time creates the tables
        schema.run(async |_| sqlx::raw_sql(include_str!("schema.sql")).execute(&db).await).await??;
        Ok(Self { client, db, products, receipts })
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::fmt::init(); // prints what bandog logs
    let metrics = PrometheusBuilder::new().install_recorder()?; // before the first client
    tokio::spawn(upkeep(metrics.clone()));
    let port: u16 = env::var("PORT").map_or(Ok(3000), |port| port.parse())?;
    let shop = Shop::open().await?;
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;

    let jobs = Scheduler::over(&shop.client).share(shop.clone()).declared().start().await?;
    let workers = receipts::start(&shop);
    println!("http://{}", listener.local_addr()?);
    axum::serve(listener, router(shop.clone(), metrics)).with_graceful_shutdown(stop_signal()).await?;

    workers.stop().await?; // hands back the receipts that are not sent
    jobs.stop().await?; // hands over the ticks that have not begun
    Ok(shop.client.close().await?) // releases the locks that are still held
}

fn router(shop: Shop, metrics: PrometheusHandle) -> Router {
    let page = Page::over(&shop.client).under("/bandog");
    // The page has no login. Put the middleware that asks for a login around this router.
    let page = Router::new().fallback(move |OriginalUri(uri): OriginalUri, mut request: Request| {
        *request.uri_mut() = uri; // `nest_service` has removed `/bandog` from it
        let page = page.clone();
        async move { page.answer(request).await }
    });
    Router::new()
        .route("/orders", post(orders::create))
        .route("/orders/{id}/pay", post(orders::pay))
        .route("/products/{sku}", get(products::show))
        .route("/products/{sku}/cents", put(products::set_cents))
        .route("/metrics", get(async move || metrics.render()))
        .with_state(shop)
        .nest_service("/bandog", page)
}

/// Without it, the samples of histograms pile up while no client reads them.
async fn upkeep(metrics: PrometheusHandle) {
    loop {
        sleep(UPKEEP).await;
        metrics.run_upkeep();
    }
}

/// Resolves at SIGTERM or Ctrl-C.
async fn stop_signal() {
    let mut terminate = signal(SignalKind::terminate()).expect("no handler for SIGTERM");
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
