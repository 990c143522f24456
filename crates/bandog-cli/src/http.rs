//! The page of `bandog schedule --http`: jobs, runs and locks for people, the same as JSON for programs, and figures.

mod answer;
mod desk;
mod door;
mod figures;
mod fresh;
mod route;
mod serve;
mod source;
mod store;
mod token;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::PathBuf,
    thread,
    time::Duration,
};

use tokio::{
    runtime::Builder,
    sync::{oneshot, watch},
    time::timeout,
};

use self::{desk::Desk, figures::Figures, source::Source, token::Token};
use crate::{fault::Fault, voice::say};

pub(crate) use self::{store::OverStore, token::VARIABLE as TOKEN_VARIABLE};

/// The options of the page.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Serve a page with jobs, runs and locks, the same as JSON, and /metrics on this address, such as 127.0.0.1:8080.
    ///
    /// It is for looking only, unless a token is given. It is not encrypted, and everybody who reaches the address may
    /// look.
    #[arg(long, value_name = "ADDRESS", value_parser = address, conflicts_with = "check")]
    http: Option<SocketAddr>,
    /// A file with the token that the page asks for before it runs, pauses, resumes or cancels a job.
    ///
    /// Without it the variable BANDOG_HTTP_TOKEN is the token. It has 16 to 256 visible ASCII characters.
    #[arg(long, value_name = "FILE", requires = "http")]
    http_token_file: Option<PathBuf>,
}

/// An address that is listened on; nobody is answered yet.
#[derive(Debug)]
pub(crate) struct Page {
    listener: TcpListener,
    address: SocketAddr,
    token: Option<Token>,
    figures: Figures,
}

/// A page that is served, by a thread and a runtime of its own: nobody who looks slows a job down.
///
/// Dropping it ends the service, too, without waiting.
#[derive(Debug)]
pub(crate) struct Serving {
    stop: watch::Sender<bool>,
    ended: oneshot::Receiver<()>,
}

/// How long the end waits for answers that are on their way.
const FAREWELL: Duration = Duration::from_secs(2);

impl Page {
    /// Listens on the address, if one is asked for. Call it before the first client is made: counters that exist by
    /// then are not in `/metrics`.
    pub(crate) fn open(args: &Args) -> Result<Option<Self>, Fault> {
        let Some(wanted) = args.http else { return Ok(None) };
        let token = Token::read(args.http_token_file.as_deref())?;
        let (listener, address) =
            listen(wanted).map_err(|error| Fault::system(&format!("cannot listen on {wanted}"), error))?;
        warn(address, token.as_ref());
        Ok(Some(Self { listener, address, token, figures: Figures::install()? }))
    }

    /// Answers from now on, and says where.
    pub(crate) fn serve(self, source: impl Source) -> Result<Serving, Fault> {
        let Self { listener, address, token, figures } = self;
        let does = if token.is_some() { "" } else { ", for looking only" };
        let serving = start(listener, Desk::new(source, token, figures, address))
            .map_err(|error| Fault::system("cannot serve the page", error))?;
        say(&format!("the page is at http://{address}/{does}"));
        Ok(serving)
    }
}

impl Serving {
    /// Takes no more requests, and waits a while for answers that are on their way.
    pub(crate) async fn stop(self) {
        // Whoever does not hear has ended.
        let _ = self.stop.send(true);
        let _ = timeout(FAREWELL, self.ended).await;
    }
}

fn start<S: Source>(listener: TcpListener, desk: Desk<S>) -> io::Result<Serving> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let ((stop, stopped), (done, ended)) = (watch::channel(false), oneshot::channel());
    thread::Builder::new().name("http".into()).spawn(move || {
        runtime.block_on(serve::serve(listener, desk, stopped));
        let _ = done.send(()); // Nobody may wait for it.
    })?;
    Ok(Serving { stop, ended })
}

fn listen(wanted: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(wanted)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// What an address that others can reach gives away.
fn warn(address: SocketAddr, token: Option<&Token>) {
    if address.ip().is_loopback() {
        return;
    }
    match token {
        None => tracing::warn!("everybody who can reach {address} may see jobs, runs and locks on the page"),
        Some(_) => tracing::warn!(
            "everybody who can reach {address} may see jobs, runs and locks on the page, and its token crosses the \
             network unencrypted: put a proxy with TLS before it"
        ),
    }
}

/// Reads `127.0.0.1:8080`, `[::1]:8080` or `localhost:8080`.
fn address(text: &str) -> Result<SocketAddr, String> {
    let local = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    let local = local.map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    local.or_else(|| text.parse().ok()).ok_or_else(|| "write it like 127.0.0.1:8080 or [::1]:8080".into())
}

#[cfg(test)]
mod tests;
