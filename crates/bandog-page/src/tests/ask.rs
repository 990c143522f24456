//! A client that sends exactly the given bytes.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use serde_json::Value;

/// Timeout that is reached only if the test fails.
pub(super) const SOON: Duration = Duration::from_secs(20);

/// A connection to the page.
pub(super) struct Asker(BufReader<TcpStream>);

#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Asker {
    pub(super) fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        Self(BufReader::new(stream))
    }

    pub(super) fn get(&mut self, path: &str) -> Reply {
        self.ask("GET", path, &["Host: localhost"], "")
    }

    /// Sends a request with these headers and waits for the answer.
    pub(super) fn ask(&mut self, method: &str, path: &str, headers: &[&str], body: &str) -> Reply {
        let length = format!("Content-Length: {}", body.len());
        let head = [headers, &[length.as_str(), "", ""]].concat().join("\r\n");
        self.send(format!("{method} {path} HTTP/1.1\r\n{head}{body}").as_bytes());
        self.reply(method).expect("an answer")
    }

    /// Sends these bytes, and does not wait for an answer. If the page refuses the request, it might close the
    /// connection before all bytes are sent.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        let _ = self.0.get_mut().write_all(bytes);
    }

    /// The next answer. `None` if the connection is closed.
    pub(super) fn reply(&mut self, method: &str) -> Option<Reply> {
        let status = self.line()?.split(' ').nth(1)?.parse().unwrap();
        let mut headers = Vec::new();
        while let Some((name, value)) = self.line()?.split_once(": ") {
            headers.push((name.to_lowercase(), value.to_owned()));
        }
        let mut reply = Reply { status, headers, body: String::new() };
        if method != "HEAD" {
            let mut body = vec![0; reply.header("content-length")?.parse().unwrap()];
            self.0.read_exact(&mut body).ok()?;
            reply.body = String::from_utf8(body).unwrap();
        }
        Some(reply)
    }

    /// Waits until the page closes the connection. Returns false if the page does not close the connection in time.
    pub(super) fn ends(&mut self) -> bool {
        let mut rest = Vec::new();
        // A reset also closes the connection. After a timeout, the connection is still open.
        match self.0.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => !matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut),
        }
    }

    /// Whether the connection is open and has received no answer yet.
    pub(super) fn waits(&self) -> bool {
        self.0.get_ref().set_nonblocking(true).unwrap();
        let peeked = self.0.get_ref().peek(&mut [0]);
        self.0.get_ref().set_nonblocking(false).unwrap();
        peeked.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let length = self.0.read_line(&mut line).ok()?;
        (length > 0).then(|| line.trim_end().to_owned())
    }
}

impl Reply {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        serde_json::from_str(&self.body).unwrap()
    }

    /// Asserts the status and the kind of an error.
    #[track_caller]
    pub(super) fn refuses(&self, status: u16, kind: &str) {
        let body = self.json();
        assert_eq!((self.status, &body["error"]["kind"]), (status, &Value::from(kind)), "{body}");
        assert!(body["error"]["message"].as_str().is_some_and(|message| message.len() > 10), "{body}");
    }
}
