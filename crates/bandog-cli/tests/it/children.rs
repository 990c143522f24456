use std::{
    fs,
    io::Read,
    net::{TcpListener, TcpStream},
    os::fd::OwnedFd,
    panic::resume_unwind,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use bandog_testkit::{Process, Signal, eventually, is_alive, process::send};

use crate::help::{Place, SOON, dead, ends};

#[test]
fn the_child_gets_the_standard_streams() {
    let place = Place::new();
    let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    fs::write(place.path("in"), &bytes).unwrap();
    let mut command = place.bandog(&Place::lock("x", &[], "cat; echo said >&2"));
    command.stdin(Stdio::from(fs::File::open(place.path("in")).unwrap()));
    let output = command.output().unwrap();
    assert!(output.status.success());
    assert!(output.stdout == bytes, "{} bytes of {}", output.stdout.len(), bytes.len());
    assert_eq!(output.stderr, b"said\n");
}

#[test]
fn the_child_gets_the_directory_the_variables_and_the_arguments_unchanged() {
    let place = Place::new();
    let mut command =
        place.bandog(&["lock", "x", "--", "sh", "-c", r#"pwd; echo "$A" "$#" "$1" "$2""#, "0", "--wait", "a  b"]);
    command.env("A", "1  2");
    let output = command.output().unwrap();
    let directory = place.path("").canonicalize().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{}\n1  2 2 --wait a  b\n", directory.display()));
}

// Promise: C4
#[test]
fn the_child_dies_with_a_bandog_that_is_killed() {
    let place = Place::new();
    let mut bandog =
        place.start(&Place::lock("x", &[], "echo $$; trap '' TERM INT HUP; for n in $(seq 1000); do sleep 0.02; done"));
    let child: u32 = bandog.stdout_line("", SOON).parse().unwrap();
    // The heir is killed too, as with `killall bandog`. Then only the kernel can kill the child.
    let heir = children_of(bandog.pid()).into_iter().find(|pid| *pid != child).unwrap();
    send(heir, Signal::KILL);
    eventually(SOON, || !is_alive(heir));
    assert!(is_alive(child));
    bandog.kill();
    eventually(SOON, || !is_alive(child));
    bandog.wait(SOON);
}

// Promise: C4
#[test]
fn the_descendants_of_the_child_die_with_a_bandog_that_is_killed() {
    let place = Place::new();
    let script = r#"
        work='echo $$ > $0; trap "" TERM INT HUP; n=0; while [ $n -lt 1000 ]; do n=$((n + 1)); sleep 0.02; done'
        setsid sh -c "$work" left &
        (setsid sh -c "$work" orphan &)
        sh -c "$work" below
        true"#;
    let mut bandog = place.start(&Place::lock("a name = \"x\"", &[], script));
    let pids = ["left", "orphan", "below"].map(|name| place.pid(name));
    bandog.kill();
    eventually(SOON, || !pids.iter().any(|pid| is_alive(*pid)));
    bandog.wait(SOON);
}

#[test]
fn no_process_is_left_when_bandog_has_ended() {
    let place = Place::new();
    let mut bandog = place.start(&Place::lock("x", &[], "echo in; read word; exit 0"));
    bandog.stdout_line("in", SOON);
    let pids = children_of(bandog.pid());
    assert_eq!(pids.len(), 2, "bandog has other children than the child and the heir");
    bandog.close_stdin();
    ends(&mut bandog, 0);
    eventually(SOON, || !pids.iter().any(|pid| is_alive(*pid)));
}

#[test]
fn a_child_whose_bandog_is_dead_already_does_not_start() {
    let place = Place::new();
    // The pid is greater than the maximum pid, so the parent has another one.
    place.run(&["__exec", "4194305", "--", "touch", "started"]).assert_ended(76, &["bandog ended"]);
    assert!(!place.path("started").exists());
}

// Promise: C5
#[test]
fn the_lock_ends_with_the_child_and_not_with_its_background_processes() {
    let place = Place::new();
    let mut bandog = place.start(&Place::lock("x", &[], "sleep 60 >&- 2>&- & echo $! > left; exit 3"));
    ends(&mut bandog, 3);
    let left = place.pid("left");
    assert!(is_alive(left));
    assert_eq!(place.show("x", &[])["held"], false);
}

#[test]
fn processes_of_a_failed_test_are_killed() {
    for fails in [false, true] {
        let test = thread::spawn(move || {
            let place = Place::new();
            place.run(&Place::lock("x", &[], "env -i setsid sleep 60 >&- 2>&- & echo $! > left")).assert_ended(0, &[]);
            let pid = place.pid("left");
            assert!(is_alive(pid));
            if fails { resume_unwind(Box::new(pid)) } else { pid }
        });
        let pid = test.join().unwrap_or_else(|panic| *panic.downcast::<u32>().unwrap());
        assert!(!is_alive(pid));
    }
}

#[test]
fn orphans_that_end_earlier_are_not_taken_for_the_child() {
    let place = Place::new();
    let script = "for n in 1 2 3 4 5; do (sh -c 'exit 9' &); done; sleep 0.2; exit 3";
    assert_eq!(place.run(&Place::lock("x", &[], script)).code, 3);
}

#[test]
fn the_child_inherits_no_file_of_bandog() {
    let place = Place::new();
    let files = "ls /proc/self/fd";
    let plain = Command::new("sh").args(["-c", files]).output().unwrap();
    assert_eq!(place.run(&Place::lock("x", &[], files)).stdout, String::from_utf8(plain.stdout).unwrap());
}

#[test]
fn children_from_before_bandog_are_not_terminated() {
    let place = Place::new();
    let script = format!(
        "sleep 60 >&- 2>&- & echo $! > before; exec {} lock x --lease 500ms -- sleep 1000",
        env!("CARGO_BIN_EXE_bandog")
    );
    let mut bandog = Process::spawn(&place.command(&["setsid", "sh", "-c", &script]));
    ends(&mut bandog, 76);
    assert!(is_alive(place.pid("before")));
}

#[test]
fn a_command_may_run_for_many_ttls() {
    let place = Place::new();
    let url = "sqlite:a.db?watchdog=3s";
    let mut bandog = place.start(&Place::lock("x", &["--url", url], "echo in; read word; exit 0"));
    bandog.stdout_line("in", SOON);
    let first = place.show("x", &["--url", url])["fence"].clone();
    // The store is queried repeatedly for three ttls.
    for _ in 0..90 {
        thread::sleep(Duration::from_millis(100));
        let row = place.show("x", &["--url", url]);
        assert_eq!((&row["held"], &row["fence"]), (&true.into(), &first));
    }
    bandog.close_stdin();
    ends(&mut bandog, 0);
    dead(&[bandog.pid()]);
}

fn children_of(parent: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{parent}/task")).unwrap();
    let of = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("children")).unwrap();
    let lines: Vec<String> = threads.map(Result::unwrap).map(of).collect();
    lines.iter().flat_map(|line| line.split_whitespace()).map(|pid| pid.parse().unwrap()).collect()
}

#[test]
fn a_real_time_signal_ends_the_child_like_any_other() {
    let place = Place::new();
    for signal in [34, 64] {
        let mut bandog = place.start(&Place::lock("x", &[], &format!("kill -{signal} $$")));
        ends(&mut bandog, 128 + signal);
        assert_eq!(place.show("x", &[])["held"], false);
    }
}

#[test]
fn the_heirs_of_nested_locks_do_not_kill_each_other() {
    let place = Place::new();
    let bandog = env!("CARGO_BIN_EXE_bandog");
    let inner = format!("exec {bandog} lock inner -- sh -c 'sleep 3600 & echo started $!; wait'");
    let outer = place.start(&Place::lock("outer", &[], &inner));
    let started = outer.stdout_line("started", SOON);
    let pid: u32 = started.trim().rsplit(' ').next().unwrap().parse().unwrap();
    outer.kill();
    eventually(SOON, || !is_alive(pid));
}

/// A shell that becomes `bandog` with the variables of a systemd service. The standard input of the command becomes the
/// file with the descriptor 3.
fn as_a_service(place: &Place, args: &[&str]) -> Command {
    let script = r#"
        exec 3<&0 </dev/null
        export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=web LISTEN_PIDFDID=1 WATCHDOG_PID=$$ WATCHDOG_USEC=30000000
        exec "$0" "$@""#;
    place.command(&[&["setsid", "sh", "-c", script, env!("CARGO_BIN_EXE_bandog")], args].concat())
}

#[test]
fn the_child_of_a_service_gets_its_sockets_and_its_watchdog() {
    let place = Place::new();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let server = r#"
        $ENV{LISTEN_PID} == $$ && $ENV{LISTEN_FDS} == 1 or die "LISTEN_PID $ENV{LISTEN_PID}, not $$";
        $ENV{LISTEN_PIDFDID} and die "LISTEN_PIDFDID is that of bandog";
        $ENV{WATCHDOG_PID} == $$ && $ENV{WATCHDOG_USEC} == 30000000 or die "WATCHDOG_PID $ENV{WATCHDOG_PID}, not $$";
        open(my $socket, "+<&=", 3) or die "the descriptor 3: $!";
        accept(my $client, $socket) or die "accept: $!";
        print $client "served by $$\n""#;
    let mut command = as_a_service(&place, &["lock", "x", "--", "perl", "-e", server]);
    command.stdin(Stdio::from(OwnedFd::from(socket)));
    let mut bandog = command.spawn().unwrap();
    // This process must not keep the socket open, so that the connection ends if the child dies.
    drop(command);
    let mut text = String::new();
    // The connection waits in the queue of the socket until the child accepts it.
    let read = TcpStream::connect(address).and_then(|mut client| client.read_to_string(&mut text));
    assert!(bandog.wait().unwrap().success(), "{read:?}");
    assert!(text.starts_with("served by "), "{text}");
}

#[test]
fn service_variables_for_another_process_are_kept() {
    let place = Place::new();
    let mut command = place.bandog(&Place::lock("x", &[], "echo $LISTEN_PID $LISTEN_PIDFDID $WATCHDOG_PID"));
    command.env("LISTEN_PID", "1").env("LISTEN_PIDFDID", "2").env("WATCHDOG_PID", "3");
    assert_eq!(String::from_utf8(command.output().unwrap().stdout).unwrap(), "1 2 3\n");
}
