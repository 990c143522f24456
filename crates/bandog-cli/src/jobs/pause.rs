//! `bandog jobs pause` and `resume`: no ticks for a time.

use std::io::{self, Write};

use bandog::schedule::Paused;

use super::{Common, Desk, nodes::Nodes};
use crate::{
    exit_code::ExitCode,
    fault::Fault,
    print,
    voice::{say, shown},
};

/// Stops the ticks of a job, of all jobs, or on a node, until `bandog jobs resume`.
///
/// What runs goes on, and `bandog jobs run` runs a paused job all the same. The pause is kept in the store: it holds for
/// nodes that start later too, and a pause of all jobs for jobs that are registered later. A node that is paused claims
/// nothing, within a second; its ticks go to the other nodes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json: those of `bandog jobs ls --json`, as they are now; with --all or --node all (null, or by, reason, at) \
and nodes (an object of the nodes that are paused).

Exit codes: 0 it is paused; 64 no such job, no reason, wrong URL; 69 the store does not answer or is not there; 77 it \
refuses.

Examples:
  bandog jobs pause report --reason 'database migration, until 6 pm'
  bandog jobs pause --all --reason 'the store moves'
  bandog jobs pause --node web-3 --reason 'a new disk'      all nodes of the machine web-3
  bandog jobs pause --node web-3:4711 --reason 'it is slow'   one, as `bandog jobs nodes` names it
  bandog jobs resume report")]
pub(super) struct Pause {
    #[command(flatten)]
    whom: Whom,
    /// Why, for whoever finds it paused. Your name and your machine's are written beside it.
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: String,
    #[command(flatten)]
    common: Common,
}

/// Lets the ticks of a paused job, of all jobs, or of a node run again.
///
/// From now on: the ticks of the pause are recorded as skipped. `--all` ends the pause of all jobs; those that were paused
/// by their names stay so.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json: those of `bandog jobs ls --json`, as they are now; with --all or --node all (null, or by, reason, at) \
and nodes (an object of the nodes that are paused).

Exit codes: 0 it is not paused, or not any more; 64 no such job, wrong URL; 69 the store does not answer or is not \
there; 77 it refuses.

Examples:
  bandog jobs resume report
  bandog jobs resume --all
  bandog jobs resume --node web-3")]
pub(super) struct Resume {
    #[command(flatten)]
    whom: Whom,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Whom {
    /// The job's name.
    name: Option<String>,
    /// All jobs of the store under the URL's prefix, also those that are registered later.
    #[arg(long)]
    all: bool,
    /// A node (`host:pid`, see `bandog jobs nodes`), or all nodes of a machine (`host`), whatever jobs they have.
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
}

pub(super) fn reason(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("say why in a few words".into()),
        text if text.len() > 1000 => Err("at most 1000 bytes are allowed".into()),
        text => Ok(text.to_owned()),
    }
}

pub(super) fn pause(args: &Pause) -> Result<ExitCode, Fault> {
    let Pause { whom, reason, common } = args;
    match (&whom.name, &whom.node) {
        (Some(name), _) => pause_job(common, name, reason),
        (None, Some(node)) => Desk::reach(common, async |desk| {
            let before = desk.pauses().await?.nodes.remove(node);
            desk.jobs.pause_node(node, reason).await.map_err(|error| desk.unsaid(&error, "bandog jobs nodes"))?;
            tell_of_before(before.as_ref());
            Nodes::of(desk).await.warn_of(node, "the pause is kept for one that starts");
            tell_pauses(desk, common, &format!("paused node {}; what it runs goes on", shown(node))).await
        }),
        (None, None) => Desk::reach(common, async |desk| {
            let before = desk.pauses().await?.all;
            desk.jobs.pause_all(reason).await.map_err(|error| desk.unsaid(&error, "bandog jobs ls"))?;
            tell_of_before(before.as_ref());
            tell_pauses(desk, common, "paused all jobs; what runs goes on").await
        }),
    }
}

pub(super) fn resume(args: &Resume) -> Result<ExitCode, Fault> {
    let Resume { whom, common } = args;
    match (&whom.name, &whom.node) {
        (Some(name), _) => resume_job(common, name),
        (None, Some(node)) => Desk::reach(common, async |desk| {
            let resumed = desk.jobs.resume_node(node).await;
            let was_paused = resumed.map_err(|error| desk.unsaid(&error, "bandog jobs nodes"))?;
            let said = if was_paused { "resumed node" } else { "no pause names node" };
            if !was_paused {
                say(&format!("nothing was paused under the name {}: `bandog jobs nodes` lists what is", shown(node)));
            }
            tell_pauses(desk, common, &format!("{said} {}", shown(node))).await
        }),
        (None, None) => Desk::reach(common, async |desk| {
            let resumed = desk.jobs.resume_all().await;
            let was_paused = resumed.map_err(|error| desk.unsaid(&error, "bandog jobs ls"))?;
            Nodes::of(desk).await.warn("ticks run when one starts");
            tell_pauses(desk, common, if was_paused { "resumed all jobs" } else { "all jobs were not paused" }).await
        }),
    }
}

fn pause_job(common: &Common, name: &str, reason: &str) -> Result<ExitCode, Fault> {
    Desk::ask(common, name, async |desk| {
        let before = desk.show(name).await?;
        desk.jobs.pause(name, reason).await.map_err(|error| desk.unsaid_of(&error, name))?;
        tell_of_before(before.paused.as_ref());
        Nodes::of(desk).await.warn("the pause holds for those that start");
        let running = if before.live.is_empty() { "" } else { "; what runs goes on" };
        tell(desk, common, name, &format!("paused {name:?}{running}")).await
    })
}

fn resume_job(common: &Common, name: &str) -> Result<ExitCode, Fault> {
    Desk::ask(common, name, async |desk| {
        let was_paused = desk.jobs.resume(name).await.map_err(|error| desk.unsaid_of(&error, name))?;
        Nodes::of(desk).await.warn("its ticks run when one starts");
        let said = if was_paused { format!("resumed {name:?}") } else { format!("{name:?} was not paused") };
        tell(desk, common, name, &said).await
    })
}

fn tell_of_before(paused: Option<&Paused>) {
    if let Some(Paused { by, reason, at }) = paused {
        say(&format!("it was paused before, by {} since {at}: {}", shown(by), shown(reason)));
    }
}

/// Prints what was done, or the job as it is now.
async fn tell(desk: &Desk<'_>, common: &Common, name: &str, said: &str) -> Result<ExitCode, Fault> {
    let job = desk.show(name).await?;
    if common.json {
        return print::done(print::json(&job));
    }
    let all = if job.all_paused.is_some() { "; all jobs are paused: see `bandog jobs resume --all`" } else { "" };
    let disabled = if job.enabled { "" } else { "; it is disabled where it is declared, so its ticks do not run" };
    print::done(writeln!(io::stdout(), "{said}{all}{disabled}"))
}

/// Prints what was done, or what is paused now.
async fn tell_pauses(desk: &Desk<'_>, common: &Common, said: &str) -> Result<ExitCode, Fault> {
    print::done(match common.json {
        true => print::json(&desk.pauses().await?),
        false => writeln!(io::stdout(), "{said}"),
    })
}
