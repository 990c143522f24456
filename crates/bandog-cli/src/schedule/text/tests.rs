use super::*;

#[test]
fn every_place_has_its_line() {
    for text in ["", "\n", "a", "ab\ncd", "ab\r\n\r\nü\n", "\n\nx"] {
        let found = Text::new(text);
        for at in 0..=text.len() + 2 {
            let SplitLine { before, after } = found.split_line(at);
            let near = at.min(text.len());
            if text.is_char_boundary(near) {
                let line = text[..near].split('\n').count();
                assert_eq!(found.line(near), line, "{text:?} at {at}");
                let whole = text.split('\n').nth(line - 1).unwrap().trim_end_matches('\r');
                assert_eq!(format!("{before}{after}").trim_end_matches('\r'), whole, "{text:?} at {at}");
            }
        }
    }
    assert_eq!(Text::new("a\nüb").split_line(3), SplitLine { before: "", after: "üb" }, "inside of a character");
}
