//! Connections: how many, how long, and their end.

use std::{net::TcpListener, sync::Arc, time::Duration};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::TcpStream,
    sync::{Semaphore, watch},
    task::JoinSet,
    time::{interval, sleep, timeout},
};

use super::{FAREWELL, desk::Desk, source::Source};

/// At the same time; more wait until one of them ends.
const CONNECTIONS: usize = 32;
/// How long a request's head may take, and how long a connection may be silent. The tests wait for it.
const HEAD_TIME: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });
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
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    // The semaphore is never closed.
    while let Ok(place) = places.clone().acquire_owned().await {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::debug!("a connection to the page was refused: {error}");
                sleep(REFUSED).await;
                continue;
            }
        };
        while connections.try_join_next().is_some() {} // Those that have ended.
        let (desk, stop) = (desk.clone(), stop.clone());
        connections.spawn(async move {
            converse(stream, desk, stop).await;
            drop(place);
        });
    }
}

/// One connection, from its first request to its end.
async fn converse<S: Source>(stream: TcpStream, desk: Arc<Desk<S>>, mut stop: watch::Receiver<bool>) {
    let _ = stream.set_nodelay(true); // It is slower without, not wrong.
    let service = service_fn(move |request| {
        let desk = desk.clone();
        async move { Ok::<_, std::convert::Infallible>(desk.answer(request).await) }
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
