use tokio::{io::AsyncReadExt, net::TcpListener};

use super::*;
use crate::{
    configure,
    tls::{OptionNames, TlsFiles, shake_hands},
};

const NAMES: OptionNames = OptionNames { ca: "ca", cert: "cert", key: "key", without_tls: "test://" };

struct NoTap;

impl Tap for NoTap {
    fn read(&mut self, _: &io::Result<()>, _: &[u8]) {}
}

#[tokio::test]
async fn a_socket_has_nodelay_and_keepalive_and_a_user_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    configure(&stream, Duration::from_secs(3)).unwrap();
    let socket = SockRef::from(&stream);
    assert!(socket.tcp_nodelay().unwrap());
    assert!(socket.keepalive().unwrap());
    #[cfg(target_os = "linux")]
    assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_secs(6)));
}

#[tokio::test]
async fn a_tls_connection_with_the_reset_switch_set_ends_with_a_tcp_reset() {
    let dir = tempfile::tempdir().unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let path = dir.path().join("own.pem");
    std::fs::write(&path, certificate.pem()).unwrap();
    let mut config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.into())
        .unwrap();
    // A client that closes a connection with unread data also causes a reset. Tickets would be such data, so the server
    // sends none.
    config.send_tls13_tickets = 0;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = async {
        let (stream, _) = listener.accept().await.unwrap();
        tokio_rustls::TlsAcceptor::from(Arc::new(config)).accept(stream).await.unwrap()
    };
    let client = async {
        let files = TlsFiles { ca: Some(path), identity: None };
        let stream = TcpStream::connect(address).await.unwrap();
        shake_hands("here", "localhost", &files, &NAMES, stream).await.unwrap()
    };
    let (mut server, client) = tokio::join!(server, client);
    let reset = Reset::default();
    let stream = ServerStream::new(Socket::Tls(Box::new(client)), reset.clone(), NoTap);
    reset.set();
    drop(stream);
    let end = server.read_u8().await.unwrap_err();
    assert_eq!(end.kind(), io::ErrorKind::ConnectionReset);
}
