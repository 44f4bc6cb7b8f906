//! How a worker is told what to do: arguments and `NAMZU_SANDBOX_*` variables, parsed once.

use std::ffi::{OsStr, OsString};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use crate::auth::Token;
use crate::user::User;

/// Variables with this prefix configure the worker and never reach a command.
pub(crate) const PREFIX: &str = "NAMZU_SANDBOX_";

/// Where connections come from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Listen {
    /// One inherited stream; private.
    Fd(RawFd),
    /// An inherited unix socket that already listens. Others can reach it.
    Listener(RawFd),
    /// A unix socket, mode 0600.
    Unix(PathBuf),
    /// A TCP address.
    Tcp(SocketAddr),
    /// An `AF_VSOCK` port of this guest.
    Vsock(u32),
    /// Standard input and output; private.
    Stdio,
}

impl Listen {
    /// Nobody but the maker of the worker can reach the other end.
    pub(crate) fn is_private(&self) -> bool {
        matches!(self, Self::Fd(_) | Self::Stdio)
    }

    fn parse(spec: &OsStr) -> Result<Self, Error> {
        let invalid = || Error::new(format!("invalid --listen {}", spec.display()));
        if let Some(path) = spec.as_bytes().strip_prefix(b"unix:") {
            if path.is_empty() {
                return Err(invalid());
            }
            return Ok(Self::Unix(OsString::from_vec(path.to_vec()).into()));
        }
        let spec = spec.to_str().ok_or_else(invalid)?;
        if spec == "stdio" {
            return Ok(Self::Stdio);
        }
        let (kind, rest) = spec.split_once(':').ok_or_else(invalid)?;
        match kind {
            "fd" => match rest.parse::<RawFd>() {
                Ok(fd) if fd > 2 => Ok(Self::Fd(fd)),
                _ => Err(invalid()),
            },
            "listener" => match rest.parse::<RawFd>() {
                Ok(fd) if fd > 2 => Ok(Self::Listener(fd)),
                _ => Err(invalid()),
            },
            "tcp" => rest
                .to_socket_addrs()
                .ok()
                .and_then(|mut found| found.next())
                .map(Self::Tcp)
                .ok_or_else(invalid),
            "vsock" => rest.parse().map(Self::Vsock).map_err(|_| invalid()),
            _ => Err(invalid()),
        }
    }
}

/// The roots that file calls are confined to.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Roots {
    /// Readable besides the workspace and the write roots.
    pub(crate) read: Vec<PathBuf>,
    /// Readable and writable besides the workspace.
    pub(crate) write: Vec<PathBuf>,
}

/// Everything a worker is told at its start.
#[derive(Debug)]
pub(crate) struct Config {
    /// At least one.
    pub(crate) listen: Vec<Listen>,
    /// The `SOCK_SEQPACKET` socket of the fd lane.
    pub(crate) lane: Option<RawFd>,
    /// Gets one byte, and is closed, once every listener accepts.
    pub(crate) ready: Option<RawFd>,
    /// The sandbox's `memory.events` (cgroup v2) or `memory.oom_control` (v1), to be read from
    /// offset 0: its line `oom_kill N` counts the processes that the memory limit has killed.
    pub(crate) memory_events: Option<RawFd>,
    /// Always readable and writable; the default directory of v1 commands.
    pub(crate) workspace: PathBuf,
    /// Extra roots. `None`: no root was given and file calls of the envd wire see every path.
    pub(crate) roots: Option<Roots>,
    /// Who commands run as, which is always the worker's own uid.
    pub(crate) user: User,
    /// The directory of commands and relative paths when a request names none.
    pub(crate) cwd: PathBuf,
    /// The worker ends after this long.
    pub(crate) lifetime: Option<Duration>,
    /// The worker ends after this long without work.
    pub(crate) idle_timeout: Option<Duration>,
    /// The end of the worker is the end of the sandbox.
    pub(crate) init: bool,
    /// The egress boundary's doors will be asked for: what they need of the network is set up at the
    /// start, and the right to change it given up.
    pub(crate) doors: bool,
    /// Required on every listener that is not private.
    pub(crate) token: Option<Token>,
    /// Variables of every command, from `NAMZU_SANDBOX_ENVS`.
    pub(crate) envs: Vec<(String, String)>,
    /// The worker's own variables without [`PREFIX`]; the base of v1 commands.
    pub(crate) inherited: Vec<(OsString, OsString)>,
    /// Cap of a v1 request body.
    pub(crate) max_body_bytes: usize,
    /// Ceiling of a v1 command's timeout.
    pub(crate) max_timeout: Duration,
}

impl Config {
    /// Parses the arguments (without the program's name) and the environment.
    ///
    /// # Errors
    /// An unknown or malformed argument or variable, or a reachable listener without a token.
    pub(crate) fn parse(
        arguments: impl IntoIterator<Item = OsString>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, Error> {
        let (own, inherited): (Vec<_>, Vec<_>) = environment
            .into_iter()
            .partition(|(name, _)| name.as_bytes().starts_with(PREFIX.as_bytes()));
        let variables = Variables(own);
        let typed = Arguments::parse(arguments)?;

        let explicit = !typed.listen.is_empty();
        let listen = if explicit {
            typed.listen
        } else {
            vec![variables.listen()?]
        };
        if listen.iter().filter(|spec| **spec == Listen::Stdio).count() > 1 {
            return Err(Error::new("--listen stdio was given twice"));
        }
        let listening = listen.iter().filter_map(|spec| match spec {
            Listen::Fd(fd) | Listen::Listener(fd) => Some(*fd),
            _ => None,
        });
        let others = [typed.lane, typed.ready, typed.memory_events];
        let mut fds: Vec<RawFd> = listening.chain(others.into_iter().flatten()).collect();
        fds.sort_unstable();
        // Each is owned, and closed, by whoever takes it over.
        if let Some(pair) = fds.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::new(format!(
                "descriptor {} was given twice",
                pair[0]
            )));
        }
        let token = variables
            .text("TOKEN")?
            .filter(|token| !token.is_empty())
            .map(Token::new);
        if token.is_none() && listen.iter().any(|spec| !spec.is_private()) {
            return Err(Error::new(
                "NAMZU_SANDBOX_TOKEN is required: a listener can be reached by others",
            ));
        }

        let mut roots = Roots {
            read: typed.read_roots,
            write: typed.write_roots,
        };
        roots.read.extend(variables.paths("READ_ROOTS"));
        roots.write.extend(variables.paths("WRITE_ROOTS"));
        let workspace = typed
            .workspace
            .or_else(|| variables.raw("WORKSPACE").map(PathBuf::from));

        let home = inherited
            .iter()
            .find(|(name, _)| name == "HOME")
            .map(|(_, value)| value.into());
        let user = User::own(typed.user.as_deref(), home);
        let cwd = typed.cwd.or_else(|| workspace.clone()).unwrap_or_else(|| {
            // An image may name a home that it does not have.
            let home = Some(user.home.clone()).filter(|home| home.is_dir());
            home.unwrap_or_else(|| PathBuf::from("/"))
        });
        // A container of the v1 kind is started without arguments and expects the v1 default.
        let idle_default = if explicit { 0 } else { 5 * 60 * 1000 };
        let idle = variables.number("IDLE_TIMEOUT_MS")?.unwrap_or(idle_default);

        Ok(Self {
            listen,
            lane: typed.lane,
            ready: typed.ready,
            memory_events: typed.memory_events,
            workspace: workspace.unwrap_or_else(|| PathBuf::from("/workspace")),
            roots: Some(roots).filter(|roots| *roots != Roots::default()),
            user,
            cwd,
            lifetime: typed.lifetime,
            idle_timeout: (idle > 0).then(|| Duration::from_millis(idle)),
            doors: typed.doors,
            init: typed.init || rustix::process::getpid().is_init(),
            token,
            envs: variables.envs()?,
            inherited,
            max_body_bytes: variables
                .number("MAX_BODY_BYTES")?
                .map_or(Ok(8 << 20), usize::try_from)
                .map_err(|_| Error::new("NAMZU_SANDBOX_MAX_BODY_BYTES is too large"))?,
            max_timeout: Duration::from_millis(
                variables
                    .number("MAX_TIMEOUT_MS")?
                    .unwrap_or(30 * 60 * 1000),
            ),
        })
    }
}

#[derive(Default)]
struct Arguments {
    listen: Vec<Listen>,
    lane: Option<RawFd>,
    ready: Option<RawFd>,
    memory_events: Option<RawFd>,
    workspace: Option<PathBuf>,
    read_roots: Vec<PathBuf>,
    write_roots: Vec<PathBuf>,
    user: Option<String>,
    cwd: Option<PathBuf>,
    lifetime: Option<Duration>,
    init: bool,
    doors: bool,
}

impl Arguments {
    fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, Error> {
        let mut typed = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(name) = arguments.next() {
            let name = name
                .to_str()
                .map(str::to_owned)
                .ok_or_else(|| Error::new("an argument is not UTF-8"))?;
            match name.as_str() {
                "--init" => {
                    typed.init = true;
                    continue;
                }
                "--doors" => {
                    typed.doors = true;
                    continue;
                }
                _ => {}
            }
            let mut value = || {
                arguments
                    .next()
                    .ok_or_else(|| Error::new(format!("{name} wants a value")))
            };
            let invalid = || Error::new(format!("invalid value of {name}"));
            match name.as_str() {
                "--listen" => typed.listen.push(Listen::parse(&value()?)?),
                "--lane" | "--ready" | "--memory-events" => {
                    let fd = value()?
                        .to_str()
                        .and_then(|fd| fd.parse().ok())
                        .filter(|fd| *fd > 2);
                    let fd = Some(fd.ok_or_else(invalid)?);
                    match name.as_str() {
                        "--lane" => typed.lane = fd,
                        "--ready" => typed.ready = fd,
                        _ => typed.memory_events = fd,
                    }
                }
                "--workspace" => typed.workspace = Some(absolute(value()?).ok_or_else(invalid)?),
                "--read-root" => typed
                    .read_roots
                    .push(absolute(value()?).ok_or_else(invalid)?),
                "--write-root" => typed
                    .write_roots
                    .push(absolute(value()?).ok_or_else(invalid)?),
                "--user" => typed.user = Some(value()?.into_string().map_err(|_| invalid())?),
                "--cwd" => typed.cwd = Some(absolute(value()?).ok_or_else(invalid)?),
                "--lifetime-ms" => {
                    let ms = value()?
                        .to_str()
                        .and_then(|ms| ms.parse().ok())
                        .ok_or_else(invalid)?;
                    typed.lifetime = Some(Duration::from_millis(ms));
                }
                _ => return Err(Error::new(format!("unknown argument {name}"))),
            }
        }
        Ok(typed)
    }
}

fn absolute(path: OsString) -> Option<PathBuf> {
    Some(PathBuf::from(path)).filter(|path| path.is_absolute())
}

struct Variables(Vec<(OsString, OsString)>);

impl Variables {
    fn raw(&self, name: &str) -> Option<OsString> {
        self.0
            .iter()
            .find(|(key, _)| key.as_bytes()[PREFIX.len()..] == *name.as_bytes())
            .map(|(_, value)| value.clone())
    }

    fn text(&self, name: &str) -> Result<Option<String>, Error> {
        self.raw(name)
            .map(|value| {
                value
                    .into_string()
                    .map_err(|_| Error::new(format!("{PREFIX}{name} is not UTF-8")))
            })
            .transpose()
    }

    fn number(&self, name: &str) -> Result<Option<u64>, Error> {
        self.text(name)?
            .map(|value| {
                value
                    .parse()
                    .map_err(|_| Error::new(format!("{PREFIX}{name} is not a number")))
            })
            .transpose()
    }

    fn paths(&self, name: &str) -> Vec<PathBuf> {
        let list = self.raw(name).unwrap_or_default();
        let paths = list.as_bytes().split(|byte| *byte == b':');
        paths
            .filter_map(|path| absolute(OsStr::from_bytes(path).to_owned()))
            .collect()
    }

    fn listen(&self) -> Result<Listen, Error> {
        let port = self.number("PORT")?.unwrap_or(2024);
        let bind = self.text("BIND")?.unwrap_or_else(|| "127.0.0.1".to_owned());
        let host = if bind.contains(':') && !bind.starts_with('[') {
            format!("[{bind}]")
        } else {
            bind
        };
        Listen::parse(OsStr::new(&format!("tcp:{host}:{port}")))
    }

    fn envs(&self) -> Result<Vec<(String, String)>, Error> {
        let Some(text) = self.text("ENVS")? else {
            return Ok(Vec::new());
        };
        let map: std::collections::BTreeMap<String, String> = serde_json::from_str(&text)
            .map_err(|_| Error::new("NAMZU_SANDBOX_ENVS is not a JSON object of strings"))?;
        Ok(map.into_iter().collect())
    }
}

/// Why a worker does not start.
#[derive(Debug)]
pub(crate) struct Error(String);

impl Error {
    fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str], environment: &[(&str, &str)]) -> Result<Config, Error> {
        Config::parse(
            arguments.iter().map(OsString::from),
            environment
                .iter()
                .map(|(name, value)| (name.into(), value.into())),
        )
    }

    #[test]
    fn a_reachable_listener_without_a_token_is_refused() {
        for spec in ["unix:/tmp/x", "tcp:127.0.0.1:0", "vsock:1024"] {
            let error = parse(&["--listen", spec], &[]).expect_err(spec);
            assert!(error.to_string().contains("NAMZU_SANDBOX_TOKEN"), "{error}");
            parse(&["--listen", spec], &[("NAMZU_SANDBOX_TOKEN", "t")]).expect(spec);
            parse(&["--listen", spec], &[("NAMZU_SANDBOX_TOKEN", "")])
                .expect_err("an empty token is none");
        }
        parse(&["--listen", "fd:3"], &[]).unwrap();
        parse(&["--listen", "stdio"], &[]).unwrap();
    }

    #[test]
    fn without_arguments_the_v1_variables_decide() {
        let token = ("NAMZU_SANDBOX_TOKEN", "t");
        let config = parse(&[], &[token]).unwrap();
        assert_eq!(
            config.listen,
            [Listen::Tcp("127.0.0.1:2024".parse().unwrap())]
        );
        assert_eq!(config.idle_timeout, Some(Duration::from_secs(300)));
        let config = parse(
            &[],
            &[
                token,
                ("NAMZU_SANDBOX_PORT", "7"),
                ("NAMZU_SANDBOX_BIND", "::1"),
            ],
        )
        .unwrap();
        assert_eq!(config.listen, [Listen::Tcp("[::1]:7".parse().unwrap())]);
        parse(&[], &[token, ("NAMZU_SANDBOX_PORT", "70000")]).expect_err("no such port");
    }

    #[test]
    fn own_variables_never_reach_commands() {
        let config = parse(
            &["--listen", "fd:3"],
            &[
                ("NAMZU_SANDBOX_TOKEN", "t"),
                ("PATH", "/bin"),
                ("NAMZU_SANDBOX_ENVS", r#"{"A":"1"}"#),
            ],
        )
        .unwrap();
        assert_eq!(config.inherited, [("PATH".into(), "/bin".into())]);
        assert_eq!(config.envs, [("A".into(), "1".into())]);
    }

    #[test]
    fn malformed_arguments_are_refused() {
        for arguments in [
            &["--listen", "fd:0"][..],
            &["--listen", "unix:"],
            &["--listen", "carrier:pigeon"],
            &["--listen"],
            &["--workspace", "relative"],
            &["--frobnicate"],
            &["--lane", "1"],
            &["--listen", "fd:5", "--lane", "5"],
            &["--listen", "fd:5", "--listen", "fd:5"],
            &["--lifetime-ms", "soon"],
        ] {
            parse(arguments, &[("NAMZU_SANDBOX_TOKEN", "t")]).expect_err(&arguments.join(" "));
        }
    }

    #[test]
    fn roots_are_absent_until_one_is_named() {
        let config = parse(&["--listen", "fd:3", "--workspace", "/w"], &[]).unwrap();
        assert_eq!((config.roots, config.cwd), (None, PathBuf::from("/w")));
        let config = parse(
            &["--listen", "fd:3"],
            &[("NAMZU_SANDBOX_READ_ROOTS", "/a:/b")],
        )
        .unwrap();
        let roots = config.roots.unwrap();
        assert_eq!(roots.read, [PathBuf::from("/a"), PathBuf::from("/b")]);
    }
}
