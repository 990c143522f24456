use std::process::Command;
use std::time::Duration;

use bandog_testkit::process::state;
use bandog_testkit::{Process, eventually, is_alive};

use crate::SOON;

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

#[test]
fn each_call_finds_the_next_line_that_contains_the_text() {
    let process = Process::spawn(&shell("echo one 1; echo two; echo one 2"));
    assert_eq!(process.stdout_line("one", SOON), "one 1");
    assert_eq!(process.stdout_line("one", SOON), "one 2");
    assert_eq!(process.stdout(), ["one 1", "two", "one 2"]);
}

#[test]
#[should_panic(expected = "did not print \"three\"")]
fn waiting_for_a_line_of_an_ended_process_panics_before_the_timeout() {
    let process = Process::spawn(&shell("echo one"));
    process.stdout_line("three", Duration::from_secs(3600));
}

#[test]
fn the_child_gets_the_commands_variables_and_directory() {
    let mut command = shell("echo $BONE; pwd; echo ${HOME-homeless}");
    command.env("BONE", "marrow").env_remove("HOME");
    let mut process = Process::spawn(command.current_dir("/"));
    assert!(process.wait(SOON).success());
    assert_eq!(process.stdout(), ["marrow", "/", "homeless"]);
}

#[test]
fn a_stopped_child_runs_no_code_until_it_is_continued() {
    let mut process = Process::spawn(&shell("while read word; do echo $word; done"));
    process.stop();
    assert_eq!(state(process.pid()), Some('T'));
    process.write_line("later");
    assert!(process.stdout().is_empty());
    process.cont();
    process.stdout_line("later", SOON);
    process.close_stdin();
    assert!(process.wait(SOON).success());
}

#[test]
fn signals_reach_the_program_itself_and_not_a_wrapper() {
    let script = "trap 'echo term; exit 7' TERM; trap 'echo int' INT; echo ready; while :; do sleep 0.01; done";
    // A shell cannot catch a signal that it ignores from the start, as a background job of another shell does.
    let mut command = Command::new("env");
    command.args(["--default-signal", "sh", "-c", script]);
    let mut process = Process::spawn(&command);
    process.stdout_line("ready", SOON);
    process.int();
    process.stdout_line("int", SOON);
    process.term();
    assert_eq!(process.wait(SOON).code(), Some(7));
    assert!(!is_alive(process.pid()));
}

#[test]
fn dropping_a_process_kills_it() {
    let process = Process::spawn(&shell("exec sleep 1000"));
    let pid = process.pid();
    assert!(is_alive(pid));
    drop(process);
    assert!(!is_alive(pid));
}

#[test]
fn children_die_with_the_test_process_and_not_with_the_thread_that_started_them() {
    let mut victim = Process::spawn(&Command::new(env!("CARGO_BIN_EXE_testkit-victim")));
    let line = victim.stdout_line("started", SOON);
    let pids: Vec<u32> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert_eq!(pids.len(), 2);
    assert!(pids.iter().all(|&pid| is_alive(pid)), "the children outlive the thread that started them");
    victim.kill();
    victim.wait(SOON);
    eventually(SOON, || !pids.iter().any(|&pid| is_alive(pid)));
}
