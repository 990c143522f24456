//! The manual pages and the scripts for shells.

use std::fs;

use crate::help::{Place, Ran};

const COMMANDS: [&str; 26] = [
    "lock",
    "show",
    "ls",
    "release",
    "acquire",
    "extend",
    "forget",
    "latch",
    "limit",
    "grid",
    "cached",
    "push",
    "work",
    "queues",
    "queue",
    "tasks",
    "doctor",
    "schema",
    "torture",
    "cron",
    "schedule",
    "jobs",
    "page",
    "demo",
    "completions",
    "man",
];
/// Number of subcommands of `bandog cron`.
const CRON: usize = 2;
/// Number of types of `bandog grid`.
const GRID: usize = 12;
/// Number of subcommands of `bandog queue`.
const QUEUE: usize = 9;
/// Number of subcommands of `bandog tasks`.
const TASKS: usize = 1;
/// Number of subcommands of `bandog jobs`.
const JOBS: usize = 12;

/// Whether the page is that of a subcommand of a subcommand.
fn is_below(page: &fs::DirEntry) -> bool {
    page.file_name().to_string_lossy().matches('-').count() > 1
}

#[test]
fn each_shell_gets_a_script_that_knows_the_commands() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = place.run(&["completions", shell]);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{shell}");
        for command in COMMANDS {
            assert!(ran.stdout.contains(command), "{shell}: {command}");
        }
        assert!(ran.stdout.contains("kill-after") && !ran.stdout.contains("__exec"), "{shell}");
    }
    place.run(&["completions", "tcsh"]).assert_ended(64, &["tcsh", "bash"]);
    fs::write(place.path("script"), place.run(&["completions", "bash"]).stdout).unwrap();
    let script = "source ./script; COMP_WORDS=(bandog rel); COMP_CWORD=1; _bandog bandog rel bandog; echo $COMPREPLY";
    assert_eq!(Ran::from(place.command(&["bash", "-c", script])).stdout.trim(), "release");
    let script = "source ./script; COMP_WORDS=(bandog grid queue q pus); COMP_CWORD=4; _bandog bandog pus q; \
                  echo ${COMPREPLY[@]}";
    assert_eq!(Ran::from(place.command(&["bash", "-c", script])).stdout.trim(), "push push-front");
}

#[test]
fn the_manual_has_a_page_for_each_command() {
    let place = Place::new();
    let all = place.run(&["man"]);
    assert_eq!((all.code, all.stderr.as_str()), (0, ""));
    assert!(all.stdout.contains(".TH bandog 1") && !all.stdout.contains("__exec"));
    fs::create_dir(place.path("man1")).unwrap();
    place.run(&["man", "--dir", "man1"]).assert_ended(0, &[]);
    for command in COMMANDS {
        assert!(all.stdout.contains(&format!(".TH bandog-{command} 1")), "{command}");
        let page = fs::read_to_string(place.path(&format!("man1/bandog-{command}.1"))).unwrap();
        assert!(page.contains("NAME") && page.contains("SYNOPSIS"), "{page}");
    }
    let lock = fs::read_to_string(place.path("man1/bandog-lock.1")).unwrap();
    for word in [".SH \"EXIT CODES\"", "<NAME> \\-\\- <CMD>...", ".nf", "BANDOG_FENCE"] {
        assert!(lock.contains(word), "{word}: {lock}");
    }
    let run = fs::read_to_string(place.path("man1/bandog-jobs-run.1")).unwrap();
    assert!(run.contains("\nbandog jobs run [OPTIONS] <NAME>") && run.contains("\\-\\-timeout"), "{run}");
    let queue = fs::read_to_string(place.path("man1/bandog-grid-queue.1")).unwrap();
    assert!(queue.contains("BANDOG_DELIVERY") && queue.contains(".SH \"EXIT CODES OF `WORK`\""), "{queue}");
    let below: Vec<_> =
        fs::read_dir(place.path("man1")).unwrap().filter(|page| is_below(page.as_ref().unwrap())).collect();
    assert_eq!(below.len(), CRON + GRID + QUEUE + TASKS + JOBS);
    assert_eq!(fs::read_dir(place.path("man1")).unwrap().count(), COMMANDS.len() + 1 + below.len());
    place.run(&["man", "--dir", "nowhere"]).assert_ended(71, &["nowhere/bandog.1"]);
}

#[test]
fn the_help_names_all_stores_and_lists_the_fields() {
    let place = Place::new();
    for args in [&["--help"][..], &["show", "--help"], &["ls", "--help"]] {
        let help = place.run(args).stdout;
        for scheme in
            ["redis://", "rediss://", "redis+unix://", "redis+sentinel://", "redis+cluster://", "redis+quorum://"]
        {
            assert!(help.contains(scheme), "{scheme}: {help}");
        }
        for scheme in ["postgres://", "mysql://", "zookeeper://", "sqlite:", "memory:"] {
            assert!(help.contains(scheme), "{scheme}: {help}");
        }
        if args.len() > 1 {
            let line = |field: &str| help.lines().any(|line| line.split_whitespace().next() == Some(field));
            let fields = ["name", "kind", "held", "owner", "fence", "fence_to", "ttl_ms", "holder", "holders", "limit"];
            assert!(fields.iter().chain(&["count", "waiters", "store"]).all(|field| line(field)), "{help}");
        }
    }
}

#[test]
fn a_closed_output_is_no_error() {
    let place = Place::new();
    for args in ["ls", "show x", "ls --json", "doctor", "man", "completions zsh", "--help", "lock --help"] {
        let script = format!("set -o pipefail; {} {args} | exec true", env!("CARGO_BIN_EXE_bandog"));
        Ran::from(place.command(&["bash", "-c", &script])).assert_ended(0, &[]);
    }
}
