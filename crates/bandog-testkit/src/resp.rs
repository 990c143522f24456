//! A raw Redis client: one blocking connection and a hand-written RESP2 reader.
//!
//! Tests query the server with this client and not with the client under test. Otherwise a defect of the client under
//! test could also affect the query, and the test would not see the defect.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Default timeout for a reply. This timeout is longer than any command of a test takes, and shorter than the timeouts
/// of tests.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// A reply of Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nil.
    Nil,
    /// A number.
    Int(i64),
    /// A status such as `OK`, or a string that is UTF-8.
    Text(String),
    /// A string that is not UTF-8.
    Bytes(Vec<u8>),
    /// Several replies.
    Array(Vec<Reply>),
    /// An error. Its text begins with the error code.
    Error(String),
}

impl Reply {
    /// Returns true if this is [`Reply::Nil`].
    #[must_use]
    pub fn is_nil(&self) -> bool {
        *self == Self::Nil
    }

    /// The number.
    ///
    /// # Panics
    /// If this is not a number.
    #[must_use]
    #[track_caller]
    pub fn int(&self) -> i64 {
        match self {
            Self::Int(number) => *number,
            other => panic!("expected a number, got {other:?}"),
        }
    }

    /// The text.
    ///
    /// # Panics
    /// If this is not a text.
    #[must_use]
    #[track_caller]
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            other => panic!("expected a text, got {other:?}"),
        }
    }

    /// The parts of an array.
    ///
    /// # Panics
    /// If this is not an array.
    #[must_use]
    #[track_caller]
    pub fn array(&self) -> &[Self] {
        match self {
            Self::Array(parts) => parts,
            other => panic!("expected an array, got {other:?}"),
        }
    }

    /// The parts of an array of texts.
    ///
    /// # Panics
    /// If this is not an array, or if a part is not a text.
    #[must_use]
    #[track_caller]
    pub fn texts(&self) -> Vec<String> {
        self.array().iter().map(|part| part.text().to_owned()).collect()
    }
}

/// One blocking connection to a Redis server.
#[derive(Debug)]
pub struct RawRedis {
    stream: BufReader<TcpStream>,
}

impl RawRedis {
    /// Connects to the server at this address.
    ///
    /// # Errors
    /// If no server listens at the address.
    pub fn connect(addr: impl Into<SocketAddr>) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&addr.into(), REPLY_TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Sends one command and reads its reply.
    ///
    /// # Errors
    /// If the connection fails. An error that Redis reports is a [`Reply::Error`].
    pub fn cmd(&mut self, args: &[&str]) -> io::Result<Reply> {
        self.send(args)?;
        self.read()
    }

    /// Sends one command without reading the reply, for example `SUBSCRIBE` or `MONITOR`.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn send(&mut self, args: &[&str]) -> io::Result<()> {
        let mut wire = format!("*{}\r\n", args.len());
        for arg in args {
            wire.push_str(&format!("${}\r\n{arg}\r\n", arg.len()));
        }
        self.stream.get_mut().write_all(wire.as_bytes())
    }

    /// Reads the next reply, or the next message of a subscription. The default timeout is ten seconds, and
    /// [`set_patience`](Self::set_patience) changes this timeout.
    ///
    /// # Errors
    /// If the connection fails or nothing comes before the timeout.
    pub fn read(&mut self) -> io::Result<Reply> {
        read_reply(&mut self.stream)
    }

    /// Sets the timeout of [`read`](Self::read) and [`cmd`](Self::cmd).
    ///
    /// # Errors
    /// If the duration is zero.
    pub fn set_patience(&mut self, patience: Duration) -> io::Result<()> {
        self.stream.get_ref().set_read_timeout(Some(patience))
    }
}

/// Reads one RESP2 value. A value begins with a line. The first byte of this line is the type of the value. For some
/// types, the rest of the line is the length of the data that follow.
fn read_reply(stream: &mut impl BufRead) -> io::Result<Reply> {
    let line = read_line(stream)?;
    let (kind, rest) = line.split_at_checked(1).ok_or_else(|| nonsense(&line))?;
    match kind {
        "+" => Ok(Reply::Text(rest.to_owned())),
        "-" => Ok(Reply::Error(rest.to_owned())),
        ":" => Ok(Reply::Int(number(rest)?)),
        "$" => read_bulk(stream, number(rest)?),
        "*" => read_array(stream, number(rest)?),
        _ => Err(nonsense(&line)),
    }
}

fn read_bulk(stream: &mut impl BufRead, len: i64) -> io::Result<Reply> {
    let Ok(len) = usize::try_from(len) else {
        return Ok(Reply::Nil); // A length of -1 means nil.
    };
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes)?;
    stream.read_exact(&mut [0; 2])?;
    Ok(String::from_utf8(bytes).map_or_else(|error| Reply::Bytes(error.into_bytes()), Reply::Text))
}

fn read_array(stream: &mut impl BufRead, len: i64) -> io::Result<Reply> {
    let Ok(len) = usize::try_from(len) else {
        return Ok(Reply::Nil);
    };
    let parts: io::Result<Vec<_>> = (0..len).map(|_| read_reply(stream)).collect();
    Ok(Reply::Array(parts?))
}

fn read_line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    match line.strip_suffix("\r\n") {
        Some(line) => Ok(line.to_owned()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn number(text: &str) -> io::Result<i64> {
    text.parse().map_err(|_| nonsense(text))
}

fn nonsense(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not RESP2: {line:?}"))
}

#[cfg(test)]
mod tests;
