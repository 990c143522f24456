//! A web page with the jobs, runs, work queues, held locks and objects of one store, and the same data as JSON for programs.
//!
//! The command `bandog page` serves this page. This crate makes the page a part of your own service: [`Page::answer`]
//! takes a request of hyper or axum and returns the response. The page needs no files and no build step. Its scripts
//! use relative URLs, so the page works under any path.
//!
//! # In a hyper service
//!
//! [`Page`] is a `hyper::service::Service`, so a connection can use the page directly. Your own service can also call
//! the page for some of its paths:
//!
//! ```
//! use bandog_page::{Page, Reply};
//! use hyper::{Request, Response, body::Incoming, service::service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
//! let client = bandog::connect("memory:").await?; // The store of your jobs: redis://…, sqlite:…
//! let page = Page::over(&client).under("/bandog");
//! let service = service_fn(move |request: Request<Incoming>| {
//!     let page = page.clone();
//!     async move {
//!         let reply: Reply = match request.uri().path() {
//!             "/" => Response::new("my shop".into()),
//!             _ => page.answer(request).await, // /bandog/…; any other path is a 404
//!         };
//!         Ok::<_, std::convert::Infallible>(reply)
//!     }
//! });
//! // hyper::server::conn::http1::Builder::new().serve_connection(io, service)
//! # let _ = service;
//! # Ok(()) }
//! ```
//!
//! # In an axum service
//!
//! The page is nested under its path, so all other paths stay those of your service; `examples/axum.rs` is a complete
//! program. Add your own middleware for logins.
//!
//! ```
//! use axum::{Router, extract::{OriginalUri, Request}, routing::get};
//! use bandog_page::Page;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
//! let client = bandog::connect("memory:").await?;
//! let page = Page::over(&client).under("/bandog");
//! let page = Router::new().fallback(move |OriginalUri(uri): OriginalUri, mut request: Request| {
//!     *request.uri_mut() = uri; // `nest_service` has removed `/bandog` from it
//!     let page = page.clone();
//!     async move { page.answer(request).await }
//! });
//! let app: Router = Router::new().route("/", get(|| async { "my shop" })).nest_service("/bandog", page);
//! # let _ = app;
//! # Ok(()) }
//! ```
//!
//! # Access
//!
//! The page is read-only unless you set a token with [`Page::token`]. The page has no logins: in your own service, your
//! middleware decides which requests reach the page. Every viewer of the page can also read the output and the errors
//! of jobs.

mod access;
mod act_body;
mod aside;
mod cache_json;
mod config;
mod digest;
mod fresh;
mod handler;
mod histories;
mod in_time;
mod language;
mod lock_json;
mod object_json;
mod objects;
mod observed;
mod observing;
mod over_store;
mod pace;
mod page_type;
mod parts;
mod past_day;
mod query;
mod queue_figures;
mod queue_json;
mod queues;
mod rates;
mod reply;
mod route;
mod serve;
mod snapshot;
mod source;
mod summary;
mod token;
mod wait_reason;

pub use self::{
    access::HostName,
    language::{Language, UnknownLanguage},
    lock_json::{LockJson, MemberJson},
    object_json::ObjectJson,
    page_type::Page,
    queue_json::{ElementJson, QueueJson, worker_id},
    reply::Reply,
    serve::Serving,
    token::Token,
    wait_reason::wait_reason,
};

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot continue can only panic")]
mod tests;
