//! `bandog schedule`: the environment, the output and the end of its commands.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use bandog::{
    ConnectOptions,
    schedule::{JobRow, Jobs, RunRow, State},
};
use bandog_testkit::{Process, Signal, eventually, is_alive, process::send};

use crate::{
    help::{Place, SOON, dead, ends},
    schedules::{file, node},
};

const URL: &str = "sqlite:a.db?watchdog=2s";

/// A node whose file has this one job.
fn running(place: &Place, job: &str) -> Process {
    file(place, &format!("[[job]]\nname = \"x\"\n{job}\n"));
    node(place, URL, &[])
}

/// The row and the history of the job `x`.
fn state(place: &Place) -> (JobRow, Vec<RunRow>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let options = ConnectOptions::parse(format!("sqlite:{}", place.path("a.db").display())).unwrap();
        let client = options.connect().await.unwrap();
        let jobs = Jobs::over(&client);
        let rows = (jobs.show("x").await.unwrap(), jobs.history("x").await.unwrap());
        client.close().await.unwrap();
        rows
    })
}

/// The first run that has ended.
#[track_caller]
fn ended(place: &Place) -> RunRow {
    eventually(SOON, || state(place).1.into_iter().rfind(|row| !matches!(row.state, State::Running | State::Queued)))
}

/// Stops the node with TERM, and asserts that it ends without an error.
#[track_caller]
fn stops(mut node: Process) -> Process {
    node.term();
    node.stderr_line("bandog: stopped", SOON);
    ends(&mut node, 0);
    node
}

#[test]
fn the_environment_of_a_command_has_its_job_tick_fence_and_attempt() {
    let place = Place::new();
    let job = "fixed_rate = '1h'\ncommand = 'env > env.tmp; mv env.tmp env; pwd'\nenv = { A = '1  2', PATH = '/opt:/bin:/usr/bin' }";
    let node = running(&place, job);
    let env = eventually(SOON, || Some(place.lines("env")).filter(|lines| !lines.is_empty()));
    let value = |name: &str| env.iter().find_map(|line| line.strip_prefix(&format!("{name}="))).map(str::to_owned);
    assert_eq!(value("BANDOG_JOB").unwrap(), "x");
    assert_eq!(value("BANDOG_ATTEMPT").unwrap(), "1");
    let run = ended(&place);
    let tick = value("BANDOG_TICK").unwrap();
    assert!(tick.ends_with('Z') && tick.parse::<bandog_cron::Time>().is_ok(), "{tick}");
    assert_eq!((&tick, value("BANDOG_FENCE").unwrap().parse().ok()), (&run.tick, run.fence));
    assert_eq!((value("A").unwrap().as_str(), value("PATH").unwrap().as_str()), ("1  2", "/opt:/bin:/usr/bin"));
    assert_eq!(
        value("BANDOG_URL").unwrap(),
        format!("sqlite:{}?watchdog=2s", place.path("").canonicalize().unwrap().join("a.db").display())
    );
    assert_eq!(value("BANDOG_HELD"), None);
    assert_eq!(state(&place).0.lease_ms, 2000, "the lease is not the watchdog of the URL");
    stops(node);
}

#[test]
fn a_command_has_its_directory_and_its_tick_in_the_zone_of_the_job() {
    let place = Place::new();
    std::fs::create_dir(place.path("work")).unwrap();
    std::fs::write(
        place.path("work/run.sh"),
        "#!/bin/sh\necho $BANDOG_TICK $BANDOG_TICK_LOCAL > part; mv part ticks\n",
    )
    .unwrap();
    std::fs::set_permissions(place.path("work/run.sh"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let job = "cron = '* * * * * ?'\nzone = 'Asia/Tokyo'\ndirectory = 'work'\ncommand = ['./run.sh']";
    let node = running(&place, job);
    let lines = eventually(SOON, || Some(place.lines("work/ticks")).filter(|lines| !lines.is_empty()));
    let (tick, local) = lines[0].split_once(' ').unwrap();
    assert!(local.ends_with("+09:00"), "{local}");
    let parsed = [tick, local].map(|text| text.parse::<bandog_cron::Time>().unwrap());
    assert_eq!(parsed[0], parsed[1]);
    stops(node);
    let place = Place::new();
    let node = running(&place, "fixed_rate = '1h'\ndirectory = 'nowhere'\ncommand = 'true'");
    assert_eq!(ended(&place).error.as_deref(), Some("no such directory: \"nowhere\""));
    stops(node);
}

#[test]
fn output_is_forwarded_line_by_line_and_its_end_is_kept() {
    let place = Place::new();
    let node = running(&place, "fixed_rate = '1h'\ncommand = 'echo one; echo two >&2; printf three; printf \"\\003\"'");
    node.stdout_line("[x] one", SOON);
    node.stdout_line("[x] three\u{3}", SOON);
    node.stderr_line("[x] two", SOON);
    let run = ended(&place);
    assert_eq!((run.state, &run.error), (State::Ok, &None));
    // The order of the lines of two pipes is not defined. Whitespace at the end of the note is removed.
    let notes = ["two\none\nthree\u{3}", "one\ntwo\nthree\u{3}", "one\nthree\u{3}\ntwo"];
    let note = run.note.unwrap();
    assert!(notes.contains(&note.as_str()), "{note:?}");
    stops(node);
}

#[test]
fn output_can_be_plain_or_json() {
    let place = Place::new();
    file(&place, "[[job]]\nname = 'x'\nfixed_rate = '1h'\ncommand = 'echo one; echo two >&2'");
    for (form, out, err) in [
        ("plain", "one", "two"),
        ("json", "\"stream\":\"stdout\",\"line\":\"one\"}", "\"stream\":\"stderr\",\"line\":\"two\"}"),
    ] {
        let url = format!("sqlite:{}", place.path(&format!("{form}.db")).display());
        let node = place.start(&["schedule", "jobs.toml", "--url", &url, "--output", form]);
        node.stdout_line(out, SOON);
        node.stderr_line(err, SOON);
        assert!(node.stdout().iter().all(|line| !line.starts_with("[x]")), "{:?}", node.stdout());
        stops(node);
    }
}

#[test]
fn failures_are_recorded_as_text() {
    for (command, error) in [
        ("exit 3", "exit code 3"),
        ("kill -9 $$", "killed by SIGKILL"),
        ("kill -34 $$", "killed by signal 34"),
        ("exec ./nowhere", "exit code 127"),
    ] {
        let place = Place::new();
        let node = running(&place, &format!("fixed_rate = '1h'\ncommand = '{command}'"));
        let run = ended(&place);
        assert_eq!((run.state, run.error.as_deref()), (State::Failed, Some(error)));
        node.stderr_line(&format!("the run ended: failed, job: x, run: 1, attempt: 1, error: \"{error}\""), SOON);
        stops(node);
    }
}

#[test]
fn a_missing_command_is_reported_at_the_start_and_at_each_run() {
    let place = Place::new();
    file(&place, "[[job]]\nname = 'x'\nfixed_delay = '50ms'\ncommand = ['./later']\n");
    let node = place.start(&["schedule", "jobs.toml", "--url", URL]);
    node.stderr_line("x: no such command: \"./later\"; its runs will fail until this is corrected", SOON);
    node.stderr_line("error: \"no such command: ", SOON);
    assert_eq!(ended(&place).error.as_deref(), Some("no such command: \"./later\""));
    fs::write(place.path("text"), "#!/bin/sh\necho here\n").unwrap();
    fs::rename(place.path("text"), place.path("later")).unwrap();
    node.stderr_line("error: \"the command is not executable: ", SOON);
    let ran = Command::new("chmod").arg("+x").arg(place.path("later")).status().unwrap();
    assert!(ran.success());
    node.stdout_line("[x] here", SOON);
    stops(node);
}

#[test]
fn a_failed_run_is_retried_with_the_same_tick() {
    let place = Place::new();
    let job = "fixed_rate = '1h'\nretry = '2 from 1ms'\ncommand = 'echo $BANDOG_TICK $BANDOG_ATTEMPT >> tries; [ $BANDOG_ATTEMPT = 3 ]'";
    let node = running(&place, job);
    let run = ended(&place);
    assert_eq!((run.state, run.attempt), (State::Ok, 3));
    let tries: Vec<_> = (1..=3).map(|attempt| format!("{} {attempt}", run.tick)).collect();
    assert_eq!(place.lines("tries"), tries);
    node.stderr_line("the retry starts in", SOON);
    stops(node);
}

// Promise: S5
#[test]
fn a_command_past_its_timeout_is_terminated_with_its_descendants() {
    let place = Place::new();
    let job = "fixed_rate = '1h'\ntimeout = '500ms'\ncommand = '''
        (env -i setsid sh -c 'trap \"\" TERM; echo $$ > lone; while :; do sleep 0.02; done' &)
        trap 'echo notified; exit 7' TERM; echo $$ > pid; while :; do sleep 0.02; done'''";
    let node = running(&place, job);
    let pids = ["pid", "lone"].map(|name| place.pid(name));
    let run = ended(&place);
    assert_eq!((run.state, run.error.as_deref()), (State::TimedOut, Some("exit code 7")));
    // The note can also contain a message of the shell about its terminated child.
    assert!(run.note.as_ref().unwrap().contains("notified"), "{run:?}");
    dead(&pids);
    stops(node);
}

/// A command that writes its attempt, and exits with 0 after TERM, as many servers do.
const EXITS_WELL: &str = "fixed_delay = '1h'\ncommand = '''
        trap 'exit 0' TERM; echo $BANDOG_ATTEMPT >> attempts; while :; do sleep 0.02; done'''";

// Promise: S9
#[test]
fn a_command_that_exits_with_0_after_its_timeout_has_timed_out_and_is_retried() {
    let place = Place::new();
    let node = running(&place, &format!("timeout = '300ms'\nretry = '2 from 1ms'\n{EXITS_WELL}"));
    let run = ended(&place);
    assert_eq!((run.state, run.error.as_deref()), (State::TimedOut, Some("exit code 0 after TERM from bandog")));
    assert_eq!((run.attempt, place.lines("attempts").len()), (3, 3));
    let row = state(&place).0;
    assert_eq!((row.ok, row.failed), (0, 1));
    let asked = place.run(&["jobs", "run", "x", "--wait", "--url", URL]);
    assert_eq!(asked.code, 1, "{asked:?}");
    stops(node);
}

// Promise: S9
#[test]
fn a_command_that_exits_with_0_after_its_cancellation_was_cancelled() {
    let place = Place::new();
    let node = running(&place, EXITS_WELL);
    place.written("attempts");
    let cancelled = place.run(&["jobs", "cancel", "x", "--url", URL]);
    assert_eq!(cancelled.code, 0, "{cancelled:?}");
    let run = ended(&place);
    assert_eq!((run.state, state(&place).0.ok), (State::Cancelled, 0), "{run:?}");
    stops(node);
}

#[test]
fn the_variables_of_a_service_do_not_reach_its_commands() {
    let place = Place::new();
    file(
        &place,
        "[[job]]\nname = 'x'\nfixed_rate = '1h'\ncommand = 'env > env.tmp; mv env.tmp env'\nenv = { NOTIFY_SOCKET = '/own' }\n",
    );
    let mut command = place.bandog(&["schedule", "jobs.toml", "--url", URL]);
    let service = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID", "WATCHDOG_PID", "WATCHDOG_USEC"];
    command.envs(service.map(|name| (name, "1"))).env("NOTIFY_SOCKET", "/of/bandog").env("KEPT", "1");
    let node = Process::spawn(&command);
    let env = eventually(SOON, || Some(place.lines("env")).filter(|lines| !lines.is_empty()));
    assert!(env.iter().any(|line| line == "KEPT=1") && env.iter().any(|line| line == "NOTIFY_SOCKET=/own"), "{env:?}");
    assert!(!env.iter().any(|line| line.starts_with("LISTEN_") || line.starts_with("WATCHDOG_")), "{env:?}");
    stops(node);
}

#[test]
fn commands_may_finish_after_a_stop_signal() {
    let place = Place::new();
    let node =
        running(&place, "fixed_rate = '1s'\ncommand = 'echo in; while ! [ -e go ]; do sleep 0.01; done; echo out'");
    node.stdout_line("[x] in", SOON);
    node.term();
    node.stderr_line("SIGTERM: stopping; the running commands (1) may continue for 30s, another signal", SOON);
    fs::write(place.path("go"), "").unwrap();
    node.stdout_line("[x] out", SOON);
    node.stderr_line("bandog: x: done in", SOON);
    node.stderr_line("bandog: stopped", SOON);
    let mut node = node;
    ends(&mut node, 0);
    let (row, runs) = state(&place);
    assert_eq!((row.ok, row.lost, row.live.len()), (1, 0, 0), "{runs:?}");
}

// Promise: S6
#[test]
fn endless_output_uses_little_memory() {
    let place = Place::new();
    let job =
        "fixed_rate = '1h'\ninitial_delay = '1s'\ncommand = \"head -c 64000000 /dev/zero | tr '\\\\0' x; echo end\"";
    file(&place, &format!("[[job]]\nname = 'x'\n{job}\n"));
    let mut command = place.bandog(&["schedule", "jobs.toml", "--url", URL]);
    let mut node = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut out = BufReader::new(node.stdout.take().unwrap());
    let before = eventually(SOON, || fs::exists(place.path("a.db")).unwrap().then(|| peak(node.id())));
    let (mut all, mut longest, mut line) = (0, 0, Vec::new());
    while out.read_until(b'\n', &mut line).unwrap() > 0 && !line.ends_with(b"end\n") {
        assert!(line.starts_with(b"[x] x"), "{:?}", String::from_utf8_lossy(&line));
        (all, longest) = (all + line.len() - 5, longest.max(line.len()));
        line.clear();
    }
    all += line.len() - "[x] end\n".len();
    assert_eq!((all, longest), (64_000_000, "[x] \n".len() + 8192));
    assert!(peak(node.id()) < before + (32 << 10), "{before} to {} KiB", peak(node.id()));
    assert_eq!(
        ended(&place).note.unwrap().len(),
        4095,
        "the note is not the last 4096 bytes without the final newline"
    );
    send(node.id(), Signal::TERM);
    assert_eq!(node.wait().unwrap().code(), Some(0));
}

// Promise: S6
#[test]
fn a_blocked_reader_does_not_prevent_the_stop() {
    let place = Place::new();
    file(&place, "[[job]]\nname = 'x'\nfixed_rate = '1h'\ncommand = 'echo $$ > pid; exec cat /dev/zero'\n");
    let mut command = place.bandog(&["schedule", "jobs.toml", "--url", URL, "--drain", "0s"]);
    let mut node = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = place.pid("pid");
    // Wait until all pipes between the command and this test are full.
    let written = || fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    let mut last = String::new();
    eventually(SOON, || {
        std::thread::sleep(Duration::from_millis(100));
        let now = written();
        std::mem::replace(&mut last, now.clone()) == now
    });
    send(node.id(), Signal::TERM);
    assert_eq!(eventually(SOON, || node.try_wait().unwrap()).code(), Some(0));
    dead(&[pid]);
}

#[test]
fn a_closed_reader_does_not_block_the_commands() {
    let place = Place::new();
    file(&place, "[[job]]\nname = 'x'\nfixed_delay = '10ms'\ncommand = 'seq 20000; echo $BANDOG_TICK >> ticks'\n");
    let mut command = place.bandog(&["schedule", "jobs.toml", "--url", URL]);
    let mut node = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop((node.stdout.take(), node.stderr.take()));
    eventually(SOON, || place.lines("ticks").len() >= 3);
    send(node.id(), Signal::TERM);
    assert_eq!(eventually(SOON, || node.try_wait().unwrap()).code(), Some(0));
}

#[test]
fn a_run_whose_keeper_is_killed_has_failed_and_leaves_no_process() {
    let place = Place::new();
    let job = "fixed_rate = '1h'\ncommand = \"setsid sh -c 'trap : TERM; echo $$ > below; while :; do sleep 0.02; done' & echo $$ > pid; wait\"";
    let node = running(&place, job);
    let pids = ["pid", "below"].map(|name| place.pid(name));
    let keeper = fs::read_to_string(format!("/proc/{}/stat", pids[0])).unwrap();
    let keeper: u32 = keeper.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().parse().unwrap();
    send(keeper, Signal::KILL);
    let run = ended(&place);
    assert_eq!(run.error.as_deref(), Some("its keeper process was killed, and the command with it"));
    dead(&pids);
    stops(node);
}

// Promise: S5
#[test]
fn no_process_is_left_after_the_stop() {
    let place = Place::new();
    let node = running(&place, "fixed_rate = '20ms'\noverlap = 'allow(3)'\ncommand = 'echo $PPID >> keepers'");
    eventually(SOON, || place.lines("keepers").len() >= 10);
    let keepers: Vec<u32> = place.lines("keepers").iter().map(|pid| pid.parse().unwrap()).collect();
    // Each keeper is reaped after its run has ended, so at most the last keeper can still exist.
    eventually(SOON, || keepers.iter().filter(|pid| fs::exists(format!("/proc/{pid}")).unwrap()).count() <= 1);
    let pid = node.pid();
    let _node = stops(node);
    let is_child = |entry: &fs::DirEntry| {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok()) == Some(pid)
    };
    assert!(!fs::read_dir("/proc").unwrap().map_while(Result::ok).any(|entry| is_child(&entry)));
    eventually(SOON, || !place.lines("keepers").iter().any(|pid| is_alive(pid.parse().unwrap())));
}

#[test]
fn without_a_url_the_default_store_is_printed() {
    let place = Place::new();
    file(&place, "[[job]]\nname = 'x'\nat = 2000-01-01T00:00:00Z\ncommand = 'true'\n");
    let node = place.start(&["schedule", "jobs.toml"]);
    node.stderr_line("bandog: 1 job of jobs.toml, 1 at a time, over sqlite:", SOON);
    node.stderr_line("bandog: started", SOON);
    let stderr = node.stderr().join("\n");
    assert!(stderr.contains("state/bandog/locks.db (the default without --url and BANDOG_URL)"), "{stderr}");
    assert!(
        stderr.contains("bandog: x: Once at 2000-01-01T00:00:00Z (UTC)\n  next    never again\n  command sh -c true"),
        "{stderr}"
    );
    assert!(stderr.contains("misfire_grace 1m, on_crash abandon, lease 30s"), "{stderr}");
    stops(node);
}

#[test]
fn a_job_that_is_not_enabled_does_not_run() {
    let place = Place::new();
    let job = |name: &str, enabled: &str| {
        format!("[[job]]\nname = '{name}'\nfixed_delay = '20ms'\ncommand = 'echo {name} >> ran'\nenabled = {enabled}\n")
    };
    file(&place, &(job("off", "false") + &job("on", "true")));
    let node = node(&place, URL, &[]);
    eventually(SOON, || place.lines("ran").len() >= 5);
    assert!(place.lines("ran").iter().all(|name| name == "on"));
    stops(node);
}

/// Maximum memory of a process, in KiB.
fn peak(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_run_that_kills_every_node_is_given_up() {
    let place = Place::new();
    // The command's parent is the keeper of its run, whose parent is the scheduler.
    let kill = "echo $BANDOG_ATTEMPT >> runs; kill -9 $(cut -d' ' -f4 /proc/$PPID/stat); sleep 100";
    let job = format!("fixed_rate = '1h'\non_crash = 'retry(3)'\nlease = '500ms'\ncommand = '''{kill}'''");
    file(&place, &format!("[[job]]\nname = \"x\"\n{job}\n"));
    for attempt in 1..=3 {
        let mut node = place.start(&["schedule", "jobs.toml", "--url", URL]);
        assert!(!node.wait(SOON).success());
        assert_eq!(place.lines("runs").len(), attempt);
    }
    let node = node(&place, URL, &[]);
    let (row, history) = eventually(SOON, || Some(state(&place)).filter(|(row, _)| row.lost == 1));
    assert_eq!((row.live.len(), row.queued, row.ok), (0, 0, 0), "{row:?}");
    let lines: Vec<_> = history.iter().map(|run| (run.state, run.attempt)).collect();
    assert_eq!(lines, [(State::Lost, 3), (State::Lost, 2), (State::Lost, 1)], "{history:?}");
    assert!(history[0].error.as_ref().unwrap().ends_with("death 3 of 3, the run is given up"), "{history:?}");
    assert!(history[1].error.as_ref().unwrap().ends_with("death 2 of 3, the run is tried again"), "{history:?}");
    node.stderr_line("ticks were lost: the node that ran them died or lost its session, job: x, ticks: 1", SOON);
    assert_eq!(place.lines("runs"), ["1", "2", "3"]);
    stops(node);
}
