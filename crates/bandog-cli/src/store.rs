//! The store that the command uses.

use std::{
    env, fs,
    io::{self, IsTerminal, stderr},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use bandog::{Client, ConnectOptions, Error, ErrorKind};
use tokio::time::sleep;

use crate::{console::report, exit_code::ExitCode, fault::Fault};

/// The variable that names the store.
pub(crate) const VARIABLE: &str = "BANDOG_URL";

/// The option that names the store.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The store: `redis://user:password@host:port/db` (`rediss://` over TLS, `redis+unix://` over a socket,
    /// `redis+sentinel://h1,h2,h3/MASTER`, `redis+cluster://h1,h2`, `redis+quorum://h1,h2,h3`),
    /// `postgres://user:password@host:port/database`, `mysql://user:password@host:port/database`,
    /// `zookeeper://host:port,host:port/folder` (`zookeeper+tls://` over TLS), `sqlite:PATH` or, for `torture` and `grid`, `memory:`; with `?watchdog=DUR`,
    /// `?timeout=DUR` and `?prefix=TEXT:` (the prefix of all names in the store; it ends in a colon).
    ///
    /// Without this option the variable BANDOG_URL names the store. If neither is set, the store is a SQLite file in
    /// the user's state directory. Every user of the machine can read a password on a command line, but only this user
    /// can read one in the variable. The option can also be written before the command, as in `bandog --url URL ls`; if
    /// it is given in both places, the last one counts.
    #[arg(long, value_name = "URL", global = true)]
    url: Option<String>,
}

/// The store that the command uses: its URL, and where the URL comes from.
#[derive(Debug)]
pub(crate) struct Store {
    url: String,
    from: UrlOrigin,
}

/// Where the URL of the store comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UrlOrigin {
    Option,
    Environment,
    Default,
}

impl Args {
    /// Whether the option is given.
    pub(crate) fn is_given(&self) -> bool {
        self.url.is_some()
    }
}

impl Store {
    /// The store that the option names. Without the option, the store that the environment names. Without both, the
    /// file in the user's state directory.
    pub(crate) fn of(args: &Args) -> Result<Self, Fault> {
        if let Some(url) = &args.url {
            return Ok(Self { url: absolute(&normalized(url)), from: UrlOrigin::Option });
        }
        match env::var(VARIABLE) {
            // An empty variable is probably a mistake. Without this error, each machine would have its own lock file.
            Ok(url) if url.trim().is_empty() => Err(Fault::usage(format!(
                "{VARIABLE} is empty: unset it to use the file in the state directory, or set it to a store"
            ))),
            Ok(url) => Ok(Self { url: absolute(&normalized(&url)), from: UrlOrigin::Environment }),
            Err(env::VarError::NotUnicode(_)) => Err(Fault::usage(format!("{VARIABLE} is not UTF-8"))),
            Err(env::VarError::NotPresent) => Ok(Self { url: default_url()?, from: UrlOrigin::Default }),
        }
    }

    /// Parses and checks the URL, without any I/O.
    pub(crate) fn options(&self) -> Result<ConnectOptions, Fault> {
        let options = ConnectOptions::parse(&self.url).map_err(|error| self.fault(&error))?;
        if self.url.starts_with("memory:") {
            return Err(Fault::usage(format!(
                "{} exists in one process only, so a lock in it excludes no other process: use sqlite:PATH or \
                 redis://HOST",
                self.redacted()
            )));
        }
        Ok(options)
    }

    /// Parses and checks the URL, for a command whose clients are all in this process: a store in memory is allowed, and
    /// all clients share it.
    pub(crate) fn options_in_process(&self) -> Result<ConnectOptions, Fault> {
        let url = match self.url.strip_prefix("memory:") {
            Some(options) if options.is_empty() || options.starts_with('?') => format!("memory:bandog{options}"),
            Some(_) | None => self.url.clone(),
        };
        ConnectOptions::parse(url).map_err(|error| self.fault(&error))
    }

    /// A client that has not connected yet.
    pub(crate) fn client(&self, options: ConnectOptions) -> Result<Client, Fault> {
        options.connect_lazy().map_err(|error| match error.kind() {
            // No request was sent yet. So the error means that the machine has no thread or no file descriptor left.
            ErrorKind::Unavailable => Fault::system("cannot start a client", error),
            _ => self.fault(&error),
        })
    }

    /// A client for objects that has not connected yet. A store in memory is allowed: it is empty, and ends with the command.
    pub(crate) fn object_client(&self) -> Result<Client, Fault> {
        self.client(self.options_in_process()?.must_exist())
    }

    /// A connected client for queries. None if the store is the default file and this file does not exist yet.
    pub(crate) async fn connect_existing(&self) -> Result<Option<Client>, Fault> {
        self.connect_existing_until(Instant::now()).await
    }

    /// Does the same, and waits for a store that does not answer until this moment, if that is longer than 5 s.
    pub(crate) async fn connect_existing_until(&self, until: Instant) -> Result<Option<Client>, Fault> {
        let client = self.existing()?;
        if let Some(client) = &client {
            until_answered(until, async |_| client.ready().await).await.map_err(|error| self.fault(&error))?;
        }
        Ok(client)
    }

    /// A client of a store that exists. The store does not have to answer now. None if the default store does not exist.
    pub(crate) fn existing(&self) -> Result<Option<Client>, Fault> {
        let options = self.options()?;
        if let Some(path) = self.missing_file() {
            return if self.from == UrlOrigin::Default { Ok(None) } else { Err(self.missing(path)) };
        }
        self.client(options.must_exist()).map(Some)
    }

    /// A client for long use, such as a page. The store does not have to answer now.
    pub(crate) fn connect_existing_lazy(&self) -> Result<Client, Fault> {
        let options = self.options()?;
        match self.missing_file() {
            Some(path) => Err(self.missing(path)),
            None => self.client(options.must_exist()),
        }
    }

    /// The path of the SQLite file, if the store is a file that does not exist or is empty. Queries do not create the file.
    fn missing_file(&self) -> Option<&Path> {
        let path = Path::new(split_options(self.url.strip_prefix("sqlite:")?).0);
        let is_missing = match fs::metadata(path) {
            Ok(file) => file.is_file() && file.len() == 0,
            Err(error) => error.kind() == io::ErrorKind::NotFound && !path.as_os_str().is_empty(),
        };
        is_missing.then_some(path)
    }

    /// The error for a SQLite file that does not exist.
    fn missing(&self, path: &Path) -> Fault {
        let (origin, state) = (self.origin(), if path.exists() { "is an empty file" } else { "does not exist" });
        Fault::new(
            ExitCode::Unavailable,
            format!(
                "{path:?} ({origin}) {state}; `bandog lock`, `bandog latch NAME set N`, `bandog schedule`, `bandog push` and `bandog work` create it"
            ),
        )
    }

    /// A text that identifies the store and its prefix. Two URLs of the same store give the same text, even if their
    /// paths contain different links or their other options differ. If the store is not a file, `client` is used: the
    /// name by which the client calls the store.
    pub(crate) fn identity(&self, client: &str) -> String {
        let options = self.url.split_once('?').map_or("", |(_, options)| options);
        let prefix = options.split('&').filter_map(|option| option.strip_prefix("prefix=")).next_back();
        let file = self.url.strip_prefix("sqlite:").and_then(|rest| fs::canonicalize(split_options(rest).0).ok());
        let store = file.map_or(client.into(), |file| format!("sqlite:{}", file.display()));
        prefix.map_or(store.clone(), |prefix| format!("{store}?prefix={prefix}"))
    }

    /// Whether the locks of the store are strings.
    pub(crate) fn is_setnx(&self) -> bool {
        split_options(&self.url).1.trim_start_matches('?').split('&').any(|option| option == "layout=setnx")
    }

    /// The URL without its password, for messages.
    pub(crate) fn redacted(&self) -> String {
        bandog::admin::redact(&self.url)
    }

    /// The URL without its password, for the first line of a table. Says so if no option and no variable names the store:
    /// otherwise a reader may take a forgotten variable for an empty store.
    pub(crate) fn described(&self) -> String {
        let url = self.redacted();
        match self.from {
            UrlOrigin::Option | UrlOrigin::Environment => url,
            UrlOrigin::Default => format!("{url} ({})", self.origin()),
        }
    }

    /// The URL for the child, without secrets. None if the user gave no URL.
    pub(crate) fn for_child(&self) -> Option<String> {
        (self.from != UrlOrigin::Default).then(|| bandog::admin::without_secrets(&self.url))
    }

    /// An error of this store. The message names the store and the origin of its URL.
    pub(crate) fn fault(&self, error: &Error) -> Fault {
        let fault = Fault::of(error, &format!("{} ({})", self.redacted(), self.origin()));
        // The variables that a bandog sets for its commands, beside BANDOG_URL.
        let is_under_bandog = || {
            ["BANDOG_NAME", "BANDOG_JOB", "BANDOG_CACHED", "BANDOG_QUEUE"]
                .iter()
                .any(|name| env::var_os(name).is_some())
        };
        let is_from_bandog = self.from == UrlOrigin::Environment && is_under_bandog();
        let text = error.to_string();
        // The URL without the password has its user still, if it had one.
        let words = ["requires a password", "this user or password", "the password in the URL"];
        let has_no_password = words.iter().any(|words| text.contains(words));
        if is_from_bandog && error.kind() == ErrorKind::Denied && has_no_password {
            let reason = "bandog passes BANDOG_URL to its commands without the password: pass the complete URL in a \
                          variable of your own, and set BANDOG_URL to it inside the command";
            return Fault::new(error.kind().into(), format!("{fault}\n  {reason}"));
        }
        fault
    }

    /// Whether other users of this machine can read a password of this URL.
    pub(crate) fn shows_password(&self) -> bool {
        self.from == UrlOrigin::Option && self.redacted() != self.for_child().unwrap_or_default()
    }

    /// The origin of the URL as text.
    pub(crate) fn origin(&self) -> &'static str {
        match self.from {
            UrlOrigin::Option => "from --url",
            UrlOrigin::Environment => "from BANDOG_URL",
            UrlOrigin::Default => "the default without --url and BANDOG_URL",
        }
    }

    /// Reports the store, if standard error is a terminal. `what` is the text before the store.
    pub(crate) fn report_use(&self, what: &str) {
        if stderr().is_terminal() {
            report(&format!("{what} {}", self.redacted()));
        }
    }
}

/// Interval between two attempts while the store does not answer.
const PAUSE: Duration = Duration::from_millis(500);

/// Repeats the attempt while the store does not answer, until this moment. The attempt gets the time that is left.
pub(crate) async fn until_answered<T>(
    until: Instant,
    mut attempt: impl AsyncFnMut(Duration) -> bandog::Result<T>,
) -> bandog::Result<T> {
    let mut unsure = None;
    loop {
        let error = match attempt(until.saturating_duration_since(Instant::now())).await {
            Err(error) if error.kind() == ErrorKind::Unavailable => error,
            done => return done,
        };
        // If any attempt may be applied, the caller must know.
        let error = unsure.take().unwrap_or(error);
        if Instant::now() + PAUSE >= until {
            return Err(error);
        }
        unsure = error.maybe_applied().then_some(error);
        sleep(PAUSE).await;
    }
}

/// The URL without the white space around it, with its scheme in small letters.
pub(crate) fn normalized(url: &str) -> String {
    let url = url.trim();
    url.split_once(':').map_or(url.to_owned(), |(scheme, rest)| format!("{}:{rest}", scheme.to_ascii_lowercase()))
}

/// The URL with an absolute path, if the URL names a file. So a child that changes its directory still uses the same
/// file.
fn absolute(url: &str) -> String {
    let Some(rest) = url.strip_prefix("sqlite:").filter(|_| ConnectOptions::parse(url).is_ok()) else {
        return url.to_owned(); // If the URL is wrong, its first use reports the mistake.
    };
    let (path, options) = split_options(rest);
    match std::path::absolute(path) {
        Ok(path) => path.to_str().map_or(url.to_owned(), |path| format!("sqlite:{path}{options}")),
        Err(_) => url.to_owned(), // The path is empty. The parser of the URL reports this.
    }
}

/// Splits the text after `sqlite:` into the path and the options. The options begin with their question mark.
fn split_options(rest: &str) -> (&str, &str) {
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    rest.split_at(rest.find('?').unwrap_or(rest.len()))
}

/// The URL of the SQLite file in the user's state directory.
fn default_url() -> Result<String, Fault> {
    let directory = state_directory().ok_or_else(|| {
        Fault::usage("HOME is not set, so there is no file for the locks: give --url, or set BANDOG_URL")
    })?;
    let path = directory.join("bandog").join("locks.db");
    match path.to_str() {
        Some(path) if !path.contains('?') => Ok(format!("sqlite:{path}")),
        _ => Err(Fault::usage(format!("{path:?} cannot be written as a URL: give --url, or set BANDOG_URL"))),
    }
}

/// `$XDG_STATE_HOME`, or `~/.local/state` if this variable is not set. A relative path in the variable is ignored,
/// because the specification of the variable forbids it.
fn state_directory() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local").join("state")))
}
