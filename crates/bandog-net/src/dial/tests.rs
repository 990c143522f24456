use std::{
    net::{IpAddr, Ipv4Addr, TcpListener},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
};

use tokio::time::{Instant, timeout};

use super::*;

const SOON: Duration = Duration::from_secs(30);

fn address(last: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)), 1)
}

#[test]
fn the_families_are_tried_in_turn() {
    let parse = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
    let all = in_turn(parse(&["[::1]:1", "[::2]:1", "10.0.0.1:1", "[::3]:1", "10.0.0.2:1"]));
    assert_eq!(all, parse(&["[::1]:1", "10.0.0.1:1", "[::2]:1", "10.0.0.2:1", "[::3]:1"]));
    let one_family = parse(&["10.0.0.2:1", "10.0.0.1:1"]);
    assert_eq!(in_turn(one_family.clone()), one_family);
}

#[tokio::test(start_paused = true)]
async fn an_address_that_is_silent_hides_the_next_ones_for_its_head_start_only() {
    let begun = Instant::now();
    let attempts = AtomicUsize::new(0);
    let connect = async |address: SocketAddr| {
        attempts.fetch_add(1, SeqCst);
        match address.to_string().as_str() {
            "192.0.2.1:1" | "192.0.2.2:1" => pending().await,
            _ => sleep(Duration::from_millis(100)).await,
        }
        Ok::<_, io::Error>(address)
    };
    let connected = first_of(vec![address(1), address(2), address(3), address(4)], connect).await.unwrap();
    assert_eq!((connected, begun.elapsed()), (address(3), HEAD_START * 2 + Duration::from_millis(100)));
    assert_eq!(attempts.load(SeqCst), 3, "no attempt begins after the head start of one that answers");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_followed_by_the_next_address_at_once_and_the_error_has_all_of_them() {
    let begun = Instant::now();
    let refused = async |_| Err::<(), _>(io::Error::new(io::ErrorKind::ConnectionRefused, "refused"));
    let failed = first_of(vec![address(1), address(2)], refused).await.unwrap_err();
    assert!(begun.elapsed() < Duration::from_millis(5));
    let error = joined(failed);
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    assert_eq!(error.to_string(), "192.0.2.1:1: refused; 192.0.2.2:1: refused");
    assert!(first_of(Vec::new(), refused).await.unwrap_err().is_empty());
    let plain = first_of(vec![address(1)], refused).await.map_err(joined).unwrap_err();
    assert_eq!(plain.to_string(), "refused", "the caller names the only address");
}

/// A real listener whose queue of connections is full drops the packets of the next ones.
#[tokio::test]
async fn a_connection_goes_to_the_second_address_while_the_first_one_drops_packets() {
    let (full, live) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let (full_at, live_at) = (full.local_addr().unwrap(), live.local_addr().unwrap());
    let mut fillers = Vec::new();
    while let Ok(Ok(filler)) = timeout(Duration::from_millis(300), TcpStream::connect(full_at)).await {
        fillers.push(filler);
        assert!(fillers.len() < 10_000, "the queue of the listener is never full");
    }
    let connected = timeout(SOON, first_of(vec![full_at, live_at], TcpStream::connect)).await.unwrap().unwrap();
    assert_eq!(connected.peer_addr().unwrap(), live_at);
    assert!(tcp("127.0.0.1", live_at.port()).await.is_ok());
}
