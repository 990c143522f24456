//! The page over a real socket, with fixed rows.

mod api;
mod ask;
mod door;
mod fixed;
mod fuzz;
mod history;
mod limits;
mod load;
mod mounted;
mod objects;
mod pages;
mod queues;
mod texts;

use std::{net::SocketAddr, sync::Arc};

use self::{ask::Asker, fixed::Fixed};
use crate::{HostName, Serving, Token, handler::Handler, serve};

const TOKEN: &str = "correct-horse-battery-staple";

/// A page that is served until the end of the test.
struct Served {
    source: Fixed,
    address: SocketAddr,
    serving: Option<Serving>,
}

impl Served {
    fn read_only() -> Self {
        Self::with(None, SocketAddr::from(([127, 0, 0, 1], 0)), &[])
    }

    /// A page that accepts actions with the token.
    fn to_act_on() -> Self {
        Self::with(Some(Token::new(TOKEN).unwrap()), SocketAddr::from(([127, 0, 0, 1], 0)), &[])
    }

    /// A page on this address, with this token, and with these additional host names.
    fn with(token: Option<Token>, address: SocketAddr, hosts: &[&str]) -> Self {
        let source = Fixed::default();
        let mut handler = Handler::new(source.clone());
        let config = Arc::make_mut(&mut handler.config);
        config.token = token;
        config.hosts.address = Some(address);
        config.hosts.names = hosts.iter().map(|name| name.parse::<HostName>().unwrap()).collect();
        config.metrics = Some(Arc::new(|| "# figures\n".to_owned()));
        let listener = std::net::TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let serving = serve::start(listener, handler).unwrap();
        Self { source, address: serving.address(), serving: Some(serving) }
    }

    /// A new connection.
    fn asker(&self) -> Asker {
        Asker::to(self.address)
    }

    fn get(&self, path: &str) -> ask::Reply {
        self.asker().get(path)
    }
}
