//! A service with a job, its own page, and the page of bandog under `/bandog/`.
//!
//! ```sh
//! cargo run --package bandog-page --example axum
//! ```

use axum::{
    Router,
    extract::{OriginalUri, Request},
    routing::get,
};
use bandog::schedule::{Job, Scheduler};
use bandog_page::Page;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = bandog::connect("memory:").await?; // In a real service: redis://…
    let sweep = Job::fixed_rate("sweep", std::time::Duration::from_secs(10)).run(|run| async move {
        run.note("nothing to sweep");
        Ok::<_, std::io::Error>(())
    });
    let scheduler = Scheduler::over(&client).job(sweep).start().await?;

    let page = Page::over(&client).under("/bandog");
    // The page has no login. Put the middleware that asks for a login around this router.
    let page = Router::new().fallback(move |OriginalUri(uri): OriginalUri, mut request: Request| {
        *request.uri_mut() = uri; // `nest_service` has removed `/bandog` from it.
        let page = page.clone();
        async move { page.answer(request).await }
    });
    let app: Router = Router::new().route("/", get(|| async { "my shop" })).nest_service("/bandog", page);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    println!("http://{}/bandog/", listener.local_addr()?);
    axum::serve(listener, app).await?;
    scheduler.stop().await?;
    Ok(())
}
