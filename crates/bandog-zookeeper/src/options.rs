//! The options of the backend, and how they are read from a URL.

use std::{borrow::Cow, fmt, time::Duration};

use bandog_core::{Error, Result};
use bandog_net::{CredentialsSource, Login, PasswordFile};
use percent_encoding::percent_decode_str;
use zookeeper_client::Acls;

use crate::tls::{FileOptions, Tls};

/// Default duration of a session.
const SESSION: Duration = Duration::from_secs(10);
/// Default of [`ZooKeeperOptions::timeout`].
const TIMEOUT: Duration = Duration::from_secs(3);
/// The port of ZooKeeper.
const PORT: &str = "2181";
/// The port for TLS in ZooKeeper's documentation. Servers have no default.
const TLS_PORT: &str = "2281";

/// The address of an ensemble, and the options of a client.
///
/// ```
/// let options = bandog_zookeeper::ZooKeeperOptions::from_url("zookeeper://one:2181,two:2181/locks?session=20s")?;
/// # Ok::<(), bandog_core::Error>(())
/// ```
#[derive(Clone)]
pub struct ZooKeeperOptions {
    /// The servers, each with its port, separated by commas.
    pub(crate) servers: String,
    /// The folder that contains the folders of the locks, with a slash at the beginning and none at the end. Empty for
    /// the root.
    pub(crate) chroot: String,
    /// The login of the scheme `digest`. None: sessions without a user.
    pub(crate) login: Option<Login>,
    /// The users that may use the nodes of this client.
    pub(crate) acl: NodeAcl,
    pub(crate) session: Duration,
    pub(crate) timeout: Duration,
    /// None: without TLS.
    pub(crate) tls: Option<Tls>,
}

/// The users that may use the nodes of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeAcl {
    /// Each user, as in Curator.
    Open,
    /// The user of this client.
    Creator,
}

impl NodeAcl {
    /// The rights of a new node.
    pub(crate) fn acls(self) -> Acls<'static> {
        match self {
            Self::Open => Acls::anyone_all(),
            Self::Creator => Acls::creator_all(),
        }
    }
}

impl ZooKeeperOptions {
    /// Reads a URL such as `zookeeper://user:password@host1:2181,host2:2181/folder?session=10s`.
    ///
    /// The folder contains the folders of the locks, and is created if it is missing. `session` is the requested
    /// duration of the session, between 400 ms and an hour; the default is 10 s. The servers can give another duration.
    /// With `acl=creator`, only the user of the URL may use the nodes that this client creates; the default is `acl=open`.
    ///
    /// With `password_file=PATH`, the password is in this file, and only the user is before the first host. The file is read
    /// for each new session; one line end at its end is no part of the password.
    ///
    /// A URL that begins with `zookeeper+tls://` connects over TLS (feature `tls`), to port 2281 unless it names another one.
    /// `ca=PATH` names the file of the trusted authorities; the default are those of the system. `cert=PATH&key=PATH` name
    /// the certificate of the client and its private key. All files are in PEM format.
    ///
    /// # Errors
    /// The kind is [`ErrorKind::Misused`](bandog_core::ErrorKind::Misused) if the URL is wrong, and
    /// [`ErrorKind::Unsupported`](bandog_core::ErrorKind::Unsupported) for TLS without the feature `tls`.
    pub fn from_url(url: &str) -> Result<Self> {
        let url = bandog_core::url_text(url)?;
        let (rest, port) = match (url.strip_prefix("zookeeper://"), url.strip_prefix("zookeeper+tls://")) {
            (Some(rest), _) => (rest, PORT),
            (None, Some(rest)) => (rest, TLS_PORT),
            (None, None) => return Err(wrong("it does not begin with zookeeper:// or zookeeper+tls://")),
        };
        let has_tls = port == TLS_PORT;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, chroot) = place.find('/').map_or((place, ""), |at| place.split_at(at));
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (Some(login), hosts),
            None => (None, authority),
        };
        let mut options = Self {
            servers: read_servers(hosts, port)?,
            chroot: read_chroot(chroot)?,
            login: None,
            acl: NodeAcl::Open,
            session: SESSION,
            timeout: TIMEOUT,
            tls: None,
        };
        let (mut files, mut password_file) = (FileOptions::default(), None);
        for option in query.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("password_file", path)) => {
                    let has_password = login.is_some_and(|login| login.contains(':'));
                    password_file = Some(PasswordFile::of_url("password_file", read_path(path)?, has_password)?);
                }
                Some(("session", value)) => options.session = read_session(value)?,
                Some(("acl", "open")) => options.acl = NodeAcl::Open,
                Some(("acl", "creator")) => options.acl = NodeAcl::Creator,
                Some(("acl", _)) => return Err(wrong("its acl must be open or creator")),
                Some(("ca", path)) if has_tls => files.ca = Some(read_path(path)?),
                Some(("cert", path)) if has_tls => files.cert = Some(read_path(path)?),
                Some(("key", path)) if has_tls => files.key = Some(read_path(path)?),
                Some(("ca" | "cert" | "key", _)) => {
                    return Err(wrong("it has files for TLS, and does not begin with zookeeper+tls://"));
                }
                _ => {
                    return Err(wrong(
                        "its only options are session, acl and password_file, and with TLS ca, cert and key",
                    ));
                }
            }
        }
        options.login = match (login, password_file) {
            (Some(login), None) => Some(read_login(login)?),
            (Some(user), Some(file)) => Some(Login::with_file(Some(read_user(user)?), file)),
            (None, None) => None,
            (None, Some(_)) => {
                return Err(wrong("password_file needs a user before the first host, as in zookeeper://USER@HOST"));
            }
        };
        if options.acl == NodeAcl::Creator && options.login.is_none() && files.cert.is_none() {
            return Err(wrong(
                "acl=creator needs a user and a password before the first host, or a certificate of the client",
            ));
        }
        if has_tls {
            options.tls = Some(Tls::new(files, &options.servers)?);
        }
        Ok(options)
    }

    /// Sets the maximum duration of one request. The default is 3 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the function that gives the credentials of each new session, instead of the login of the URL.
    #[must_use]
    pub fn credentials(mut self, source: CredentialsSource) -> Self {
        self.login = Some(self.login.unwrap_or_else(|| Login::of_url(None, None)).given_by(source));
        self
    }

    /// The address without secrets, for messages.
    pub(crate) fn store(&self) -> String {
        let scheme = if self.tls.is_some() { "zookeeper+tls" } else { "zookeeper" };
        format!("{scheme}://{}{}", self.servers, self.chroot)
    }
}

impl fmt::Debug for ZooKeeperOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZooKeeperOptions").field("store", &self.store()).field("session", &self.session).finish()
    }
}

/// The user of a URL whose password is in a file.
fn read_user(user: &str) -> Result<String> {
    let user = decode(user).ok_or_else(|| wrong("its user is not UTF-8, or has a % without a code"))?;
    match user.is_empty() || user.contains(':') {
        true => Err(wrong("its user is empty or has a colon")),
        false => Ok(user.into_owned()),
    }
}

fn read_login(login: &str) -> Result<Login> {
    let decoded = decode(login).ok_or_else(|| wrong("its user or password is not UTF-8, or has a % without a code"))?;
    match decoded.split_once(':') {
        Some((user, password)) if !user.is_empty() => {
            Ok(Login::of_url(Some(user.to_owned()), Some(password.to_owned())))
        }
        Some(_) | None => Err(wrong(
            "in front of the @, it must have a user, a colon and a password; programs that bandog starts get its URL without \
             the password",
        )),
    }
}

fn read_servers(hosts: &str, default_port: &str) -> Result<String> {
    let servers = hosts.split(',').map(|host| {
        let is_v6_without_port = host.ends_with(']');
        match host.rsplit_once(':') {
            _ if host.is_empty() => Err(wrong("the name of a server is empty")),
            Some((name, port)) if !is_v6_without_port => match port.parse::<u16>() {
                Ok(1..) if !name.is_empty() => Ok(host.to_owned()),
                Ok(_) | Err(_) => Err(wrong("the port of a server must be a number from 1 to 65535")),
            },
            Some(_) | None => Ok(format!("{host}:{default_port}")),
        }
    });
    Ok(servers.collect::<Result<Vec<_>>>()?.join(","))
}

fn read_chroot(chroot: &str) -> Result<String> {
    // Java's client has one folder for all servers, too.
    if chroot.contains(',') {
        return Err(wrong(
            "its folder has a comma; name all servers before the folder, as in zookeeper://one,two/locks, and write %2C \
             for a comma in the folder",
        ));
    }
    let decoded = decode(chroot).ok_or_else(|| wrong("its folder is not UTF-8, or has a % without a code"))?;
    let folder = decoded.trim_end_matches('/');
    let is_wrong = |part: &str| matches!(part, "" | "." | "..") || part.chars().any(char::is_control);
    if folder.split('/').skip(1).any(is_wrong) || folder == "/zookeeper" || folder.starts_with("/zookeeper/") {
        return Err(wrong("its folder is not a path of ZooKeeper, or is reserved"));
    }
    Ok(folder.to_owned())
}

fn read_path(path: &str) -> Result<String> {
    let decoded = decode(path).ok_or_else(|| wrong("the path of a file is not UTF-8, or has a % without a code"))?;
    if decoded.is_empty() { Err(wrong("the path of a file is empty")) } else { Ok(decoded.into_owned()) }
}

/// The text without percent codes. None if a code is wrong.
fn decode(text: &str) -> Option<Cow<'_, str>> {
    let is_code = |rest: &str| rest.as_bytes().get(..2).is_some_and(|code| code.iter().all(u8::is_ascii_hexdigit));
    let has_codes = text.split('%').skip(1).all(is_code);
    percent_decode_str(text).decode_utf8().ok().filter(|_| has_codes)
}

fn read_session(value: &str) -> Result<Duration> {
    let session = humantime::parse_duration(value).map_err(|_| wrong("its session must be a duration such as 10s"))?;
    if (Duration::from_millis(400)..=Duration::from_secs(3600)).contains(&session) {
        return Ok(session);
    }
    Err(wrong("its session must be between 400ms and 1h"))
}

/// The error of a wrong URL. The URL is not shown, because it can contain a password.
fn wrong(what: &str) -> Error {
    Error::misused(format!("the URL of ZooKeeper is wrong: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_servers_a_folder_a_user_and_the_session() {
        let options =
            ZooKeeperOptions::from_url("zookeeper://joe:p%40ss@one,two:2182,[::1]/a/b/?session=400ms").unwrap();
        assert_eq!(options.servers, "one:2181,two:2182,[::1]:2181");
        let login = Login::of_url(Some("joe".to_owned()), Some("p@ss".to_owned()));
        assert_eq!((options.chroot.as_str(), options.login.as_ref()), ("/a/b", Some(&login)));
        assert_eq!(options.session, Duration::from_millis(400));
        let shown = format!("{options:?}");
        assert!(shown.contains("zookeeper://one:2181,two:2182,[::1]:2181/a/b") && !shown.contains("p@ss"), "{shown}");
        let comma = ZooKeeperOptions::from_url("zookeeper://one/a%2Cb").unwrap();
        assert_eq!(comma.chroot, "/a,b");
        let plain = ZooKeeperOptions::from_url("zookeeper://localhost").unwrap();
        assert_eq!((plain.chroot.as_str(), plain.login, plain.session), ("", None, SESSION));
    }

    #[test]
    fn wrong_urls_are_refused() {
        for url in [
            "zookeeper:",
            "zookeeper://",
            "zookeeper://one,,two",
            "zookeeper://one:x",
            "zookeeper://one:0",
            "zookeeper://:1",
            "zookeeper://one/a//b",
            "zookeeper://one/locks,two:2181/locks",
            "zookeeper://one/50%",
            "zookeeper://joe:p%zz@one",
            "zookeeper://one/../b",
            "zookeeper://one/zookeeper",
            "zookeeper://one?session=1ms",
            "zookeeper://one?session=",
            "zookeeper://one?colour=red",
            "zookeeper://joe@one",
            "zookeeper://one?acl=creator",
            "zookeeper://joe:secret@one?acl=mine",
            "redis://one",
        ] {
            assert_eq!(ZooKeeperOptions::from_url(url).unwrap_err().kind(), bandog_core::ErrorKind::Misused, "{url}");
        }
    }
}
