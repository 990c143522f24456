//! `bandog page`: the page of a store, without running jobs.

use std::{future::pending, net::SocketAddr};

use crate::{
    exit_code::ExitCode,
    fault::Fault,
    http::{self, Listening},
    runtime,
    signals::Signals,
    store::{self, Store},
    voice::{post, say},
};

/// Serves a page with the jobs, runs and locks of a store.
///
/// It runs no jobs: they run in `bandog schedule` or in programs that use the library, and each of them that uses the
/// same store is on the page. The page shows the last 24 hours and the next hour, what each job did and what became of
/// its runs, the nodes, and the locks that are held; the same is under /api as JSON, and /healthz answers as long as the
/// process lives.
///
/// The page is read-only, unless a token is given. It has no logins and is not encrypted: everybody who reaches the
/// address may look. On a loopback address these are the users of this machine; others reach it through
/// `ssh -L 8080:127.0.0.1:8080 HOST`, or through a proxy that asks for names and speaks TLS.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    store: store::Args,
    /// The address that the page is served on.
    #[arg(long, value_name = "ADDRESS", value_parser = http::address, default_value = "127.0.0.1:8080")]
    http: SocketAddr,
    #[command(flatten)]
    page: http::Options,
}

const HELP: &str = "\
Signals:
  TERM, INT, HUP and QUIT stop it; answers that are on their way have 2 s.

Exit codes:
    0  stopped by a signal
   64  the command line, the URL or the token is wrong
   69  the store is a file that does not exist
   70, 71, 77  as with `bandog lock`
  A store that does not answer is no reason to end: the page says so, and asks again.

Examples:
  bandog page --url redis://cache.example
  (umask 077; head -c 24 /dev/urandom | base64 > token)
  bandog page --http 0.0.0.0:8080 --http-host jobs.example --http-token-file token
  curl http://127.0.0.1:8080/api/summary";

pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let store = Store::of(&args.store)?;
    // Before the first client: what it counts is in the page's figures.
    let page = Listening::open(args.http, &args.page)?;
    runtime::block_on_with_io(serve(&store, page))
}

async fn serve(store: &Store, page: Listening) -> Result<ExitCode, Fault> {
    let mut signals = Signals::catch(true).map_err(|error| Fault::system("cannot catch signals", error))?;
    let client = store.watcher()?;
    say(&format!("over {} ({})", store.shown(), store.origin()));
    let serving = page.serve(&client, store)?;
    let first_answer = async {
        if let Err(error) = client.ready().await {
            post(&format!("{error}; the page is served all the same, and asks again"));
        }
        pending().await
    };
    tokio::select! {
        _ = signals.ending() => {}
        () = first_answer => {}
    }
    serving.stop().await;
    post("stopped");
    Ok(ExitCode::Done)
}
