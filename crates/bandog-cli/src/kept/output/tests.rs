use super::*;

async fn printed(bytes: &[u8]) -> (String, Tail) {
    let (tail, mut out) = (Tail::default(), Vec::new());
    forward(bytes, &mut out, LineForm::prefixed("report"), &tail).await;
    (String::from_utf8_lossy(&out).into_owned(), tail)
}

#[tokio::test]
async fn each_line_has_the_name_in_front_and_the_last_one_an_end() {
    let (out, tail) = printed(b"one\n\ntwo\r\nthree").await;
    assert_eq!(out, "[report] one\n[report] \n[report] two\r\n[report] three\n");
    assert_eq!(tail.text(100), "one\n\ntwo\r\nthree");
    assert_eq!(printed(b"").await.0, "");
}

#[tokio::test]
async fn a_line_without_end_comes_in_pieces() {
    let (out, tail) = printed(&[b'x'; 3 * LONGEST + 5]).await;
    let lengths: Vec<_> = out.lines().map(|line| line.strip_prefix("[report] ").unwrap().len()).collect();
    assert_eq!(lengths, [LONGEST, LONGEST, LONGEST, 5]);
    // The newline at the end is one of the bytes that are kept.
    assert_eq!(tail.text(usize::MAX), "x".repeat(KEPT - 1));
}

#[tokio::test]
async fn a_line_that_just_fits_is_one_line() {
    let mut exact = vec![b'y'; LONGEST];
    exact.extend(b"\nz\n");
    let lengths: Vec<_> = printed(&exact).await.0.lines().map(str::len).collect();
    assert_eq!(lengths, [9 + LONGEST, 10]);
}

#[test]
fn lines_are_the_same_however_the_bytes_come() {
    let text = b"a\nbb\n\nccc";
    for size in 1..=text.len() {
        let tail = Tail::default();
        let mut lines = Lines::of(LineForm::prefixed("j"), &tail);
        let mut out: Vec<u8> = text.chunks(size).flat_map(|chunk| lines.with(chunk)).collect();
        out.append(&mut lines.rest());
        assert_eq!(String::from_utf8(out).unwrap(), "[j] a\n[j] bb\n[j] \n[j] ccc\n");
        assert_eq!(tail.text(100), "a\nbb\n\nccc");
    }
}

#[test]
fn the_lines_of_two_pipes_are_not_mixed_in_the_tail() {
    let tail = Tail::default();
    let (mut out, mut err) = (Lines::of(LineForm::prefixed("j"), &tail), Lines::of(LineForm::prefixed("j"), &tail));
    out.with(b"one\nthr");
    err.with(b"two\nfo");
    out.with(b"ee");
    drop((out, err));
    assert_eq!(tail.text(100), "one\ntwo\nthree\nfo");
}

#[test]
fn the_tail_begins_with_a_whole_character() {
    let tail = Tail::default();
    tail.add(&["ü".repeat(KEPT).as_bytes()]);
    tail.add(&[b"!"]);
    for most in 0..20 {
        let text = tail.text(most);
        assert!(text.len() <= most && text.chars().all(|c| c == 'ü' || c == '!'), "{text:?}");
    }
    assert_eq!(tail.text(3), "ü!");
    tail.add(&[b"\xff\n\n"]);
    assert_eq!(tail.text(6), "ü!\u{fffd}");
}

#[tokio::test]
async fn lines_can_be_plain_or_json() {
    let tail = Tail::default();
    let mut out = Vec::new();
    forward(&b"one\ntwo"[..], &mut out, LineForm::plain(), &tail).await;
    assert_eq!(out, b"one\ntwo\n");
    out.clear();
    let tick: Time = "2026-11-27T09:00:00Z".parse().unwrap();
    forward(&b"a \"b\"\n\xff\n"[..], &mut out, LineForm::json("x", tick, 2, 7, "stderr"), &tail).await;
    let lines: Vec<serde_json::Value> =
        String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let line = |at: usize| lines[at]["line"].as_str().unwrap();
    assert_eq!((lines.len(), line(0), line(1)), (2, "a \"b\"", "\u{fffd}"));
    assert!(lines[0]["time"].as_str().unwrap().parse::<Time>().is_ok());
    let rest = ["job", "tick", "stream"].map(|key| lines[1][key].as_str().unwrap());
    assert_eq!(rest, ["x", "2026-11-27T09:00:00Z", "stderr"]);
    assert_eq!((lines[1]["attempt"].as_u64(), lines[1]["fence"].as_u64()), (Some(2), Some(7)));
}
