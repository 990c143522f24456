use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

#[test]
fn a_property_that_fails_is_reported_with_its_smallest_input() {
    let property = |text: &str| {
        assert!(!text.contains("99"), "the text contains 99");
        text.len() > 3
    };
    let run = catch_unwind(AssertUnwindSafe(|| texts("numbers", &["a=1234", "b=5"], &["99"], property)));
    let message = run.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("numbers, seed 1: ") && message.contains("the text contains 99"), "{message}");
    assert!(message.ends_with("the smallest input that fails: b\"99\""), "{message}");
}

#[test]
fn samples_that_the_parser_never_accepts_are_reported() {
    let run = catch_unwind(|| texts("nothing", &["a"], &[], |_| false));
    assert!(run.unwrap_err().downcast::<String>().unwrap().contains("no input was accepted"));
}

#[test]
fn the_same_seed_gives_the_same_inputs() {
    let inputs = || {
        let seen = Mutex::new(Vec::new());
        bytes("inputs", &[b"redis://localhost"], &["?"], |input| {
            seen.lock().unwrap().push(input.to_vec());
            input.len() > 9
        });
        seen.into_inner().unwrap()
    };
    let (first, second) = (inputs(), inputs());
    assert_eq!(first, second);
    let distinct: std::collections::BTreeSet<_> = first.iter().collect();
    assert!(distinct.len() > first.len() / 2, "{} of {} inputs are distinct", distinct.len(), first.len());
}
