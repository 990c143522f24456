//! `bandog grid queue NAME work` over a real Redis server: elements, the ends of commands, and lost workers.

use bandog_testkit::{Process, RedisServer, eventually, is_alive};

use crate::help::{Place, Ran, SOON, dead, ends};

/// A server, and a directory.
struct Queue {
    redis: RedisServer,
    place: Place,
}

impl Queue {
    /// A queue with these elements.
    fn with(elements: &[&str]) -> Self {
        let queue = Self { redis: RedisServer::start(), place: Place::new() };
        queue.push(elements);
        queue
    }

    fn push(&self, elements: &[&str]) {
        if elements.is_empty() {
            return;
        }
        self.redis.cmd(&[&["RPUSH", "q"], elements].concat());
    }

    /// Starts a worker whose script gets an element.
    fn start(&self, url: &str, options: &str, script: &str) -> Process {
        self.place.start(&Self::words(url, options, script))
    }

    /// Runs a worker to its end.
    fn run(&self, options: &str, script: &str) -> Ran {
        self.place.run(&Self::words(&self.redis.url(), options, script))
    }

    fn words<'a>(url: &'a str, options: &'a str, script: &'a str) -> Vec<&'a str> {
        let options: Vec<_> = options.split_whitespace().collect();
        [&["grid", "queue", "q", "work", "--url", url], options.as_slice(), &["--", "sh", "-c", script]].concat()
    }

    /// Asserts that the queue has these elements, and that none is taken.
    #[track_caller]
    fn assert_left(&self, elements: &str) {
        let list = self.place.run(&["grid", "queue", "q", "list", "--url", &self.redis.url()]);
        assert_eq!(list.stdout, elements);
        assert_eq!(self.taken(), 0);
    }

    fn taken(&self) -> i64 {
        self.redis.cmd(&["HLEN", "bandog:taken:{q}"]).int()
    }
}

#[test]
fn each_element_is_given_to_a_command_in_order() {
    let queue = Queue::with(&["a b", "-c", "d"]);
    let script =
        "echo \"<$(cat)> $BANDOG_NAME $BANDOG_DELIVERY\"; echo $BANDOG_FENCE >> fences; echo $BANDOG_URL >> urls";
    let ran = queue.run("--idle 0s", script);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "<a b> q 1\n<-c> q 1\n<d> q 1\n"), "{ran:?}");
    queue.assert_left("");
    let fences: Vec<u64> = queue.place.lines("fences").iter().map(|fence| fence.parse().unwrap()).collect();
    assert!(fences.len() == 3 && fences.is_sorted_by(|a, b| a < b), "{fences:?}");
    assert_eq!(queue.place.lines("urls")[0], queue.redis.url());
}

#[test]
fn the_input_is_exactly_the_element() {
    let queue = Queue::with(&[]);
    let large = "x".repeat(400_000);
    queue.push(&["", "a\n\n", &large]);
    queue.run("--idle 0s", "cat > in-$BANDOG_FENCE; wc -c < in-$BANDOG_FENCE >> sizes").assert_ended(0, &[]);
    assert_eq!(queue.place.lines("sizes"), ["0", "3", "400000"]);
    queue.push(&["{ \"a\" : 1 }"]);
    assert_eq!(queue.run("--idle 0s --codec json", "cat").stdout, "{\"a\":1}");
    queue.push(&["nonsense"]);
    queue.run("--idle 0s --codec json", "cat").assert_ended(77, &["an element cannot be read"]);
    queue.assert_left("nonsense\n");
}

#[test]
fn a_failed_element_comes_again_after_a_pause() {
    let queue = Queue::with(&["bad", "good"]);
    // The third delivery of the bad element succeeds.
    let script = "read x; echo $x $BANDOG_DELIVERY; [ $x != bad ] || [ $BANDOG_DELIVERY = 3 ]";
    let ran = queue.run("--idle 0s", script);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, "bad 1\nbad 2\nbad 3\ngood 1\n"), "{ran:?}");
    let said: Vec<_> = ran.stderr.lines().collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("the command exited with 1; the element (fence ") && said[0].contains("delivery 1"));
    queue.assert_left("");
}

#[test]
fn a_worker_ends_after_a_number_of_deliveries() {
    let queue = Queue::with(&["a", "b", "c"]);
    queue.run("--count 2", "true").assert_ended(0, &[]);
    queue.assert_left("c\n");
    queue.run("--count 1", "kill -9 $$").assert_ended(1, &["the command exited with 137"]);
    queue.assert_left("c\n");
}

#[test]
fn a_program_that_does_not_exist_ends_the_worker() {
    let queue = Queue::with(&["a"]);
    let url = queue.redis.url();
    let ran = queue.place.run(&["grid", "queue", "q", "work", "--url", &url, "--", "./nowhere"]);
    ran.assert_ended(127, &["cannot run \"./nowhere\"", "goes back"]);
    queue.assert_left("a\n");
}

#[test]
fn the_element_of_a_killed_worker_comes_again_after_its_lease() {
    let queue = Queue::with(&["a"]);
    let url = queue.redis.url();
    let worker = queue.start(&url, "--lease 1s", "echo $$ > pid; sleep 100");
    let child = queue.place.pid("pid");
    worker.kill();
    let mut next = queue.start(&url, "--count 1", "cat; echo \" $BANDOG_DELIVERY\"");
    next.stdout_line("a 2", SOON);
    ends(&mut next, 0);
    eventually(SOON, || !is_alive(child));
    queue.assert_left("");
}

#[test]
fn a_signal_ends_the_worker_and_its_command() {
    let queue = Queue::with(&["a"]);
    // The command says that it has succeeded, but it was ended.
    let script = "trap 'echo notified; exit 0' TERM; echo $$ > pid; echo in; while :; do sleep 0.01; done";
    let mut worker = queue.start(&queue.redis.url(), "", script);
    worker.stdout_line("in", SOON);
    let child = queue.place.pid("pid");
    worker.term();
    ends(&mut worker, 143);
    worker.stdout_line("notified", SOON);
    dead(&[child]);
    queue.assert_left("a\n");
    // A worker that waits ends, too.
    queue.redis.cmd(&["DEL", "q", "bandog:again:{q}"]);
    let mut worker = queue.start(&queue.redis.url(), "", "echo in");
    queue.push(&["b"]);
    worker.stdout_line("in", SOON);
    eventually(SOON, || queue.taken() == 0);
    worker.int();
    ends(&mut worker, 130);
    queue.assert_left("");
}

#[test]
fn a_command_that_ignores_the_signal_is_killed() {
    let queue = Queue::with(&["a"]);
    let script = "trap '' TERM; echo $$ > pid; echo in; while :; do sleep 0.01; done";
    let mut worker = queue.start(&queue.redis.url(), "--lease 2s", script);
    worker.stdout_line("in", SOON);
    let child = queue.place.pid("pid");
    worker.term();
    ends(&mut worker, 143);
    dead(&[child]);
    queue.assert_left("a\n");
}

#[test]
fn a_command_is_terminated_before_another_worker_can_get_its_element() {
    let queue = Queue::with(&["a"]);
    let wire = queue.redis.wire();
    let script = "trap 'echo notified >> log; exit 0' TERM; echo $$ > pid; echo in; while :; do sleep 0.01; done";
    let mut worker = queue.start(&wire.url(), "--lease 3s", script);
    worker.stdout_line("in", SOON);
    let child = queue.place.pid("pid");
    let mut next = queue.start(&queue.redis.url(), "--count 1", "cat; echo \" $BANDOG_DELIVERY\"; echo next >> log");
    wire.stall(true);
    worker.stderr_line("could not be renewed, so the command was terminated", SOON);
    dead(&[child]);
    next.stdout_line("a 2", SOON);
    ends(&mut next, 0);
    assert_eq!(queue.place.lines("log"), ["notified", "next"]);
    worker.term();
    ends(&mut worker, 143);
}

#[test]
fn a_worker_gets_an_element_that_is_pushed_while_it_waits() {
    let queue = Queue::with(&[]);
    let mut worker = queue.start(&queue.redis.url(), "--count 2", "cat; echo");
    for element in ["a", "b"] {
        let url = queue.redis.url();
        queue.place.run(&["grid", "queue", "q", "push", element, "--url", &url]).assert_ended(0, &[]);
        worker.stdout_line(element, SOON);
    }
    ends(&mut worker, 0);
    queue.assert_left("");
}

#[test]
fn two_workers_share_a_queue() {
    let elements: Vec<_> = (0..40).map(|at| at.to_string()).collect();
    let elements: Vec<_> = elements.iter().map(String::as_str).collect();
    let queue = Queue::with(&elements);
    let url = queue.redis.url();
    let mut workers = [(); 2].map(|()| queue.start(&url, "--idle 0s", "echo $(cat) >> log"));
    for worker in &mut workers {
        ends(worker, 0);
    }
    let mut log = queue.place.lines("log");
    log.sort_unstable_by_key(|line| line.parse::<u64>().unwrap());
    assert_eq!(log, elements);
    queue.assert_left("");
}
