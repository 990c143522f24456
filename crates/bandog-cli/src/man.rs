//! `bandog man`: the manual pages, as roff.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use clap::Command;
use clap_mangen::{
    Man,
    roff::{Roff, roman},
};

use crate::{exit_code::ExitCode, fault::Fault, print};

/// Prints the manual: a page for bandog, one for each subcommand, and one for each of their subcommands.
///
/// Without --dir all pages are printed one after the other, for `man -l -`. With --dir each page is a file with the
/// usual name: bandog.1, bandog-lock.1 and so on.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  bandog man | man -l -
  bandog man --dir /usr/share/man/man1")]
pub(crate) struct Args {
    /// The directory for the files; it must exist.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Prints or writes all pages of this command line.
pub(crate) fn run(args: &Args, command: Command) -> Result<ExitCode, Fault> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let pages = visible(&command).into_iter().map(page).collect::<io::Result<Vec<_>>>();
    let pages = pages.map_err(|error| Fault::system("cannot write a page", error))?;
    match &args.dir {
        Some(dir) => write(dir, &pages),
        None => print::bytes(&pages.into_iter().map(|page| page.text).collect::<Vec<_>>().concat()),
    }
}

/// A command and all its visible subcommands.
fn visible(command: &Command) -> Vec<&Command> {
    let below = command.get_subcommands().filter(|command| !command.is_hide_set()).flat_map(visible);
    [command].into_iter().chain(below).collect()
}

/// A page and its file name.
struct Page {
    file: String,
    text: Vec<u8>,
}

/// Writes each page into its file.
fn write(dir: &Path, pages: &[Page]) -> Result<ExitCode, Fault> {
    for Page { file, text } in pages {
        let path = dir.join(file);
        fs::write(&path, text).map_err(|error| Fault::system(&format!("cannot write {path:?}"), error))?;
    }
    Ok(ExitCode::Done)
}

/// The page of one command.
fn page(command: &Command) -> io::Result<Page> {
    let version = command.get_version().unwrap_or(env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).source(format!("bandog {version}"));
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    synopsis(command).to_writer(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.get_subcommands().any(|command| !command.is_hide_set()) {
        man.render_subcommands_section(&mut text)?;
    }
    let rest = command.get_after_long_help().or(command.get_after_help());
    rest.map_or_else(Roff::new, |rest| sections(&rest.to_string())).to_writer(&mut text)?;
    Ok(Page { file: man.get_filename(), text })
}

/// The synopsis of the page: the usage line of the help. The usage line has the `--` in the right place.
fn synopsis(command: &Command) -> Roff {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]).text([roman(usage)]);
    roff
}

/// The text after the options, as roff. A line that ends in a colon and is not indented begins a section. Indented
/// lines are printed unchanged.
fn sections(text: &str) -> Roff {
    let mut roff = Roff::new();
    let mut verbatim = false;
    for line in text.lines() {
        let indented = line.starts_with(' ');
        if indented != verbatim && !line.is_empty() {
            roff.control(if indented { "nf" } else { "fi" }, []);
            verbatim = indented;
        }
        match line.strip_suffix(':').filter(|_| !indented) {
            Some(head) => roff.control("SH", [head.to_uppercase().as_str()]),
            None if line.is_empty() => roff.control("PP", []),
            None => roff.text([roman(line)]),
        };
    }
    if verbatim {
        roff.control("fi", []);
    }
    roff
}
