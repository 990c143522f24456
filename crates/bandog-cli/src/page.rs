//! `bandog page`: serves the page of a store, without running jobs.

use std::{future::pending, net::SocketAddr};

use crate::{
    console::{report, report_queued},
    exit_code::ExitCode,
    fault::Fault,
    http::{self, Listening},
    runtime,
    signals::Signals,
    store::{self, Store},
};

/// Serves a page with the jobs, runs, work queues and locks of a store.
///
/// This command runs no jobs: they run in `bandog schedule` and in programs that use the library. The page has all jobs
/// of the store, whichever of these programs runs them. It shows the last 24 hours and the next hour, the runs of each
/// job and their outcomes, the nodes, the work queues, the locks that are held, the caches and the objects. The same data
/// is under /api as JSON; /healthz answers while the process runs. Once a minute the command observes queues and locks for
/// the charts, which begin at its start.
///
/// The page is read-only, unless a token is given. It has no logins and is not encrypted: every client that reaches the
/// address can read it. On a loopback address these are the users of this machine. Users of other machines can use `ssh
/// -L 8080:127.0.0.1:8080 HOST`, or a proxy with logins and TLS.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    store: store::Args,
    /// The address to listen on.
    #[arg(long, value_name = "ADDRESS", value_parser = http::address, default_value = "127.0.0.1:8080")]
    http: SocketAddr,
    #[command(flatten)]
    page: http::Options,
}

const HELP: &str = "\
Signals:
  TERM, INT, HUP and QUIT stop it; requests in progress get 2 s to finish.

Exit codes:
    0  stopped by a signal
   64  the command line, the URL or the token is wrong
   69  the store is a file that does not exist
   70, 71, 77  as with `bandog lock`
  If the store does not answer, the command keeps running: the page says so, and retries.

Examples:
  bandog page --url redis://cache.example
  (umask 077; head -c 24 /dev/urandom | base64 > token)
  bandog page --http 0.0.0.0:8080 --http-host jobs.example --http-token-file token
  bandog page --lang zh
  curl http://127.0.0.1:8080/api/summary";

pub(crate) fn run(args: &Args) -> Result<ExitCode, Fault> {
    let store = Store::of(&args.store)?;
    // `Listening::open` also installs the recorder of the metrics. So this call comes before the creation of the first
    // client: the recorder would miss metrics that are registered earlier.
    let page = Listening::open(args.http, &args.page)?;
    runtime::block_on_with_io(serve(&store, page))
}

/// Serves the page until a signal asks bandog to exit.
async fn serve(store: &Store, page: Listening) -> Result<ExitCode, Fault> {
    let mut signals = Signals::catch(true).map_err(|error| Fault::system("cannot catch signals", error))?;
    let client = store.connect_existing_lazy()?;
    report(&format!("over {} ({})", store.redacted(), store.origin()));
    let serving = page.serve(&client, store.redacted())?;
    // Reports an error if the store does not answer at the start. This future never resolves.
    let first_answer = async {
        if let Err(error) = client.ready().await {
            report_queued(&format!(
                "{error}; the page is served nevertheless, and connects as soon as the store answers"
            ));
        }
        pending().await
    };
    tokio::select! {
        _ = signals.ending() => {}
        () = first_answer => {}
    }
    serving.stop().await;
    report_queued("stopped");
    Ok(ExitCode::Done)
}
