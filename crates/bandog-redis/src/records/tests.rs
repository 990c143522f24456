use super::*;

#[test]
fn fuzz_answers_about_records() {
    let samples = [
        ":1790000000000063\r\n",
        ":-500000\r\n",
        "_\r\n",
        "*0\r\n",
        "*2\r\n$16\r\n1790000000000063\r\n$2\r\n{}\r\n",
        "*3\r\n:1790000000000063\r\n:0\r\n*2\r\n$1\r\n7\r\n$1\r\nx\r\n",
        "-CORRUPT the record\r\n",
    ];
    crate::fuzz::replies("answers about records", &samples, |reply| {
        let mut answers = PendingReplies { each: vec![None, None], now: None, fault: None };
        let again = answers.take(0..2, Ok(reply.clone()));
        assert!(!again.is_empty() || answers.each.iter().all(Option::is_some), "an answer is missing: {reply:?}");
        let all = again.is_empty().then(|| answers.all());
        if let Some(Ok((_, each))) = all {
            assert_eq!(each.len(), 2);
        }
        if let Ok(Some(record)) = record(reply.clone()) {
            assert!(record.version.get() < VERSION_LIMIT);
        }
        let read = [swapped(reply.clone()).is_ok(), is_held(reply.clone()).is_ok(), time_from_micros(&reply).is_some()];
        read.contains(&true)
    });
}
