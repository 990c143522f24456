//! A demo leaves no process and no file, however it ends.

use bandog_testkit::Signal;

use crate::{Demo, LONG, assert_ended};

#[test]
fn a_killed_demo_leaves_no_process_and_no_file() {
    for (phase, shop) in [("with-lock", "with-lock.db"), ("without-lock", "without-lock.db")] {
        let demo = Demo::start(&["--only", phase]);
        let replicas = demo.replicas(10);
        drop(demo.shop(shop));
        demo.process.kill();
        assert_ended(&replicas);
        demo.assert_clean();
    }
}

#[test]
fn a_demo_that_is_killed_while_replicas_start_leaves_no_process_and_no_file() {
    let demo = Demo::start(&["--only", "with-lock"]);
    let replicas = demo.replicas(10);
    demo.process.kill();
    assert_ended(&replicas);
    demo.assert_clean();
}

#[test]
fn signals_end_a_demo_and_its_replicas() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut demo = Demo::start(&["--seconds", "120"]); // Long enough that it does not end before the signal.
        let replicas = demo.replicas(10);
        demo.process.signal(signal);
        assert_eq!(demo.process.wait(LONG).code(), Some(code));
        assert_ended(&replicas);
        demo.assert_clean();
    }
}
