//! Requests to the page of a command.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use bandog_testkit::Process;
use serde_json::Value;

use crate::help::SOON;

/// The address that the command reports.
pub(crate) fn address(process: &Process) -> String {
    let line = process.stderr_line("the page is at http://", SOON);
    line.split_once("http://").unwrap().1.split('/').next().unwrap().to_owned()
}

/// Sends one request, and returns the status and the body.
pub(crate) fn ask(address: &str, method: &str, path: &str, header: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}");
    let kind = "Content-Type: application/json";
    stream.write_all(format!("{head}\r\n{kind}\r\n{header}\r\n\r\n{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// The JSON at this path.
pub(crate) fn get(address: &str, path: &str) -> Value {
    let (status, body) = ask(address, "GET", path, "X: y", "");
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}
