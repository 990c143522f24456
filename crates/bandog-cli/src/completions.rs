//! `bandog completions`: scripts for shells.

use clap::Command;
use clap_complete::{Shell, generate};

use crate::{exit_code::ExitCode, fault::Fault, print};

/// Prints a script that completes bandog's command line in a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bandog completions bash > ~/.local/share/bash-completion/completions/bandog
  bandog completions zsh > ~/.zfunc/_bandog
  bandog completions fish > ~/.config/fish/completions/bandog.fish")]
pub(crate) struct Args {
    /// The shell.
    shell: Shell,
}

/// Prints the script for this command line.
pub(crate) fn run(args: &Args, mut command: Command) -> Result<ExitCode, Fault> {
    let mut script = Vec::new();
    generate(args.shell, &mut command, "bandog", &mut script);
    print::bytes(&script)
}
