//! What was typed: the command line as clap parses it, before anything is looked up or resolved.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, Parser, Subcommand};
use namzu_sandbox::types::{Control, SandboxId};

use crate::allow::Allow;
use crate::parse::{self, Cpus, EnvVar, Label, Location, Mount};

/// Text under every `--help`.
const AFTER_HELP: &str = "\
Standard output is the command's; everything of our own goes to standard error.
Exit codes: the command's own, 128+N when signal N ended it, 2 for a wrong command line,
200 to 219 when the sandbox itself failed.";

/// Run untrusted code in a sandbox that says exactly what it enforces.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "namzu-sandbox",
    version,
    after_help = AFTER_HELP,
    max_term_width = 100
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
    /// Flags of every verb.
    #[command(flatten)]
    pub common: Common,
}

/// Flags of every verb.
#[derive(Clone, Debug, Default, Args)]
pub struct Common {
    /// Machine-readable: answers on standard output, reports and errors on standard error
    #[arg(long, global = true)]
    pub json: bool,
    /// Backend, as TIER or TIER:NAME [default: process:auto]
    #[arg(
        long,
        global = true,
        value_name = "BACKEND",
        conflicts_with = "config",
        value_parser = NonEmptyStringValueParser::new()
    )]
    pub backend: Option<String>,
    /// Provider configuration, as JSON
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// The verbs.
#[derive(Clone, Debug, Subcommand)]
pub enum Verb {
    /// Run one command in a fresh sandbox
    Run(RunArgs),
    /// Open a terminal, in a fresh sandbox or in a running one
    Shell(ShellArgs),
    /// Run one command in a running sandbox
    Exec(ExecArgs),
    /// Copy files and directories in and out
    Cp(CpArgs),
    /// List running sandboxes, or files in one
    Ls(LsArgs),
    /// Destroy sandboxes
    Rm(RmArgs),
    /// Say what a sandbox would enforce, without starting it
    Plan(PlanArgs),
    /// Say what this host can do, and how to mend what it cannot
    Doctor,
    /// List the backends
    Backends,
    /// Ask what an egress policy says, check one, or change a running sandbox's
    Policy(PolicyArgs),
    /// Run a command of this host with no network but what is allowed, or serve a proxy
    Egress(EgressArgs),
    /// What `run --detach` leaves behind to hold the boundary of a sandbox
    #[command(hide = true)]
    Keep(KeepArgs),
    /// Print a shell's completion script
    Completions(CompletionsArgs),
}

/// What a fresh sandbox is to be.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Sandbox")]
pub struct SandboxArgs {
    /// Host directory to work in, rw unless said; a private empty one otherwise
    #[arg(short, long, value_name = "DIR[:ro|:rw]", value_parser = parse::mount())]
    pub workdir: Option<Mount>,
    /// Set a variable, or copy one from the host; never more of the host's
    #[arg(short, long, value_name = "KEY[=VALUE]", value_parser = parse::env_var())]
    pub env: Vec<EnvVar>,
    /// What may leave.
    #[command(flatten)]
    pub outward: OutwardArgs,
    /// How what may leave is let out.
    #[command(flatten)]
    pub boundary: BoundaryArgs,
    /// Before anything runs, try from inside what is denied; a wall with a hole fails
    #[arg(long)]
    pub verify_egress: bool,
    /// Memory for everything inside together, e.g. 512m
    #[arg(long, value_name = "SIZE", value_parser = parse::size)]
    pub memory: Option<u64>,
    /// Processes and threads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub pids: Option<u32>,
    /// Processors' worth of time, e.g. 0.5
    #[arg(long, value_name = "N")]
    pub cpus: Option<Cpus>,
    /// Bytes written to the sandbox's own space, e.g. 1g
    #[arg(long, value_name = "SIZE", value_parser = parse::size)]
    pub disk: Option<u64>,
    /// How long the sandbox may live, e.g. 10m
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    pub lifetime: Option<std::time::Duration>,
    /// Controls that must be enforced, or nothing starts
    #[arg(long, value_name = "CONTROL,...", value_delimiter = ',', value_parser = control())]
    pub require: Vec<Control>,
    /// Label to find it by
    #[arg(long, value_name = "KEY=VALUE")]
    pub label: Vec<Label>,
}

/// What may leave a sandbox.
#[derive(Clone, Debug, Default, Args)]
#[group(id = "outward", multiple = true)]
pub struct OutwardArgs {
    /// What may leave [default: deny-all; passthrough: allow-all]
    #[arg(long, value_name = "POLICY", value_parser = egress(), conflicts_with_all = ["allow", "policy"])]
    pub egress: Option<Egress>,
    /// Let this host be reached, and what else is named so: HOST, HOST:PORT, SCHEME://HOST, SCHEME://HOST:PORT
    #[arg(long, value_name = "HOST", value_parser = clap::value_parser!(Allow), conflicts_with = "policy")]
    pub allow: Vec<Allow>,
    /// Egress policy, as JSON: rules, denied hosts, credentials, limits
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
}

/// How the egress boundary works.
#[derive(Clone, Debug, Default, Args)]
pub struct BoundaryArgs {
    /// Append each decision and each end of a connection to a file, as JSON lines
    #[arg(long, value_name = "FILE")]
    pub audit_log: Option<PathBuf>,
    /// How the egress boundary resolves names and whom it trusts, as JSON
    #[arg(long, value_name = "FILE")]
    pub boundary: Option<PathBuf>,
}

/// What may leave, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Egress {
    /// Nothing.
    DenyAll,
    /// Everything: no wall on the network.
    AllowAll,
}

/// Flags of a command.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Command")]
pub struct CommandArgs {
    /// Give the command a terminal
    #[arg(short, long)]
    pub tty: bool,
    /// Forward standard input even when it is a terminal
    #[arg(short, long)]
    pub interactive: bool,
    /// How long the command may run, e.g. 30s
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    pub timeout: Option<std::time::Duration>,
    /// Directory to run in [default: the workspace; of `egress`: this one]
    #[arg(long, value_name = "DIR", value_parser = NonEmptyStringValueParser::new())]
    pub cwd: Option<String>,
    /// Write a JSON report of the run to a file
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// `run`
#[derive(Clone, Debug, Default, Args)]
pub struct RunArgs {
    /// The sandbox.
    #[command(flatten)]
    pub sandbox: SandboxArgs,
    /// The command's flags.
    #[command(flatten)]
    pub command: CommandArgs,
    /// Print what is enforced on standard error
    #[arg(long)]
    pub receipt: bool,
    /// Leave it running and print its id
    #[arg(short, long, conflicts_with_all = ["tty", "interactive", "timeout", "report"])]
    pub detach: bool,
    /// Id of the detached sandbox [default: a fresh one]
    #[arg(long, value_name = "ID", requires = "detach")]
    pub name: Option<SandboxId>,
    /// The command and its arguments, never passed through a shell
    #[arg(
        value_name = "COMMAND",
        trailing_var_arg = true,
        required_unless_present = "detach",
        action = ArgAction::Append
    )]
    pub argv: Vec<OsString>,
}

/// `shell`
#[derive(Clone, Debug, Default, Args)]
pub struct ShellArgs {
    /// A running sandbox; a fresh one when absent
    #[arg(
        value_name = "ID",
        conflicts_with_all = [
            "workdir", "egress", "allow", "policy", "audit_log", "boundary", "verify_egress", "memory", "pids", "cpus", "disk", "lifetime", "require", "label",
        ]
    )]
    pub id: Option<SandboxId>,
    /// The sandbox, when fresh.
    #[command(flatten)]
    pub sandbox: SandboxArgs,
}

/// `exec`
#[derive(Clone, Debug, Args)]
pub struct ExecArgs {
    /// A running sandbox
    #[arg(value_name = "ID")]
    pub id: SandboxId,
    /// The command's flags.
    #[command(flatten)]
    pub command: CommandArgs,
    /// Set a variable, or copy one from the host
    #[arg(short, long, value_name = "KEY[=VALUE]", value_parser = parse::env_var())]
    pub env: Vec<EnvVar>,
    /// The command and its arguments, never passed through a shell
    #[arg(
        value_name = "COMMAND",
        trailing_var_arg = true,
        required = true,
        action = ArgAction::Append
    )]
    pub argv: Vec<OsString>,
}

/// `cp`
#[derive(Clone, Debug, Args)]
pub struct CpArgs {
    /// Where from: ID:PATH, a host path, or - for standard input
    #[arg(value_name = "SRC", value_parser = parse::location())]
    pub from: Location,
    /// Where to: ID:PATH, a host path, or - for standard output
    #[arg(value_name = "DST", value_parser = parse::location())]
    pub to: Location,
    /// Follow SRC or DST when it is a symlink of the host; refused otherwise
    #[arg(short = 'L', long)]
    pub follow: bool,
    /// Most bytes that a copy to the host may write
    #[arg(long, value_name = "SIZE", default_value = "64g", value_parser = parse::size)]
    pub max_size: u64,
    /// No progress bar
    #[arg(short, long)]
    pub quiet: bool,
}

/// `ls`
#[derive(Clone, Debug, Args)]
pub struct LsArgs {
    /// A directory inside; all running sandboxes when absent
    #[arg(value_name = "ID:PATH", value_parser = parse::location())]
    pub path: Option<Location>,
}

/// `rm`
#[derive(Clone, Debug, Args)]
pub struct RmArgs {
    /// The sandboxes
    #[arg(value_name = "ID", required = true)]
    pub ids: Vec<SandboxId>,
}

/// `plan`
#[derive(Clone, Debug, Default, Args)]
pub struct PlanArgs {
    /// The sandbox.
    #[command(flatten)]
    pub sandbox: SandboxArgs,
    /// As if it were to be left running
    #[arg(short, long)]
    pub detach: bool,
}

/// `policy`
#[derive(Clone, Debug, Args)]
pub struct PolicyArgs {
    /// What of it.
    #[command(subcommand)]
    pub verb: PolicyVerb,
}

/// The verbs of `policy`.
#[derive(Clone, Debug, Subcommand)]
pub enum PolicyVerb {
    /// Say whether a host is let out, and why; ends with 0 where it is and with 1 where not
    Explain(ExplainArgs),
    /// Check a policy file: everything that is wrong with it, at once
    Check(CheckArgs),
    /// Change the policy of a running sandbox that was made with --allow or --policy
    Set(SetArgs),
}

/// `policy explain`
#[derive(Clone, Debug, Default, Args)]
pub struct ExplainArgs {
    /// The policy [default: deny-all].
    #[command(flatten)]
    pub outward: OutwardArgs,
    /// The policy in force in a running sandbox
    #[arg(long, value_name = "ID", conflicts_with_all = ["egress", "allow", "policy"])]
    pub sandbox: Option<SandboxId>,
    /// What would be reached, on port 443 unless said; methods and paths are not looked at
    #[arg(value_name = "HOST[:PORT]", value_parser = NonEmptyStringValueParser::new())]
    pub host: String,
}

/// `policy check`
#[derive(Clone, Debug, Args)]
pub struct CheckArgs {
    /// The policy, as JSON
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// `policy set`
#[derive(Clone, Debug, Args)]
#[command(group = clap::ArgGroup::new("new").args(["egress", "allow", "policy"]).multiple(true).required(true))]
pub struct SetArgs {
    /// A running sandbox
    #[arg(value_name = "ID")]
    pub id: SandboxId,
    /// The policy.
    #[command(flatten)]
    pub outward: OutwardArgs,
}

/// `egress`
#[derive(Clone, Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    override_usage = "namzu-sandbox egress [OPTIONS] [--] COMMAND...\n       namzu-sandbox egress serve [OPTIONS]"
)]
pub struct EgressArgs {
    /// Something other than running a command.
    #[command(subcommand)]
    pub verb: Option<EgressVerb>,
    /// What may leave [default: nothing].
    #[command(flatten)]
    pub outward: OutwardArgs,
    /// How it is let out.
    #[command(flatten)]
    pub boundary: BoundaryArgs,
    /// Let it use unix sockets of the host, through which services do what they are asked
    #[arg(long)]
    pub allow_unix_sockets: bool,
    /// Before anything runs, try from inside what is denied; a wall with a hole fails
    #[arg(long)]
    pub verify_egress: bool,
    /// Print what is enforced on standard error
    #[arg(long)]
    pub receipt: bool,
    /// The command's flags.
    #[command(flatten)]
    pub command: CommandArgs,
    /// The command and its arguments, never passed through a shell
    #[arg(
        value_name = "COMMAND",
        trailing_var_arg = true,
        required = true,
        action = ArgAction::Append
    )]
    pub argv: Vec<OsString>,
}

/// The verbs of `egress`.
#[derive(Clone, Debug, Subcommand)]
pub enum EgressVerb {
    /// Serve an allowlisting proxy (HTTP and SOCKS5) until a signal; SIGHUP reads --policy again
    Serve(ServeArgs),
}

/// `egress serve`
#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// What may leave [default: nothing].
    #[command(flatten)]
    pub outward: OutwardArgs,
    /// How it is let out.
    #[command(flatten)]
    pub boundary: BoundaryArgs,
    /// Where it listens
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:3128")]
    pub listen: SocketAddr,
    /// Where counters are read, at /metrics, as Prometheus does
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub metrics: Option<SocketAddr>,
    /// Write the certificate that clients must trust where the policy looks into TLS
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

/// `keep`
#[derive(Clone, Debug, Args)]
pub struct KeepArgs {
    /// The command line that was typed
    #[arg(value_name = "ARG", last = true)]
    pub argv: Vec<OsString>,
}

/// `completions`
#[derive(Clone, Copy, Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// Parses a control by its wire name, and lists them all in the help and on a mistake.
fn control() -> impl TypedValueParser<Value = Control> {
    PossibleValuesParser::new(Control::ALL.map(Control::as_str)).map(|name| {
        Control::ALL
            .into_iter()
            .find(|control| control.as_str() == name)
            .unwrap_or(Control::Filesystem)
    })
}

/// Parses the kinds of policy that need no more than their name.
fn egress() -> impl TypedValueParser<Value = Egress> {
    PossibleValuesParser::new(["deny-all", "allow-all"]).map(|kind| match kind.as_str() {
        "allow-all" => Egress::AllowAll,
        _ => Egress::DenyAll,
    })
}
