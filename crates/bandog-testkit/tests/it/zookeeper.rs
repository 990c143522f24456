use std::{io::ErrorKind, net::TcpStream};

use bandog_testkit::ZooKeeperServer;

#[test]
fn a_zookeeper_server_answers_and_comes_back_on_its_port() {
    let server = ZooKeeperServer::start();
    let (addr, pid) = (server.addr(), server.pid());
    assert_eq!(server.ask("ruok"), "imok");
    assert!(server.ask("conf").contains("tickTime=200"));

    server.kill();
    assert_eq!(TcpStream::connect(addr).map_err(|error| error.kind()).err(), Some(ErrorKind::ConnectionRefused));
    server.restart();
    assert_eq!((server.addr(), server.ask("ruok").as_str()), (addr, "imok"));
    assert_ne!(server.pid(), pid);
    server.restart_empty();
    assert_eq!(server.ask("ruok"), "imok");
}
