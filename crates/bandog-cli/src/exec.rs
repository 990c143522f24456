//! The hidden step between `bandog lock` and its command. The step is a new process, which first requests a KILL signal
//! from the kernel for the case that its parent dies. Then the process becomes the command.

use std::{env, ffi::OsString, io, os::unix::process::CommandExt, process::Command};

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use crate::{exit_code::ExitCode, fault::Fault, lock::held};

/// The hidden subcommand's name.
pub(crate) const NAME: &str = "__exec";

const LISTEN_PID: &str = "LISTEN_PID";
const LISTEN_PIDFDID: &str = "LISTEN_PIDFDID";
const WATCHDOG_PID: &str = "WATCHDOG_PID";

/// Variables with which systemd gives sockets, a watchdog and a socket for notifications to a service.
pub(crate) const SERVICE: [&str; 7] =
    [LISTEN_PID, LISTEN_PIDFDID, "LISTEN_FDS", "LISTEN_FDNAMES", WATCHDOG_PID, "WATCHDOG_USEC", "NOTIFY_SOCKET"];

/// The pid of the expected parent, and the command.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    parent: i32,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Prepares the start of the hidden step, which then becomes `command`. Only this process can start the step, because
/// the step checks the pid of its parent.
pub(crate) fn step(command: &[OsString]) -> Command {
    // This path stays valid even if the program file is replaced while bandog waits for its lock.
    let mut step = Command::new("/proc/self/exe");
    step.arg0("bandog").arg(NAME).arg(std::process::id().to_string()).arg("--").args(command);
    step
}

/// Replaces this process by the command. Returns only if the replacement fails.
pub(crate) fn run(args: &Args) -> Fault {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return Fault::system("cannot request the parent-death signal", error);
    }
    // If the parent died before the request, the kernel sends no signal. So the parent is checked here.
    if getppid() != Pid::from_raw(args.parent) {
        return Fault::new(ExitCode::Lost, "bandog ended before its command had started");
    }
    let Some((program, rest)) = args.command.split_first() else {
        return Fault::usage("no command was given");
    };
    let mut command = Command::new(program);
    own_service_variables(&mut command, args.parent);
    // The command gets the variable BANDOG_HELD, which contains the locks that the command runs under. This process
    // becomes the command, and keeps its pid. So `with_own_pid` adds this pid to the last lock in the variable.
    let error = command.args(rest).envs(held::with_own_pid().map(|held| (held::VARIABLE, held))).exec();
    let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    Fault::new(ExitCode::Child(code), format!("cannot run {program:?}: {error}"))
}

/// Gives the command the sockets and the watchdog that systemd meant for its parent, which is bandog. A service that has
/// no pid of its own in LISTEN_PID and WATCHDOG_PID ignores both.
fn own_service_variables(command: &mut Command, parent: i32) {
    let is_for_parent = |name: &str| env::var(name).is_ok_and(|pid| pid == parent.to_string());
    for name in [LISTEN_PID, WATCHDOG_PID] {
        if is_for_parent(name) {
            command.env(name, std::process::id().to_string());
        }
    }
    if is_for_parent(LISTEN_PID) {
        // This optional second name of the process, the number of its pidfd, is that of bandog.
        command.env_remove(LISTEN_PIDFDID);
    }
}
