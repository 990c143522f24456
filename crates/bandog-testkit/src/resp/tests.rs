use super::*;

fn read(mut wire: &[u8]) -> io::Result<Reply> {
    read_reply(&mut wire)
}

#[test]
fn every_kind_of_reply_is_read() {
    let wire = b"*7\r\n+OK\r\n:-3\r\n$-1\r\n$2\r\nhi\r\n$1\r\n\xff\r\n-ERR no\r\n*-1\r\n";
    let parts = [
        Reply::Text("OK".into()),
        Reply::Int(-3),
        Reply::Nil,
        Reply::Text("hi".into()),
        Reply::Bytes(vec![0xff]),
        Reply::Error("ERR no".into()),
        Reply::Nil,
    ];
    assert_eq!(read(wire).unwrap(), Reply::Array(parts.into()));
}

#[test]
fn a_connection_that_ends_halfway_is_an_error() {
    for wire in [&b""[..], b"+O", b"$5\r\nhi", b"*2\r\n:1\r\n"] {
        let error = read(wire).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}

#[test]
fn a_reply_that_is_not_resp2_is_an_error() {
    for wire in [&b"?\r\n"[..], b":x\r\n", b"\r\n"] {
        let error = read(wire).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
