use bandog_core::Level;

use super::*;

#[test]
fn a_clock_is_reported_when_the_round_trip_cannot_explain_the_difference() {
    let at = Duration::from_millis;
    // The request took 600 ms. The server might have read its clock at the beginning or at the end of the request.
    for (theirs, level) in [
        (10_300, Level::Fine),
        (11_500, Level::Fine),
        (9_000, Level::Fine),
        (11_700, Level::Advice),
        (8_900, Level::Advice),
    ] {
        let finding = clock(at(theirs), at(10_000), at(10_600));
        assert_eq!((finding.level, finding.subject.as_str()), (level, "clock"), "{theirs}: {finding:?}");
    }
    assert!(clock(at(20_000), at(10_000), at(10_000)).says.contains("10000 ms ahead of ours"));
}
