//! `bandog jobs pause` and `resume`: stops and resumes ticks.

use std::io::{self, Write};

use bandog::schedule::Paused;

use super::{
    client::{Common, JobsClient},
    nodes::Nodes,
};
use crate::{
    console::{escaped, report},
    exit_code::ExitCode,
    fault::Fault,
    print,
};

/// Stops the ticks of a job, of all jobs, or on a node, until `bandog jobs resume`.
///
/// Present runs continue, and `bandog jobs run` still runs a paused job. The store keeps the pause. So the pause also
/// applies to nodes that start later, and a pause of all jobs also applies to jobs that are registered later. A paused
/// node stops claiming ticks within a second, and the other nodes claim all ticks.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json: those of `bandog jobs ls --json`, after the change; with --all or --node: all (null, or by, reason, \
at) and nodes (an object of the nodes that are paused).

Exit codes: 0 paused; 64 no such job, no reason, wrong URL; 69 the store does not answer or does not exist; 77 the \
store refuses the request.

Examples:
  bandog jobs pause report --reason 'database migration, until 6 pm'
  bandog jobs pause --all --reason 'the store is moved'
  bandog jobs pause --node web-3 --reason 'a new disk'      all nodes of the machine web-3
  bandog jobs pause --node web-3:4711 --reason 'it is slow'   one node, by its name in `bandog jobs nodes`
  bandog jobs resume report")]
pub(super) struct Pause {
    #[command(flatten)]
    target: Target,
    /// The reason, for other operators. Your name and your machine's name are stored with it.
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: String,
    #[command(flatten)]
    common: Common,
}

/// Resumes the ticks of a paused job, of all jobs, or of a node.
///
/// Ticks resume from now on: the ticks during the pause are recorded as skipped. `--all` ends the pause of all jobs; a
/// job that was paused by name stays paused.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields of --json: those of `bandog jobs ls --json`, after the change; with --all or --node: all (null, or by, reason, \
at) and nodes (an object of the nodes that are paused).

Exit codes: 0 not paused now; 64 no such job, wrong URL; 69 the store does not answer or does not exist; 77 the store \
refuses the request.

Examples:
  bandog jobs resume report
  bandog jobs resume --all
  bandog jobs resume --node web-3")]
pub(super) struct Resume {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Target {
    /// The job's name.
    name: Option<String>,
    /// All jobs of the store under the URL's prefix, including jobs that are registered later.
    #[arg(long)]
    all: bool,
    /// A node (`host:pid`, see `bandog jobs nodes`), or all nodes of a machine (`host`), for all of their jobs.
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
}

/// Parses the reason of an operator.
pub(super) fn reason(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("a reason is required".into()),
        text if text.len() > 1000 => Err("at most 1000 bytes are allowed".into()),
        text => Ok(text.to_owned()),
    }
}

pub(super) fn pause(args: &Pause) -> Result<ExitCode, Fault> {
    let Pause { target, reason, common } = args;
    match (&target.name, &target.node) {
        (Some(name), _) => pause_job(common, name, reason),
        (None, Some(node)) => JobsClient::with_store(common, async |client| {
            let before = client.pauses().await?.nodes.remove(node);
            client
                .jobs
                .pause_node(node, reason)
                .await
                .map_err(|error| client.request_fault(&error, "bandog jobs nodes"))?;
            report_previous(before.as_ref());
            Nodes::of(client).await.warn_of(node, "the pause is kept for a node that starts later");
            print_pauses(client, common, &format!("paused node {}; its runs continue", escaped(node))).await
        }),
        (None, None) => JobsClient::with_store(common, async |client| {
            let before = client.pauses().await?.all;
            client.jobs.pause_all(reason).await.map_err(|error| client.request_fault(&error, "bandog jobs ls"))?;
            report_previous(before.as_ref());
            print_pauses(client, common, "paused all jobs; present runs continue").await
        }),
    }
}

pub(super) fn resume(args: &Resume) -> Result<ExitCode, Fault> {
    let Resume { target, common } = args;
    match (&target.name, &target.node) {
        (Some(name), _) => resume_job(common, name),
        (None, Some(node)) => JobsClient::with_store(common, async |client| {
            let resumed = client.jobs.resume_node(node).await;
            let was_paused = resumed.map_err(|error| client.request_fault(&error, "bandog jobs nodes"))?;
            let node = escaped(node);
            if was_paused {
                return print_pauses(client, common, &format!("resumed node {node}")).await;
            }
            report(&format!("no pause has the name {node}: `bandog jobs nodes` lists the pauses"));
            print_pauses(client, common, &format!("node {node} was not paused")).await
        }),
        (None, None) => JobsClient::with_store(common, async |client| {
            let resumed = client.jobs.resume_all().await;
            let was_paused = resumed.map_err(|error| client.request_fault(&error, "bandog jobs ls"))?;
            Nodes::of(client).await.warn("ticks run when a scheduler starts");
            print_pauses(client, common, if was_paused { "resumed all jobs" } else { "all jobs were not paused" }).await
        }),
    }
}

fn pause_job(common: &Common, name: &str, reason: &str) -> Result<ExitCode, Fault> {
    JobsClient::with_job(common, name, async |client| {
        let before = client.show(name).await?;
        client.jobs.pause(name, reason).await.map_err(|error| client.request_fault_for(&error, name))?;
        report_previous(before.paused.as_ref());
        Nodes::of(client).await.warn("the pause applies to schedulers that start later");
        let running = if before.live.is_empty() { "" } else { "; present runs continue" };
        print_job(client, common, name, &format!("paused {name:?}{running}")).await
    })
}

fn resume_job(common: &Common, name: &str) -> Result<ExitCode, Fault> {
    JobsClient::with_job(common, name, async |client| {
        let was_paused = client.jobs.resume(name).await.map_err(|error| client.request_fault_for(&error, name))?;
        Nodes::of(client).await.warn("its ticks run when a scheduler starts");
        let result = if was_paused { format!("resumed {name:?}") } else { format!("{name:?} was not paused") };
        print_job(client, common, name, &result).await
    })
}

/// Reports the earlier pause that the new pause replaces, if there was an earlier pause.
fn report_previous(paused: Option<&Paused>) {
    if let Some(Paused { by, reason, at }) = paused {
        report(&format!("it was paused before, by {} since {at}: {}", escaped(by), escaped(reason)));
    }
}

/// Prints the result. With `--json`, prints the job as it is after the change.
async fn print_job(client: &JobsClient<'_>, common: &Common, name: &str, result: &str) -> Result<ExitCode, Fault> {
    let job = client.show(name).await?;
    if common.json {
        return print::done(print::json(&job));
    }
    let all = if job.all_paused.is_some() { "; all jobs are paused: see `bandog jobs resume --all`" } else { "" };
    let disabled = if job.enabled { "" } else { "; its declaration disables it, so its ticks do not run" };
    print::done(writeln!(io::stdout(), "{result}{all}{disabled}"))
}

/// Prints the result. With `--json`, prints the pauses as they are after the change.
async fn print_pauses(client: &JobsClient<'_>, common: &Common, result: &str) -> Result<ExitCode, Fault> {
    print::done(match common.json {
        true => print::json(&client.pauses().await?),
        false => writeln!(io::stdout(), "{result}"),
    })
}
