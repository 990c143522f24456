//! The page of a demo.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use bandog_testkit::{Signal, eventually};
use serde_json::Value;

use crate::{Demo, LONG, assert_ended};

/// The JSON at this path of the page.
fn get(address: &str, path: &str) -> Value {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// The address that the demo reports.
fn address(demo: &Demo) -> String {
    let line = demo.process.stderr_line("the page is at http://", LONG);
    line.split_once("http://").unwrap().1.split('/').next().unwrap().to_owned()
}

#[test]
fn the_page_shows_the_demo_and_stays_until_a_signal() {
    let mut demo = Demo::start(&["--page", "127.0.0.1:0", "--only", "with-lock", "--json", "--seconds", "20"]);
    let at = address(&demo);
    eventually(LONG, || {
        let jobs = get(&at, "/api/jobs");
        if jobs["jobs"][0]["ok"].as_u64() > Some(0) { Ok(()) } else { Err(jobs) }
    });
    let end = demo.process.stderr_line("the demo has ended", LONG);
    assert!(end.contains(&format!("http://{at}/ until Ctrl-C")), "{end}");
    let queues = get(&at, "/api/queues");
    assert_eq!(queues["total"], 1, "{queues}");
    demo.process.signal(Signal::INT);
    assert_eq!(demo.process.wait(LONG).code(), Some(0));
    assert!(TcpStream::connect(&at).is_err(), "the page is still served");
    // Standard output has the result only.
    assert!(demo.process.stdout().iter().all(|line| line.starts_with('{')), "{:?}", demo.process.stdout());
    demo.assert_clean();
}

#[test]
fn a_signal_ends_a_demo_with_a_page() {
    let mut demo = Demo::start(&["--page", "127.0.0.1:0", "--seconds", "120", "--lang", "zh"]);
    let at = address(&demo);
    let replicas = demo.replicas(10);
    demo.process.signal(Signal::TERM);
    assert_eq!(demo.process.wait(LONG).code(), Some(143));
    assert_ended(&replicas);
    assert!(TcpStream::connect(&at).is_err(), "the page is still served");
    demo.assert_clean();
}
