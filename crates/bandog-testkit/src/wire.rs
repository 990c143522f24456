//! A bad wire: a TCP proxy in front of a server.
//!
//! It has one thread of its own, so a test that blocks its runtime does not stop it.
//! That thread waits in `ppoll`, whose deadline is exact; an ordinary runtime's timer rounds to a millisecond.

mod flow;
mod pump;

use std::net::{SocketAddr, SocketAddrV4};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::port::Port;
use pump::Pump;

/// A TCP proxy on a free port that a test can make worse while it runs.
///
/// Every setting is in force once its method returns.
/// Bytes keep their order, and a connection that lost bytes never carries later ones: no real network delivers the second reply as the first.
///
/// ```no_run
/// use std::time::Duration;
/// use bandog_testkit::RedisServer;
/// let redis = RedisServer::start();
/// let wire = redis.wire();
/// wire.delay(Duration::from_millis(4)); // Round trips through `wire.url()` now take 8 ms.
/// wire.drop_replies(true); // Redis does what it is asked, and nobody hears of it.
/// wire.cut(); // Every connection is reset.
/// ```
#[derive(Debug)]
pub struct Wire {
    port: Arc<Port>,
    orders: Sender<Order>,
    bell: UnixStream,
    counts: Arc<Counts>,
    thread: Option<JoinHandle<()>>,
}

impl Wire {
    /// A wire to the server at `target`.
    ///
    /// # Panics
    /// When no port or thread can be had.
    #[must_use]
    pub fn to(target: impl Into<SocketAddr>) -> Self {
        let port = Arc::new(Port::reserve());
        let counts = Arc::new(Counts::default());
        let (orders, inbox) = channel();
        let (bell, clapper) = UnixStream::pair().expect("a bell for the wire's thread");
        let pump = Pump::new(Arc::clone(&port), target.into(), inbox, clapper, Arc::clone(&counts));
        let mut pump = pump.expect("a listener for the wire");
        let thread = thread::Builder::new().name("testkit-wire".into());
        let thread = thread.spawn(move || pump.run()).expect("a wire's thread");
        Self { port, orders, bell, counts, thread: Some(thread) }
    }

    /// The port to dial instead of the server's.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The address to dial instead of the server's.
    #[must_use]
    pub fn addr(&self) -> SocketAddrV4 {
        self.port.addr()
    }

    /// `redis://127.0.0.1:PORT`, through this wire.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr())
    }

    /// Delays what comes from now on, each way, so a round trip takes twice this.
    pub fn delay(&self, each_way: Duration) {
        self.delay_requests(each_way);
        self.delay_replies(each_way);
    }

    /// Delays only what goes to the server.
    pub fn delay_requests(&self, by: Duration) {
        self.tell(What::Delay(Way::Request, by));
    }

    /// Delays only what comes from the server.
    pub fn delay_replies(&self, by: Duration) {
        self.tell(What::Delay(Way::Reply, by));
    }

    /// Resets every connection; new ones are welcome.
    pub fn cut(&self) {
        self.tell(What::Cut);
    }

    /// While true, dialling is refused; connections that exist go on.
    pub fn refuse(&self, on: bool) {
        self.tell(What::Refuse(on));
    }

    /// While true, what the server says is lost, although it did what it was asked.
    ///
    /// Set to false, it resets the connections that lost something.
    pub fn drop_replies(&self, on: bool) {
        self.tell(What::Drop(Way::Reply, on));
    }

    /// While true, what the server is asked is lost.
    ///
    /// Set to false, it resets the connections that lost something.
    pub fn drop_requests(&self, on: bool) {
        self.tell(What::Drop(Way::Request, on));
    }

    /// While true, nothing passes either way and nothing is lost: connections stay, new ones are accepted, even a close is held back.
    pub fn stall(&self, on: bool) {
        self.tell(What::Stall(on));
    }

    /// How many connections were accepted so far.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.counts.accepted.load(Ordering::Relaxed)
    }

    /// How many connections are open now.
    #[must_use]
    pub fn open(&self) -> usize {
        self.counts.open.load(Ordering::Relaxed)
    }

    /// How many bytes were lost so far to [`drop_requests`](Self::drop_requests) and [`drop_replies`](Self::drop_replies).
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.counts.lost.load(Ordering::Relaxed)
    }

    /// Hands an order over and waits until it is in force.
    fn tell(&self, what: What) {
        let (done, wait) = sync_channel(1);
        let told = self.orders.send(Order { what, done });
        pump::ring(&self.bell);
        told.ok().and_then(|()| wait.recv().ok()).expect("the wire's thread is alive");
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let (done, _) = sync_channel(1);
        let what = What::End;
        // A thread that panicked is gone already, and its message is on stderr.
        let _ = self.orders.send(Order { what, done });
        pump::ring(&self.bell);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// What the test wants, and where it waits for it.
#[derive(Debug)]
struct Order {
    what: What,
    done: SyncSender<()>,
}

#[derive(Debug)]
enum What {
    Delay(Way, Duration),
    Drop(Way, bool),
    Stall(bool),
    Refuse(bool),
    Cut,
    End,
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Request,
    Reply,
}

/// What a test may read while the thread counts.
#[derive(Debug, Default)]
struct Counts {
    accepted: AtomicU64,
    open: AtomicUsize,
    lost: AtomicU64,
}
