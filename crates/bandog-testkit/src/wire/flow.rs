//! The bytes that a proxy forwards in one direction of one connection, from the *sender* to the *receiver*.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// Maximum number of bytes in flight: bytes that the proxy has read from the sender and not forwarded yet. When this
/// number is reached, the proxy stops reading from the sender.
const MAX_IN_FLIGHT: usize = 4 << 20;

/// The settings of one direction, for all connections of a proxy.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rule {
    pub(super) delay: Duration,
    /// The number of bytes per second that all connections together can send. `None`: no limit.
    pub(super) rate: Option<NonZeroU64>,
    /// The time at which the line has sent all bytes that it has taken in so far, at its rate.
    pub(super) free_at: Option<Instant>,
    /// True while all bytes of this direction are lost.
    pub(super) dropping: bool,
}

/// The bytes in flight in one direction.
#[derive(Debug, Default)]
pub(super) struct Flow {
    queue: VecDeque<Parcel>,
    /// The number of bytes in `queue`.
    queued: usize,
    /// True if the sender's connection was closed or has failed. Then the proxy reads nothing more.
    ended: bool,
    /// True if the proxy has forwarded the end of the sender's connection. Then no data follows.
    finished: bool,
    /// True if bytes were lost. Then later bytes must not be forwarded.
    lossy: bool,
    /// True if the socket to the receiver accepts no more bytes now, because its buffer is full.
    blocked: bool,
}

/// The result of one read from the sender, and the time at which this result is forwarded.
#[derive(Debug)]
struct Parcel {
    due: Instant,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Bytes(Vec<u8>),
    /// The sender has closed the connection.
    Close,
    /// The sender's connection has failed.
    Break,
}

impl Flow {
    pub(super) fn wants_input(&self) -> bool {
        !self.ended && self.queued < MAX_IN_FLIGHT
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }

    pub(super) fn is_finished(&self) -> bool {
        self.finished
    }

    pub(super) fn is_lossy(&self) -> bool {
        self.lossy
    }

    /// The time at which the next parcel is forwarded. `None` if there is no parcel, or if the receiver's buffer is
    /// full.
    pub(super) fn due(&self) -> Option<Instant> {
        let parcel = self.queue.front().filter(|_| !self.blocked);
        parcel.map(|parcel| parcel.due)
    }

    /// Reads all available bytes, and returns the number of bytes that were lost.
    pub(super) fn take_in(&mut self, from: &TcpStream, rule: &mut Rule, buffer: &mut [u8]) -> usize {
        let mut lost = 0;
        while self.wants_input() {
            let Some(content) = receive(from, buffer) else {
                break;
            };
            self.ended = !matches!(content, Content::Bytes(_));
            if rule.dropping || self.lossy {
                self.lossy = true;
                lost += content.len();
            } else {
                let sent_at = rule.sent_at(content.len());
                self.push(content, sent_at + rule.delay);
            }
        }
        lost
    }

    /// Loses the bytes in flight and all later bytes. Returns the number of bytes that were in flight.
    pub(super) fn lose(&mut self) -> usize {
        self.lossy = true;
        self.queue.clear();
        std::mem::take(&mut self.queued)
    }

    /// Forwards the parcels that are due.
    ///
    /// If this fails, the receiver's or the sender's connection has failed. Then the caller must reset both
    /// connections.
    pub(super) fn put_out(&mut self, to: &TcpStream, now: Instant) -> io::Result<()> {
        self.blocked = false;
        while let Some(parcel) = self.pop_due(now) {
            self.queued -= parcel.content.len();
            match parcel.content {
                Content::Bytes(bytes) => self.write(to, bytes, parcel.due)?,
                Content::Close => {
                    self.finished = true;
                    to.shutdown(Shutdown::Write)?;
                }
                Content::Break => return Err(io::ErrorKind::ConnectionReset.into()),
            }
            if self.blocked {
                break;
            }
        }
        Ok(())
    }

    /// Removes and returns the next parcel if it is due.
    fn pop_due(&mut self, now: Instant) -> Option<Parcel> {
        self.queue.front().filter(|parcel| parcel.due <= now)?;
        self.queue.pop_front()
    }

    /// Queues a parcel. A parcel is never due before the parcel ahead of it in the queue. So if a test reduces the
    /// delay, new bytes still wait for the bytes that were queued with the longer delay.
    fn push(&mut self, content: Content, earliest: Instant) {
        let due = self.queue.back().map_or(earliest, |last| last.due.max(earliest));
        self.queued += content.len();
        self.queue.push_back(Parcel { due, content });
    }

    /// Writes the bytes to the receiver. If the receiver's buffer is full, the rest goes back to the front of the
    /// queue.
    fn write(&mut self, mut to: &TcpStream, mut bytes: Vec<u8>, due: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            match to.write(&bytes) {
                Ok(written) => drop(bytes.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.blocked = true;
                    self.queued += bytes.len();
                    let content = Content::Bytes(bytes);
                    self.queue.push_front(Parcel { due, content });
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Rule {
    /// The time at which the line has sent this number of bytes, behind all that it has taken in before.
    fn sent_at(&mut self, bytes: usize) -> Instant {
        let now = Instant::now();
        let Some(rate) = self.rate else { return now };
        let time = Duration::from_secs_f64(bytes as f64 / rate.get() as f64);
        let sent_at = self.free_at.map_or(now, |free_at| free_at.max(now)) + time;
        self.free_at = Some(sent_at);
        sent_at
    }
}

impl Content {
    fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Close | Self::Break => 0,
        }
    }
}

/// Reads from the sender. `None` if nothing can be read now.
fn receive(mut from: &TcpStream, buffer: &mut [u8]) -> Option<Content> {
    match from.read(buffer) {
        Ok(0) => Some(Content::Close),
        Ok(read) => Some(Content::Bytes(buffer[..read].to_vec())),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        Err(_) => Some(Content::Break),
    }
}
