//! The public type of the page.

use std::{convert::Infallible, error::Error as StdError, fmt, io, net::TcpListener, pin::Pin, sync::Arc};

use bandog_sync::Client;
use hyper::{Request, body::Body, service::Service};

use crate::{
    HostName, Language, Token,
    handler::Handler,
    over_store::OverStore,
    reply::Reply,
    serve::{self, Serving},
};

/// The page over one store. All clones share the answers of the store, so the store is queried once for all clones.
///
/// A page needs a tokio runtime with time enabled, and for objects with I/O. The load of the store does not depend on the number of clients. The
/// page queries the store for the list of jobs, for the nodes and for the locks. It sends each of these three queries
/// at most once a second, and less often if the query takes long. It queries the histories of single jobs at most 100
/// times a second. It reads objects only when a client requests them, for one request at a time, and each request
/// examines a limited number of names.
#[derive(Clone)]
pub struct Page {
    handler: Handler<OverStore>,
}

impl Page {
    /// The page over this client's store and prefix. The page is read-only, accepts requests with any `Host` header,
    /// and is mounted at `/`.
    pub fn over(client: &Client) -> Self {
        Self { handler: Handler::new(OverStore::new(client)) }
    }

    /// Sets the displayed name of the store. The default is [`Client::store`]. Every viewer can read this name, so it
    /// must not contain a password.
    #[must_use]
    pub fn named(self, store: impl Into<String>) -> Self {
        let source = self.handler.source().clone().named(store.into());
        Self { handler: Handler { config: self.handler.config, ..Handler::new(source) } }
    }

    /// Sets the path under which the page is mounted, such as `/bandog`. The service must pass the full path to
    /// [`Page::answer`], including this prefix. A request for `/bandog` is redirected to `/bandog/`.
    #[must_use]
    pub fn under(mut self, path: impl Into<String>) -> Self {
        let path = path.into();
        let path = path.trim_matches('/');
        let prefix = if path.is_empty() { String::new() } else { format!("/{path}") };
        Arc::make_mut(&mut self.handler.config).prefix = prefix;
        self
    }

    /// Allows requests with this token to act: to run, pause, resume, cancel, backfill and forget jobs, to pause nodes,
    /// to pause work queues, to retry and remove their elements, and to release locks. Such a request has the header
    /// `Authorization: Bearer TOKEN`. The page asks the viewer for the token. The token is never in a URL, a response
    /// or a log. Make the token once, with `head -c 24 /dev/urandom | base64`, and give it to the service as a secret.
    ///
    /// ```
    /// use bandog_page::{Page, Token};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # let client = bandog::connect("memory:").await?;
    /// let token = std::env::var("PAGE_TOKEN").unwrap_or_else(|_| "an-example-of-24-characters".into());
    /// let page = Page::over(&client).token(Token::new(&token)?);
    /// # let _ = page; Ok(()) }
    /// ```
    #[must_use]
    pub fn token(mut self, token: Token) -> Self {
        Arc::make_mut(&mut self.handler.config).token = Some(token);
        self
    }

    /// Allows requests to this host name, too. Requests to other names are refused with status 421. This protects
    /// against DNS rebinding: a foreign web page cannot read this page, even if the host name of the foreign page
    /// resolves to this machine. `localhost` and IP addresses are always allowed. But if [`Page::serve`] listens on a
    /// loopback address, only loopback IP addresses are allowed.
    ///
    /// If `host` is never called, [`Page::answer`] allows every name, and [`Page::serve`] allows only IP addresses and
    /// `localhost`.
    #[must_use]
    pub fn host(mut self, name: HostName) -> Self {
        Arc::make_mut(&mut self.handler.config).hosts.names.push(name);
        self
    }

    /// Sets the language of the page for all viewers who have not chosen one on the page. Without this call, it is the first
    /// language of the header `Accept-Language` that the page has, or English.
    #[must_use]
    pub fn language(mut self, language: Language) -> Self {
        Arc::make_mut(&mut self.handler.config).language = Some(language);
        self
    }

    /// Adds the path `/metrics`, which returns the result of this function: the metrics of the process in Prometheus's
    /// text format. The metrics of the store's first 100 work queues follow.
    #[must_use]
    pub fn metrics(mut self, figures: impl Fn() -> String + Send + Sync + 'static) -> Self {
        Arc::make_mut(&mut self.handler.config).metrics = Some(Arc::new(figures));
        self
    }

    /// Answers one request. Errors are returned as a response, too.
    ///
    /// ```
    /// use bandog_page::Page;
    /// use http_body_util::Empty;
    /// use hyper::{Request, body::Bytes};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = bandog::connect("memory:").await?;
    /// let page = Page::over(&client).under("/bandog");
    /// let request = Request::get("/bandog/api/jobs").body(Empty::<Bytes>::new())?;
    /// assert_eq!(page.answer(request).await.status(), 200);
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future cancels the work for this request, for example a scan of the store, unless another request
    /// needs the same work. An action on a job is completed nevertheless.
    pub async fn answer<B>(&self, request: Request<B>) -> Reply
    where
        B: Body,
        B::Error: Into<Box<dyn StdError + Send + Sync>>,
    {
        self.handler.answer(request).await
    }

    /// Observes the store once a minute, for the charts of the last 24 hours: the runs that have ended, the elements that wait
    /// in the first 100 queues, and the calls that wait for locks. The observations are kept in memory, at most 5 MB. This
    /// future never completes: a service spawns it beside the page.
    ///
    /// Without this call, [`Self::answer`] observes the store while a viewer has a chart open. [`Self::serve`] calls it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> bandog::Result<()> {
    /// # let client = bandog::connect("memory:").await?;
    /// let page = bandog_page::Page::over(&client).under("/bandog");
    /// let observed = page.clone();
    /// tokio::spawn(async move { observed.observe().await });
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future ends the observation. The observations so far are kept.
    pub async fn observe(&self) -> Infallible {
        self.handler.observe().await
    }

    /// Serves the page on this listener, and observes the store as [`Self::observe`] does. The page has its own thread and its own runtime, so viewers do not slow the
    /// rest of the program down. At most 128 connections are open at a time.
    ///
    /// # Errors
    /// The operating system refuses a thread, or the listener cannot be used.
    pub fn serve(mut self, listener: TcpListener) -> io::Result<Serving> {
        listener.set_nonblocking(true)?;
        let config = Arc::make_mut(&mut self.handler.config);
        config.hosts.address = Some(listener.local_addr()?);
        config.observes = true;
        serve::start(listener, self.handler)
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page").field("config", &self.handler.config).finish_non_exhaustive()
    }
}

impl<B> Service<Request<B>> for Page
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    type Response = Reply;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Reply, Infallible>> + Send>>;

    fn call(&self, request: Request<B>) -> Self::Future {
        let page = self.clone();
        Box::pin(async move { Ok(page.answer(request).await) })
    }
}
