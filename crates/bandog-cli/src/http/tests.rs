//! The page over a real socket, with rows that stay as they are.

mod api;
mod ask;
mod door;
mod fixed;
mod limits;
mod options;
mod pages;

use std::net::SocketAddr;

use self::{ask::Asker, fixed::Fixed};
use super::{Serving, desk::Desk, figures::Figures, listen, start, token::Token};

const TOKEN: &str = "correct-horse-battery-staple";

/// A page that is served until the test ends.
struct Served {
    source: Fixed,
    address: SocketAddr,
    serving: Option<Serving>,
}

impl Served {
    fn to_look_at() -> Self {
        Self::with(None, SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    fn to_act_on() -> Self {
        Self::with(Some(Token::new(TOKEN, "the token").unwrap()), SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    fn with(token: Option<Token>, address: SocketAddr) -> Self {
        let (listener, address) = listen(address).unwrap();
        let source = Fixed::default();
        let desk = Desk::new(source.clone(), token, Figures::unused(), address);
        Self { source, address, serving: Some(start(listener, desk).unwrap()) }
    }

    /// A connection of its own.
    fn asker(&self) -> Asker {
        Asker::to(self.address)
    }

    fn get(&self, path: &str) -> ask::Reply {
        self.asker().get(path)
    }
}
