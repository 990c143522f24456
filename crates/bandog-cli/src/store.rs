//! Which store the command uses.

use std::{
    env, fs,
    io::{IsTerminal, stderr},
    path::{Path, PathBuf},
};

use bandog::{Client, ConnectOptions, Error, ErrorKind};

use crate::{exit_code::ExitCode, fault::Fault, voice::say};

/// The variable that names the store.
pub(crate) const VARIABLE: &str = "BANDOG_URL";

/// The option that names the store.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The store: `redis://user:password@host:port/db` (`rediss://` over TLS, `redis+unix://` over a socket) or
    /// `sqlite:PATH`, with `?watchdog=DUR`, `?timeout=DUR` and `?prefix=TEXT:` (what every name
    /// begins with in the store; it ends in a colon).
    ///
    /// Without it the variable BANDOG_URL names the store, and without both it is a SQLite file in the user's state
    /// directory. Everybody on the machine can see a password on a command line; the variable keeps it to the user.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

/// The store's URL and where it came from.
#[derive(Debug)]
pub(crate) struct Store {
    url: String,
    from: From,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Option,
    Environment,
    Default,
}

impl Store {
    /// The store of the option, else of the environment, else the file in the user's state directory.
    pub(crate) fn of(args: &Args) -> Result<Self, Fault> {
        if let Some(url) = &args.url {
            return Ok(Self { url: absolute(url), from: From::Option });
        }
        match env::var(VARIABLE) {
            // A variable that was to name a server and is empty must not end in a lock file of its own per machine.
            Ok(url) if url.is_empty() => Err(Fault::usage(format!(
                "{VARIABLE} is empty: unset it to use the file in the state directory, or let it name a store"
            ))),
            Ok(url) => Ok(Self { url: absolute(&url), from: From::Environment }),
            Err(env::VarError::NotUnicode(_)) => Err(Fault::usage(format!("{VARIABLE} is not UTF-8"))),
            Err(env::VarError::NotPresent) => Ok(Self { url: default_url()?, from: From::Default }),
        }
    }

    /// The URL taken apart and checked; no I/O is done.
    pub(crate) fn options(&self) -> Result<ConnectOptions, Fault> {
        let options = ConnectOptions::parse(&self.url).map_err(|error| self.fault(&error))?;
        if self.url.starts_with("memory:") {
            return Err(Fault::usage(format!(
                "{} lives in one process, so a lock in it keeps nobody out and nobody can look at it: use sqlite:PATH or \
                 redis://HOST",
                self.shown()
            )));
        }
        Ok(options)
    }

    /// A client that has not asked the store yet.
    pub(crate) fn client(&self, options: ConnectOptions) -> Result<Client, Fault> {
        options.connect_lazy().map_err(|error| match error.kind() {
            // Nothing was asked of the store: the machine has no thread or no descriptor left.
            ErrorKind::Unavailable => Fault::system("cannot start a client", error),
            _ => self.fault(&error),
        })
    }

    /// A client for a look at the store, which has answered; none if it is the default one and nobody has used it yet.
    pub(crate) async fn look(&self) -> Result<Option<Client>, Fault> {
        let options = self.options()?;
        if let Some(path) = self.missing_file() {
            return if self.from == From::Default { Ok(None) } else { Err(self.missing(path)) };
        }
        let client = self.client(options.must_exist())?;
        client.ready().await.map_err(|error| self.fault(&error))?;
        Ok(Some(client))
    }

    /// A client for a program that looks at the store for as long as it runs. The store may be away for now.
    pub(crate) fn watcher(&self) -> Result<Client, Fault> {
        let options = self.options()?;
        match self.missing_file() {
            Some(path) => Err(self.missing(path)),
            None => self.client(options.must_exist()),
        }
    }

    /// The database, if it is not there: who only looks makes none.
    fn missing_file(&self) -> Option<&Path> {
        let path = Path::new(place(self.url.strip_prefix("sqlite:")?).0);
        let is_missing = !path.as_os_str().is_empty() && fs::exists(path).is_ok_and(|exists| !exists);
        is_missing.then_some(path)
    }

    fn missing(&self, path: &Path) -> Fault {
        let origin = self.origin();
        Fault::new(
            ExitCode::Unavailable,
            format!(
                "there is no {path:?} ({origin}), so nothing was ever kept in it; `bandog lock` and `bandog schedule` make it"
            ),
        )
    }

    /// What tells this store and its prefix from any other, whatever link or option the URL names it with; `client` is
    /// what its client calls it.
    pub(crate) fn identity(&self, client: &str) -> String {
        let options = self.url.split_once('?').map_or("", |(_, options)| options);
        let prefix = options.split('&').filter_map(|option| option.strip_prefix("prefix=")).next_back();
        let file = self.url.strip_prefix("sqlite:").and_then(|rest| fs::canonicalize(place(rest).0).ok());
        let store = file.map_or(client.into(), |file| format!("sqlite:{}", file.display()));
        prefix.map_or(store.clone(), |prefix| format!("{store}?prefix={prefix}"))
    }

    /// The URL as people and logs may see it.
    pub(crate) fn shown(&self) -> String {
        bandog::redact(&self.url)
    }

    /// The URL as the child gets it, if one was given.
    pub(crate) fn for_child(&self) -> Option<String> {
        (self.from != From::Default).then(|| bandog::without_secrets(&self.url))
    }

    pub(crate) fn fault(&self, error: &Error) -> Fault {
        Fault::of(error, &format!("{} ({})", self.shown(), self.origin()))
    }

    /// Whether others on this machine can read a password of this URL.
    pub(crate) fn shows_password(&self) -> bool {
        self.from == From::Option && self.shown() != self.for_child().unwrap_or_default()
    }

    /// Where the URL came from, in words.
    pub(crate) fn origin(&self) -> &'static str {
        match self.from {
            From::Option => "from --url",
            From::Environment => "from BANDOG_URL",
            From::Default => "the default without --url and BANDOG_URL",
        }
    }

    /// Says which store is used, where somebody sits and reads.
    pub(crate) fn announce(&self, what: &str) {
        if stderr().is_terminal() {
            say(&format!("{what} {}", self.shown()));
        }
    }
}

/// The URL of a file with its whole path: a child that changes its directory must not lock in another file.
fn absolute(url: &str) -> String {
    let Some(rest) = url.strip_prefix("sqlite:").filter(|_| ConnectOptions::parse(url).is_ok()) else {
        return url.to_owned(); // The first use of the URL reports what is wrong with it.
    };
    let (path, options) = place(rest);
    match std::path::absolute(path) {
        Ok(path) => path.to_str().map_or(url.to_owned(), |path| format!("sqlite:{path}{options}")),
        Err(_) => url.to_owned(), // An empty path; whoever reads the URL says so.
    }
}

/// What follows `sqlite:`, as the path and the options with their question mark.
fn place(rest: &str) -> (&str, &str) {
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    rest.split_at(rest.find('?').unwrap_or(rest.len()))
}

fn default_url() -> Result<String, Fault> {
    let directory = state_directory()
        .ok_or_else(|| Fault::usage("there is no HOME to keep the locks in: give --url, or set BANDOG_URL"))?;
    let path = directory.join("bandog").join("locks.db");
    match path.to_str() {
        Some(path) if !path.contains('?') => Ok(format!("sqlite:{path}")),
        _ => Err(Fault::usage(format!("{path:?} cannot be written as a URL: give --url, or set BANDOG_URL"))),
    }
}

/// `$XDG_STATE_HOME`, unless it is relative, which its specification forbids; else `~/.local/state`.
fn state_directory() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local").join("state")))
}
