use tokio::net::TcpListener;

use super::*;

#[tokio::test]
async fn a_socket_sends_at_once_and_notices_a_peer_that_vanished() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    settle(&stream, Duration::from_secs(3)).unwrap();
    let socket = socket2::SockRef::from(&stream);
    assert!(socket.tcp_nodelay().unwrap());
    assert!(socket.keepalive().unwrap());
    #[cfg(target_os = "linux")]
    assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_secs(6)));
}
