//! The page of `bandog schedule --http`, `bandog page` and `bandog demo --page`: options, token and metrics.

mod figures;
mod token;

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::PathBuf,
    time::Duration,
};

use bandog::Client;
use bandog_page::{HostName, Page, Token};
use tokio::time::interval;

use self::figures::Figures;
use crate::{console::report, fault::Fault};

pub(crate) use self::token::VARIABLE as TOKEN_VARIABLE;
pub(crate) use bandog_page::{Language, Serving};

/// The options of a page, except its address.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Options {
    /// A file with the token that the page requires to act on jobs, nodes, queues and locks.
    ///
    /// Without this option the token is read from the variable BANDOG_HTTP_TOKEN. If neither is set, the page is
    /// read-only. A token has 16 to 256 visible ASCII characters.
    #[arg(long, value_name = "FILE", requires = "http")]
    http_token_file: Option<PathBuf>,
    /// A host name that the page answers to, such as jobs.example. Can be repeated.
    ///
    /// Requests to other names get 421, so that a web page whose name resolves to this machine cannot read this page.
    /// localhost and IP addresses are allowed too. But if the page listens on a loopback address, only loopback IP
    /// addresses are allowed.
    #[arg(long, value_name = "NAME", requires = "http")]
    http_host: Vec<HostName>,
    /// The language of the page: en or zh. Without this option, the page has the first of these languages that the
    /// browser asks for, or English.
    ///
    /// A link on the page changes the language for its reader. Messages of the store and of bandog are in English.
    #[arg(long, value_name = "LANG", requires = "http")]
    lang: Option<Language>,
}

/// A page whose address is bound. The page does not answer requests yet.
#[derive(Debug)]
pub(crate) struct Listening {
    listener: TcpListener,
    token: Option<Token>,
    /// The values of --http-host.
    hosts: Vec<HostName>,
    language: Option<Language>,
    /// The recorder of the metrics.
    figures: Figures,
}

/// Interval between two upkeeps of the metrics. Without upkeep, samples accumulate while no client reads the metrics.
const UPKEEP: Duration = Duration::from_secs(5);

impl Options {
    /// The options of a read-only page.
    pub(crate) fn of_demo(lang: Option<Language>) -> Self {
        Self { http_token_file: None, http_host: Vec::new(), lang }
    }
}

impl Listening {
    /// Binds the address `wanted`. Call this function before the first client is created: metrics that are registered
    /// earlier are missing in `/metrics`.
    pub(crate) fn open(wanted: SocketAddr, options: &Options) -> Result<Self, Fault> {
        let token = token::read(options.http_token_file.as_deref())?;
        let cannot = |error| Fault::system(&format!("cannot listen on {wanted}"), error);
        let listener = TcpListener::bind(wanted).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        warn(address, token.is_some());
        let (hosts, language) = (options.http_host.clone(), options.lang);
        Ok(Self { listener, token, hosts, language, figures: Figures::install()? })
    }

    /// Starts to answer requests, and reports the address. `store` is the displayed name of the store, without its password.
    pub(crate) fn serve(self, client: &Client, store: String) -> Result<Serving, Fault> {
        let Self { listener, token, hosts, language, figures } = self;
        let (for_page, for_upkeep) = (figures.clone(), figures);
        let mut page = Page::over(client).named(store).metrics(move || for_page.text());
        page = hosts.into_iter().fold(page, Page::host);
        if let Some(language) = language {
            page = page.language(language);
        }
        let has_token = token.is_some();
        if let Some(token) = token {
            page = page.token(token);
        }
        let serving = page.serve(listener).map_err(|error| Fault::system("cannot serve the page", error))?;
        tokio::spawn(async move {
            let mut upkeep = interval(UPKEEP);
            loop {
                upkeep.tick().await;
                for_upkeep.run_upkeep();
            }
        });
        let mode = if has_token { "" } else { ", read-only" };
        report(&format!("the page is at http://{}/{mode}", serving.address()));
        Ok(serving)
    }
}

/// Logs a warning if other machines can reach the address.
fn warn(address: SocketAddr, has_token: bool) {
    if address.ip().is_loopback() {
        return;
    }
    if has_token {
        tracing::warn!(
            "every client that can reach {address} can read jobs, runs and locks on the page, and its token is sent over the \
             network unencrypted: use a proxy with TLS"
        );
    } else {
        tracing::warn!("every client that can reach {address} can read jobs, runs and locks on the page");
    }
}

/// Parses an address such as `127.0.0.1:8080`, `[::1]:8080` or `localhost:8080`.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let local = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    let local = local.map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    local.or_else(|| text.parse().ok()).ok_or_else(|| "write it like 127.0.0.1:8080 or [::1]:8080".into())
}

#[cfg(test)]
mod tests;
