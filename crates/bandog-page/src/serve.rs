//! Connections: how many, how long, and their end.

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

/// Maximum number of open connections. One more is accepted, and the one that has been silent for longest is closed.
pub(crate) const CONNECTIONS: usize = 128;
/// Time limit for a request's head, and for a silent connection. The tests wait for it.
const HEAD_TIME: Duration = Duration::from_secs(if cfg!(test) { 3 } else { 10 });
/// Maximum size of a request's head, in bytes and in headers.
const HEAD: usize = 16 * 1024;
const HEADERS: usize = 64;
/// Time after which a connection takes no further request; browsers open another one.
const LIFE: Duration = Duration::from_secs(60);
/// Time limit for the last answer on a connection: the store's limit and some for a slow reader.
const LAST_ANSWER: Duration = Duration::from_secs(30);
/// Pause after the system refused a connection, for want of descriptors as a rule.
const REFUSED: Duration = Duration::from_millis(100);
/// Time limit for answers that are on their way when the page is stopped.
const FAREWELL: Duration = Duration::from_secs(2);

/// A page that is served by [`crate::Page::serve`].
///
/// Dropping it ends the service, too, without waiting.
#[derive(Debug)]
pub struct Serving {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    ended: oneshot::Receiver<()>,
}

impl Serving {
    /// The address that the page listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more requests, and waits up to 2 s for answers that are on their way.
    ///
    /// # Cancel safety
    /// The service ends even if the future is dropped.
    pub async fn stop(self) {
        // A service that has ended does not receive it.
        let _ = self.stop.send(true);
        let _ = timeout(FAREWELL, self.ended).await;
    }
}

pub(crate) fn start<S: Source>(listener: TcpListener, handler: Handler<S>) -> io::Result<Serving> {
    let address = listener.local_addr()?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let ((stop, stopped), (done, ended)) = (watch::channel(false), oneshot::channel());
    thread::Builder::new().name("http".into()).spawn(move || {
        runtime.block_on(serve(listener, handler, stopped));
        // What still asks the store is not waited for.
        runtime.shutdown_background();
        let _ = done.send(()); // The receiver may be gone.
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
    }
    let all_ended = async { while connections.join_next().await.is_some() {} };
    let _ = timeout(FAREWELL, all_ended).await;
}

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
    let mut seats: Vec<Seat> = Vec::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!("a connection to the page was refused: {error}");
                sleep(REFUSED).await;
                continue;
            }
        };
        while connections.try_join_next().is_some() {} // Those that have ended.
        make_room(&mut seats);
        let (turn, seen) = watch::channel(Turn::Silent(Instant::now()));
        let task = connections.spawn(converse(stream, handler.clone(), turn, stop.clone()));
        seats.push(Seat { turn: seen, task });
    }
}

/// Which side a connection waits for, and since when. The lesser one is closed first: silent clients cannot keep others
/// out, nor can questions that the store does not answer. What a request asked to do is done all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// The client: no request is here, or one whose body may be on its way.
    Silent(Instant),
    /// This side: a whole request is being answered.
    Asked(Instant),
}

/// One connection, as the listener knows it.
struct Seat {
    turn: watch::Receiver<Turn>,
    task: AbortHandle,
}

/// Makes sure that there is a seat for one more.
fn make_room(seats: &mut Vec<Seat>) {
    seats.retain(|seat| !seat.task.is_finished());
    if seats.len() < CONNECTIONS {
        return;
    }
    let first = seats.iter().enumerate().min_by_key(|(_, seat)| *seat.turn.borrow());
    if let Some((at, _)) = first {
        seats.swap_remove(at).task.abort();
    }
}

/// One connection, from its first request to its end.
async fn converse<S: Source>(
    stream: TcpStream,
    handler: Handler<S>,
    turn: watch::Sender<Turn>,
    mut stop: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true); // It is slower without, not wrong.
    let turn = Arc::new(turn);
    let service = service_fn(move |request: Request<Incoming>| {
        let (handler, turn) = (handler.clone(), turn.clone());
        async move {
            if request.body().is_end_stream() {
                turn.send_replace(Turn::Asked(Instant::now()));
            }
            let reply = handler.answer(request).await;
            turn.send_replace(Turn::Silent(Instant::now()));
            Ok::<_, std::convert::Infallible>(reply)
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_headers(HEADERS).max_buf_size(HEAD);
    let mut connection = Box::pin(http.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        ended = connection.as_mut() => return tell(ended),
        _ = stop.wait_for(|stop| *stop) => {}
        () = sleep(LIFE) => {}
    }
    connection.as_mut().graceful_shutdown();
    if let Ok(ended) = timeout(LAST_ANSWER, connection).await {
        tell(ended);
    }
}

fn tell(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!("a connection to the page broke: {error}");
    }
}
