//! A bad network: a TCP proxy in front of a server.
//!
//! The proxy has its own thread. So if a test blocks its Tokio runtime, the proxy continues to forward data. The thread
//! waits in `ppoll`, because the timeout of `ppoll` is exact. A timer of Tokio is rounded to a millisecond.

mod flow;
mod order;
mod pump;

use std::net::{SocketAddr, SocketAddrV4};
use std::num::NonZeroU64;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::port::Port;
use order::{Action, Counts, Direction, Order};
use pump::Pump;

/// A TCP proxy on a free port. A test can change the faults of the proxy while the proxy runs.
///
/// When a method that changes a fault returns, the change is already active. Bytes keep their order. After the proxy
/// has lost bytes of a connection in one direction, it never forwards later bytes of this connection in this direction.
/// A real network behaves in the same way: TCP never delivers the second reply without the first reply.
///
/// ```no_run
/// use std::time::Duration;
/// use bandog_testkit::RedisServer;
/// let redis = RedisServer::start();
/// let wire = redis.wire();
/// wire.delay(Duration::from_millis(4)); // Round trips through `wire.url()` now take 8 ms.
/// wire.drop_replies(true); // Redis executes commands, and the replies are lost.
/// wire.cut(); // Every connection is reset.
/// ```
#[derive(Debug)]
pub struct Wire {
    port: Arc<Port>,
    orders: Sender<Order>,
    waker: UnixStream,
    counts: Arc<Counts>,
    thread: Option<JoinHandle<()>>,
}

impl Wire {
    /// Starts a proxy in front of the server at `target`.
    ///
    /// # Panics
    /// If no port or thread is available.
    #[must_use]
    pub fn to(target: impl Into<SocketAddr>) -> Self {
        let port = Arc::new(Port::reserve());
        let counts = Arc::new(Counts::default());
        let (orders, inbox) = channel();
        let (waker, wake_ups) = UnixStream::pair().expect("cannot make a socket that wakes the proxy's thread");
        let pump = Pump::new(Arc::clone(&port), target.into(), inbox, wake_ups, Arc::clone(&counts));
        let mut pump = pump.expect("cannot listen on the proxy's port");
        let thread = thread::Builder::new().name("testkit-wire".into());
        let thread = thread.spawn(move || pump.run()).expect("cannot start the proxy's thread");
        Self { port, orders, waker, counts, thread: Some(thread) }
    }

    /// The port of the proxy. Clients connect to this port instead of the server's port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The address of the proxy. Clients connect to this address instead of the server's address.
    #[must_use]
    pub fn addr(&self) -> SocketAddrV4 {
        self.port.addr()
    }

    /// `redis://127.0.0.1:PORT`, where `PORT` is the port of this proxy.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr())
    }

    /// From now on, new connections lead to the server at this address. Open connections stay as they are.
    pub fn lead_to(&self, target: impl Into<SocketAddr>) {
        self.execute(Action::LeadTo(target.into()));
    }

    /// From now on, delays all data in each direction by this time. So a round trip takes twice this time.
    pub fn delay(&self, each_way: Duration) {
        self.delay_requests(each_way);
        self.delay_replies(each_way);
    }

    /// From now on, delays data to the server.
    pub fn delay_requests(&self, by: Duration) {
        self.execute(Action::Delay(Direction::Request, by));
    }

    /// From now on, delays data from the server.
    pub fn delay_replies(&self, by: Duration) {
        self.execute(Action::Delay(Direction::Reply, by));
    }

    /// From now on, all connections together send at most this number of bytes per second to the server, and as many from
    /// the server. `None` removes the limit: bytes that the proxy has taken in before still arrive at the old rate.
    pub fn rate(&self, bytes_per_second: Option<NonZeroU64>) {
        self.execute(Action::Rate(Direction::Request, bytes_per_second));
        self.execute(Action::Rate(Direction::Reply, bytes_per_second));
    }

    /// Resets all connections. After this, the proxy accepts new connections as before.
    pub fn cut(&self) {
        self.execute(Action::Cut);
    }

    /// While `on` is true, new connections are refused. Open connections continue.
    pub fn refuse(&self, on: bool) {
        self.execute(Action::Refuse(on));
    }

    /// While `on` is true, the server executes commands, but its replies are lost.
    ///
    /// `drop_replies(false)` resets the connections that have lost bytes.
    pub fn drop_replies(&self, on: bool) {
        self.execute(Action::Drop(Direction::Reply, on));
    }

    /// While `on` is true, requests to the server are lost.
    ///
    /// `drop_requests(false)` resets the connections that have lost bytes.
    pub fn drop_requests(&self, on: bool) {
        self.execute(Action::Drop(Direction::Request, on));
    }

    /// From now on, loses all data of both directions, as a machine without power does. Data that the proxy has delayed
    /// and not forwarded yet are lost, too.
    ///
    /// `drop_requests(false)` and `drop_replies(false)` end this, and reset the connections that have lost bytes.
    pub fn lose_everything(&self) {
        self.execute(Action::LoseEverything);
    }

    /// While `on` is true, the proxy holds back all data of both directions. No data is lost. Connections stay open,
    /// and new connections are accepted. If one side closes a connection, the proxy closes the other side only after
    /// `stall(false)`.
    pub fn stall(&self, on: bool) {
        self.execute(Action::Stall(on));
    }

    /// From now on, the proxy holds back all data of the connections that are open, as [`stall`](Self::stall) does, and new
    /// ones work: a request that a client repeats on a new connection can overtake the first one by any time. Without `on`,
    /// all data of these connections are delivered.
    pub fn stall_open(&self, on: bool) {
        self.execute(Action::StallOpen(on));
    }

    /// Number of accepted connections so far.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.counts.accepted.load(Ordering::Relaxed)
    }

    /// Number of open connections.
    #[must_use]
    pub fn open(&self) -> usize {
        self.counts.open.load(Ordering::Relaxed)
    }

    /// Number of bytes that the proxy has lost so far because of [`drop_requests`](Self::drop_requests) and
    /// [`drop_replies`](Self::drop_replies).
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.counts.lost.load(Ordering::Relaxed)
    }

    /// Sends an order to the proxy's thread, and waits until the order is executed.
    fn execute(&self, action: Action) {
        let (done, wait) = sync_channel(1);
        let sent = self.orders.send(Order { action, done });
        pump::wake(&self.waker);
        sent.ok().and_then(|()| wait.recv().ok()).expect("the proxy's thread has ended");
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let (done, _) = sync_channel(1);
        let action = Action::End;
        // If `send` fails, the thread has panicked. The message of the panic is already on stderr.
        let _ = self.orders.send(Order { action, done });
        pump::wake(&self.waker);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
