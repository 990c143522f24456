//! The connections of a served page: their number, their duration and their end.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use hyper::{
    Request,
    body::{Body, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::TcpStream,
    runtime::Builder,
    sync::{oneshot, watch},
    task::{AbortHandle, JoinSet},
    time::{sleep, timeout},
};

use crate::{handler::Handler, source::Source};

/// Maximum number of open connections. If a client opens a further connection, the page closes another connection,
/// usually that of the client that has been silent for the longest time.
pub(crate) const CONNECTIONS: usize = 128;
/// Timeout for receiving a request's head (its first line and headers). A connection that is silent for this time is
/// closed, too. The timeout is shorter in tests.
const HEAD_TIME: Duration = Duration::from_secs(if cfg!(test) { 3 } else { 10 });
/// Maximum size of a request's head, in bytes.
const HEAD: usize = 16 * 1024;
/// Maximum number of headers of a request.
const HEADERS: usize = 64;
/// Time after which the page accepts no further request on a connection. Browsers then open another connection.
const LIFE: Duration = Duration::from_secs(60);
/// Timeout of the last answer on a connection. This is the timeout of a query plus some time for a client that reads
/// slowly.
const LAST_ANSWER: Duration = Duration::from_secs(30);
/// Pause after a failed accept. Usually the process has no free file descriptor then.
const REFUSED: Duration = Duration::from_millis(100);
/// Maximum time for which a page that stops waits for the answers in progress.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// A page that is served by [`crate::Page::serve`].
///
/// If this handle is dropped, the service ends without waiting for answers in progress. [`Serving::stop`] waits for
/// them.
#[derive(Debug)]
pub struct Serving {
    address: SocketAddr,
    /// Set to true when the service must stop.
    stop: watch::Sender<bool>,
    /// Completes when the service has ended.
    ended: oneshot::Receiver<()>,
}

impl Serving {
    /// The address of the page.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops the service. It accepts no further requests, and this call waits up to 2 s for answers in progress.
    ///
    /// # Cancel safety
    /// The service ends even if the future is dropped.
    pub async fn stop(self) {
        // An error means that the service has ended already.
        let _ = self.stop.send(true);
        let _ = timeout(STOP_TIMEOUT, self.ended).await;
    }
}

pub(crate) fn start<S: Source>(listener: TcpListener, handler: Handler<S>) -> io::Result<Serving> {
    let address = listener.local_addr()?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let ((stop, stopped), (done, ended)) = (watch::channel(false), oneshot::channel());
    thread::Builder::new().name("http".into()).spawn(move || {
        runtime.block_on(serve(listener, handler, stopped));
        // `shutdown_background` does not wait for queries of the store that are in progress.
        runtime.shutdown_background();
        let _ = done.send(()); // The receiver might be gone.
    })?;
    Ok(Serving { address, stop, ended })
}

/// Answers requests until `stop` is set or the [`Serving`] is dropped.
async fn serve<S: Source>(listener: TcpListener, handler: Handler<S>, mut stop: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    let stopped = stop.clone();
    tokio::select! { biased;
        _ = stop.wait_for(|stop| *stop) => {}
        () = accept(listener, &handler, &mut connections, &stopped) => {}
        never = handler.observe(), if handler.config.observes => match never {},
    }
    let all_ended = async { while connections.join_next().await.is_some() {} };
    let _ = timeout(STOP_TIMEOUT, all_ended).await;
}

/// Accepts connections and starts a task for each of them. Returns only if the listener cannot be used.
async fn accept<S: Source>(
    listener: TcpListener,
    handler: &Handler<S>,
    connections: &mut JoinSet<()>,
    stop: &watch::Receiver<bool>,
) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::warn!("the page cannot be served: {error}"),
    };
    let mut open: Vec<OpenConnection> = Vec::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!("a connection to the page was refused: {error}");
                sleep(REFUSED).await;
                continue;
            }
        };
        while connections.try_join_next().is_some() {} // Removes the ended connections.
        close_one_if_full(&mut open);
        let (waits_for, receiver) = watch::channel(WaitsFor::Client(Instant::now()));
        let task = connections.spawn(serve_connection(stream, handler.clone(), waits_for, stop.clone()));
        open.push(OpenConnection { waits_for: receiver, task });
    }
}

/// The side that a connection waits for (client or page), and the time at which this wait began. If there are too many
/// connections, the page closes the connection with the smallest value. So connections that wait for their client are
/// closed before connections that wait for the page. Within each group, the connection with the longest wait is closed
/// first. This way, new clients can connect even if many clients are silent or the store does not answer. If an action
/// was requested on a connection that is closed, the action is completed nevertheless.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum WaitsFor {
    /// The client has sent no request, or a request whose body is not complete.
    Client(Instant),
    /// The client has sent a complete request, which the page is answering.
    Page(Instant),
}

/// One open connection.
struct OpenConnection {
    waits_for: watch::Receiver<WaitsFor>,
    task: AbortHandle,
}

/// Closes one connection if the maximum number is open.
fn close_one_if_full(open: &mut Vec<OpenConnection>) {
    open.retain(|connection| !connection.task.is_finished());
    if open.len() < CONNECTIONS {
        return;
    }
    let first = open.iter().enumerate().min_by_key(|(_, connection)| *connection.waits_for.borrow());
    if let Some((at, _)) = first {
        open.swap_remove(at).task.abort();
    }
}

/// Serves one connection from its first request to its end. Updates `waits_for` when the connection begins to wait for
/// the other side.
async fn serve_connection<S: Source>(
    stream: TcpStream,
    handler: Handler<S>,
    waits_for: watch::Sender<WaitsFor>,
    mut stop: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true); // If this fails, the connection is only slower.
    let waits_for = Arc::new(waits_for);
    let service = service_fn(move |request: Request<Incoming>| {
        let (handler, waits_for) = (handler.clone(), waits_for.clone());
        async move {
            if request.body().is_end_stream() {
                waits_for.send_replace(WaitsFor::Page(Instant::now()));
            }
            let reply = handler.answer(request).await;
            waits_for.send_replace(WaitsFor::Client(Instant::now()));
            Ok::<_, std::convert::Infallible>(reply)
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_headers(HEADERS).max_buf_size(HEAD);
    let mut connection = Box::pin(http.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        ended = connection.as_mut() => return log_error(ended),
        _ = stop.wait_for(|stop| *stop) => {}
        () = sleep(LIFE) => {}
    }
    connection.as_mut().graceful_shutdown();
    if let Ok(ended) = timeout(LAST_ANSWER, connection).await {
        log_error(ended);
    }
}

fn log_error(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!("a connection to the page broke: {error}");
    }
}
