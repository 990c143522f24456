//! A port that stays ours.
//!
//! "Bind to port 0, read the number, close" leaves a gap in which somebody else may take the port.
//! Worse, while a server is down, a client that dials its port may be given that very port as its own and talk to itself.
//! So the reservation is a socket that is bound and never listens: dialling it is refused, nobody else is given the port, and a listener that sets `SO_REUSEADDR` may still join.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt};

/// A reserved port of 127.0.0.1, free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    _held: OwnedFd,
}

impl Port {
    /// Takes a port that no socket of this machine is bound to.
    pub(crate) fn reserve() -> Self {
        reserve().unwrap_or_else(|error| panic!("no free port on 127.0.0.1: {error}"))
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    pub(crate) fn addr(&self) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.number)
    }
}

fn reserve() -> rustix::io::Result<Port> {
    let held = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&held, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
    // Only after the bind: before it, two reservations could share one port.
    sockopt::set_socket_reuseaddr(&held, true)?;
    let bound = SocketAddrV4::try_from(getsockname(&held)?)?;
    Ok(Port { number: bound.port(), _held: held })
}
