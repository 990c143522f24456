//! Reserves a port for a server of a test.
//!
//! A test could find a free port in this way: the test binds a socket to port 0, reads the number of the port and
//! closes the socket. But this way has two problems. First, another process can take the port before the server binds
//! the port. Second, while the server is down, a client that connects to the port can get the same number as its own
//! local port. The client then connects to itself.
//!
//! So a reservation is a bound socket that stays open and never listens. While no server listens on the port,
//! connections to the port are refused. The kernel gives the port to no other socket, with one exception: the server
//! can bind the port, because both the reservation and the server set `SO_REUSEADDR`.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt};

/// A reserved port of 127.0.0.1. Dropping this value frees the port.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    /// The bound socket, which reserves the port.
    _held: OwnedFd,
}

/// Maximum number of attempts to find two free ports whose numbers have a given difference.
const TRIES: u32 = 1000;

impl Port {
    /// Reserves a port to which no other socket of this machine is bound.
    pub(crate) fn reserve() -> Self {
        reserve().unwrap_or_else(|error| panic!("no free port on 127.0.0.1: {error}"))
    }

    /// Reserves two ports whose numbers differ by `apart`.
    pub(crate) fn reserve_two(apart: u16) -> (Self, Self) {
        // Unsuitable ports stay reserved until this function returns. So each attempt gets a different port.
        let mut unsuitable = Vec::new();
        for _ in 0..TRIES {
            let first = Self::reserve();
            match first.number.checked_add(apart).map(bound_to) {
                Some(Ok(second)) => return (first, second),
                Some(Err(_)) | None => unsuitable.push(first),
            }
        }
        panic!("no two free ports on 127.0.0.1 that are {apart} apart");
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    pub(crate) fn addr(&self) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.number)
    }
}

fn reserve() -> rustix::io::Result<Port> {
    bound_to(0)
}

/// Binds a socket to this port. If the number is 0, the kernel chooses a free port.
fn bound_to(number: u16) -> rustix::io::Result<Port> {
    let held = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    bind(&held, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, number))?;
    // The option must be set after the bind. If the option were set before the bind, two reservations could share one
    // port.
    sockopt::set_socket_reuseaddr(&held, true)?;
    let bound = SocketAddrV4::try_from(getsockname(&held)?)?;
    Ok(Port { number: bound.port(), _held: held })
}
