//! The thread of the proxy. This thread owns all sockets and moves the data.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_linger;
use rustix::thread::set_current_timer_slack;

use super::flow::{Flow, Rule};
use super::order::{Action, Counts, Direction, Order};
use crate::port::Port;

/// Timeout for opening a connection to the server. Even if the server is stopped, the kernel accepts connections, until
/// the queue of new connections is full. So the timeout passes only if this queue is full.
const DIAL_WITHIN: Duration = Duration::from_secs(1);

/// The state of the proxy's thread.
pub(super) struct Pump {
    port: Arc<Port>,
    target: SocketAddr,
    orders: Receiver<Order>,
    /// This socket becomes readable when an order was sent.
    wake_ups: UnixStream,
    counts: Arc<Counts>,
    /// `None` while connections are refused.
    listener: Option<TcpListener>,
    /// The open connections.
    links: Vec<Link>,
    rules: Rules,
    /// The memory into which the sockets are read.
    buffer: Vec<u8>,
}

/// The present faults of the proxy.
#[derive(Clone, Copy, Default)]
struct Rules {
    request: Rule,
    reply: Rule,
    /// True while the proxy holds back all data.
    stalled: bool,
}

/// A client's connection, and the matching connection to the server.
struct Link {
    client: TcpStream,
    server: TcpStream,
    request: Flow,
    reply: Flow,
    /// True while the proxy holds back all data of this connection.
    stalled: bool,
}

impl Pump {
    pub(super) fn new(
        port: Arc<Port>,
        target: SocketAddr,
        orders: Receiver<Order>,
        wake_ups: UnixStream,
        counts: Arc<Counts>,
    ) -> io::Result<Self> {
        wake_ups.set_nonblocking(true)?;
        Ok(Self {
            listener: Some(listen(&port)?),
            port,
            target,
            orders,
            wake_ups,
            counts,
            links: Vec::new(),
            rules: Rules::default(),
            buffer: vec![0; 64 << 10],
        })
    }

    /// Runs until the order [`Action::End`] comes.
    pub(super) fn run(&mut self) {
        // To save power, the kernel by default wakes a thread up to 50 µs late. This call makes the delay as short as
        // possible.
        set_current_timer_slack(NonZeroU64::new(1)).expect("cannot set the timer slack");
        loop {
            self.accept();
            let end = self.execute_orders();
            if end {
                return self.cut(|_| true);
            }
            self.move_bytes();
            self.sleep();
        }
    }

    fn accept(&mut self) {
        while let Some(Ok((client, _))) = self.listener.as_ref().map(TcpListener::accept) {
            self.counts.accepted.fetch_add(1, Ordering::Relaxed);
            match Link::dial(client, self.target) {
                Ok(link) => self.links.push(link),
                // The server is down. The failed call has dropped the client's connection, which closes the connection.
                Err(_) => continue,
            }
        }
        self.count();
    }

    /// Executes the orders that have come. Returns true if the thread must end.
    fn execute_orders(&mut self) -> bool {
        let _ = self.wake_ups.read(&mut self.buffer);
        while let Ok(Order { action, done }) = self.orders.try_recv() {
            match action {
                Action::LeadTo(target) => self.target = target,
                Action::Delay(direction, delay) => self.rules.of(direction).delay = delay,
                Action::Rate(direction, rate) => self.rules.of(direction).rate = rate,
                Action::Drop(direction, dropping) => self.set_dropping(direction, dropping),
                Action::LoseEverything => self.lose_everything(),
                Action::Stall(stalled) => self.rules.stalled = stalled,
                Action::StallOpen(stalled) => self.links.iter_mut().for_each(|link| link.stalled = stalled),
                Action::Refuse(refused) => self.set_refused(refused),
                Action::Cut => self.cut(|_| true),
                Action::End => return true,
            }
            let _ = done.send(()); // An error only means that the caller no longer waits.
        }
        false
    }

    fn set_dropping(&mut self, direction: Direction, dropping: bool) {
        self.rules.of(direction).dropping = dropping;
        if !dropping {
            self.cut(|link| link.flow(direction).is_lossy());
        }
    }

    fn lose_everything(&mut self) {
        (self.rules.request.dropping, self.rules.reply.dropping) = (true, true);
        let flows = self.links.iter_mut().flat_map(|link| [&mut link.request, &mut link.reply]);
        let lost: usize = flows.map(Flow::lose).sum();
        self.counts.lost.fetch_add(lost as u64, Ordering::Relaxed);
    }

    fn set_refused(&mut self, refused: bool) {
        if refused {
            self.listener = None;
        } else if self.listener.is_none() {
            self.listener = Some(listen(&self.port).expect("cannot listen on the reserved port"));
        }
    }

    /// Resets the connections for which `which` returns true.
    fn cut(&mut self, which: impl Fn(&Link) -> bool) {
        let cut = self.links.extract_if(.., |link| which(link));
        cut.for_each(Link::reset);
        self.count();
    }

    /// Moves bytes through all connections.
    fn move_bytes(&mut self) {
        let (rules, buffer, counts) = (&mut self.rules, &mut self.buffer, &self.counts);
        let broken = self.links.extract_if(.., |link| {
            let lost = link.take_in(rules, buffer);
            counts.lost.fetch_add(lost as u64, Ordering::Relaxed);
            !rules.stalled && !link.stalled && link.put_out().is_err()
        });
        broken.for_each(Link::reset);
        self.links.retain(|link| !link.is_finished());
        self.count();
    }

    /// Sleeps until a socket is ready, an order comes, or delayed bytes are due.
    fn sleep(&self) {
        let mut fds = vec![PollFd::new(&self.wake_ups, PollFlags::IN)];
        fds.extend(self.listener.iter().map(|listener| PollFd::new(listener, PollFlags::IN)));
        let stalled = self.rules.stalled;
        fds.extend(self.links.iter().flat_map(|link| link.interests(stalled || link.stalled)));
        let due = self.links.iter().filter(|link| !link.stalled).filter_map(Link::due).min();
        let due = due.filter(|_| !stalled);
        let left = due.map(|due| due.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        // If `poll` fails, a signal has interrupted the call. Then the loop of `run` simply continues.
        let _ = poll(&mut fds, left.as_ref());
    }

    /// Updates the counter of open connections.
    fn count(&self) {
        self.counts.open.store(self.links.len(), Ordering::Relaxed);
    }
}

impl Rules {
    fn of(&mut self, direction: Direction) -> &mut Rule {
        match direction {
            Direction::Request => &mut self.request,
            Direction::Reply => &mut self.reply,
        }
    }
}

impl Link {
    /// Opens the connection to the server that belongs to this client's connection.
    fn dial(client: TcpStream, target: SocketAddr) -> io::Result<Self> {
        let server = TcpStream::connect_timeout(&target, DIAL_WITHIN)?;
        for stream in [&client, &server] {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
        }
        Ok(Self { client, server, request: Flow::default(), reply: Flow::default(), stalled: false })
    }

    fn flow(&self, direction: Direction) -> &Flow {
        match direction {
            Direction::Request => &self.request,
            Direction::Reply => &self.reply,
        }
    }

    fn take_in(&mut self, rules: &mut Rules, buffer: &mut [u8]) -> usize {
        let requests = self.request.take_in(&self.client, &mut rules.request, buffer);
        requests + self.reply.take_in(&self.server, &mut rules.reply, buffer)
    }

    fn put_out(&mut self) -> io::Result<()> {
        self.request.put_out(&self.server, Instant::now())?;
        self.reply.put_out(&self.client, Instant::now())
    }

    fn is_finished(&self) -> bool {
        self.request.is_finished() && self.reply.is_finished()
    }

    fn due(&self) -> Option<Instant> {
        [self.request.due(), self.reply.due()].into_iter().flatten().min()
    }

    /// The sockets of this connection, with the events for which the thread waits. A socket without such an event is
    /// left out, because `poll` always reports a broken socket, and would wake the thread again and again.
    fn interests(&self, stalled: bool) -> impl Iterator<Item = PollFd<'_>> {
        let client = interest(&self.client, &self.request, &self.reply, stalled);
        let server = interest(&self.server, &self.reply, &self.request, stalled);
        client.into_iter().chain(server)
    }

    /// Closes both connections with a reset. If the linger time of a socket is zero, the kernel sends a reset when the
    /// socket is dropped.
    fn reset(self) {
        for stream in [self.client, self.server] {
            // If this fails, the peer has already closed the connection.
            let _ = set_socket_linger(&stream, Some(Duration::ZERO));
        }
    }
}

/// A socket with the events for which the thread waits. `from` is the direction whose bytes come from this socket, and
/// `to` is the direction whose bytes go to this socket.
fn interest<'a>(socket: &'a TcpStream, from: &Flow, to: &Flow, stalled: bool) -> Option<PollFd<'a>> {
    let mut flags = PollFlags::empty();
    flags.set(PollFlags::IN, from.wants_input());
    flags.set(PollFlags::OUT, to.is_blocked() && !stalled);
    (!flags.is_empty()).then(|| PollFd::from_borrowed_fd(socket.as_fd(), flags))
}

/// Wakes the proxy's thread. Does nothing if the thread has ended.
pub(super) fn wake(mut wake_ups: &UnixStream) {
    let _ = wake_ups.write(&[0]);
}

fn listen(port: &Port) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(port.addr())?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
