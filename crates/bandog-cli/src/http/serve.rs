//! Connections: how many, how long, and their end.

use std::{
    net::TcpListener,
    sync::Arc,
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
    sync::watch,
    task::{AbortHandle, JoinSet},
    time::{interval, sleep, timeout},
};

use super::{FAREWELL, desk::Desk, source::Source};

/// At the same time. One more is let in, and the one that has said nothing whole for longest is closed.
pub(super) const CONNECTIONS: usize = 128;
/// How long a request's head may take, and how long a connection may be silent. The tests wait for it.
const HEAD_TIME: Duration = Duration::from_secs(if cfg!(test) { 3 } else { 10 });
/// The most that a request's head may be, in bytes and in headers.
const HEAD: usize = 16 * 1024;
const HEADERS: usize = 64;
/// How long a connection is used; browsers open another. So nobody keeps one for ever.
const LIFE: Duration = Duration::from_secs(60);
/// How long the last answer on a connection may take: a store's limit and some for a slow reader.
const LAST_ANSWER: Duration = Duration::from_secs(30);
/// How often what was counted is sorted in.
const TIDY: Duration = Duration::from_secs(5);
/// The pause after the system refused a connection, for want of descriptors as a rule.
const REFUSED: Duration = Duration::from_millis(100);

/// Answers until it is told to stop, or nobody is left to tell it.
pub(super) async fn serve<S: Source>(listener: TcpListener, desk: Desk<S>, mut stop: watch::Receiver<bool>) {
    let (desk, mut connections) = (Arc::new(desk), JoinSet::new());
    let stopped = stop.clone();
    tokio::select! { biased;
        _ = stop.wait_for(|stop| *stop) => {}
        () = accept(listener, &desk, &mut connections, &stopped) => {}
        () = tidy(&desk) => {}
    }
    let all_ended = async { while connections.join_next().await.is_some() {} };
    let _ = timeout(FAREWELL, all_ended).await;
}

async fn accept<S: Source>(
    listener: TcpListener,
    desk: &Arc<Desk<S>>,
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
        let task = connections.spawn(converse(stream, desk.clone(), turn, stop.clone()));
        seats.push(Seat { turn: seen, task });
    }
}

/// Whose turn it is on a connection, and since when. The lesser one is closed first: nobody may keep others out by
/// silence, nor by questions about which a store is silent. What was told to be done is done all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// The other side's: no request is here, or one whose body may be on its way.
    Silent(Instant),
    /// Ours: a whole request is being answered.
    Asked(Instant),
}

/// One connection, as the door knows it.
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
    desk: Arc<Desk<S>>,
    turn: watch::Sender<Turn>,
    mut stop: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true); // It is slower without, not wrong.
    let turn = Arc::new(turn);
    let service = service_fn(move |request: Request<Incoming>| {
        let (desk, turn) = (desk.clone(), turn.clone());
        async move {
            if request.body().is_end_stream() {
                turn.send_replace(Turn::Asked(Instant::now()));
            }
            let reply = desk.answer(request).await;
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

async fn tidy<S: Source>(desk: &Desk<S>) {
    let mut turns = interval(TIDY);
    loop {
        turns.tick().await;
        desk.tidy();
    }
}
