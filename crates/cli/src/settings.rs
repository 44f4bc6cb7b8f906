//! What was typed means this: resolved against the host's environment, without I/O.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use namzu_sandbox::egress::policy::Snapshot;
use namzu_sandbox::types::{EgressPolicy, Limits, SandboxId, SandboxSpec, Workspace};
use namzu_sandbox::{Error, ErrorCode, ExecRequest, Phase, SandboxProviderConfig, config};
use serde_json::{Value, json};

use crate::allow;
use crate::args::{CommandArgs, Common, Egress, OutwardArgs, SandboxArgs};
use crate::backend::named;
use crate::boundary;
use crate::failure::{Failure, local};
use crate::parse::{EnvVar, Mount};

/// What settings are resolved against.
pub(crate) struct Host<'a> {
    /// Finds the working directory, absolute.
    pub(crate) cwd: &'a dyn Fn() -> Result<PathBuf, Failure>,
    /// Reads a file.
    pub(crate) read: &'a dyn Fn(&Path) -> Result<String, Failure>,
    /// Looks up an environment variable.
    pub(crate) var: &'a dyn Fn(&str) -> Option<OsString>,
}

/// Where the provider comes from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Choice {
    /// Nothing was said.
    Default,
    /// A backend by its label, without a configuration of its own.
    Backend(Box<SandboxProviderConfig>),
    /// A file.
    File(PathBuf),
}

/// The provider that the flags name.
pub(crate) fn choice(common: &Common) -> Result<Choice, Failure> {
    match (&common.backend, &common.config) {
        (Some(label), _) => Ok(Choice::Backend(Box::new(named(label)?))),
        (None, Some(path)) => Ok(Choice::File(path.clone())),
        (None, None) => Ok(Choice::Default),
    }
}

/// The sandbox that the flags ask for.
pub(crate) fn spec(args: &SandboxArgs, host: &Host<'_>) -> Result<SandboxSpec, Failure> {
    let SandboxArgs {
        workdir,
        env,
        outward,
        boundary,
        verify_egress,
        memory,
        pids,
        cpus,
        disk,
        lifetime,
        require,
        label,
    } = args;
    let egress = policy(outward, host)?;
    if matches!(egress, Some(EgressPolicy::DenyAll | EgressPolicy::AllowAll)) {
        boundary::none(boundary)?;
    }
    Ok(SandboxSpec {
        workspace: match workdir {
            Some(mount) => workspace(mount, host)?,
            None => Workspace::Private,
        },
        egress,
        verify_egress: *verify_egress,
        limits: Limits {
            memory: *memory,
            processes: *pids,
            cpus: cpus.map(|cpus| cpus.0),
            disk: *disk,
            command: None,
            lifetime: *lifetime,
        },
        env: variables(env, host)?,
        labels: label
            .iter()
            .map(|label| (label.key.clone(), label.value.clone()))
            .collect(),
        require: require.clone(),
        ..SandboxSpec::default()
    })
}

/// The policy that the flags name, if they name one.
pub(crate) fn policy(args: &OutwardArgs, host: &Host<'_>) -> Result<Option<EgressPolicy>, Failure> {
    let OutwardArgs {
        egress,
        allow,
        policy,
    } = args;
    Ok(match (egress, allow.as_slice(), policy) {
        (_, _, Some(path)) => Some(read_policy(path, host)?),
        (Some(Egress::DenyAll), ..) => Some(EgressPolicy::DenyAll),
        (Some(Egress::AllowAll), ..) => Some(EgressPolicy::AllowAll),
        (None, [], None) => None,
        (None, allow, None) => Some(allow::checked(allow)?),
    })
}

/// The same as JSON, with whatever a file has of it.
pub(crate) fn policy_document(args: &OutwardArgs, host: &Host<'_>) -> Result<Value, Failure> {
    if let Some(path) = &args.policy {
        let document = policy_value(path, host)?;
        // Whoever it is for would refuse it too, without the name of the file.
        parse_policy(&document).map_err(|reasons| no_policy(path, reasons))?;
        return Ok(document);
    }
    let policy = policy(args, host)?.unwrap_or_default();
    // It holds no secret: none can be typed.
    serde_json::to_value(policy)
        .map_err(|err| local("writing a policy", io::Error::other(err)).into())
}

/// Reads a policy and holds it to its schema.
pub(crate) fn read_policy(path: &Path, host: &Host<'_>) -> Result<EgressPolicy, Failure> {
    let document = policy_value(path, host)?;
    let parsed = parse_policy(&document).map_err(|reasons| no_policy(path, reasons))?;
    Ok(parsed)
}

fn policy_value(path: &Path, host: &Host<'_>) -> Result<Value, Failure> {
    let text = (host.read)(path)?;
    let value = serde_json::from_str(&text);
    Ok(value.map_err(|err: serde_json::Error| no_policy(path, vec![err.to_string()]))?)
}

fn no_policy(path: &Path, reasons: Vec<String>) -> Error {
    Error::new(
        ErrorCode::ConfigInvalid,
        format!("`{}` holds no egress policy", path.display()),
    )
    .with_reasons(reasons)
    .during(Phase::Configure)
}

/// Parses a policy as a request for a sandbox would hold it, so that the same is refused.
pub(crate) fn parse_policy(document: &Value) -> Result<EgressPolicy, Vec<String>> {
    let request = json!({ "egress": document });
    let config = config::SandboxCreateConfig::from_value(&request)
        .map_err(|err| every_reason(document, err.reasons()))?;
    Ok(config.egress.unwrap_or_default())
}

/// `first` as a file of nothing but the policy has the places, and what would be wrong beside.
fn every_reason(document: &Value, first: &[String]) -> Vec<String> {
    let place = |reason: &str| reason.split(':').next().map(str::to_owned);
    let mut reasons: Vec<String> = first
        .iter()
        .map(|reason| reason.replacen("`egress.", "`", 1))
        .collect();
    let known: Vec<_> = reasons.iter().map(|reason| place(reason)).collect();
    let beside = serde_json::from_value(document.clone())
        .ok()
        .and_then(|policy: EgressPolicy| Snapshot::compile(&policy, 1).err())
        .unwrap_or_default();
    reasons.extend(
        beside
            .into_iter()
            .filter(|reason| !known.contains(&place(reason))),
    );
    reasons
}

fn workspace(mount: &Mount, host: &Host<'_>) -> Result<Workspace, Failure> {
    let path = if mount.path.is_absolute() {
        mount.path.clone()
    } else {
        (host.cwd)()?.join(&mount.path)
    };
    Ok(Workspace::Host {
        // Without the `.` of `-w .`; `..` is left to the kernel, as a link may stand before it.
        path: path.components().collect(),
        access: mount.access,
    })
}

/// The variables, later ones winning; those without a value are the host's.
pub(crate) fn variables(
    env: &[EnvVar],
    host: &Host<'_>,
) -> Result<BTreeMap<String, String>, Failure> {
    env.iter()
        .map(|EnvVar { key, value }| {
            let value = match value {
                Some(value) => value.clone(),
                // An unset one left out in silence is the variable that somebody misses for hours.
                None => (host.var)(key)
                    .ok_or_else(|| Failure::Usage(format!("--env {key}: not set on the host")))?
                    .into_string()
                    .map_err(|_| Failure::Usage(format!("--env {key}: not UTF-8 on the host")))?,
            };
            Ok((key.clone(), value))
        })
        .collect()
}

/// How a command's standard input, terminal and time are to be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Command {
    /// The command without its terminal's size, which changes while it runs.
    pub(crate) request: ExecRequest,
    /// It gets a terminal.
    pub(crate) tty: bool,
    /// Standard input is forwarded.
    pub(crate) stdin: bool,
    /// Where the report goes.
    pub(crate) report: Option<PathBuf>,
}

/// The command that the flags ask for; `stdin_is_terminal` says what standard input is.
pub(crate) fn command(
    args: &CommandArgs,
    argv: &[OsString],
    env: BTreeMap<String, String>,
    stdin_is_terminal: bool,
) -> Command {
    let CommandArgs {
        tty,
        interactive,
        timeout,
        cwd,
        report,
    } = args;
    Command {
        request: ExecRequest {
            argv: argv.iter().cloned().map(OsString::into_vec).collect(),
            env,
            cwd: cwd.clone(),
            timeout: *timeout,
            ..ExecRequest::default()
        },
        tty: *tty,
        // A terminal inside is of no use to somebody who cannot type.
        stdin: *interactive || *tty || !stdin_is_terminal,
        report: report.clone(),
    }
}

/// The command of `shell`: the better of the two shells that a place may have.
pub(crate) fn shell(env: BTreeMap<String, String>) -> Command {
    let script = "if command -v bash >/dev/null 2>&1; then exec bash -i; else exec sh -i; fi";
    let mut request = ExecRequest::new(["/bin/sh", "-c", script]);
    request.env = env;
    Command {
        request,
        tty: true,
        stdin: true,
        report: None,
    }
}

/// The sandbox of `run --detach`.
pub(crate) fn detached(mut spec: SandboxSpec, name: Option<SandboxId>) -> SandboxSpec {
    spec.detach = true;
    spec.id = name;
    spec
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Verb};
    use clap::Parser;
    use namzu_sandbox::types::{Access, Control};
    use std::time::Duration;

    fn parse(line: &[&str]) -> Cli {
        Cli::try_parse_from([&["namzu-sandbox"], line].concat()).unwrap()
    }

    fn refused(line: &[&str]) -> clap::error::ErrorKind {
        Cli::try_parse_from([&["namzu-sandbox"], line].concat())
            .unwrap_err()
            .kind()
    }

    fn host_spec(line: &[&str]) -> Result<SandboxSpec, Failure> {
        let Verb::Run(args) = parse(line).verb else {
            panic!("not `run`")
        };
        let var = |name: &str| match name {
            "HOME" => Some("/home/me".into()),
            "BAD" => Some(OsString::from_vec(vec![0xff])),
            _ => None,
        };
        let host = Host {
            cwd: &|| Ok("/here".into()),
            read: &|path| {
                Ok(match path.to_str() {
                    Some("good") => {
                        r#"{"kind": "static", "rules": [{"host": "a.test"}]}"#.to_owned()
                    }
                    _ => r#"{"kind": "static", "rules": [{"hots": "a.test"}]}"#.to_owned(),
                })
            },
            var: &var,
        };
        spec(&args.sandbox, &host)
    }

    #[test]
    fn no_flags_ask_for_the_default_sandbox() {
        let spec = host_spec(&["run", "--", "true"]).unwrap();
        assert_eq!(spec, SandboxSpec::default());
        assert_eq!(choice(&Common::default()).unwrap(), Choice::Default);
    }

    #[test]
    fn every_flag_of_a_sandbox_arrives() {
        let spec = host_spec(&[
            "run",
            "-w",
            "src:ro",
            "-e",
            "A=1=2",
            "-e",
            "HOME",
            "--egress",
            "allow-all",
            "--memory",
            "512m",
            "--pids",
            "64",
            "--cpus",
            "0.5",
            "--disk",
            "1g",
            "--lifetime",
            "10m",
            "--require",
            "memory,network",
            "--label",
            "a=b",
            "--",
            "true",
        ])
        .unwrap();
        assert_eq!(
            spec.workspace,
            Workspace::Host {
                path: "/here/src".into(),
                access: Access::ReadOnly
            }
        );
        assert_eq!(spec.env["A"], "1=2");
        assert_eq!(spec.env["HOME"], "/home/me");
        assert_eq!(spec.egress, Some(EgressPolicy::AllowAll));
        assert_eq!(
            spec.limits,
            Limits {
                memory: Some(512 << 20),
                processes: Some(64),
                cpus: Some(0.5),
                disk: Some(1 << 30),
                command: None,
                lifetime: Some(Duration::from_secs(600)),
            }
        );
        assert_eq!(spec.require, [Control::Memory, Control::Network]);
        assert_eq!(spec.labels["a"], "b");
    }

    #[test]
    fn hosts_that_are_allowed_make_a_static_policy() {
        let spec = host_spec(&[
            "run",
            "--allow",
            "a.test",
            "--allow",
            "b.test:22",
            "--",
            "true",
        ]);
        let Some(EgressPolicy::Static {
            allowed_hosts,
            rules,
            ..
        }) = spec.unwrap().egress
        else {
            panic!("no static policy");
        };
        assert_eq!(allowed_hosts, ["a.test"]);
        assert_eq!(
            (rules[0].host.as_str(), &rules[0].ports[..]),
            ("b.test", &[22][..])
        );
    }

    #[test]
    fn flags_of_a_boundary_that_has_no_part_are_refused() {
        for kind in ["deny-all", "allow-all"] {
            for flag in ["--audit-log", "--boundary"] {
                let typed = ["run", "--egress", kind, flag, "f", "--", "true"];
                let err = host_spec(&typed).unwrap_err();
                assert!(
                    matches!(&err, Failure::Usage(what) if what.contains(flag)),
                    "{err}"
                );
            }
        }
        host_spec(&["run", "--allow", "a.test", "--audit-log", "f", "--", "true"]).unwrap();
    }

    #[test]
    fn a_policy_in_a_file_is_held_to_its_schema() {
        let good = host_spec(&["run", "--policy", "good", "--", "true"]).unwrap();
        assert_eq!(good.egress.unwrap().kind(), "static");
        let err = host_spec(&["run", "--policy", "bad", "--", "true"]).unwrap_err();
        let Failure::Sandbox(err) = err else {
            panic!("{err}")
        };
        assert!(
            err.reasons().iter().any(|why| why.contains("hots")),
            "{err:?}"
        );
    }

    #[test]
    fn a_workdir_is_writable_unless_it_says_otherwise() {
        for (typed, path, access) in [
            (".", "/here", Access::ReadWrite),
            ("/a:rw", "/a", Access::ReadWrite),
            ("/a:ro", "/a", Access::ReadOnly),
            ("/a:b", "/a:b", Access::ReadWrite),
            ("/a:ro:rw", "/a:ro", Access::ReadWrite),
        ] {
            let spec = host_spec(&["run", "-w", typed, "--", "true"]).unwrap();
            let path = path.into();
            assert_eq!(spec.workspace, Workspace::Host { path, access }, "{typed}");
        }
    }

    #[test]
    fn a_variable_that_the_host_lacks_is_refused() {
        for name in ["MISSING", "BAD"] {
            let err = host_spec(&["run", "-e", name, "--", "true"]).unwrap_err();
            assert!(
                matches!(&err, Failure::Usage(what) if what.contains(name)),
                "{err}"
            );
        }
    }

    #[test]
    fn a_command_line_that_makes_no_sense_is_refused() {
        use clap::error::ErrorKind::*;
        for (line, kind) in [
            (&["run"][..], MissingRequiredArgument),
            (&["run", "--"][..], MissingRequiredArgument),
            (&["run", "--memroy", "1g", "true"], UnknownArgument),
            (&["exec", "id", "--timeot", "1s", "true"], UnknownArgument),
            (&["run", "-d", "-t"], ArgumentConflict),
            (
                &["run", "--name", "x", "--", "true"],
                MissingRequiredArgument,
            ),
            (&["run", "-d", "--name", "X_Y"], ValueValidation),
            (&["run", "--memory", "lots", "--", "true"], ValueValidation),
            (&["run", "--pids", "0", "--", "true"], ValueValidation),
            (&["run", "--require", "memmory", "--", "true"], InvalidValue),
            (&["run", "--egress", "some", "--", "true"], InvalidValue),
            (&["run", "-e", "=x", "--", "true"], ValueValidation),
            (
                &["run", "--backend", "process", "--config", "f", "--", "true"],
                ArgumentConflict,
            ),
            (&["shell", "id", "--memory", "1g"], ArgumentConflict),
            (&["shell", "id", "--boundary", "f"], ArgumentConflict),
            (
                &["run", "--allow", "a.test", "--policy", "f", "--", "true"],
                ArgumentConflict,
            ),
            (&["policy", "set", "id"], MissingRequiredArgument),
            (
                &["policy", "explain", "--sandbox", "id", "--allow", "a", "b"],
                ArgumentConflict,
            ),
            (&["egress"], MissingRequiredArgument),
            (&["egress", "--allow", "a.test"], MissingRequiredArgument),
            (&["egress", "serve", "--listen", "3128"], ValueValidation),
            (&["exec", "id"], MissingRequiredArgument),
            (&["rm"], MissingRequiredArgument),
            (&["fly"], InvalidSubcommand),
        ] {
            assert_eq!(refused(line), kind, "{line:?}");
        }
    }

    #[test]
    fn argv_is_exact_and_never_split() {
        let Verb::Run(args) = parse(&["run", "--", "a b", "--", "-x", ""]).verb else {
            panic!("not `run`")
        };
        let command = command(&args.command, &args.argv, BTreeMap::new(), true);
        let argv: Vec<&[u8]> = command.request.argv.iter().map(Vec::as_slice).collect();
        assert_eq!(argv, [&b"a b"[..], b"--", b"-x", b""]);
    }

    #[test]
    fn the_first_word_that_is_no_flag_begins_the_command() {
        for (line, wanted) in [
            (&["run", "sh", "-c", "x"][..], &["sh", "-c", "x"][..]),
            (
                &["run", "-t", "ls", "--json", "--help"],
                &["ls", "--json", "--help"],
            ),
            (&["run", "env", "--", "-t"], &["env", "--", "-t"]),
            (&["run", "--", "-odd", "--"], &["-odd", "--"]),
            (&["run", "-d", "--name", "x", "top", "-d"], &["top", "-d"]),
        ] {
            let cli = parse(line);
            let Verb::Run(args) = cli.verb else {
                panic!("not `run`")
            };
            assert_eq!(args.argv, wanted, "{line:?}");
            assert!(!cli.common.json, "{line:?}");
        }
        for line in [
            &["exec", "u1", "id", "-u", "--json"][..],
            &["exec", "u1", "--", "id", "-u", "--json"],
        ] {
            let Verb::Exec(args) = parse(line).verb else {
                panic!("not `exec`")
            };
            assert_eq!(args.id.as_str(), "u1");
            assert_eq!(args.argv, ["id", "-u", "--json"], "{line:?}");
        }
    }

    #[test]
    fn a_command_of_the_host_is_told_from_a_verb() {
        for (line, wanted) in [
            (
                &["egress", "--allow", "a.test", "curl", "-s"][..],
                &["curl", "-s"][..],
            ),
            (
                &["egress", "--", "serve", "--listen"],
                &["serve", "--listen"],
            ),
        ] {
            let Verb::Egress(args) = parse(line).verb else {
                panic!("not `egress`")
            };
            assert!(args.verb.is_none(), "{line:?}");
            assert_eq!(args.argv, wanted, "{line:?}");
        }
        let Verb::Egress(args) = parse(&["egress", "serve", "--allow", "a.test"]).verb else {
            panic!("not `egress`")
        };
        assert!(args.verb.is_some());
    }

    #[test]
    fn standard_input_is_forwarded_when_somebody_feeds_it() {
        let forwarded = |flags: &[&str], terminal| {
            let line = [&["run"], flags, &["--", "cat"]].concat();
            let Verb::Run(args) = parse(&line).verb else {
                panic!("not `run`")
            };
            command(&args.command, &args.argv, BTreeMap::new(), terminal).stdin
        };
        assert!(forwarded(&[], false));
        assert!(!forwarded(&[], true));
        assert!(forwarded(&["-i"], true));
        assert!(forwarded(&["-t"], true));
    }

    #[test]
    fn a_backend_is_named_by_its_label() {
        for label in [
            "process",
            "process:auto",
            "process:bubblewrap",
            "passthrough",
        ] {
            let common = Common {
                backend: Some(label.to_owned()),
                ..Common::default()
            };
            assert!(matches!(choice(&common), Ok(Choice::Backend(_))), "{label}");
        }
    }

    #[test]
    fn a_backend_that_does_not_exist_is_refused_by_name() {
        for label in ["proces", "process:firejail", "microvm:x", "passthrough:x"] {
            let common = Common {
                backend: Some(label.to_owned()),
                ..Common::default()
            };
            let err = choice(&common).unwrap_err();
            assert!(
                matches!(&err, Failure::Usage(what) if what.contains(label)),
                "{err}"
            );
        }
    }
}
