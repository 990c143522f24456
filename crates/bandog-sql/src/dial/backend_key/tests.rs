use super::*;

/// A login: an answer to the password, a setting, the number 4711 with its secret, and the end.
const LOGIN: &[u8] = b"R\0\0\0\x08\0\0\0\0S\0\0\0\x0ba\0bcdeZK\0\0\0\x0c\0\0\x12\x67\0\0\0\x01Z\0\0\0\x05I";

fn read(parts: &[&[u8]]) -> Option<i32> {
    let pid = BackendPid::default();
    let mut reader = LoginReader::new(pid.clone());
    parts.iter().for_each(|part| reader.read(&Ok(()), part));
    pid.get()
}

#[test]
fn the_number_is_found_however_the_bytes_arrive() {
    assert_eq!(read(&[LOGIN]), Some(4711));
    assert_eq!(read(&LOGIN.chunks(1).collect::<Vec<_>>()), Some(4711));
    for at in 0..LOGIN.len() {
        assert_eq!(read(&[&LOGIN[..at], &LOGIN[at..]]), Some(4711), "{at}");
    }
}

#[test]
fn nothing_is_read_after_the_login() {
    assert_eq!(read(&[b"Z\0\0\0\x05I", b"K\0\0\0\x0c\0\0\x12\x67\0\0\0\x01"]), None);
    assert_eq!(read(&[LOGIN, b"K\0\0\0\x0c\0\0\0\x07\0\0\0\x01"]), Some(4711));
    assert_eq!(read(&[b"R\xff\xff\xff\xff", b"K\0\0\0\x0c\0\0\x12\x67"]), None);
}
