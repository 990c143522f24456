//! A program without the feature `tls`: no value of these types exists.

use std::io;

use bandog_core::{Error, ErrorKind, Result};
use tokio::net::TcpStream;
use zookeeper_client::{Client, Connector, Error as ZkError};

use super::FileOptions;

/// Without the feature, no handshake is possible.
pub(crate) async fn is_spoken_by(_: &str) -> bool {
    false
}

#[derive(Debug, Clone)]
pub(crate) enum Tls {}

#[derive(Debug, Clone)]
pub(crate) enum Certificates {}

impl Tls {
    pub(crate) fn new(_: FileOptions, _: &str) -> Result<Self> {
        let message = "this program was built without bandog's feature \"zookeeper-tls\": build it with `--features \
                       zookeeper-tls`, or add the feature to bandog in Cargo.toml";
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    pub(crate) async fn read(&self) -> Result<Certificates> {
        match *self {}
    }

    pub(crate) async fn shake_hands(&self, _: &str, _: &str, _: TcpStream) -> Result<TcpStream> {
        match *self {}
    }

    pub(crate) fn refusal(&self, _: &str, _: &io::Error) -> Option<Error> {
        match *self {}
    }
}

impl Certificates {
    pub(crate) async fn connect(&self, _: Connector, _: &str) -> Result<Client, ZkError> {
        match *self {}
    }

    pub(crate) async fn read_again(&self) -> Result<()> {
        match *self {}
    }
}
